//! Carries out the scaler's decisions for a pool. It maps servers to members, and tracks requests to the driver and
//! their results. The caller calls drivers and drains members.
//!
//! - A member whose server is not ready is drained; the drain ends when the server becomes ready. An operator's drain
//!   stays until the operator ends it, whatever becomes of the server, and the server's capacity does not count
//!   meanwhile.
//! - A server is stopped only if it is drained and has neither calls nor transactions.
//! - Nothing is done before the running servers are known.
//! - A start is requested whatever the list says. The list may be from before the server ended, or name a machine that
//!   runs while the server in it does not.
//! - A list may have gaps. A server that answers stays, whether the driver lists it or not. It counts as lost only if
//!   the driver knows that it is ending.

use super::driver::{DriverServer, ListedState, Listing, ServerSet};
use super::outlook::ScalerOutlook;
use super::server_list::ServerList;
use super::view::{MemberLoad, PoolView};
use crate::probe::ProbeSettings;
use balance::HealthSettings;
use base::Instant;
use core::time::Duration;
use elastic::scale::{ScaleSettings, ScalingDecision, ServerId, ServerLoad, ServerRow, ServerState};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A request of the fleet to its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// The driver starts the server; the result goes to [`Fleet::on_started`].
    Start(DriverServer),
    /// The driver stops the server; the result goes to [`Fleet::on_stopped`].
    Stop(DriverServer),
    /// Starts (`true`) or ends the drain of the member at this address.
    Drain(SocketAddr, bool),
    /// Probes the member at this address, since the driver does not list it.
    Doubt(SocketAddr),
    /// The driver lists its servers; the result goes to [`Reconciler::on_listed`](super::Reconciler::on_listed).
    List,
    /// Writes news to the log.
    Tell(News),
}

/// News about a server, named as in the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A decision of the scaler about the server, or about the pool (`None`).
    Decided(Option<String>, ScalingDecision),
    /// The server was found running.
    Found(String),
    /// The server takes calls.
    Ready(String),
    /// The server has stopped running.
    Lost(String),
    /// The server answers, but the driver does not list it.
    Unlisted(String),
    /// The server should stop, but has this many calls and transactions, or gets new ones.
    Busy(String, u64),
}

/// Last request to the driver about a server, or last change of its state.
#[derive(Clone, Copy, Debug)]
struct LastRequest {
    at: Instant,
    /// A list shows whether the server runs only if it was requested after this time.
    unlisted_until: Instant,
    is_open: bool,
}

/// A server that answers but is not listed.
#[derive(Clone, Copy, Debug)]
struct Unlisted {
    since: Instant,
    is_reported: bool,
}

/// Time after which an unlisted server is reported if members are not probed regularly. Lists come every few seconds.
const LASTING: Duration = Duration::from_secs(15);

/// Returns the time after which a silent member is known to be dead; `None` if members are not probed regularly.
pub fn detection(probes: &ProbeSettings, health: &HealthSettings) -> Option<Duration> {
    probes.periodic.then(|| probes.interval * health.fall + probes.interval + probes.timeout)
}

/// The servers of a pool.
pub struct Fleet {
    server_list: ServerList,
    /// Time after which it is known whether a member answers; `None` if members are not probed regularly.
    detection: Option<Duration>,
    began: Instant,
    asked: BTreeMap<ServerId, LastRequest>,
    /// Last list of the driver, and when it was requested.
    listed: Option<(Instant, Listing)>,
    unlisted: BTreeMap<ServerId, Unlisted>,
    /// The scaler and its figures.
    pub outlook: ScalerOutlook,
}

impl Fleet {
    /// Creates a fleet of unknown servers. `detection` is the time after which it is known whether a member answers;
    /// `None` if members are not probed regularly.
    pub fn new(
        now: Instant,
        settings: ScaleSettings,
        server_list: ServerList,
        detection: Option<Duration>,
    ) -> Self {
        Self {
            server_list,
            detection,
            began: now,
            asked: BTreeMap::new(),
            listed: None,
            unlisted: BTreeMap::new(),
            outlook: ScalerOutlook::new(now, settings),
        }
    }

    /// Takes the driver's list, requested at `at`.
    pub fn on_listed(&mut self, at: Instant, listing: Listing) {
        self.listed = Some((at, listing));
    }

