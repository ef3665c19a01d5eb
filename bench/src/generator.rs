//! The event loop of callers and answerers: one thread, batched system calls.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use base::Rng;
use rand_distr::{Distribution, Exp1};
use sockets::{ReceiveBatch, SendBatch};

use crate::answerer::BenchAnswerer;
use crate::callers::{Callers, HoldingTime, Lines, Stage};
use crate::credentials::BenchUser;
use crate::endpoint::{Endpoint, wait_for};
use crate::log::{CallLog, IN_TIME_NS};

/// Longest sleep of the loop, in nanoseconds.
const SLEEP_NS: u64 = 1_000_000;
/// Time to wait for responses after the last call was due. Later ones are too late to count.
const PATIENCE_NS: u64 = IN_TIME_NS + 100_000_000;
/// Most attempts to get calls through.
const TRIES: usize = 100;

/// A rate in calls a second, and its duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
}

/// Start times of calls.
#[derive(Clone, Debug)]
pub(crate) enum OfferedLoad {
    /// As many calls as this are always in progress, for this many seconds: the target always has work, but is never
    /// overloaded.
    Closed { calls: usize, seconds: f64 },
    /// Random arrivals with these rates one after the other, independent of the results.
    Open(Vec<Level>),
    /// At these times in order, in nanoseconds since the start, independent of the results.
    Given(VecDeque<u64>),
}

/// Calls at a constant rate, independent of the results. Callers do not retransmit.
#[derive(Clone, Copy, Debug)]
pub struct RunPlan {
    /// Calls a second.
    pub rate: f64,
    /// Time in which calls are started.
    pub duration: Duration,
    /// Time from the answer of a call to its BYE.
    pub hold: Duration,
    /// Interval between bursts of calls; zero: calls leave one at a time.
    pub burst: Duration,
    /// Never sleep: the loop is not late, but uses a whole processor.
    pub spin: bool,
}

impl RunPlan {
    /// Calls at this rate, in bursts every millisecond, that end when they are answered.
    pub fn at(rate: f64, duration: Duration) -> Self {
        Self { rate, duration, hold: Duration::ZERO, burst: Duration::from_millis(1), spin: false }
    }

    /// Returns the times when calls are due: the end of the burst interval that contains the evenly spaced time.
    fn due_ns(&self) -> VecDeque<u64> {
        let calls = (self.rate * self.duration.as_secs_f64()).round().max(1.0) as u64;
        let burst_ns = (self.burst.as_nanos() as u64).max(1);
        (0..calls).map(|call| ((call as f64 / self.rate * 1e9) as u64).next_multiple_of(burst_ns)).collect()
    }
}

/// Draws Poisson arrivals over this many seconds, in nanoseconds. Equal seeds give equal arrivals.
pub(crate) fn poisson_ns(rate: f64, seconds: f64, seed: u64) -> Vec<u64> {
    let mut rng = Rng::from_seed(seed);
    let mut at = 0.0;
    let next = || {
        at += Distribution::<f64>::sample(&Exp1, &mut rng) / rate;
        (at < seconds).then_some((at * 1e9) as u64)
    };
    std::iter::from_fn(next).collect()
}

/// Start times of a load.
struct Starts {
    load: OfferedLoad,
    rng: Rng,
    /// Next start, unless the load is closed.
    next_ns: u64,
    end_ns: u64,
}

impl Starts {
    fn new(load: OfferedLoad, rng: Rng) -> Self {
        let end_ns = match &load {
            OfferedLoad::Closed { seconds, .. } => (seconds * 1e9) as u64,
            OfferedLoad::Open(levels) => (levels.iter().map(|level| level.seconds).sum::<f64>() * 1e9) as u64,
            OfferedLoad::Given(due_ns) => due_ns.back().copied().unwrap_or(0),
        };
        let mut starts = Self { load, rng, next_ns: 0, end_ns };
        starts.draw();
        starts
    }

    fn draw(&mut self) {
        match &mut self.load {
            OfferedLoad::Closed { .. } => {}
            OfferedLoad::Open(_) => self.draw_at_random(),
            OfferedLoad::Given(due_ns) => self.next_ns = due_ns.pop_front().unwrap_or(u64::MAX),
        }
    }

