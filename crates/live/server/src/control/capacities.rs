//! State of the control task for capacity updates.

use crate::capacity::{Intake, Listening, Monitors};
use elastic::update::Announcements;
use std::net::SocketAddr;

#[derive(Default)]
pub(super) struct Capacities {
    pub(super) intake: Intake,
    pub(super) listening: Option<Listening>,
    /// Announced capacities by the addresses of members.
    pub(super) announced: Announcements<SocketAddr>,
    /// Members whose monitors are expected to send updates.
    pub(super) monitors: Monitors,
}
