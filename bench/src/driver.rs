//! The event loop of both ends: an open loop, one thread, batched system calls.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use server::socket::{ReceiveBatch, SendBatch};

use crate::answerer::BenchAnswerer;
use crate::caller::{BenchCaller, Habit, RunOutcome};
use crate::credentials::BenchUser;
use crate::endpoint::{Endpoint, wait_for};

/// How long after the last call was due its answers are waited for.
const PATIENCE_NS: u64 = 1_000_000_000;

/// One run: calls at a constant rate, whatever becomes of them.
#[derive(Clone, Copy, Debug)]
pub struct RunPlan {
    /// Calls a second.
    pub rate: f64,
    /// For how long calls are started.
    pub duration: Duration,
    /// From the answer of a call to its BYE.
    pub hold: Duration,
    /// Calls leave in bursts, one each such time; zero: one at a time.
    pub burst: Duration,
    /// Never sleep: the loop is not late, and takes a processor for itself.
    pub spin: bool,
}

impl RunPlan {
    /// Calls at this rate that leave once a millisecond and end when they are answered.
    pub fn at(rate: f64, duration: Duration) -> Self {
        Self { rate, duration, hold: Duration::ZERO, burst: Duration::from_millis(1), spin: false }
    }
}

/// Callers and servers, as many of the one as of the other.
pub struct Driver {
    callers: Vec<Endpoint>,
    answerers: Vec<BenchAnswerer>,
    receiving: ReceiveBatch,
    sending: SendBatch,
    epoch: Instant,
    runs: u32,
    /// Who calls, if anybody asks.
    pub user: Option<BenchUser>,
    /// Whether calls are kept one by one ([`RunOutcome::setups`]).
    pub keeps_setups: bool,
}

impl Driver {
    /// `pairs` callers and `pairs` servers on loopback.
    pub fn new(pairs: usize) -> io::Result<Self> {
        let callers = (0..pairs).map(|_| Endpoint::bind()).collect::<io::Result<_>>()?;
        let answerers = (0..pairs)
            .map(|number| Ok(BenchAnswerer::new(number, Endpoint::bind()?)))
            .collect::<io::Result<_>>()?;
        let (receiving, sending) = (ReceiveBatch::new(), SendBatch::new());
        Ok(Self {
            callers,
            answerers,
            receiving,
            sending,
            epoch: Instant::now(),
            runs: 0,
            user: None,
            keeps_setups: false,
        })
    }

    /// The callers' addresses.
    pub fn callers(&self) -> Vec<SocketAddr> {
        self.callers.iter().map(|endpoint| endpoint.address).collect()
    }

    /// The servers' addresses.
    pub fn servers(&self) -> Vec<SocketAddr> {
        self.answerers.iter().map(|answerer| answerer.endpoint.address).collect()
    }

    /// Plays `plan`; caller `i` sends to `targets[i]`. Returns when every call is over, or a second after the last
    /// should have been.
    pub fn run(&mut self, targets: &[SocketAddr], plan: &RunPlan) -> io::Result<RunOutcome> {
        self.follow(targets, plan, &[plan.rate])
    }

    /// Plays `plan` at each of these rates instead of its own, one after the other without a pause.
    pub fn follow(
        &mut self,
        targets: &[SocketAddr],
        plan: &RunPlan,
        rates: &[f64],
    ) -> io::Result<RunOutcome> {
        let before: Vec<(u64, u64)> = self.answerers.iter().map(|a| (a.invites, a.misrouted)).collect();
        let mut outcome = self.play(targets, plan, rates.to_vec())?.outcome;
        for (answerer, (invites, misrouted)) in self.answerers.iter().zip(before) {
            outcome.invites.push(answerer.invites - invites);
            outcome.misrouted += answerer.misrouted - misrouted;
        }
        Ok(outcome)
    }

