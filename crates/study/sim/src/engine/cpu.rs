//! The processor of a simulated host.

use super::buffer::Buffer;
use super::quota::{Quota, QuotaConfig};
use super::spread::{nanos, scaled};
use super::{Admission, Plain, Priority, QueueTriage, Spread};
use base::{Instant, Rng};
use core::time::Duration;
use rand::Rng as _;

/// The processor of a host and the buffer before it (Overload paper, section IV-A).
#[derive(Clone, PartialEq, Debug)]
pub struct CpuConfig {
    /// Jobs served at a time.
    pub workers: usize,
    /// Speed of each worker against the base server; 2 takes half the time.
    pub capacity: f64,
    /// Bounded jobs ([`QueueTriage::is_bounded`]) that may wait, those in service not counted; B of the paper.
    pub buffer: usize,
    /// How service times scatter around their cost.
    pub spread: Spread,
    /// Share of each worker that a background job takes, 0 to less than 1. The processor is shared in slices too
    /// short to tell: services take 1 / (1 - share) times as long.
    pub background: f64,
    /// Whether a faster processor does the work in a part of each period, with one worker; `None` = evenly.
    pub quota: Option<QuotaConfig>,
}

impl Default for CpuConfig {
    /// The paper's base server: one worker, B = 1000 external messages, timers unlimited, fixed service times.
    fn default() -> Self {
        let spread = Spread::Fixed;
        Self { workers: 1, capacity: 1.0, buffer: 1_000, spread, background: 0.0, quota: None }
    }
}

/// Names a service in progress: goes into the model's event of its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    worker: u32,
    generation: u32,
}

impl Ticket {
    /// Which of the workers serves it: another service of the same worker begins only when this one is over.
    pub fn worker(self) -> usize {
        self.worker as usize
    }
}

/// A service that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BegunService {
    /// When to call [`Cpu::finish`].
    pub at: Instant,
    /// What with.
    pub ticket: Ticket,
    /// The queue that the job waited in.
    pub class: Priority,
    /// How long it waited there.
    pub wait: Duration,
}

/// A job that has been served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served<J> {
    /// The job, as the start of service left it.
    pub job: J,
    /// The queue that it waited in.
    pub class: Priority,
    /// When it came.
    pub queued: Instant,
    /// When its service began.
    pub started: Instant,
}

/// What a service's end turns out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish<J> {
    /// Its end; the worker is free.
    Done(Served<J>),
    /// The host stalled meanwhile: ask again then.
    Later(Instant),
    /// Nothing: the host failed meanwhile.
    Void,
}

/// A point in the account of busy time, to measure utilisation from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    at: Instant,
    /// Nanoseconds.
    busy: u64,
}

impl Mark {
    /// When it was taken.
    pub fn at(self) -> Instant {
        self.at
    }
}

#[derive(Debug)]
struct Service<J> {
    job: J,
    class: Priority,
    queued: Instant,
    started: Instant,
    /// Nanoseconds of the worker's time.
    length: u64,
    /// Nanoseconds from its start to its end, stalls not counted: less than `length` where a quota lets it run faster, more
    /// where it waits for its next part.
    span: u64,
    ends: Instant,
}

#[derive(Debug)]
struct Worker<J> {
    service: Option<Service<J>>,
    /// Moves on with every service that ends, one way or the other: a ticket is good once.
    generation: u32,
}

/// Workers that serve a buffer of jobs, highest priority first, each to its end.
///
/// The model owns the events. After anything that may let a service begin (a job queued, a service done, a stall
/// over), it calls [`start`](Self::start) until that returns `None`, and schedules what it returns.
///
/// - Jobs: [`enqueue`](Self::enqueue), [`start`](Self::start), [`finish`](Self::finish).
/// - Disturbances: [`stall`](Self::stall), [`set_background`](Self::set_background), [`fail`](Self::fail),
///   [`restart`](Self::restart).
/// - Looking on: [`occupied`](Self::occupied), [`mark`](Self::mark), [`utilisation`](Self::utilisation).
#[derive(Debug)]
pub struct Cpu<J, T = Plain> {
    config: CpuConfig,
    triage: T,
    rng: Rng,
    buffer: Buffer<J>,
    workers: Vec<Worker<J>>,
    /// Workers without a service, the next to be used last.
    idle: Vec<u32>,
    /// No service begins or goes on before this.
    stalled_until: Instant,
    is_up: bool,
    /// Nanoseconds busy with services that are over.
    busy: u64,
    /// How many times its time on the base server a service takes here, but for its spread.
    slowness: f64,
    quota: Option<Quota>,
}