    /// Draws the next start of an open load: the integral of the rate up to it is exponentially distributed.
    fn draw_at_random(&mut self) {
        let OfferedLoad::Open(levels) = &self.load else { return };
        let mut mass: f64 = Exp1.sample(&mut self.rng);
        let (mut from, mut end) = (self.next_ns as f64 / 1e9, 0.0);
        for level in levels {
            end += level.seconds;
            let room = (end - from).max(0.0) * level.rate;
            if mass < room {
                self.next_ns = ((from + mass / level.rate) * 1e9) as u64;
                return;
            }
            (mass, from) = (mass - room, from.max(end));
        }
        self.next_ns = u64::MAX;
    }

    /// Takes the next due start.
    fn take(&mut self, now_ns: u64, in_progress: usize) -> Option<u64> {
        match &self.load {
            OfferedLoad::Closed { calls, .. } => {
                (now_ns < self.end_ns && in_progress < *calls).then_some(now_ns)
            }
            OfferedLoad::Open(_) | OfferedLoad::Given(_) => {
                let due_ns = (self.next_ns <= now_ns).then_some(self.next_ns)?;
                self.draw();
                Some(due_ns)
            }
        }
    }
}

/// Callers and answerers on loopback.
pub struct LoadGenerator {
    callers: Vec<Endpoint>,
    answerers: Vec<BenchAnswerer>,
    receiving: ReceiveBatch,
    sending: SendBatch,
    runs: u32,
    /// Seed of an open load's arrivals; `None`: each run has its own.
    pub(crate) seed: Option<u64>,
    /// Caller's user, for proxies that challenge.
    pub(crate) user: Option<BenchUser>,
    pub(crate) holding: HoldingTime,
    /// Time to wait for responses after the last call should have ended.
    pub(crate) patience_ns: u64,
    repeats: bool,
    spins: bool,
}

impl LoadGenerator {
    /// Creates this many sockets of callers, and answerers.
    pub fn new(callers: usize, answerers: usize) -> io::Result<Self> {
        let callers = (0..callers).map(|_| Endpoint::bind()).collect::<io::Result<_>>()?;
        let answerer = |number| Ok(BenchAnswerer::new(number, Endpoint::bind()?));
        let answerers = (0..answerers).map(answerer).collect::<io::Result<_>>()?;
        Ok(Self::of(callers, answerers))
    }

    /// The same with answerers that retransmit a 200 until its ACK comes.
    pub(crate) fn repeating(callers: usize, answerers: usize) -> io::Result<Self> {
        let Self { callers, answerers, .. } = Self::new(callers, answerers)?;
        Ok(Self::of(callers, answerers.into_iter().map(BenchAnswerer::repeating).collect()))
    }

    fn of(callers: Vec<Endpoint>, answerers: Vec<BenchAnswerer>) -> Self {
        let (receiving, sending) = (ReceiveBatch::new(), SendBatch::new());
        let (holding, patience_ns) = (HoldingTime::default(), PATIENCE_NS);
        Self {
            callers,
            answerers,
            receiving,
            sending,
            runs: 0,
            seed: None,
            user: None,
            holding,
            patience_ns,
            repeats: true,
            spins: false,
        }
    }

    /// Returns the callers' addresses.
    pub fn callers(&self) -> Vec<SocketAddr> {
        self.callers.iter().map(|endpoint| endpoint.address).collect()
    }

    /// Plays `plan`; the callers' sockets use the `targets` in turn. Returns when every call has ended, or a second
    /// after the last should have.
    pub fn run(&mut self, targets: &[SocketAddr], plan: &RunPlan) -> Result<CallLog> {
        self.holding = HoldingTime { mean: plan.hold.as_secs_f64(), deviation: 0.0 };
        (self.repeats, self.spins, self.patience_ns) = (false, plan.spin, 1_000_000_000);
        self.play(targets, OfferedLoad::Given(plan.due_ns()))
    }

    /// Returns the answerers' addresses.
    pub fn answerers(&self) -> Vec<SocketAddr> {
        self.answerers.iter().map(|answerer| answerer.endpoint.address).collect()
    }

    /// Plays the load; the callers' sockets use the `targets` in turn. Returns when no call can be in time any more.
    pub(crate) fn play(&mut self, targets: &[SocketAddr], load: OfferedLoad) -> Result<CallLog> {
        self.play_with(targets, load, &[])
    }