    /// Plays `plan` at these rates, until it is over.
    fn play(&mut self, targets: &[SocketAddr], plan: &RunPlan, rates: Vec<f64>) -> io::Result<BenchCaller> {
        self.runs += 1;
        // Starts from nothing left over: late datagrams of an earlier run are ignored, by their Call-ID.
        let habit = Habit {
            run: std::process::id() ^ self.runs << 22,
            hold_ns: nanos(plan.hold),
            user: self.user,
            keeps_setups: self.keeps_setups,
        };
        let start_ns = self.now();
        let mut caller = BenchCaller::new(start_ns, habit);
        let mut pace = Pace::new(start_ns, plan, rates);
        loop {
            self.start_due(&mut pace, &mut caller, targets);
            caller.end_due(self.now(), &mut self.callers, targets);
            self.flush();
            let over = pace.next_ns().is_none();
            let is_late = over && self.now() > pace.end_ns + habit.hold_ns + PATIENCE_NS;
            if is_late || over && caller.settled() {
                return Ok(caller);
            }
            let wake_ns = [pace.next_ns(), caller.next_end()].into_iter().flatten().min();
            self.receive(&mut caller, targets, if plan.spin { Some(0) } else { wake_ns })?;
        }
    }

    fn now(&self) -> u64 {
        nanos(self.epoch.elapsed())
    }

    fn start_due(&mut self, pace: &mut Pace, caller: &mut BenchCaller, targets: &[SocketAddr]) {
        let now_ns = self.now();
        let late_ns_max = &mut caller.outcome.late_ns_max;
        *late_ns_max = (*late_ns_max).max(pace.next_ns().map_or(0, |due_ns| now_ns.saturating_sub(due_ns)));
        while let Some(due_ns) = pace.take(now_ns) {
            caller.start(due_ns, &mut self.callers, targets);
        }
    }

    fn flush(&mut self) {
        let answerers = self.answerers.iter_mut().map(|answerer| &mut answerer.endpoint);
        for endpoint in self.callers.iter_mut().chain(answerers) {
            endpoint.flush(&mut self.sending);
        }
    }

    /// Waits until `wake_ns` at most, a millisecond where there is none, and takes in one batch of each socket that
    /// has any.
    fn receive(
        &mut self,
        caller: &mut BenchCaller,
        targets: &[SocketAddr],
        wake_ns: Option<u64>,
    ) -> io::Result<()> {
        let wait_ns = wake_ns.map_or(1_000_000, |wake_ns| wake_ns.saturating_sub(self.now()).min(1_000_000));
        let answerers = self.answerers.iter().map(|answerer| &answerer.endpoint);
        let ready = wait_for(self.callers.iter().chain(answerers), wait_ns)?;
        let (callers_ready, answerers_ready) = ready.split_at(self.callers.len());
        for (i, _) in callers_ready.iter().enumerate().filter(|(_, ready)| **ready) {
            self.receiving.receive(&self.callers[i].socket)?;
            let now_ns = self.now();
            for (datagram, _) in self.receiving.iter() {
                caller.handle(now_ns, datagram, &mut self.callers, targets);
            }
        }
        for (answerer, _) in self.answerers.iter_mut().zip(answerers_ready).filter(|(_, ready)| **ready) {
            self.receiving.receive(&answerer.endpoint.socket)?;
            for (datagram, from) in self.receiving.iter() {
                answerer.handle(datagram, from);
            }
        }
        Ok(())
    }
}

/// The schedule of a run: it never asks how the calls fare (an open loop).
struct Pace {
    /// Calls a second, one rate after the other.
    rates: Vec<f64>,
    /// Each of them is kept up so long.
    duration: Duration,
    burst_ns: u64,
    /// Which of the rates it is now.
    step: usize,
    start_ns: u64,
    end_ns: u64,
    /// Calls of this rate.
    taken: u64,
    total: u64,
}