    /// Handles a failed list. If there was no list before and members are probed regularly, the servers that answer
    /// probes count as running.
    pub fn on_list_failed(&mut self, at: Instant) {
        if self.listed.is_none() && self.detection.is_some() {
            self.listed = Some((at, ServerSet::Unknown.into()));
        }
    }

    /// Takes the result of a start.
    pub fn on_started(&mut self, now: Instant, id: ServerId, is_done: bool) {
        if let Some(asked) = self.asked.get_mut(&id) {
            (asked.is_open, asked.unlisted_until) = (false, now);
        }
        if !is_done {
            self.outlook.scaler.on_start_failed(now, id);
        }
    }

    /// Takes the result of a stop. A failed stop is requested again.
    pub fn on_stopped(&mut self, now: Instant, id: ServerId, is_done: bool) {
        self.asked.insert(id, LastRequest { at: now, unlisted_until: now, is_open: false });
        if is_done {
            self.outlook.scaler.on_stopped(now, id);
        }
    }

    /// Returns whether the running servers are known. Nothing is done before.
    pub fn knows(&self, now: Instant) -> bool {
        match &self.listed {
            None => false,
            Some((_, Listing { running: ServerSet::Unknown, .. })) => self.has_asked_all(now),
            Some(_) => true,
        }
    }

    /// Returns whether enough time has passed to know which members answer.
    fn has_asked_all(&self, now: Instant) -> bool {
        self.detection.is_none_or(|time| now - self.began >= time)
    }

    /// Observes the pool and appends the requests that follow.
    pub fn step(&mut self, view: &PoolView, out: &mut Vec<Order>) {
        let starting: Vec<_> = self.of(ServerState::Starting).collect();
        self.server_list.look(view, &starting);
        let Some(rate) = self.outlook.rate(view.now, view.arrivals).filter(|_| self.knows(view.now)) else {
            return;
        };
        self.see(view, out);
        self.see_unlisted(view, out);
        let open: Vec<_> = self.server_list.ids().filter(|id| self.may_answer(*id, view)).collect();
        if open.is_empty() {
            let servers: Vec<_> = self.rows().filter_map(|row| self.load(&row, view)).collect();
            for decision in self.outlook.decide(view.now, rate, &servers) {
                self.carry_out(decision, view, out);
            }
        }
        // A list that the pool has not confirmed yet, or contradicts, drains no server.
        let is_borne_out = self.of(ServerState::Ready).next().is_some() && self.unlisted.is_empty();
        let spared = if is_borne_out { Vec::new() } else { open };
        self.set_drains(&spared, view, out);
    }

    /// Updates the state of servers since the last observation.
    fn see(&mut self, view: &PoolView, out: &mut Vec<Order>) {
        for id in self.server_list.ids() {
            let (word, name) = (self.word(id, view), self.name(id));
            match self.state(id) {
                Some(ServerState::Starting) if self.is_ready(id, view) => {
                    self.outlook.scaler.on_started(view.now, id);
                    out.push(Order::Tell(News::Ready(name)));
                }
                Some(ServerState::Ready | ServerState::Draining)
                    if word == Some(ListedState::Ends) || !self.is_up(id, view) =>
                {
                    let known = self.asked.get(&id).map_or(Instant::ZERO, |asked| asked.unlisted_until);
                    // If the list says that the server is ending, the list stays valid. Otherwise the list is from
                    // before the loss.
                    let unlisted_until = if word == Some(ListedState::Ends) { known } else { view.now };
                    self.asked.insert(id, LastRequest { at: view.now, unlisted_until, is_open: false });
                    self.outlook.scaler.on_lost(view.now, id);
                    out.push(Order::Tell(News::Lost(name)));
                }
                None | Some(ServerState::Gone) if self.is_found(id, view) => {
                    self.outlook.scaler.adopt(view.now, id);
                    out.push(Order::Tell(News::Found(name)));
                }
                _ => {}
            }
        }
    }

    /// Handles servers that answer but are not listed. Each is probed, and is reported if the contradiction lasts.
    fn see_unlisted(&mut self, view: &PoolView, out: &mut Vec<Order>) {
        let lasting = self.detection.unwrap_or(LASTING);
        let mut before = core::mem::take(&mut self.unlisted);
        for id in self.server_list.ids() {
            let runs = matches!(self.state(id), Some(ServerState::Ready | ServerState::Draining));
            if !runs || self.word(id, view) != Some(ListedState::Absent) {
                continue;
            }
            let fresh = Unlisted { since: view.now, is_reported: false };
            let mut unlisted = before.remove(&id).unwrap_or(fresh);
            if !unlisted.is_reported {
                out.extend(
                    self.server_list.members(id, view).iter().map(|member| Order::Doubt(member.address)),
                );
            }
            if !unlisted.is_reported && view.now - unlisted.since >= lasting {
                unlisted.is_reported = true;
                out.push(Order::Tell(News::Unlisted(self.name(id))));
            }
            self.unlisted.insert(id, unlisted);
        }
    }

