//! What the control task keeps of the updates of capacity.

use crate::capacity::{Intake, Listening, Monitors};
use elastic::update::Announcements;
use std::net::SocketAddr;

/// The capacities at the control task.
#[derive(Default)]
pub(super) struct Capacities {
    pub(super) intake: Intake,
    pub(super) listening: Option<Listening>,
    /// By the addresses of members.
    pub(super) announced: Announcements<SocketAddr>,
    /// Whose monitors are waited for.
    pub(super) monitors: Monitors,
}