impl Pace {
    fn new(start_ns: u64, plan: &RunPlan, rates: Vec<f64>) -> Self {
        let (burst_ns, duration) = (nanos(plan.burst).max(1), plan.duration);
        let (step, taken, total, end_ns) = (0, 0, 0, start_ns);
        let mut pace = Self { rates, duration, burst_ns, step, start_ns, end_ns, taken, total };
        pace.begin();
        pace
    }

    /// Begins the next rate where the one before has ended.
    fn begin(&mut self) {
        let calls = self.rates[self.step] * self.duration.as_secs_f64();
        (self.taken, self.total) = (0, calls.round().max(1.0) as u64);
        (self.start_ns, self.end_ns) = (self.end_ns, self.end_ns + nanos(self.duration));
    }

    /// When the next call is due: the end of the burst interval that its evenly spaced instant falls into.
    fn next_ns(&self) -> Option<u64> {
        let even_ns = (self.taken as f64 / self.rates[self.step] * 1e9) as u64;
        (self.taken < self.total).then(|| self.start_ns + even_ns.next_multiple_of(self.burst_ns))
    }

    /// Takes the next call if it is due at `now_ns`; returns when it was.
    fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.taken += 1;
        if self.taken == self.total && self.step + 1 < self.rates.len() {
            self.step += 1;
            self.begin();
        }
        Some(due_ns)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rate: f64, burst: Duration) -> RunPlan {
        let (duration, hold) = (Duration::from_millis(100), Duration::from_millis(10));
        RunPlan { rate, duration, hold, burst, spin: false }
    }

    #[test]
    fn calls_are_due_in_bursts_and_in_full_number() {
        let mut pace = Pace::new(1_000, &plan(2_500.0, Duration::from_millis(1)), vec![2_500.0]);
        let due: Vec<u64> = std::iter::from_fn(|| pace.take(u64::MAX)).collect();

        assert_eq!(due.len(), 250);
        assert_eq!(due[..4], [1_000, 1_001_000, 1_001_000, 2_001_000]);
        assert!(due.iter().all(|due_ns| (due_ns - 1_000) % 1_000_000 == 0));
    }

    #[test]
    fn nothing_is_taken_before_it_is_due() {
        let mut pace = Pace::new(0, &plan(1_000.0, Duration::ZERO), vec![1_000.0]);
        assert_eq!(
            [pace.take(0), pace.take(999_999), pace.take(1_000_000)],
            [Some(0), None, Some(1_000_000)]
        );
    }

    #[test]
    fn rates_follow_each_other_without_a_pause() {
        let mut pace = Pace::new(0, &plan(1.0, Duration::ZERO), vec![20.0, 40.0]);
        let due: Vec<u64> =
            std::iter::from_fn(|| pace.take(u64::MAX)).map(|due_ns| due_ns / 1_000_000).collect();

        assert_eq!(due, [0, 50, 100, 125, 150, 175]);
    }

    #[test]
    fn every_call_completes_when_nothing_stands_between() {
        let mut driver = Driver::new(2).expect("loopback");
        driver.keeps_setups = true;
        let servers = driver.servers();

        let outcome = driver.run(&servers, &plan(1_000.0, Duration::from_millis(1))).expect("run");

        assert_eq!((outcome.started, outcome.completed, outcome.misrouted), (100, 100, 0));
        assert!(outcome.completed_ns.is_sorted() && outcome.completed_ns.len() == 100);
        assert_eq!(outcome.invites, [50, 50]);
        assert_eq!(outcome.round_trips.len(), 200, "an INVITE and a BYE a call");
        assert!(outcome.round_trips.max() > 1_000, "in nanoseconds: four system calls take longer than this");
    }

    #[test]
    fn calls_to_nobody_fail_and_end_the_run() {
        let mut driver = Driver::new(1).expect("loopback");
        let deaf = Endpoint::bind().expect("bind");

        let outcome = driver.run(&[deaf.address], &plan(100.0, Duration::ZERO)).expect("run");

        assert_eq!((outcome.started, outcome.failed()), (10, 10));
    }
}