    /// Returns the driver's word on a server; `None` if the driver does not know, or if its list was requested before
    /// the last request about this server was done.
    fn word(&self, id: ServerId, view: &PoolView) -> Option<ListedState> {
        let (at, listing) = self.listed.as_ref()?;
        let is_news = self.asked.get(&id).is_none_or(|asked| !asked.is_open && *at > asked.unlisted_until);
        let server = self.server_list.server(id, view, &[])?;
        if is_news { listing.of(&server, &self.name(id)) } else { None }
    }

    /// Returns whether a member of the server counts as alive.
    fn is_up(&self, id: ServerId, view: &PoolView) -> bool {
        self.server_list.members(id, view).iter().any(|member| member.is_up)
    }

    /// Returns whether a server that was not started here takes calls. At the beginning an answer is enough, whatever
    /// the driver says. Later, an unlisted server may have been stopped and may answer until its end.
    fn is_found(&self, id: ServerId, view: &PoolView) -> bool {
        match self.word(id, view) {
            Some(ListedState::Ends) => false,
            Some(ListedState::Absent) => !self.asked.contains_key(&id) && self.has_answered(id, view),
            Some(ListedState::Runs) | None => self.is_ready(id, view),
        }
    }

    fn has_answered(&self, id: ServerId, view: &PoolView) -> bool {
        self.server_list.members(id, view).iter().any(|member| member.is_up && member.has_answered)
    }

    /// Returns whether an unlisted server may still turn out to answer.
    fn may_answer(&self, id: ServerId, view: &PoolView) -> bool {
        let is_new = !self.asked.contains_key(&id) && self.state(id).is_none();
        let is_open =
            is_new && !self.has_asked_all(view.now) && self.word(id, view) == Some(ListedState::Absent);
        is_open && self.is_up(id, view)
    }

    /// Returns whether a server takes calls: it runs, and its member has answered since the last request about it. A
    /// member that was already alive may be a server that has just been stopped, which shows after a while.
    fn is_ready(&self, id: ServerId, view: &PoolView) -> bool {
        let (asked, word) = (self.asked.get(&id), self.word(id, view));
        if asked.is_some_and(|asked| asked.is_open) || word == Some(ListedState::Ends) {
            return false;
        }
        let is_listed = word == Some(ListedState::Runs);
        let at = asked.map_or(self.began, |asked| asked.at);
        let is_known = self.detection.map_or(is_listed, |time| view.now - at >= time);
        let answers = |member: &&MemberLoad| {
            // At the beginning the driver's list is enough, since members may not have been probed yet.
            let is_found = asked.is_none() && is_listed;
            member.is_up && (is_known || is_found || (member.since > at && member.has_answered))
        };
        self.server_list.members(id, view).iter().any(answers)
    }

    /// Returns the load of a server for the scaler; `None` unless it is ready or draining.
    fn load(&self, row: &ServerRow, view: &PoolView) -> Option<ServerLoad> {
        if !matches!(row.state, ServerState::Ready | ServerState::Draining) {
            return None;
        }
        let members = self.server_list.members(row.id, view);
        // The scaler's own drain of a ready server is about to end.
        let takes = |member: &&&MemberLoad| member.is_up && !member.drains.operator;
        let taking = || members.iter().filter(takes);
        let capacity =
            taking().map(|member| self.outlook.capacity_of(member)).reduce(|sum, capacity| sum + capacity);
        let capacity = capacity.filter(|_| row.state == ServerState::Ready);
        let is_announced = taking().all(|member| member.capacity.is_some());
        let calls = members.iter().map(|member| member.work).sum();
        Some(ServerLoad { id: row.id, capacity, is_announced, calls })
    }