    /// The same, with telephones that register at these times, in order, in seconds since the start.
    pub(crate) fn play_with(
        &mut self,
        targets: &[SocketAddr],
        load: OfferedLoad,
        registrations: &[f64],
    ) -> Result<CallLog> {
        self.runs += 1;
        let targets: Vec<SocketAddr> = targets.iter().copied().cycle().take(self.callers.len()).collect();
        let mut callers = Callers::new(std::process::id() ^ self.runs << 22);
        (callers.user, callers.holding, callers.repeats) = (self.user, self.holding, self.repeats);
        let patience_ns = self.patience_ns + self.holding.most_ns();
        self.answerers.iter_mut().for_each(BenchAnswerer::forget);
        let mut starts = Starts::new(load, Rng::from_seed(self.seed.unwrap_or(u64::from(self.runs))));
        let mut registrations = registrations.iter().map(|at| (at * 1e9) as u64).peekable();
        if let Some(last_ns) = registrations.clone().last() {
            starts.end_ns = starts.end_ns.max(last_ns);
        }
        let before: Vec<_> = self.answerers.iter().map(|it| (it.invites, it.misrouted)).collect();
        let epoch = Instant::now();
        let now_ns = || epoch.elapsed().as_nanos() as u64;
        loop {
            let now = now_ns();
            let mut lines = Lines { endpoints: &mut self.callers, targets: &targets };
            while let Some(due_ns) = starts.take(now, callers.in_progress()) {
                callers.start(Stage::Calling, [due_ns, now], &mut lines);
            }
            while let Some(due_ns) = registrations.next_if(|due_ns| *due_ns <= now) {
                callers.start(Stage::Registering, [due_ns, now], &mut lines);
            }
            callers.repeat_due(now, &mut lines);
            self.answerers.iter_mut().for_each(|answerer| answerer.repeat_due(now));
            self.flush();
            let is_idle = callers.in_progress() == 0;
            if now > starts.end_ns + patience_ns || now > starts.end_ns && is_idle {
                let mut log = callers.log;
                for (answerer, (invites, misrouted)) in self.answerers.iter().zip(before) {
                    log.invites.push(answerer.invites - invites);
                    log.misrouted += answerer.misrouted - misrouted;
                }
                return Ok(log);
            }
            let next_ns = callers.next_ns().map_or(starts.next_ns, |next_ns| next_ns.min(starts.next_ns));
            self.receive(&mut callers, &targets, next_ns.max(now), &now_ns)?;
        }
    }

    /// Waits until calls to these targets get through in time.
    pub(crate) fn await_calls(&mut self, targets: &[SocketAddr]) -> Result<()> {
        for _ in 0..TRIES {
            let few = self.play(targets, OfferedLoad::Open(vec![Level { rate: 60.0, seconds: 0.2 }]))?;
            let is_set_up = |set_up_ns: Option<u64>| set_up_ns.is_some_and(|time_ns| time_ns <= IN_TIME_NS);
            if !few.calls.is_empty() && few.calls.iter().all(|call| is_set_up(call.set_up_ns)) {
                return Ok(());
            }
        }
        ensure!(false, "no calls get through to {targets:?}");
        Ok(())
    }

    fn flush(&mut self) {
        let answerers = self.answerers.iter_mut().map(|answerer| &mut answerer.endpoint);
        for endpoint in self.callers.iter_mut().chain(answerers) {
            endpoint.flush(&mut self.sending);
        }
    }

