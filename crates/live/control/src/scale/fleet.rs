//! Carries out what the scaler of a pool decides: which server is which member, what has been asked of the driver,
//! and what of that has come true. Whoever uses it asks drivers and drains members.
//!
//! - A member that is no ready server is drained; one that becomes ready is not any more. A drain of an operator's
//!   stays until he takes it back, whatever becomes of the server, and its capacity does not count meanwhile.
//! - A server is stopped only if it is drained and has neither calls nor transactions.
//! - Nothing is done before it is known what runs.
//! - A start is asked for whatever the list says: the list may be from before the server ended, or name a machine
//!   that runs while the server in it does not.
//! - A list may have gaps: a server that answers stays, whether the driver lists it or not. Only what the driver
//!   knows to be ending is lost although it answers.

use super::driver::{Listing, Running, Server, Word};
use super::outlook::Outlook;
use super::server_list::ServerList;
use super::view::{MemberLoad, PoolView};
use crate::probe::ProbeSettings;
use balance::HealthSettings;
use base::Instant;
use core::time::Duration;
use elastic::scale::{Decision, ScaleSettings, ServerId, ServerLoad, ServerRow, ServerState};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What is to be done, or told.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// The driver is to start it: [`Fleet::on_started`].
    Start(Server),
    /// The driver is to stop it: [`Fleet::on_stopped`].
    Stop(Server),
    /// The member gets no new calls, or gets them again.
    Drain(SocketAddr, bool),
    /// The driver does not list it: it is to be asked whether it is there.
    Doubt(SocketAddr),
    /// The driver is to say what runs: [`Reconciler::on_listed`](super::Reconciler::on_listed).
    List,
    /// For people.
    Tell(News),
}

/// What people are to hear of a server, named as in the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The scaler has decided this about it, or about the pool.
    Decided(Option<String>, Decision),
    /// It was found running.
    Found(String),
    /// It takes calls.
    Ready(String),
    /// It was running, and is not any more.
    Lost(String),
    /// It answers, and the driver does not list it.
    Unlisted(String),
    /// It is to be stopped, and has so many calls and transactions, or gets new ones.
    Busy(String, u64),
}

/// What was last asked of the driver about a server, or learnt.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    /// What runs is known again from a list that was asked for later than this.
    unlisted_until: Instant,
    /// The driver has not answered.
    is_open: bool,
}

/// A server that answers and is not listed.
#[derive(Clone, Copy, Debug)]
struct Unlisted {
    since: Instant,
    is_told: bool,
}

/// What counts as lasting where nobody asks members regularly: lists come every few seconds.
const LASTING: Duration = Duration::from_secs(15);

/// After so long a member that does not answer is known to be dead; `None` where nobody asks regularly.
pub fn detection(probes: &ProbeSettings, health: &HealthSettings) -> Option<Duration> {
    probes.periodic.then(|| probes.interval * health.fall + probes.interval + probes.timeout)
}

/// The servers of a pool.
pub struct Fleet {
    server_list: ServerList,
    /// After so long it is known whether a member answers; `None` where nobody asks regularly.
    detection: Option<Duration>,
    began: Instant,
    asked: BTreeMap<ServerId, Asked>,
    /// What the driver said last, and when it was asked.
    listed: Option<(Instant, Listing)>,
    unlisted: BTreeMap<ServerId, Unlisted>,
    /// The scaler, and what it has said.
    pub outlook: Outlook,
}