    fn carry_out(&mut self, decision: ScalingDecision, view: &PoolView, out: &mut Vec<Order>) {
        match decision {
            ScalingDecision::Start(id) => self.start(id, view, out),
            ScalingDecision::Stop(id) => self.stop(id, view, out),
            ScalingDecision::GiveUp(id) => {
                out.push(Order::Tell(News::Decided(Some(self.name(id)), decision)));
                self.stop(id, view, out);
            }
            // Drains are set below: on servers that are not ready, and on no others.
            ScalingDecision::Drain(id) | ScalingDecision::Resume(id) => {
                out.push(Order::Tell(News::Decided(Some(self.name(id)), decision)));
            }
            ScalingDecision::ClusterLatency(_) | ScalingDecision::Limit(_) => {
                out.push(Order::Tell(News::Decided(None, decision)));
            }
        }
    }

    fn start(&mut self, id: ServerId, view: &PoolView, out: &mut Vec<Order>) {
        let Some(server) = self.server_list.server(id, view, &self.all()) else {
            // The last members are being stopped. One of them can be started again afterwards.
            return self.outlook.scaler.on_start_failed(view.now, id);
        };
        self.asked.insert(id, LastRequest { at: view.now, unlisted_until: view.now, is_open: true });
        out.push(Order::Tell(News::Decided(Some(self.name(id)), ScalingDecision::Start(id))));
        out.push(Order::Start(server));
    }

    /// Stops a server. If it still has work, no call may be lost, and the scaler requests the stop again later.
    fn stop(&mut self, id: ServerId, view: &PoolView, out: &mut Vec<Order>) {
        let members = self.server_list.members(id, view);
        let work: u64 = members.iter().map(|member| member.work).sum();
        if work > 0 || members.iter().any(|member| !member.drains.scaler) {
            out.push(Order::Tell(News::Busy(self.name(id), work)));
            return;
        }
        if self.asked.get(&id).is_some_and(|asked| asked.is_open) {
            return;
        }
        if let Some(server) = self.server_list.server(id, view, &self.all()) {
            self.asked.insert(id, LastRequest { at: view.now, unlisted_until: view.now, is_open: true });
            out.push(Order::Tell(News::Decided(Some(self.name(id)), ScalingDecision::Stop(id))));
            out.push(Order::Stop(server));
        }
    }

    /// Drains every server that is not ready, and ends the drains of ready ones. Servers in `spared` are left as they
    /// are.
    fn set_drains(&self, spared: &[ServerId], view: &PoolView, out: &mut Vec<Order>) {
        for id in self.server_list.ids().filter(|id| !spared.contains(id)) {
            let is_drained = self.state(id) != Some(ServerState::Ready);
            let members = self.server_list.members(id, view).into_iter();
            let others = members.filter(|member| member.drains.scaler != is_drained);
            out.extend(others.map(|member| Order::Drain(member.address, is_drained)));
        }
    }

    /// Returns the servers that start, run, drain or stop.
    fn all(&self) -> Vec<ServerId> {
        self.rows().filter(|row| row.state != ServerState::Gone).map(|row| row.id).collect()
    }

    /// Returns when an unfinished stop is requested again.
    pub fn stopped_again(&self, id: ServerId) -> Option<Instant> {
        let row = self.rows().find(|row| row.id == id && row.state == ServerState::Stopping)?;
        Some(row.since + self.outlook.settings.stop_again)
    }

    /// Returns the servers that have answered for a while although the driver does not list them.
    pub fn unlisted(&self) -> Vec<String> {
        self.unlisted
            .iter()
            .filter(|(_, unlisted)| unlisted.is_reported)
            .map(|(id, _)| self.name(*id))
            .collect()
    }

    /// Returns the mapping of servers to members.
    pub fn server_list(&self) -> &ServerList {
        &self.server_list
    }

    fn rows(&self) -> impl Iterator<Item = ServerRow> {
        self.outlook.scaler.rows()
    }

    fn of(&self, state: ServerState) -> impl Iterator<Item = ServerId> {
        self.rows().filter(move |row| row.state == state).map(|row| row.id)
    }

    fn state(&self, id: ServerId) -> Option<ServerState> {
        self.rows().find(|row| row.id == id).map(|row| row.state)
    }

    /// Returns the name of a server for display.
    pub fn name(&self, id: ServerId) -> String {
        match &self.server_list {
            ServerList::Listed(servers) => {
                servers.get(id.0 as usize).map(|server| server.name.clone()).unwrap_or_default()
            }
            ServerList::Found { addresses, .. } => {
                let address = addresses.get(id.0 as usize).copied().flatten();
                address.map_or_else(|| format!("number {}", id.0), |address| address.to_string())
            }
        }
    }
}
