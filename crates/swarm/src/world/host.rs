//! Who lives on a host.

use crate::process::Process;
use base::Instant;
use load::{Answerer, Caller};

pub(super) enum Role {
    Caller(Box<Caller>),
    /// A process of a site, unless it is dead.
    Process(Option<Box<Process>>),
    Answerer {
        agent: Option<Box<Answerer>>,
        refuses: bool,
    },
}

pub(super) struct Host {
    pub(super) role: Role,
    /// When its next tick is scheduled.
    pub(super) wake: Option<Instant>,
    pub(super) stalled_until: Instant,
    /// How many processes it has had.
    pub(super) lives: u64,
}

impl Host {
    pub(super) fn new(role: Role) -> Self {
        Self { role, wake: None, stalled_until: Instant::ZERO, lives: 0 }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Caller(caller) => caller.deadline(),
            Role::Process(process) => process.as_ref()?.deadline(),
            Role::Answerer { agent, .. } => agent.as_ref()?.deadline(),
        }
    }
}