impl<J> Cpu<J> {
    /// A host that serves whatever it has taken. The generator draws service times; fork it for this host.
    pub fn new(config: CpuConfig, rng: Rng) -> Self {
        Self::with_triage(config, Plain, rng)
    }
}

impl<J, T: QueueTriage<J>> Cpu<J, T> {
    /// A host whose queue follows rules.
    pub fn with_triage(config: CpuConfig, triage: T, rng: Rng) -> Self {
        let quota = |quota| {
            let phase = rng.fork("quota").random();
            Quota::new(quota, 1.0 / slowness(&config), phase)
        };
        let quota = config.quota.map(quota);
        let workers = (0..config.workers).map(|_| Worker { service: None, generation: 0 }).collect();
        Self {
            triage,
            rng,
            buffer: Buffer::new(config.buffer),
            workers,
            idle: (0..config.workers as u32).rev().collect(),
            stalled_until: Instant::ZERO,
            is_up: true,
            busy: 0,
            slowness: slowness(&config),
            quota,
            config,
        }
    }

    /// Brings a job.
    pub fn enqueue(&mut self, now: Instant, class: Priority, job: J) -> Admission {
        if self.is_up { self.buffer.push(now, class, job, &self.triage) } else { Admission::Lost }
    }

    /// Whether [`start`](Self::start) would find a free worker and a job.
    pub fn may_start(&self, now: Instant) -> bool {
        !self.idle.is_empty() && !self.buffer.is_empty() && now >= self.stalled_until
    }

    /// Begins the next service, if a worker is free and a job waits. `cost` says how long the job takes on the base
    /// server; it may do the job's work to find out, and leave the outcome in the job.
    pub fn start(&mut self, now: Instant, cost: impl FnOnce(&mut J) -> Duration) -> Option<BegunService> {
        if now < self.stalled_until {
            return None;
        }
        let worker = *self.idle.last()?;
        let (class, queued, mut job) = self.next_job(now)?;
        self.idle.pop();
        let length = self.length(cost(&mut job));
        let span = self.quota.as_mut().map_or(length, |quota| quota.serve(now, length));
        let ends = Instant::from_nanos(now.as_nanos().saturating_add(span));
        let place = &mut self.workers[worker as usize];
        place.service = Some(Service { job, class, queued, started: now, length, span, ends });
        let ticket = Ticket { worker, generation: place.generation };
        Some(BegunService { at: ends, ticket, class, wait: now - queued })
    }

    /// To be called at the instant of a [`BegunService`] or a [`Finish::Later`].
    pub fn finish(&mut self, now: Instant, ticket: Ticket) -> Finish<J> {
        let worker = &mut self.workers[ticket.worker as usize];
        let ends = match &worker.service {
            Some(service) if worker.generation == ticket.generation => service.ends,
            _ => return Finish::Void,
        };
        if now < ends {
            return Finish::Later(ends);
        }
        let service = worker.service.take().expect("it has just been seen");
        worker.generation = worker.generation.wrapping_add(1);
        self.idle.push(ticket.worker);
        self.busy += service.length;
        let Service { job, class, queued, started, .. } = service;
        Finish::Done(Served { job, class, queued, started })
    }

    /// Stops all workers for this long, in addition to what is left of no other stall: of two that overlap, the later
    /// end counts. Returns the end, at which services may begin again.
    pub fn stall(&mut self, now: Instant, length: Duration) -> Instant {
        let end = self.stalled_until.max(now + length);
        let more = end - self.stalled_until.max(now);
        self.stalled_until = end;
        for service in self.workers.iter_mut().filter_map(|worker| worker.service.as_mut()) {
            service.ends += more;
        }
        if let Some(quota) = &mut self.quota {
            quota.stall(more);
        }
        end
    }