impl Fleet {
    /// Nothing is known of the servers. `detection`: after so long it is known whether a member answers; `None` where
    /// nobody asks regularly.
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
            outlook: Outlook::new(now, settings),
        }
    }

    /// The driver has said what runs; it was asked at `at`.
    pub fn on_listed(&mut self, at: Instant, listing: Listing) {
        self.listed = Some((at, listing));
    }

    /// The driver cannot say what runs. Unless it has said so before, those run that answer probes, where members are
    /// asked regularly.
    pub fn on_list_failed(&mut self, at: Instant) {
        if self.listed.is_none() && self.detection.is_some() {
            self.listed = Some((at, Running::Unknown.into()));
        }
    }

    /// The driver has started a server, or failed to.
    pub fn on_started(&mut self, now: Instant, id: ServerId, is_done: bool) {
        if let Some(asked) = self.asked.get_mut(&id) {
            (asked.is_open, asked.unlisted_until) = (false, now);
        }
        if !is_done {
            self.outlook.scaler.on_start_failed(now, id);
        }
    }

    /// The driver has stopped a server, or failed to: then it is asked again.
    pub fn on_stopped(&mut self, now: Instant, id: ServerId, is_done: bool) {
        self.asked.insert(id, Asked { at: now, unlisted_until: now, is_open: false });
        if is_done {
            self.outlook.scaler.on_stopped(now, id);
        }
    }

    /// Whether it is known what runs. Without, nothing is done.
    pub fn knows(&self, now: Instant) -> bool {
        match &self.listed {
            None => false,
            Some((_, Listing { running: Running::Unknown, .. })) => self.has_asked_all(now),
            Some(_) => true,
        }
    }

    /// Whether it is known by now of each member whether it answers.
    fn has_asked_all(&self, now: Instant) -> bool {
        self.detection.is_none_or(|time| now - self.began >= time)
    }

    /// Looks at the pool, and says what is to be done.
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
        // A list of which nothing has come true yet, or something has come wrong, takes nobody out of service.
        let is_borne_out = self.of(ServerState::Ready).next().is_some() && self.unlisted.is_empty();
        let spared = if is_borne_out { Vec::new() } else { open };
        self.set_drains(&spared, view, out);
    }

    /// What has become of servers since the last look.
    fn see(&mut self, view: &PoolView, out: &mut Vec<Order>) {
        for id in self.server_list.ids() {
            let (word, name) = (self.word(id, view), self.name(id));
            match self.state(id) {
                Some(ServerState::Starting) if self.is_ready(id, view) => {
                    self.outlook.scaler.on_started(view.now, id);
                    out.push(Order::Tell(News::Ready(name)));
                }
                Some(ServerState::Ready | ServerState::Draining)
                    if word == Some(Word::Ends) || !self.is_up(id, view) =>
                {
                    let known = self.asked.get(&id).map_or(Instant::ZERO, |asked| asked.unlisted_until);
                    // What the list knows to end goes on to end; otherwise the list is from before the loss.
                    let unlisted_until = if word == Some(Word::Ends) { known } else { view.now };
                    self.asked.insert(id, Asked { at: view.now, unlisted_until, is_open: false });
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

    /// Servers that answer and that the driver does not list. Each is asked whether it is there, and told of if that
    /// lasts.
    fn see_unlisted(&mut self, view: &PoolView, out: &mut Vec<Order>) {
        let lasting = self.detection.unwrap_or(LASTING);
        let mut before = core::mem::take(&mut self.unlisted);
        for id in self.server_list.ids() {
            let runs = matches!(self.state(id), Some(ServerState::Ready | ServerState::Draining));
            if !runs || self.word(id, view) != Some(Word::Absent) {
                continue;
            }
            let fresh = Unlisted { since: view.now, is_told: false };
            let mut unlisted = before.remove(&id).unwrap_or(fresh);
            if !unlisted.is_told {
                out.extend(
                    self.server_list.members(id, view).iter().map(|member| Order::Doubt(member.address)),
                );
            }
            if !unlisted.is_told && view.now - unlisted.since >= lasting {
                unlisted.is_told = true;
                out.push(Order::Tell(News::Unlisted(self.name(id))));
            }
            self.unlisted.insert(id, unlisted);
        }
    }

    /// What the driver says of a server; `None`: it does not know, or has not been asked since something was asked of
    /// it.
    fn word(&self, id: ServerId, view: &PoolView) -> Option<Word> {
        let (at, listing) = self.listed.as_ref()?;
        let is_news = self.asked.get(&id).is_none_or(|asked| !asked.is_open && *at > asked.unlisted_until);
        let server = self.server_list.server(id, view, &[])?;
        if is_news { listing.of(&server, &self.name(id)) } else { None }
    }

    /// Whether a member of it counts as alive.
    fn is_up(&self, id: ServerId, view: &PoolView) -> bool {
        self.server_list.members(id, view).iter().any(|member| member.is_up)
    }

    /// Whether a server that nobody here has started takes calls. At the beginning an answer is enough, whatever the
    /// driver says; later one that the driver does not list may have been stopped, and answer to its end.
    fn is_found(&self, id: ServerId, view: &PoolView) -> bool {
        match self.word(id, view) {
            Some(Word::Ends) => false,
            Some(Word::Absent) => !self.asked.contains_key(&id) && self.has_answered(id, view),
            Some(Word::Runs) | None => self.is_ready(id, view),
        }
    }

    fn has_answered(&self, id: ServerId, view: &PoolView) -> bool {
        self.server_list.members(id, view).iter().any(|member| member.is_up && member.has_answered)
    }

    /// Whether it is not known yet of a server that the driver does not list whether it answers all the same.
    fn may_answer(&self, id: ServerId, view: &PoolView) -> bool {
        let is_new = !self.asked.contains_key(&id) && self.state(id).is_none();
        let is_open = is_new && !self.has_asked_all(view.now) && self.word(id, view) == Some(Word::Absent);
        is_open && self.is_up(id, view)
    }

    /// Whether a server takes calls: it runs, and its member has answered since something was asked of it. A member
    /// that is up as it was before may be what has just been stopped: it is known after a while.
    fn is_ready(&self, id: ServerId, view: &PoolView) -> bool {
        let (asked, word) = (self.asked.get(&id), self.word(id, view));
        if asked.is_some_and(|asked| asked.is_open) || word == Some(Word::Ends) {
            return false;
        }
        let is_listed = word == Some(Word::Runs);
        let at = asked.map_or(self.began, |asked| asked.at);
        let is_known = self.detection.map_or(is_listed, |time| view.now - at >= time);
        let answers = |member: &&MemberLoad| {
            // At the beginning what the driver says is enough: nobody may have been asked yet.
            let is_found = asked.is_none() && is_listed;
            member.is_up && (is_known || is_found || (member.since > at && member.has_answered))
        };
        self.server_list.members(id, view).iter().any(answers)
    }

    /// What the scaler has to know of a server.
    fn load(&self, row: &ServerRow, view: &PoolView) -> Option<ServerLoad> {
        if !matches!(row.state, ServerState::Ready | ServerState::Draining) {
            return None;
        }
        let members = self.server_list.members(row.id, view);
        // What the scaler itself has drained of a ready server is about to be taken back.
        let takes = |member: &&&MemberLoad| member.is_up && !member.drains.operator;
        let taking = || members.iter().filter(takes);
        let capacity =
            taking().map(|member| self.outlook.capacity_of(member)).reduce(|sum, capacity| sum + capacity);
        let capacity = capacity.filter(|_| row.state == ServerState::Ready);
        let is_announced = taking().all(|member| member.capacity.is_some());
        let calls = members.iter().map(|member| member.work).sum();
        Some(ServerLoad { id: row.id, capacity, is_announced, calls })
    }

    fn carry_out(&mut self, decision: Decision, view: &PoolView, out: &mut Vec<Order>) {
        match decision {
            Decision::Start(id) => self.start(id, view, out),
            Decision::Stop(id) => self.stop(id, view, out),
            Decision::GiveUp(id) => {
                out.push(Order::Tell(News::Decided(Some(self.name(id)), decision)));
                self.stop(id, view, out);
            }
            // Those that are not ready are drained below, and the others are not.
            Decision::Drain(id) | Decision::Resume(id) => {
                out.push(Order::Tell(News::Decided(Some(self.name(id)), decision)));
            }
            Decision::ClusterLatency(_) | Decision::Limit(_) => {
                out.push(Order::Tell(News::Decided(None, decision)));
            }
        }
    }

    fn start(&mut self, id: ServerId, view: &PoolView, out: &mut Vec<Order>) {
        let Some(server) = self.server_list.server(id, view, &self.all()) else {
            // The last members are being stopped, and one of them can be started again then.
            return self.outlook.scaler.on_start_failed(view.now, id);
        };
        self.asked.insert(id, Asked { at: view.now, unlisted_until: view.now, is_open: true });
        out.push(Order::Tell(News::Decided(Some(self.name(id)), Decision::Start(id))));
        out.push(Order::Start(server));
    }

    /// Nobody is to lose a call: what has any is asked for again.
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
            self.asked.insert(id, Asked { at: view.now, unlisted_until: view.now, is_open: true });
            out.push(Order::Tell(News::Decided(Some(self.name(id)), Decision::Stop(id))));
            out.push(Order::Stop(server));
        }
    }

    /// Whoever is no ready server gets no calls. Nothing is said of those that are `spared`.
    fn set_drains(&self, spared: &[ServerId], view: &PoolView, out: &mut Vec<Order>) {
        for id in self.server_list.ids().filter(|id| !spared.contains(id)) {
            let is_drained = self.state(id) != Some(ServerState::Ready);
            let members = self.server_list.members(id, view).into_iter();
            let others = members.filter(|member| member.drains.scaler != is_drained);
            out.extend(others.map(|member| Order::Drain(member.address, is_drained)));
        }
    }

    /// The servers that start, run, drain and stop.
    fn all(&self) -> Vec<ServerId> {
        self.rows().filter(|row| row.state != ServerState::Gone).map(|row| row.id).collect()
    }

    /// When a stop that is not done is asked for again.
    pub fn stopped_again(&self, id: ServerId) -> Option<Instant> {
        let row = self.rows().find(|row| row.id == id && row.state == ServerState::Stopping)?;
        Some(row.since + self.outlook.settings.stop_again)
    }

    /// Servers that answer although the driver has not listed them for a while.
    pub fn unlisted(&self) -> Vec<String> {
        self.unlisted.iter().filter(|(_, unlisted)| unlisted.is_told).map(|(id, _)| self.name(*id)).collect()
    }

    /// Which server is which member.
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

    /// What people call it.
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