    /// Waits until this time at most, and receives one batch from each ready socket.
    fn receive(
        &mut self,
        callers: &mut Callers,
        targets: &[SocketAddr],
        until_ns: u64,
        now_ns: &impl Fn() -> u64,
    ) -> io::Result<()> {
        let wait_ns = if self.spins { 0 } else { until_ns.saturating_sub(now_ns()).min(SLEEP_NS) };
        let answerers = self.answerers.iter().map(|answerer| &answerer.endpoint);
        let ready = wait_for(self.callers.iter().chain(answerers), wait_ns)?;
        let (callers_ready, answerers_ready) = ready.split_at(self.callers.len());
        for (line, _) in callers_ready.iter().enumerate().filter(|(_, ready)| **ready) {
            self.receiving.receive(&self.callers[line].socket)?;
            let now = now_ns();
            let mut lines = Lines { endpoints: &mut self.callers, targets };
            for (datagram, _) in self.receiving.iter() {
                callers.handle(now, datagram, &mut lines);
            }
        }
        for (answerer, _) in self.answerers.iter_mut().zip(answerers_ready).filter(|(_, ready)| **ready) {
            self.receiving.receive(&answerer.endpoint.socket)?;
            let now = now_ns();
            for (datagram, from) in self.receiving.iter() {
                answerer.handle_at(now, datagram, from);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_load_keeps_to_its_rates_and_is_random() {
        let levels = vec![Level { rate: 0.0, seconds: 1.0 }, Level { rate: 2_000.0, seconds: 2.0 }];
        let more = [Level { rate: 200.0, seconds: 5.0 }];
        let load = OfferedLoad::Open([levels, more.to_vec()].concat());
        let mut starts = Starts::new(load, Rng::from_seed(1));
        let due: Vec<u64> = std::iter::from_fn(|| starts.take(u64::MAX - 1, 0)).collect();
        let within = |from: f64, to: f64| {
            let is_within = |due_ns: &&u64| (from..to).contains(&(**due_ns as f64 / 1e9));
            due.iter().filter(is_within).count()
        };

        assert_eq!(within(0.0, 1.0), 0);
        // Four standard deviations.
        assert!(within(1.0, 3.0).abs_diff(4_000) < 250, "{}", within(1.0, 3.0));
        assert!(within(3.0, 8.0).abs_diff(1_000) < 130, "{}", within(3.0, 8.0));
        assert_eq!(within(0.0, 8.0), due.len());
        assert!(due.is_sorted());
        let gaps: Vec<u64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().filter(|gap| **gap < 100_000).count() > 200, "exponential gaps have short ones");
    }

    #[test]
    fn a_given_load_starts_calls_when_it_says() {
        let mut starts = Starts::new(OfferedLoad::Given([5, 7, 7].into()), Rng::from_seed(1));
        let taken = [4, 5, 6, 9, 9, 9].map(|now_ns| starts.take(now_ns, 0));
        assert_eq!(taken, [None, Some(5), None, Some(7), Some(7), None]);
        assert_eq!(starts.end_ns, 7);
    }

    #[test]
    fn calls_are_due_in_bursts_and_in_full_number() {
        let plan = RunPlan::at(2_500.0, Duration::from_millis(100));
        let due = plan.due_ns();
        assert_eq!(due.len(), 250);
        assert_eq!(due.range(..4).copied().collect::<Vec<_>>(), [0, 1_000_000, 1_000_000, 2_000_000]);
        let even = RunPlan { burst: Duration::ZERO, ..plan }.due_ns();
        assert_eq!(even.range(..3).copied().collect::<Vec<_>>(), [0, 400_000, 800_000]);
    }

    #[test]
    fn every_call_completes_at_an_answerer_and_none_without_one() {
        let mut generator = LoadGenerator::new(2, 2).expect("loopback");
        let servers = generator.answerers();
        let hold = Duration::from_millis(10);
        let plan = RunPlan { hold, ..RunPlan::at(1_000.0, Duration::from_millis(100)) };
        let log = generator.run(&servers, &plan).expect("run");
        assert_eq!((log.calls.len(), log.failed(), log.misrouted), (100, 0, 0));
        assert_eq!(log.invites, [50, 50]);
        let round_trips = log.round_trips();
        assert_eq!(round_trips.len(), 200, "an INVITE and a BYE a call");
        assert!(round_trips.max() > 1_000, "in nanoseconds: four system calls take longer than this");

        let deaf = Endpoint::bind().expect("bind");
        let few = RunPlan::at(100.0, Duration::from_millis(100));
        let log = generator.run(&[deaf.address], &few).expect("run");
        assert_eq!((log.calls.len(), log.failed(), log.repetitions_ns.len()), (10, 10, 0));
    }

    #[test]
    fn calls_straight_to_answerers_are_set_up_and_a_closed_load_keeps_them_busy() {
        let mut generator = LoadGenerator::new(2, 2).expect("loopback");
        let servers = generator.answerers();
        generator.await_calls(&servers).expect("calls pass");
        let open = OfferedLoad::Open(vec![Level { rate: 500.0, seconds: 0.2 }]);
        let log = generator.play(&servers, open).expect("runs");
        assert!(log.calls.len() > 50 && log.calls.iter().all(|call| call.set_up_ns.is_some()));

        let closed = OfferedLoad::Closed { calls: 10, seconds: 0.2 };
        let log = generator.play(&servers, closed).expect("runs");
        assert!(log.calls.len() > 10 && log.calls.iter().all(|call| call.set_up_ns.is_some()));
        // The callers' sockets are used in turn, each in front of its own answerer.
        let servers: Vec<_> = log.calls.iter().take(4).map(|call| call.server).collect();
        assert_eq!(servers, [Some(0), Some(1), Some(0), Some(1)]);
    }
}
