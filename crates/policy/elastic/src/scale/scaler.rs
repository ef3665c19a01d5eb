//! The scaler.

use super::cluster;
use super::demand::Demand;
use super::forecast::Forecast;
use super::servers::Servers;
use super::start_up::StartUp;
use super::{ScaleSettings, ServerId, ServerRow, ServerState};
use base::Instant;

/// Smallest rate that counts, in calls a second: an average of a former rate does not reach zero.
const NOTHING: f64 = 1e-3;

/// Load of a server that is ready or draining.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerLoad {
    /// Identity.
    pub id: ServerId,
    /// Effective capacity in front, in calls a second; `None` while it gets no new calls, because it drains or by an
    /// operator's choice. `None` says nothing about its load.
    pub capacity: Option<f64>,
    /// Whether the server has announced or shown this capacity. If not, the value stands for an unknown capacity, and
    /// does not change the usual capacity.
    pub is_announced: bool,
    /// Calls and transactions in it.
    pub calls: u64,
}

/// The traffic at the front since the last step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontTraffic<'s> {
    /// New calls a second, including refused ones.
    pub rate: f64,
    /// Servers. A server that is not listed counts as unchanged.
    pub servers: &'s [ServerLoad],
}

/// Decision of the scaler, or a finding to report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScalingDecision {
    /// Start a server, and report the result: [`Scaler::on_started`], [`Scaler::on_start_failed`].
    Start(ServerId),
    /// Send it no more new calls.
    Drain(ServerId),
    /// Send it new calls again.
    Resume(ServerId),
    /// Stop it, and report [`Scaler::on_stopped`]. It had no calls. Repeated if the report does not come.
    Stop(ServerId),
    /// The server did not start in time: stop it, and report the stop with [`Scaler::on_stopped`]. Another server is
    /// tried.
    GiveUp(ServerId),
    /// Most servers announce much less than usual: a shared cause that more servers do not cure. Their usual capacity
    /// counts from now on. `false`: the state has ended.
    ClusterLatency(bool),
    /// This many servers are needed, more than the limit; `None`: no longer.
    Limit(Option<usize>),
}

/// Decides how many servers there should be.
///
/// - Running: [`step`](Self::step) every few seconds.
/// - Reports: results of decisions ([`on_started`](Self::on_started), [`on_start_failed`](Self::on_start_failed),
///   [`on_stopped`](Self::on_stopped)) and changes of servers ([`adopt`](Self::adopt), [`on_lost`](Self::on_lost)).
///   Outdated reports (a late start, a second stop) have no effect.
/// - Reading: [`rows`](Self::rows), [`rate`](Self::rate), [`next_start`](Self::next_start).
#[derive(Debug, Clone)]
pub struct Scaler {
    settings: ScaleSettings,
    servers: Servers,
    start_up: StartUp,
    demand: Demand,
    forecast: Option<Forecast>,
    cluster_latency: bool,
    limited: Option<usize>,
    /// Time when the number of wanted servers last rose; `drained`: when a server was last drained.
    added: Instant,
    drained: Option<Instant>,
}

impl Scaler {
    /// Creates a scaler without servers.
    pub fn new(now: Instant, settings: ScaleSettings) -> Self {
        Self {
            servers: Servers::default(),
            start_up: StartUp::new(&settings.start),
            demand: Demand::new(),
            forecast: settings.forecast.map(Forecast::new),
            cluster_latency: false,
            limited: None,
            added: now,
            drained: None,
            settings,
        }
    }

    /// Adds a server that is already running.
    pub fn adopt(&mut self, now: Instant, id: ServerId) {
        self.servers.enter(now, id, ServerState::Ready, self.settings.capacity);
        self.servers.on_up(id);
    }

    /// Reports that a server has started. A server that was given up meanwhile is being stopped, and stays so.
    pub fn on_started(&mut self, now: Instant, id: ServerId) {
        if let Some(since) = self.servers.turn(now, id, &[ServerState::Starting], ServerState::Ready) {
            self.start_up.on_started(now - since);
            self.servers.on_up(id);
        }
    }

