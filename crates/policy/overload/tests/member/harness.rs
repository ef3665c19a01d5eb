//! Callers, a balancer with a limit for each member, and members without overload control.
//!
//! A member has workers and one queue. A call is an INVITE, an ACK and, after a holding time, a BYE; these take a half,
//! a tenth and four tenths of its cost. Only messages that find the queue full are retransmitted,
//! after T1 and then at growing intervals: the tests require waits below T1, at which no others would be.

use base::{Instant, Rng};
use core::time::Duration;
use overload::member::{MemberLaw, MemberLimit, RequestKind};
use rand::Rng as _;
use rand_distr::{Distribution, Exp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Unix time at the start of a run.
const DAY: Duration = Duration::from_hours(24);
const HOLD_MEAN: f64 = 3.0;
/// Initial value of Timers A and E.
const T1: Duration = Duration::from_millis(500);
/// Timer B.
const TIMEOUT: Duration = Duration::from_secs(32);
/// A call answered within this time is good.
pub(crate) const GOOD: Duration = Duration::from_millis(500);

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Mean cost of a call, in seconds of a worker.
    pub(crate) price: f64,
    pub(crate) workers: usize,
    /// Speed from a time (s) on.
    pub(crate) speeds: Vec<(f64, f64)>,
    /// It stops from the first time (s) to the second.
    pub(crate) stall: Option<(f64, f64)>,
    /// It also stops at the start of each period (s), for the second time (s): a quota of a container, or a collection
    /// of garbage.
    pub(crate) pauses: Option<(f64, f64)>,
    /// Time of a message from the balancer to it, in seconds.
    pub(crate) away: f64,
    /// Range of the delay of its response to an INVITE after the work, in seconds, uniformly distributed. It sends no
    /// 100.
    pub(crate) rings: (f64, f64),
    /// Queue length above which it answers 503 at once, for a tenth of the cost.
    pub(crate) refuses: usize,
    /// Share of its INVITEs without any response.
    pub(crate) swallows: f64,
    /// Share of its INVITEs whose first response is 503, at full cost: a failed trunk behind it.
    pub(crate) fails: f64,
    /// Most waiting messages; more are lost.
    pub(crate) buffer: usize,
}

impl Default for Member {
    /// 200 calls a second.
    fn default() -> Self {
        Self {
            price: 0.005,
            workers: 1,
            speeds: vec![(0.0, 1.0)],
            stall: None,
            pauses: None,
            away: 0.001,
            rings: (0.0, 0.0),
            refuses: usize::MAX,
            swallows: 0.0,
            fails: 0.0,
            buffer: 20_000,
        }
    }
}

impl Member {
    pub(crate) fn of(calls: f64) -> Self {
        Self { price: 1.0 / calls, ..Self::default() }
    }

    pub(crate) fn capacity(&self) -> f64 {
        self.workers as f64 / self.price
    }

    fn end(&self, start: f64, work: f64) -> f64 {
        let speed =
            self.speeds.iter().rev().find(|(from, _)| *from <= start).map_or(1.0, |(_, speed)| *speed);
        let (mut at, mut left) = (start, work / speed);
        loop {
            let (from, to) = self.next_stop(at);
            if at + left <= from {
                return at + left;
            }
            left -= (from - at).max(0.0);
            at = to;
        }
    }

    /// Start and end of the present or next stop.
    fn next_stop(&self, at: f64) -> (f64, f64) {
        let stall = self.stall.filter(|(_, to)| at < *to).unwrap_or((f64::MAX, f64::MAX));
        let Some((period, length)) = self.pauses else { return stall };
        let start = (at / period).floor() * period;
        let start = if at < start + length { start } else { start + period };
        if stall.0 < start { stall } else { (start, start + length) }
    }
}

/// Clock of a shard.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Clock {
    /// Age of the process at the start of the run, in seconds.
    pub(crate) age: f64,
    /// Error of the time of day, in seconds.
    pub(crate) error: f64,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) law: Option<MemberLaw>,
    pub(crate) members: Vec<Member>,
    /// One clock for each shard. Each call goes to a random shard; the limits of shards are independent.
    pub(crate) shards: Vec<Clock>,
    /// Calls a second from a time (s) on.
    pub(crate) load: Vec<(f64, f64)>,
    pub(crate) seconds: f64,
}

