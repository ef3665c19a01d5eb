//! Questions and commands of other parts of the process to the control task.

use crate::figures::View;
use crate::registrations::Home;
use crate::takeover::exchange::Succession;
use ::control::ProcessId;
use base::Peer;
use config::{ChangeError, MemberChange};
use std::net::SocketAddr;
use tokio::sync::oneshot;

pub(crate) enum Ask {
    View(oneshot::Sender<View>),
    /// Answers with the members that the command applied to.
    Drain {
        member: String,
        draining: bool,
        reply: oneshot::Sender<Result<Vec<Peer>, String>>,
    },
    /// A request of the scaler of a pool about the member at this address.
    Scale {
        pool: String,
        address: SocketAddr,
        wish: ScaleWish,
    },
    /// An operator reports that a member is back. Answers with the members that the command applied to.
    Up {
        member: String,
        reply: oneshot::Sender<Result<Vec<Peer>, String>>,
    },
    /// A change of the members of a pool. Answers with the members that it concerns.
    ChangeMember {
        pool: String,
        change: MemberChange,
        reply: oneshot::Sender<Result<Vec<Peer>, ChangeError>>,
    },
    Reload(oneshot::Sender<Result<Vec<String>, String>>),
    /// Asks for the registrar's settings; `None` without a registrar.
    Home(oneshot::Sender<Option<Home>>),
    Stop,
    /// A change in the takeover by another process.
    Succession(Succession),
    /// Another process has reported its remaining work, or has ended.
    Process(ProcessId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScaleWish {
    /// Starts (`true`) or ends the scaler's drain of the member.
    Drain(bool),
    /// Probes the member to find out whether it answers.
    Doubt,
}
