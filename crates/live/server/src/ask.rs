//! What the rest of the process asks of the control task.

use crate::figures::View;
use crate::registrations::Home;
use crate::takeover::exchange::Succession;
use ::control::ProcessId;
use base::Peer;
use std::net::SocketAddr;
use tokio::sync::oneshot;

/// What the admin side asks of the control task.
pub(crate) enum Ask {
    View(oneshot::Sender<View>),
    /// Answers with those meant.
    Drain {
        member: String,
        draining: bool,
        reply: oneshot::Sender<Result<Vec<Peer>, String>>,
    },
    /// What the scaler of a pool wants of the member at this address.
    Scale {
        pool: String,
        address: SocketAddr,
        wish: ScaleWish,
    },
    /// The operator says that a member is back. Answers with those meant.
    Up {
        member: String,
        reply: oneshot::Sender<Result<Vec<Peer>, String>>,
    },
    Reload(oneshot::Sender<Result<Vec<String>, String>>),
    /// The home domain, if there is one.
    Home(oneshot::Sender<Option<Home>>),
    Stop,
    /// Another process takes over.
    Succession(Succession),
    /// Another process has said what it still has to do, or has ended.
    Process(ProcessId),
}

/// What a scaler wants of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScaleWish {
    /// It gets no new calls, or gets them again as far as the scaler is concerned.
    Drain(bool),
    /// It is asked whether it is there.
    Doubt,
}