    /// Reports that a server could not be started.
    pub fn on_start_failed(&mut self, now: Instant, id: ServerId) {
        if self.servers.turn(now, id, &[ServerState::Starting], ServerState::Gone).is_some() {
            self.start_up.on_failed(now, &self.settings.start);
            self.servers.on_start_failed(id);
        }
    }

    /// Reports that a server has been stopped.
    pub fn on_stopped(&mut self, now: Instant, id: ServerId) {
        self.servers.turn(now, id, &[ServerState::Stopping], ServerState::Gone);
    }

    /// Reports that a server has failed without a decision to stop it.
    pub fn on_lost(&mut self, now: Instant, id: ServerId) {
        let from = [ServerState::Ready, ServerState::Draining, ServerState::Stopping];
        self.servers.turn(now, id, &from, ServerState::Gone);
    }

    /// Smoothed rate of arrivals.
    pub fn rate(&self) -> f64 {
        self.demand.rate()
    }

    /// Earliest time of the next start, after a failed one.
    pub fn next_start(&self) -> Instant {
        self.start_up.not_before()
    }

    /// All servers, in order.
    pub fn rows(&self) -> impl Iterator<Item = ServerRow> {
        self.servers.rows()
    }

    /// Handles the arrivals and capacities of a step; appends decisions to `out`.
    pub fn step(&mut self, now: Instant, seen: &FrontTraffic<'_>, out: &mut Vec<ScalingDecision>) {
        self.update(now, seen, out);
        self.end_waits(now, out);
        let needed = self.needed_now(now);
        let limited = Some(needed).filter(|needed| *needed > self.settings.most);
        if limited.is_some() != self.limited.is_some() {
            out.push(ScalingDecision::Limit(limited));
        }
        self.limited = limited;
        let (least, most) = (self.settings.least, self.settings.most.max(self.settings.least));
        let wanted = needed.clamp(least, most);
        let taking = self.servers.taking().count();
        if wanted > taking {
            self.add(now, wanted - taking, out);
        } else if taking > least && self.servers.of(ServerState::Starting).next().is_none() {
            self.remove(now, taking, out);
        }
    }

    fn update(&mut self, now: Instant, seen: &FrontTraffic<'_>, out: &mut Vec<ScalingDecision>) {
        let rate = if seen.rate.is_finite() { seen.rate.max(0.0) } else { 0.0 };
        self.demand.on_rate(now, rate, self.settings.smoothing, self.settings.calm);
        if let Some(forecast) = &mut self.forecast {
            forecast.on_rate(now, self.demand.rate());
        }
        for load in seen.servers {
            let Some(server) = self.servers.get_mut(load.id) else { continue };
            server.on_calls(now, load.calls);
            if server.state != ServerState::Ready {
                continue;
            }
            server.takes_calls = load.capacity.is_some();
            if let Some(capacity) = load.capacity.filter(|capacity| capacity.is_finite()) {
                let capacity = capacity.max(0.0);
                if load.is_announced {
                    server.capacity.announce(now, capacity, self.cluster_latency);
                } else {
                    server.capacity.expect(capacity);
                }
            }
        }
        let ready = self.servers.of(ServerState::Ready).filter(|(_, server)| server.takes_calls);
        let ready = ready.map(|(_, server)| &server.capacity);
        let fallen = cluster::has_fallen(ready, self.cluster_latency);
        if fallen != self.cluster_latency {
            self.cluster_latency = fallen;
            out.push(ScalingDecision::ClusterLatency(fallen));
        }
    }

    /// Gives up starts that take too long, and stops servers that have been idle for long enough.
    fn end_waits(&mut self, now: Instant, out: &mut Vec<ScalingDecision>) {
        use ServerState::{Draining, Starting, Stopping};
        self.servers.forget_gone(now);
        for id in self.servers.overdue(now, Starting, self.settings.start.time_max) {
            self.servers.turn(now, id, &[Starting], Stopping);
            self.start_up.on_failed(now, &self.settings.start);
            self.servers.on_start_failed(id);
            out.push(ScalingDecision::GiveUp(id));
        }
        for id in self.servers.overdue(now, Stopping, self.settings.stop_again) {
            self.servers.turn(now, id, &[Stopping], Stopping);
            out.push(ScalingDecision::Stop(id));
        }
        for id in self.servers.idle(now, self.settings.idle) {
            // A server is stopped only after it has drained for the idle time, since copies and late requests may still
            // come.
            if self.servers.overdue(now, Draining, self.settings.idle).contains(&id) {
                self.servers.turn(now, id, &[Draining], Stopping);
                out.push(ScalingDecision::Stop(id));
            }
        }
    }

