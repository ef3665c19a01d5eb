//! The thread of a load agent.

use super::Agent;
use super::link::AgentLink;
use super::snapshot::Snapshot;
use super::waking::Waking;
use crate::clock::Clock;
use base::{Instant, Outbox};
use core::num::NonZeroU64;
use load::{AgentEvent, AgentInput};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::Waker;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which results are copied for readers. A copy of the histograms has some 600 KB and takes about 100 us,
/// which at this interval delays one datagram in 2,500.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

/// Most Call-IDs with a wrong server that are kept: enough to look them up in a trace.
const WRONG_CALLS_MAX: usize = 10;

/// State shared between the agent's thread and its owner.
pub(super) struct Shared<R> {
    snapshot: Mutex<Snapshot<R>>,
    pub(super) stop: AtomicBool,
    pub(super) wind_down: AtomicBool,
    pub(super) finished: AtomicBool,
    pub(super) waker: Waker,
}

impl<R: Clone + Default> Shared<R> {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            snapshot: Mutex::default(),
            stop: AtomicBool::new(false),
            wind_down: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            waker: Waker::new()?,
        })
    }

    pub(super) fn snapshot(&self) -> Snapshot<R> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn publish(&self, snapshot: Snapshot<R>) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

/// Marks the thread as finished, however it ends.
struct Finish<R>(Arc<Shared<R>>);

impl<R> Drop for Finish<R> {
    fn drop(&mut self) {
        self.0.finished.store(true, Ordering::Release);
    }
}

/// The loop of one agent's thread.
pub(super) struct Driver<A: Agent> {
    clock: Clock,
    link: AgentLink,
    agent: A,
    shared: Arc<Shared<A::Results>>,
    /// All figures but the results, which are added for each copy.
    figures: Snapshot<()>,
    out: Outbox<AgentEvent>,
    publish_at: Instant,
    waking: Waking,
}

impl<A: Agent> Driver<A> {
    pub(super) fn new(clock: Clock, link: AgentLink, agent: A, shared: Arc<Shared<A::Results>>) -> Self {
        Self {
            clock,
            link,
            agent,
            shared,
            figures: Snapshot::default(),
            out: Outbox::default(),
            publish_at: Instant::ZERO,
            waking: Waking::default(),
        }
    }

    /// Runs until the agent has finished, or is stopped.
    pub(super) fn run(mut self) -> io::Result<()> {
        let _finish = Finish(Arc::clone(&self.shared));
        // By default Linux wakes a thread up to 50 us late, which would be measured as the server's latency. An error
        // is ignored.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let outcome = self.work();
        self.link.close(self.clock.now());
        self.publish();
        outcome
    }

    fn work(&mut self) -> io::Result<()> {
        while !self.agent.finished() {
            let ready = self.wait();
            if self.shared.stop.load(Ordering::Acquire) {
                break;
            }
            self.read(ready)?;
            let now = self.clock.now();
            if self.shared.wind_down.swap(false, Ordering::AcqRel) {
                self.agent.wind_down(now);
            }
            if self.agent.deadline().is_some_and(|deadline| deadline <= now) {
                self.agent.handle(now, AgentInput::Tick, &mut self.out);
            }
            self.flush();
            if now >= self.publish_at {
                self.publish();
                self.publish_at = self.clock.now() + PUBLISH_EVERY;
            }
        }
        Ok(())
    }

    /// Sleeps until there is work, and returns the readiness of the transport.
    fn wait(&mut self) -> PollFlags {
        let waker = &self.shared.waker;
        waker.going_to_sleep();
        let deadline =
            self.agent.deadline().map_or(self.publish_at, |deadline| deadline.min(self.publish_at));
        let stopping =
            self.shared.stop.load(Ordering::Acquire) || self.shared.wind_down.load(Ordering::Acquire);
        let timeout = match self.agent.exact().filter(|exact| *exact <= deadline) {
            _ if stopping || self.link.has_unread() => Duration::ZERO,
            Some(exact) => self.waking.sleep(self.clock.now(), exact),
            None => self.clock.until(deadline),
        };
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut fds = [self.link.watched(), PollFd::new(waker, PollFlags::IN)];
        // After an interruption by a signal nothing is ready, and the loop goes on.
        let outcome = poll(&mut fds, Some(&timeout));
        waker.awake();
        let ready = fds[0].revents();
        if outcome == Ok(0) {
            self.waking.woke(self.clock.now());
        }
        ready
    }

    fn read(&mut self, ready: PollFlags) -> io::Result<()> {
        let Self { clock, link, agent, figures, out, .. } = self;
        link.receive(clock.now(), ready, figures, |from, bytes| {
            // The clock is read for each message, so that the last ones of a batch are not measured too short.
            agent.handle(clock.now(), AgentInput::Message { from, bytes }, out);
        })
    }

    fn flush(&mut self) {
        self.link.send(self.clock.now(), &self.out, &mut self.figures);
        for event in self.out.drain_events() {
            if let AgentEvent::WrongServer { call_id } = event
                && self.figures.wrong_call_ids.len() < WRONG_CALLS_MAX
                && !self.figures.wrong_call_ids.contains(&call_id)
            {
                self.figures.wrong_call_ids.push(call_id);
            }
        }
        self.out.clear();
    }

    fn publish(&mut self) {
        self.link.count(&mut self.figures);
        let results = self.agent.results().clone();
        self.shared.publish(self.figures.clone().with(results));
    }
}
