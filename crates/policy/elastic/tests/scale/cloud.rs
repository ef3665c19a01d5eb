//! A small model of a cloud, and an observer with the rules of a scaler.

use base::Instant;
use core::time::Duration;
use elastic::scale::{FrontTraffic, ScaleSettings, Scaler, ScalingDecision, ServerId, ServerLoad};
use std::collections::BTreeMap;

/// Capacity of a server in calls a second.
pub(crate) const CAPACITY: f64 = 100.0;
/// Duration of a call in seconds.
const HOLDING: f64 = 60.0;
/// Seconds between two steps of the scaler.
pub(crate) const STEP: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Machine {
    Booting(Instant),
    Failing(Instant),
    Up,
    Ending(Instant),
}

#[derive(Debug, Clone, Copy)]
struct Server {
    machine: Machine,
    draining: bool,
    calls: f64,
}

/// Behaviour of the cloud for some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Calls a second.
    pub(crate) rate: f64,
    /// Duration of a start in seconds.
    pub(crate) start: u64,
    /// Whether starts fail.
    pub(crate) fails: bool,
    /// Whether stops are forgotten.
    pub(crate) forgets: bool,
    /// Part of their capacity that all servers have left.
    pub(crate) speed: f64,
}

impl Default for Weather {
    fn default() -> Self {
        Self { rate: 50.0, start: 90, fails: false, forgets: false, speed: 1.0 }
    }
}

/// Faults between scaler and observer: a canary for each rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The scaler is configured with a larger limit.
    Limit,
    /// The scaler is configured with more changes a step.
    Changes,
    /// Reports to the scaler contain no calls.
    NoCalls,
    /// Its decisions come twice.
    Double,
    /// Its starts are lost without a report.
    LostStarts,
    /// The reported rate swings up and down.
    Swing,
}

pub(crate) struct Cloud {
    pub(crate) scaler: Scaler,
    settings: ScaleSettings,
    fault: Fault,
    pub(crate) now: Instant,
    servers: BTreeMap<ServerId, Server>,
    /// Server seconds so far.
    pub(crate) server_seconds: f64,
    /// Calls for which no server had room.
    pub(crate) lost: f64,
    /// Starts, drains and resumes so far.
    pub(crate) changes: usize,
    pub(crate) starts: usize,
}

impl Cloud {
    pub(crate) fn new(settings: ScaleSettings, fault: Fault) -> Self {
        let mut believed = settings.clone();
        match fault {
            Fault::Limit => believed.most += 2,
            Fault::Changes => believed.changes_most += 2,
            _ => {}
        }
        Self {
            scaler: Scaler::new(Instant::ZERO, believed),
            settings,
            fault,
            now: Instant::ZERO,
            servers: BTreeMap::new(),
            server_seconds: 0.0,
            lost: 0.0,
            changes: 0,
            starts: 0,
        }
    }

    /// Servers that take calls.
    pub(crate) fn ready(&self) -> usize {
        self.servers.values().filter(|server| server.machine == Machine::Up && !server.draining).count()
    }

    /// Servers that are not gone.
    pub(crate) fn there(&self) -> usize {
        self.servers.len()
    }

    /// A server dies.
    pub(crate) fn lose(&mut self, number: usize) {
        let up = self.servers.iter().filter(|(_, server)| server.machine == Machine::Up);
        let Some(id) = up.map(|(id, _)| *id).nth(number) else { return };
        self.servers.remove(&id);
        self.scaler.on_lost(self.now, id);
    }

    /// Passes the time until the next step, and makes the step.
    pub(crate) fn step(&mut self, weather: Weather) -> Vec<ScalingDecision> {
        self.now += Duration::from_secs(STEP);
        self.server_seconds += (self.servers.len() as u64 * STEP) as f64;
        self.turn(weather);
        self.carry(weather);
        let mut decisions = Vec::new();
        let loads = self.loads(weather);
        let is_low = (self.now.as_nanos() / 600_000_000_000).is_multiple_of(2);
        let swing = if is_low { 0.5 } else { 1.5 };
        let rate = if self.fault == Fault::Swing { weather.rate * swing } else { weather.rate };
        self.scaler.step(self.now, &FrontTraffic { rate, servers: &loads }, &mut decisions);
        if self.fault == Fault::Double {
            decisions.extend_from_within(..);
        }
        self.check(&decisions);
        for decision in &decisions {
            self.act(*decision, weather);
        }
        self.check_limit();
        decisions
    }

