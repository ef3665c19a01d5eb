//! The processor of a simulated host.

use super::buffer::Buffer;
use super::quota::{Quota, QuotaConfig};
use super::spread::{nanos, scaled};
use super::{EnqueueOutcome, Plain, Priority, QueueTriage, TimeSpread};
use base::{Instant, Rng};
use core::time::Duration;
use rand::Rng as _;

/// Processor of a host and the buffer before it (Overload paper, section IV-A).
#[derive(Clone, PartialEq, Debug)]
pub struct CpuConfig {
    /// Number of jobs served at the same time.
    pub workers: usize,
    /// Speed of each worker relative to the base server; 2 takes half the time.
    pub capacity: f64,
    /// Maximum of waiting bounded jobs ([`QueueTriage::is_bounded`]), without jobs in service; B of the paper.
    pub buffer: usize,
    /// Distribution of service times around their cost.
    pub spread: TimeSpread,
    /// Share of each worker that a background job takes, 0 to less than 1. The time slices are too short to be
    /// modelled: services take 1 / (1 - share) times as long.
    pub background: f64,
    /// Quota of a faster processor with one worker, which works only in a part of each period. `None`: it works evenly.
    pub quota: Option<QuotaConfig>,
}

impl Default for CpuConfig {
    /// The paper's base server: one worker, B = 1000 external messages, unlimited timers, fixed service times.
    fn default() -> Self {
        let spread = TimeSpread::Fixed;
        Self { workers: 1, capacity: 1.0, buffer: 1_000, spread, background: 0.0, quota: None }
    }
}

/// Identifies a service in progress. The model puts it into the event of the service's end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    worker: u32,
    generation: u32,
}

impl Ticket {
    /// Index of the worker. Another service of the same worker starts only after this one.
    pub fn worker(self) -> usize {
        self.worker as usize
    }
}

/// A service that has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BegunService {
    /// Time to call [`Cpu::finish`].
    pub at: Instant,
    /// Argument of that call.
    pub ticket: Ticket,
    /// Queue in which the job waited.
    pub class: Priority,
    /// Waiting time.
    pub wait: Duration,
}

/// A job that was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served<J> {
    /// The job as the start of service left it.
    pub job: J,
    /// Queue in which it waited.
    pub class: Priority,
    /// Time when it was queued.
    pub queued: Instant,
    /// Start of its service.
    pub started: Instant,
}

/// Result of [`Cpu::finish`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish<J> {
    /// The service is over, and the worker is free.
    Done(Served<J>),
    /// The host stalled meanwhile: call `finish` again at this time.
    Later(Instant),
    /// The host failed meanwhile, so there is no such service.
    Void,
}

/// A point in time with the busy time until then, to measure utilisation from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuMark {
    at: Instant,
    /// Nanoseconds.
    busy: u64,
}

impl CpuMark {
    /// Time of the mark.
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
    /// Service time of the worker in nanoseconds.
    length: u64,
    /// Nanoseconds from start to end without stalls. Less than `length` while a quota lets the service run faster, more
    /// if the service waits for the next period.
    span: u64,
    ends: Instant,
}

#[derive(Debug)]
struct Worker<J> {
    service: Option<Service<J>>,
    /// Incremented at the end of every service, also after a failure, so that a ticket is valid once.
    generation: u32,
}

/// Workers that serve a buffer of jobs without preemption, highest priority first.
///
/// The model owns the events. A service may start after a job was queued, or after a service or a stall has ended. The
/// model then calls [`start`](Self::start) until it returns `None`, and schedules each returned service's end.
///
/// - Jobs: [`enqueue`](Self::enqueue), [`start`](Self::start), [`finish`](Self::finish).
/// - Disturbances: [`stall`](Self::stall), [`set_background`](Self::set_background), [`fail`](Self::fail),
///   [`restart`](Self::restart).
/// - Observation: [`occupied`](Self::occupied), [`mark`](Self::mark), [`utilisation`](Self::utilisation).
#[derive(Debug)]
pub struct Cpu<J, T = Plain> {
    config: CpuConfig,
    triage: T,
    rng: Rng,
    buffer: Buffer<J>,
    workers: Vec<Worker<J>>,
    /// Workers without a service; the next to be used is last.
    idle: Vec<u32>,
    /// No service starts or continues before this time.
    stalled_until: Instant,
    is_up: bool,
    /// Nanoseconds of completed services.
    busy: u64,
    /// Ratio of a service's time here to its time on the base server, without its spread.
    slowness: f64,
    quota: Option<Quota>,
}