    /// Number of servers, in order, that carry this rate at this part of their capacity, plus the spare ones.
    fn servers_for(&self, rate: f64, part: f64) -> usize {
        let goal = rate / part.max(f64::MIN_POSITIVE);
        let (mut count, mut total) = (0, 0.0);
        for (_, server) in self.servers.taking() {
            if total + NOTHING >= goal {
                return count + self.settings.spare;
            }
            total += match (server.takes_calls, self.cluster_latency) {
                (false, _) => 0.0,
                (true, true) => server.capacity.usual(),
                (true, false) => server.capacity.counted,
            };
            count += 1;
        }
        let more = ((goal - total - NOTHING).max(0.0) / self.expected()).ceil();
        // Far beyond any limit of servers, without overflow.
        count + (more.min(1e6) as usize) + self.settings.spare
    }

    /// Expected capacity of a server that is starting: the mean usual capacity of the ready ones.
    fn expected(&self) -> f64 {
        let ready = || self.servers.of(ServerState::Ready);
        let count = ready().count();
        let total: f64 = ready().map(|(_, server)| server.capacity.usual()).sum();
        let expected = if count == 0 { self.settings.capacity } else { total / count as f64 };
        expected.max(1.0)
    }

    fn needed_now(&self, now: Instant) -> usize {
        let settings = &self.settings;
        let ahead = self.start_up.expected(&settings.start);
        let trend = self.demand.ahead(ahead, settings.smoothing, settings.trend_most);
        let forecast = self.forecast.as_ref().and_then(|forecast| forecast.most(now, ahead));
        self.servers_for(forecast.map_or(trend, |forecast| trend.max(forecast)), settings.high)
    }

    /// Resumes draining servers, then starts new ones. No server is started while one drains, so the limit holds for
    /// both together.
    fn add(&mut self, now: Instant, count: usize, out: &mut Vec<ScalingDecision>) {
        let count = count.min(self.settings.changes_most);
        let draining: Vec<_> = self.servers.of(ServerState::Draining).map(|(id, _)| id).take(count).collect();
        for id in &draining {
            self.servers.turn(now, *id, &[ServerState::Draining], ServerState::Ready);
            out.push(ScalingDecision::Resume(*id));
        }
        self.added = now;
        if !self.start_up.may_start(now) {
            return;
        }
        let expected = self.expected();
        for _ in draining.len()..count {
            out.push(ScalingDecision::Start(self.servers.start(now, expected, self.settings.choices)));
        }
    }

    /// Drains the last server, if the others have been enough for a while and will be.
    fn remove(&mut self, now: Instant, taking: usize, out: &mut Vec<ScalingDecision>) {
        let settings = &self.settings;
        let gap = |since: Instant, time| now - since >= time;
        let is_calm = gap(self.added, settings.calm)
            && self.drained.is_none_or(|drained| gap(drained, settings.drain_gap));
        let Some(peak) = self.demand.peak(settings.calm).filter(|_| is_calm && !self.cluster_latency) else {
            return;
        };
        let ahead = self.start_up.expected(&settings.start) + settings.calm + settings.idle;
        let forecast = self.forecast.as_ref().and_then(|forecast| forecast.most(now, ahead));
        if self.servers_for(forecast.map_or(peak, |forecast| peak.max(forecast)), settings.low) >= taking {
            return;
        }
        let last = self.servers.of(ServerState::Ready).next_back().map(|(id, _)| id);
        if let Some(id) = last {
            self.servers.turn(now, id, &[ServerState::Ready], ServerState::Draining);
            self.drained = Some(now);
            out.push(ScalingDecision::Drain(id));
        }
    }
}
