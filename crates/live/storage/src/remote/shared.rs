//! State that handles and threads share: the queue, and the connections.

use super::{Next, Server, StoreStatus};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Time without use after which a connection is checked.
const CHECK_AFTER: Duration = Duration::from_secs(1);

/// Reason for refusing a job when no thread is left. Only a panic of a callback ends threads before the last handle.
const ENDED: &str = "its threads have ended";

pub(super) struct Shared<S: Server> {
    pub(super) server: S,
    queue_max: usize,
    state: Mutex<State<S::Job>>,
    /// Wakes a connected thread.
    work: Condvar,
    /// Wakes the pausing threads.
    end: Condvar,
}

struct State<J> {
    /// Jobs in order of arrival, each with its time.
    jobs: VecDeque<(Instant, J)>,
    handles: usize,
    threads: usize,
    connections: usize,
    /// Time of the first connection, or of the loss of the last one; before that, of the start.
    changed: Instant,
    /// Reason why no job can be served: there is no connection, and the last attempt has failed.
    down: Option<String>,
    failed_total: u64,
    lost_total: u64,
    last_error: Option<String>,
}

impl<J> State<J> {
    /// Notes a new connection.
    fn add_connection(&mut self) {
        if self.connections == 0 {
            self.changed = Instant::now();
        }
        self.connections += 1;
    }

    /// Notes a lost connection, if it `was_connected`.
    fn remove_connection(&mut self, was_connected: bool) {
        self.connections -= usize::from(was_connected);
        if was_connected && self.connections == 0 {
            self.changed = Instant::now();
        }
    }

    /// Takes at most `max` jobs.
    fn drain(&mut self, max: usize) -> Vec<J> {
        let count = self.jobs.len().min(max);
        self.jobs.drain(..count).map(|(_, job)| job).collect()
    }
}

impl<S: Server> Shared<S> {
    /// Makes the state with one handle and no thread.
    pub(super) fn new(server: S, queue_max: usize) -> Self {
        let state = State {
            jobs: VecDeque::new(),
            handles: 1,
            threads: 0,
            connections: 0,
            changed: Instant::now(),
            down: None,
            failed_total: 0,
            lost_total: 0,
            last_error: None,
        };
        Self { server, queue_max, state: Mutex::new(state), work: Condvar::new(), end: Condvar::new() }
    }

    /// Locks the state. No callback runs under the lock, so nothing can panic there.
    fn state(&self) -> MutexGuard<'_, State<S::Job>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_handle(&self) {
        self.state().handles += 1;
    }

    pub(super) fn remove_handle(&self) {
        let mut state = self.state();
        state.handles -= 1;
        if state.handles == 0 {
            self.work.notify_all();
            self.end.notify_all();
        }
    }

    pub(super) fn add_thread(&self) {
        self.state().threads += 1;
    }

    /// Removes a thread. The last one refuses the remaining jobs.
    pub(super) fn remove_thread(&self, was_connected: bool) {
        let mut state = self.state();
        state.threads -= 1;
        state.remove_connection(was_connected);
        let left = if state.threads == 0 { state.drain(usize::MAX) } else { Vec::new() };
        drop(state);
        self.refuse(left, ENDED);
    }

    /// Queues a job, or returns it with the reason.
    pub(super) fn push(&self, job: S::Job) -> Result<(), (S::Job, String)> {
        let mut state = self.state();
        let why = if state.threads == 0 {
            ENDED.to_owned()
        } else if let Some(why) = &state.down {
            why.clone()
        } else if state.jobs.len() >= self.queue_max {
            format!("{} requests wait for it already", state.jobs.len())
        } else {
            state.jobs.push_back((Instant::now(), job));
            self.work.notify_one();
            return Ok(());
        };
        state.failed_total += 1;
        Err((job, why))
    }

    /// Waits for the next action of a connected thread.
    pub(super) fn take(&self) -> Next<S::Job> {
        let mut state = self.state();
        loop {
            if !state.jobs.is_empty() {
                let now = Instant::now();
                let is_late = |(since, _): &(Instant, _)| now.duration_since(*since) > self.server.patience();
                // The oldest jobs are in front.
                let late = state.jobs.iter().take_while(|job| is_late(job)).count();
                return if late > 0 {
                    Next::Refuse(state.drain(late))
                } else {
                    Next::Serve(state.drain(S::BATCH_MAX))
                };
            }
            if state.handles == 0 {
                return Next::End;
            }
            let waited = self.work.wait_timeout(state, CHECK_AFTER);
            let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if result.timed_out() && state.jobs.is_empty() && state.handles > 0 {
                return Next::Check;
            }
        }
    }

    pub(super) fn connected(&self) {
        let mut state = self.state();
        state.add_connection();
        state.down = None;
    }

    /// Notes a failed attempt to connect, or, if it `was_connected`, a lost connection. If there is no other one, all
    /// waiting jobs are refused.
    pub(super) fn lost(&self, was_connected: bool, why: &str) {
        let mut state = self.state();
        state.remove_connection(was_connected);
        state.lost_total += u64::from(was_connected);
        state.last_error = Some(why.to_owned());
        if state.connections > 0 {
            return;
        }
        state.down = Some(why.to_owned());
        let left = state.drain(usize::MAX);
        drop(state);
        self.refuse(left, why);
    }

    /// Waits before the next attempt; `false` if no handle is left.
    pub(super) fn rest(&self, rest: Duration) -> bool {
        let state = self.state();
        let waited = self.end.wait_timeout_while(state, rest, |state| state.handles > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.handles > 0
    }

    pub(super) fn count_failed(&self, failed: u64) {
        if failed > 0 {
            self.state().failed_total += failed;
        }
    }

    pub(super) fn status(&self) -> StoreStatus {
        let state = self.state();
        StoreStatus {
            connections: state.connections,
            unchanged: state.changed.elapsed(),
            waiting: state.jobs.len(),
            failed_total: state.failed_total,
            lost_total: state.lost_total,
            last_error: state.last_error.clone(),
        }
    }

    pub(super) fn refuse(&self, jobs: Vec<S::Job>, why: &str) {
        self.count_failed(jobs.len() as u64);
        for job in jobs {
            S::refuse(job, why);
        }
    }
}