/// One second of a run, by arrival time of its calls.
#[derive(Clone, Default, Debug)]
pub(crate) struct Second {
    pub(crate) offered: u32,
    pub(crate) refused: u32,
    /// Calls answered in time, by time of the response.
    pub(crate) good: u32,
    /// Set-up delays of admitted calls, in seconds; infinite for a lost INVITE.
    pub(crate) delays: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Invite,
    Ack,
    Bye,
    /// 503 at once, since the queue is too long.
    Refusal,
    /// 503, whatever the load.
    Failure,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Job {
    kind: Kind,
    member: usize,
    shard: usize,
    sent: Instant,
    /// Number of times it was lost.
    lost: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    Call,
    Arrive(Job),
    Done(Job),
    /// The response of a member arrives.
    Back(Job),
    Timeout(Job),
}

struct At(Instant, u64, Event);

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct World {
    plan: Plan,
    now: Instant,
    order: u64,
    events: BinaryHeap<Reverse<At>>,
    queues: Vec<VecDeque<Job>>,
    busy: Vec<usize>,
    /// By member, then by shard.
    limits: Vec<Vec<Option<MemberLimit>>>,
    open: Vec<u32>,
    seconds: Vec<Second>,
    rng: Rng,
}

pub(crate) fn run(plan: Plan, seed: u64) -> Vec<Second> {
    let count = plan.members.len();
    let limit = |clock: &Clock| {
        let began = DAY.saturating_sub(Duration::from_secs_f64(clock.age));
        let epoch = began + Duration::from_secs_f64(clock.error);
        plan.law.map(|law| MemberLimit::new(law).with_epoch(epoch))
    };
    let limits = vec![plan.shards.iter().map(limit).collect::<Vec<_>>(); count];
    let mut world = World {
        now: Instant::ZERO,
        order: 0,
        events: BinaryHeap::new(),
        queues: vec![VecDeque::new(); count],
        busy: vec![0; count],
        limits,
        open: vec![0; count],
        seconds: vec![Second::default(); plan.seconds as usize + 1],
        rng: Rng::from_seed(seed),
        plan,
    };
    world.after(Duration::ZERO, Event::Call);
    let end = Instant::ZERO + Duration::from_secs_f64(world.plan.seconds);
    while let Some(Reverse(At(at, _, event))) = world.events.pop() {
        if at >= end {
            break;
        }
        world.now = at;
        world.handle(event);
    }
    world.seconds
}

impl World {
    fn after(&mut self, wait: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse(At(self.now + wait, self.order, event)));
    }

    fn time(&self) -> f64 {
        self.now.saturating_since(Instant::ZERO).as_secs_f64()
    }

    fn hop(&self, member: usize) -> Duration {
        Duration::from_secs_f64(self.plan.members[member].away)
    }

    fn exp(&mut self, mean: f64) -> f64 {
        Exp::new(1.0 / mean).expect("a mean above zero").sample(&mut self.rng)
    }