    /// Updates machines that are up, failed or gone by now.
    fn turn(&mut self, weather: Weather) {
        let now = self.now;
        for (id, server) in &mut self.servers {
            match server.machine {
                Machine::Booting(at) if at <= now => {
                    server.machine = Machine::Up;
                    self.scaler.on_started(now, *id);
                }
                Machine::Failing(at) if at <= now => self.scaler.on_start_failed(now, *id),
                Machine::Ending(at) if at <= now && !weather.forgets => self.scaler.on_stopped(now, *id),
                _ => {}
            }
        }
        self.servers.retain(|_, server| match server.machine {
            Machine::Failing(at) => at > now,
            Machine::Ending(at) => at > now || weather.forgets,
            _ => true,
        });
    }

    /// Assigns calls to the servers in order, and ends calls.
    fn carry(&mut self, weather: Weather) {
        let mut rest = weather.rate;
        for server in self.servers.values_mut() {
            let takes = server.machine == Machine::Up && !server.draining;
            let share = if takes { rest.min(CAPACITY * weather.speed) } else { 0.0 };
            rest -= share;
            let seconds = STEP as f64;
            server.calls = (server.calls + share * seconds) * (-seconds / HOLDING).exp();
        }
        self.lost += rest * STEP as f64;
    }

    fn loads(&self, weather: Weather) -> Vec<ServerLoad> {
        let up = self.servers.iter().filter(|(_, server)| server.machine == Machine::Up);
        up.map(|(id, server)| ServerLoad {
            id: *id,
            capacity: (!server.draining).then_some(CAPACITY * weather.speed),
            is_announced: true,
            calls: if self.fault == Fault::NoCalls { 0 } else { server.calls as u64 },
        })
        .collect()
    }

    fn act(&mut self, decision: ScalingDecision, weather: Weather) {
        let now = self.now;
        match decision {
            ScalingDecision::Start(id) => {
                self.starts += 1;
                if self.fault == Fault::LostStarts {
                    return;
                }
                let at = now + Duration::from_secs(weather.start);
                let machine = if weather.fails { Machine::Failing(at) } else { Machine::Booting(at) };
                let known = self.servers.insert(id, Server { machine, draining: false, calls: 0.0 });
                assert!(known.is_none(), "a running server was started");
            }
            ScalingDecision::Drain(id) | ScalingDecision::Resume(id) => {
                let drains = matches!(decision, ScalingDecision::Drain(_));
                let server = self.servers.get_mut(&id).expect("only a running server drains");
                assert!(
                    server.machine == Machine::Up && server.draining != drains,
                    "a server was drained or resumed twice"
                );
                server.draining = drains;
            }
            ScalingDecision::Stop(id) | ScalingDecision::GiveUp(id) => {
                let server = self.servers.get_mut(&id).expect("only a known server is stopped");
                assert!(server.calls < 1.0, "a server with calls was stopped");
                let asked = matches!(server.machine, Machine::Ending(_));
                let fresh = matches!(server.machine, Machine::Booting(_) | Machine::Failing(_));
                assert!(server.draining || asked || fresh, "a server that takes calls was stopped");
                if !asked {
                    server.machine = Machine::Ending(now + Duration::from_secs(20));
                }
            }
            ScalingDecision::ClusterLatency(_) | ScalingDecision::Limit(_) => {}
        }
    }

    fn check(&mut self, decisions: &[ScalingDecision]) {
        let is_change = |d: &&ScalingDecision| {
            matches!(d, ScalingDecision::Start(_) | ScalingDecision::Drain(_) | ScalingDecision::Resume(_))
        };
        let changes = decisions.iter().filter(is_change).count();
        assert!(changes <= self.settings.changes_most, "too many changes in a step");
        self.changes += changes;
    }

    fn check_limit(&self) {
        let counts = |server: &&Server| !matches!(server.machine, Machine::Ending(_));
        assert!(
            self.servers.values().filter(counts).count() <= self.settings.most.max(self.settings.least),
            "more servers than allowed"
        );
    }

    /// After an hour of the same weather there is enough capacity, not much too much, and no more changes.
    pub(crate) fn settle(&mut self, weather: Weather) {
        let good = Weather { start: 90, fails: false, forgets: false, speed: 1.0, ..weather };
        let minutes = 90 + 12 * self.settings.most as u64;
        for _ in 0..minutes * 60 / STEP {
            self.step(good);
        }
        let before = self.changes;
        for _ in 0..1_200 / STEP {
            self.step(good);
        }
        assert_eq!(self.changes, before, "the scaler does not settle");
        let settings = &self.settings;
        let needed = |part: f64| (weather.rate / part / CAPACITY).ceil() as usize + settings.spare;
        let most = settings.most.max(settings.least);
        let (least_wanted, most_wanted) = (
            needed(settings.high).clamp(settings.least, most),
            needed(settings.low).clamp(settings.least, most),
        );
        assert!(self.ready() >= least_wanted, "{} are not enough", self.ready());
        assert!(self.ready() <= most_wanted, "{} are too many", self.ready());
        assert_eq!(self.there(), self.ready(), "no other server is left");
    }
}