    /// Changes the share of a background job (see [`CpuConfig::background`]) for services that begin from now on.
    pub fn set_background(&mut self, share: f64) {
        self.config.background = share;
        self.slowness = slowness(&self.config);
        if let Some(quota) = &mut self.quota {
            quota.set_speed(1.0 / self.slowness);
        }
    }

    /// The host dies: `lost` gets every job that waited or was in service. Until [`restart`](Self::restart),
    /// nothing is taken.
    pub fn fail(&mut self, now: Instant, mut lost: impl FnMut(J)) {
        self.busy = self.busy_until(now);
        self.is_up = false;
        self.stalled_until = Instant::ZERO;
        self.idle.clear();
        for (index, worker) in self.workers.iter_mut().enumerate().rev() {
            self.idle.push(index as u32);
            if let Some(service) = worker.service.take() {
                worker.generation = worker.generation.wrapping_add(1);
                lost(service.job);
            }
        }
        if let Some(quota) = &mut self.quota {
            quota.reset(now);
        }
        while let Some((_, _, job)) = self.buffer.pop(&self.triage) {
            lost(job);
        }
    }

    /// The host is back, with an empty queue.
    pub fn restart(&mut self) {
        self.is_up = true;
        self.stalled_until = Instant::ZERO;
    }

    /// Whether the host is up.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Waiting jobs that count for the buffer's limit: what watermarks are compared with.
    pub fn occupied(&self) -> usize {
        self.buffer.occupied()
    }

    /// The rules of the queue.
    pub fn triage(&mut self) -> &mut T {
        &mut self.triage
    }

    /// A point to measure [`utilisation`](Self::utilisation) from.
    pub fn mark(&self, now: Instant) -> Mark {
        Mark { at: now, busy: self.busy_until(now) }
    }

    /// How long workers have spent on jobs in all, as [`utilisation`](Self::utilisation) counts it.
    pub fn busy(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.busy_until(now))
    }

    /// The part of the time since `mark` that workers spent on jobs, 0 to 1, the mean over all workers. Slowness by a
    /// background job counts as busy, a stall does not. Of a host with a quota it is the part of the quota that is used: more
    /// than 1 while it runs.
    pub fn utilisation(&self, mark: Mark, now: Instant) -> f64 {
        let span = (now - mark.at).as_nanos() as f64 * self.workers.len() as f64;
        if span > 0.0 { self.busy_until(now).saturating_sub(mark.busy) as f64 / span } else { 0.0 }
    }

    /// The next job that is worth serving.
    fn next_job(&mut self, now: Instant) -> Option<(Priority, Instant, J)> {
        loop {
            let (class, queued, job) = self.buffer.pop(&self.triage)?;
            if !self.triage.is_stale(now, queued, &job) {
                return Some((class, queued, job));
            }
        }
    }

    /// How many nanoseconds a service of this cost takes here.
    fn length(&mut self, cost: Duration) -> u64 {
        let factor = match self.config.spread {
            Spread::Fixed => self.slowness,
            ref spread => self.slowness * spread.factor(&mut self.rng),
        };
        scaled(nanos(cost), factor)
    }

    /// Busy time of all workers up to now, the part of services that are under way included.
    fn busy_until(&self, now: Instant) -> u64 {
        let running = self.workers.iter().filter_map(|worker| worker.service.as_ref());
        // Nothing is done while stalled, and then all that is left lies after the stall.
        let at = now.max(self.stalled_until);
        running.fold(self.busy, |busy, service| {
            let left = service.ends.as_nanos().saturating_sub(at.as_nanos());
            let left = left as f64 * (service.length as f64 / service.span.max(1) as f64);
            busy + service.length.saturating_sub(left as u64)
        })
    }
}

fn slowness(config: &CpuConfig) -> f64 {
    1.0 / (config.capacity * (1.0 - config.background))
}