    fn second(&mut self, at: Instant) -> &mut Second {
        let at = at.saturating_since(Instant::ZERO).as_secs() as usize;
        &mut self.seconds[at]
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Call => self.call(),
            Event::Arrive(job) => self.arrive(job),
            Event::Done(job) => self.done(job),
            Event::Back(job) => self.back(job),
            Event::Timeout(job) => {
                self.tell(job, MemberLimit::lost);
                self.open[job.member] -= 1;
            }
        }
    }

    /// Time on the clock of a shard's process.
    fn clock(&self, shard: usize, at: Instant) -> Instant {
        at + Duration::from_secs_f64(self.plan.shards[shard].age)
    }

    /// Reports the outcome of a job to its limit, with the time it was sent.
    fn tell(&mut self, job: Job, what: impl FnOnce(&mut MemberLimit, Instant, Instant)) {
        let (now, sent) = (self.clock(job.shard, self.now), self.clock(job.shard, job.sent));
        if let Some(limit) = &mut self.limits[job.member][job.shard] {
            what(limit, now, sent);
        }
    }

    fn call(&mut self) {
        let time = self.time();
        let rate = self.plan.load.iter().rev().find(|(from, _)| *from <= time).map_or(0.0, |(_, rate)| *rate);
        let gap = self.exp(1.0 / rate.max(0.01));
        self.after(Duration::from_secs_f64(if rate > 0.0 { gap } else { 0.01 }), Event::Call);
        if rate <= 0.0 {
            return;
        }
        let now = self.now;
        self.second(now).offered += 1;
        let shards = self.plan.shards.len();
        let shard = if shards > 1 { self.rng.random_range(0..shards) } else { 0 };
        let at = self.clock(shard, now);
        let has_room = |&member: &usize| {
            self.limits[member][shard].as_ref().is_none_or(|limit| limit.has_room(at, false))
        };
        let Some(member) = (0..self.limits.len()).filter(has_room).min_by_key(|&member| self.open[member])
        else {
            self.second(now).refused += 1;
            return;
        };
        let job = Job { kind: Kind::Invite, member, shard, sent: now, lost: 0 };
        self.tell(job, |limit, now, _| limit.sent(now));
        self.open[member] += 1;
        self.after(self.hop(member), Event::Arrive(job));
    }

    fn arrive(&mut self, mut job: Job) {
        let Member { refuses, swallows, fails, buffer, .. } = self.plan.members[job.member];
        let is_invite = job.kind == Kind::Invite;
        if is_invite && self.queues[job.member].len() >= refuses {
            job.kind = Kind::Refusal;
        } else if is_invite && fails > 0.0 && self.rng.random::<f64>() < fails {
            job.kind = Kind::Failure;
        }
        if is_invite && self.rng.random::<f64>() < swallows {
            self.after(TIMEOUT, Event::Timeout(job));
        } else if self.queues[job.member].len() < buffer {
            self.queues[job.member].push_back(job);
            self.serve(job.member);
        } else {
            self.lose(job);
        }
    }

    fn lose(&mut self, job: Job) {
        let is_invite = job.kind == Kind::Invite;
        if is_invite && job.lost == 0 {
            self.second(job.sent).delays.push(f64::INFINITY);
        }
        if job.lost < 6 && job.kind != Kind::Ack {
            self.after(T1 * 2_u32.pow(job.lost), Event::Arrive(Job { lost: job.lost + 1, ..job }));
        } else if is_invite {
            self.after(T1, Event::Timeout(job));
        }
    }

    fn serve(&mut self, at: usize) {
        while self.busy[at] < self.plan.members[at].workers {
            let Some(job) = self.queues[at].pop_front() else { return };
            let share = match job.kind {
                Kind::Invite | Kind::Failure => 0.5,
                Kind::Bye => 0.4,
                Kind::Ack | Kind::Refusal => 0.1,
            };
            let work = self.exp(self.plan.members[at].price * share);
            let (start, member) = (self.time(), &self.plan.members[at]);
            let took = member.end(start, work) - start;
            self.busy[at] += 1;
            self.after(Duration::from_secs_f64(took), Event::Done(job));
        }
    }

    fn done(&mut self, job: Job) {
        self.busy[job.member] -= 1;
        let (least, most) = self.plan.members[job.member].rings;
        let rings =
            if job.kind == Kind::Invite && most > 0.0 { self.rng.random_range(least..most) } else { 0.0 };
        if job.kind != Kind::Ack {
            self.after(self.hop(job.member) + Duration::from_secs_f64(rings), Event::Back(job));
        }
        if job.kind == Kind::Invite {
            let delay = (self.now + self.hop(job.member)).saturating_since(job.sent);
            if job.lost == 0 {
                self.second(job.sent).delays.push(delay.as_secs_f64());
            }
            let now = self.now;
            if delay <= GOOD {
                self.second(now).good += 1;
            }
        }
        self.serve(job.member);
    }

    fn back(&mut self, job: Job) {
        let (now, hold) = (self.now, Duration::from_secs_f64(self.exp(HOLD_MEAN)));
        match job.kind {
            Kind::Invite => {
                self.tell(job, |limit, now, sent| limit.answered(now, RequestKind::Invite, sent, true));
                self.open[job.member] -= 1;
                self.after(
                    self.hop(job.member),
                    Event::Arrive(Job { kind: Kind::Ack, sent: now, lost: 0, ..job }),
                );
                let bye = Job { kind: Kind::Bye, sent: now + hold, lost: 0, ..job };
                self.after(hold + self.hop(job.member), Event::Arrive(bye));
            }
            Kind::Bye => self.tell(job, |limit, now, sent| limit.noted(now, RequestKind::Bye, sent)),
            Kind::Refusal | Kind::Failure => {
                self.tell(job, MemberLimit::lost);
                self.open[job.member] -= 1;
            }
            Kind::Ack => {}
        }
    }
}

/// Good calls a second.
pub(crate) fn goodput(seconds: &[Second]) -> f64 {
    f64::from(seconds.iter().map(|second| second.good).sum::<u32>()) / seconds.len() as f64
}

pub(crate) fn refused(seconds: &[Second]) -> u32 {
    seconds.iter().map(|second| second.refused).sum()
}

/// Set-up delay that 99 % of the admitted calls do not exceed, in seconds.
pub(crate) fn p99(seconds: &[Second]) -> f64 {
    let mut delays: Vec<f64> = seconds.iter().flat_map(|second| second.delays.iter().copied()).collect();
    delays.sort_by(f64::total_cmp);
    delays.get(delays.len() * 99 / 100).copied().unwrap_or_default()
}