impl<J> Cpu<J> {
    /// Returns a host that serves every accepted job. The generator draws service times; fork it for this host.
    pub fn new(config: CpuConfig, rng: Rng) -> Self {
        Self::with_triage(config, Plain, rng)
    }
}

impl<J, T: QueueTriage<J>> Cpu<J, T> {
    /// Returns a host whose queue follows these rules.
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

    /// Queues a job.
    pub fn enqueue(&mut self, now: Instant, class: Priority, job: J) -> EnqueueOutcome {
        if self.is_up { self.buffer.push(now, class, job, &self.triage) } else { EnqueueOutcome::Lost }
    }

    /// Whether a worker is free and a job waits, so that [`start`](Self::start) may start a service.
    pub fn may_start(&self, now: Instant) -> bool {
        !self.idle.is_empty() && !self.buffer.is_empty() && now >= self.stalled_until
    }

    /// Starts the next service, if a worker is free and a job waits. `cost` returns the job's time on the base server.
    /// It may do the job's work to find the time, and store the result in the job.
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

    /// Ends a service. Call this at the instant of a [`BegunService`] or a [`Finish::Later`].
    pub fn finish(&mut self, now: Instant, ticket: Ticket) -> Finish<J> {
        let worker = &mut self.workers[ticket.worker as usize];
        let ends = match &worker.service {
            Some(service) if worker.generation == ticket.generation => service.ends,
            _ => return Finish::Void,
        };
        if now < ends {
            return Finish::Later(ends);
        }
        let service = worker.service.take().expect("the service was found above");
        worker.generation = worker.generation.wrapping_add(1);
        self.idle.push(ticket.worker);
        self.busy += service.length;
        let Service { job, class, queued, started, .. } = service;
        Finish::Done(Served { job, class, queued, started })
    }

    /// Stops all workers for this long. If two stalls overlap, the later end applies. Returns the end, at which
    /// services may start again.
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

    /// Changes the share of a background job (see [`CpuConfig::background`]) for services that start from now on.
    pub fn set_background(&mut self, share: f64) {
        self.config.background = share;
        self.slowness = slowness(&self.config);
        if let Some(quota) = &mut self.quota {
            quota.set_speed(1.0 / self.slowness);
        }
    }

    /// The host fails: `lost` gets every job that waited or was in service. No job is accepted until
    /// [`restart`](Self::restart).
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

    /// Restarts the host with an empty queue.
    pub fn restart(&mut self) {
        self.is_up = true;
        self.stalled_until = Instant::ZERO;
    }

    /// Whether the host is up.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Number of waiting jobs that count for the buffer's limit. Watermarks are compared with it.
    pub fn occupied(&self) -> usize {
        self.buffer.occupied()
    }

    /// Rules of the queue.
    pub fn triage(&mut self) -> &mut T {
        &mut self.triage
    }

    /// Returns a mark for [`utilisation`](Self::utilisation).
    pub fn mark(&self, now: Instant) -> CpuMark {
        CpuMark { at: now, busy: self.busy_until(now) }
    }

    /// Total busy time of all workers, counted as in [`utilisation`](Self::utilisation).
    pub fn busy(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.busy_until(now))
    }

    /// Share of the time since `mark` that workers were busy, 0 to 1, averaged over all workers. Slowness because of a
    /// background job counts as busy, a stall does not. With a quota the result is the used part of the quota, and
    /// exceeds 1 while the worker runs.
    pub fn utilisation(&self, mark: CpuMark, now: Instant) -> f64 {
        let span = (now - mark.at).as_nanos() as f64 * self.workers.len() as f64;
        if span > 0.0 { self.busy_until(now).saturating_sub(mark.busy) as f64 / span } else { 0.0 }
    }

    /// Removes and returns the next job that is not stale.
    fn next_job(&mut self, now: Instant) -> Option<(Priority, Instant, J)> {
        loop {
            let (class, queued, job) = self.buffer.pop(&self.triage)?;
            if !self.triage.is_stale(now, queued, &job) {
                return Some((class, queued, job));
            }
        }
    }

    /// Nanoseconds that a service of this cost takes here.
    fn length(&mut self, cost: Duration) -> u64 {
        let factor = match self.config.spread {
            TimeSpread::Fixed => self.slowness,
            ref spread => self.slowness * spread.factor(&mut self.rng),
        };
        scaled(nanos(cost), factor)
    }

    /// Busy time of all workers until now, including the past part of services in progress.
    fn busy_until(&self, now: Instant) -> u64 {
        let running = self.workers.iter().filter_map(|worker| worker.service.as_ref());
        // No work is done during a stall, so all remaining work comes after it.
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
