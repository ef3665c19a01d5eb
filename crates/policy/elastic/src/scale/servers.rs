//! Servers with their states. Each change has one function, and there is no other way between states.

use super::cluster::Capacity;
use base::Instant;
use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

/// Identity of a server, and its place in the order of index packing: low numbers are used first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

/// State of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// Requested, not running yet.
    Starting,
    /// Takes calls.
    Ready,
    /// Takes no new calls.
    Draining,
    /// To be stopped, not confirmed yet.
    Stopping,
    /// No longer there.
    Gone,
}

impl ServerState {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Gone => "gone",
        }
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Present state of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerRow {
    /// Identity.
    pub id: ServerId,
    /// State.
    pub state: ServerState,
    /// Start of the state.
    pub since: Instant,
    /// Effective capacity in calls a second: announced or expected.
    pub capacity: f64,
    /// Usual capacity; the expected one before the first announcement.
    pub usual: f64,
    /// Calls in it at the last report.
    pub calls: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) state: ServerState,
    pub(super) since: Instant,
    pub(super) capacity: Capacity,
    pub(super) calls: u64,
    /// Whether it gets new calls once it is ready; an operator may prevent that.
    pub(super) takes_calls: bool,
    /// Start of the time without calls.
    idle: Option<Instant>,
}

impl Server {
    fn turn(&mut self, now: Instant, state: ServerState) {
        (self.state, self.since) = (state, now);
    }
}

/// Time for which a server that is gone stays in the table.
const SHOWN: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Default)]
pub(super) struct Servers {
    all: BTreeMap<ServerId, Server>,
    /// Failed or abandoned starts of each server since it last ran.
    failures: BTreeMap<ServerId, u32>,
}

impl Servers {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (ServerId, &Server)> {
        self.all.iter().map(|(id, server)| (*id, server))
    }

    pub(super) fn of(&self, state: ServerState) -> impl DoubleEndedIterator<Item = (ServerId, &Server)> {
        self.iter().filter(move |(_, server)| server.state == state)
    }

    /// Servers that take calls, or will once they run, in order.
    pub(super) fn taking(&self) -> impl DoubleEndedIterator<Item = (ServerId, &Server)> {
        self.iter().filter(|(_, server)| matches!(server.state, ServerState::Starting | ServerState::Ready))
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = ServerRow> {
        self.iter().map(|(id, server)| ServerRow {
            id,
            state: server.state,
            since: server.since,
            capacity: if server.takes_calls { server.capacity.counted } else { 0.0 },
            usual: server.capacity.usual(),
            calls: server.calls,
        })
    }

    /// Enters a new server under a free number. With `choices`, takes the first of those numbers with the fewest failed
    /// starts.
    pub(super) fn start(&mut self, now: Instant, expected: f64, choices: Option<u32>) -> ServerId {
        let is_free = |id: &ServerId| self.all.get(id).is_none_or(|server| server.state == ServerState::Gone);
        let failures = |id: &ServerId| self.failures.get(id).copied().unwrap_or_default();
        let chosen = (0..choices.unwrap_or_default()).map(ServerId).filter(is_free).min_by_key(failures);
        // There are fewer servers than numbers.
        let id = chosen.or_else(|| (0..=u32::MAX).map(ServerId).find(is_free)).unwrap_or(ServerId(u32::MAX));
        self.enter(now, id, ServerState::Starting, expected);
        id
    }

    /// Counts a failed or abandoned start of a server.
    pub(super) fn on_start_failed(&mut self, id: ServerId) {
        let failures = self.failures.entry(id).or_default();
        *failures = failures.saturating_add(1);
    }

    /// Resets the failures of a server that runs.
    pub(super) fn on_up(&mut self, id: ServerId) {
        self.failures.remove(&id);
    }

    pub(super) fn enter(&mut self, now: Instant, id: ServerId, state: ServerState, expected: f64) {
        let capacity = Capacity::new(now, expected);
        self.all.insert(id, Server { state, since: now, capacity, calls: 0, takes_calls: true, idle: None });
    }

    /// Moves a server to another state, if it is in one of the states `from`. Returns the start of its old state.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        id: ServerId,
        from: &[ServerState],
        to: ServerState,
    ) -> Option<Instant> {
        let server = self.all.get_mut(&id).filter(|server| from.contains(&server.state))?;
        let since = server.since;
        server.turn(now, to);
        Some(since)
    }

    pub(super) fn get_mut(&mut self, id: ServerId) -> Option<&mut Server> {
        self.all.get_mut(&id)
    }

    /// Drained servers that have been without calls for this time.
    pub(super) fn idle(&self, now: Instant, idle: Duration) -> Vec<ServerId> {
        let is_idle = |server: &Server| server.idle.is_some_and(|at| now - at >= idle);
        self.of(ServerState::Draining).filter(|(_, server)| is_idle(server)).map(|(id, _)| id).collect()
    }

    /// Servers that have been in a state for this time.
    pub(super) fn overdue(&self, now: Instant, state: ServerState, time: Duration) -> Vec<ServerId> {
        self.of(state).filter(|(_, server)| now - server.since >= time).map(|(id, _)| id).collect()
    }

    pub(super) fn forget_gone(&mut self, now: Instant) {
        self.all.retain(|_, server| server.state != ServerState::Gone || now - server.since < SHOWN);
    }
}

impl Server {
    pub(super) fn on_calls(&mut self, now: Instant, calls: u64) {
        self.calls = calls;
        self.idle = if calls > 0 { None } else { self.idle.or(Some(now)) };
    }
}
