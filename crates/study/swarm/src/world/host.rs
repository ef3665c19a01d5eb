//! Hosts and the agents or processes on them.

use super::stores::Stores;
use crate::credentials::Chaperon;
use crate::phone::Phone;
use crate::process::Process;
use base::Instant;
use load::{Answerer, Caller};

pub(super) enum Role {
    Caller {
        agent: Box<Caller>,
        /// Set where the caller is asked for a password.
        chaperon: Option<Box<Chaperon>>,
    },
    /// A process of a site; `None`: it is dead.
    Process(Option<Box<Process>>),
    Answerer {
        agent: Option<Box<Answerer>>,
        refuses: bool,
        /// Set where users register.
        phone: Option<Box<Phone>>,
    },
}

pub(super) struct Host {
    pub(super) role: Role,
    /// Time of the next scheduled tick.
    pub(super) wake: Option<Instant>,
    pub(super) stalled_until: Instant,
    /// Number of processes started so far.
    pub(super) lives: u64,
    /// Stores of the site, if it has any.
    pub(super) stores: Option<Stores>,
    /// Utilisation of a process that shares out state.
    pub(super) busy: Option<f64>,
}

impl Host {
    pub(super) fn new(role: Role) -> Self {
        Self { role, wake: None, stalled_until: Instant::ZERO, lives: 0, stores: None, busy: None }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Caller { agent, .. } => agent.deadline(),
            Role::Process(process) => process.as_ref()?.deadline(),
            Role::Answerer { agent, phone, .. } => {
                let agent = agent.as_ref()?;
                Instant::earliest(agent.deadline(), phone.as_ref().and_then(|phone| phone.deadline()))
            }
        }
    }
}
