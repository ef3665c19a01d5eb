//! Measurements of a run.

use crate::stats::{Delays, Series};
use base::{Instant, Ledger};
use core::time::Duration;
use load::CallOutcome;

/// Numbers of calls by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    /// Answered before the caller gave up, held, and hung up.
    pub completed: u64,
    /// Refused with 300 or more.
    pub refused: u64,
    /// Given up by the caller.
    pub abandoned: u64,
    /// Answered after the caller had given up, and hung up at once.
    pub answered_late: u64,
    /// No final response to the INVITE.
    pub invite_timeouts: u64,
    /// No final response to the BYE, or one of 300 or more.
    pub bye_failures: u64,
}

impl Outcomes {
    /// Number of calls that ended.
    pub fn ended(&self) -> u64 {
        let Self { completed, refused, abandoned, answered_late, invite_timeouts, bye_failures } = self;
        completed + refused + abandoned + answered_late + invite_timeouts + bye_failures
    }

    fn count(&mut self, outcome: CallOutcome) {
        let count = match outcome {
            CallOutcome::Completed => &mut self.completed,
            CallOutcome::Refused(_) => &mut self.refused,
            CallOutcome::Abandoned => &mut self.abandoned,
            CallOutcome::AnsweredLate => &mut self.answered_late,
            CallOutcome::InviteTimeout => &mut self.invite_timeouts,
            CallOutcome::ByeTimeout | CallOutcome::ByeRefused(_) => &mut self.bye_failures,
        };
        *count += 1;
    }
}

/// Results of a stream of calls. Counts and delays leave the warm-up out, series cover the whole run.
#[derive(Debug)]
pub struct StreamResults {
    /// Name of the stream.
    pub name: String,
    /// Calls offered, over time.
    pub offered: Series,
    /// Calls completed, over time, without calls answered late: the paper's goodput.
    pub completed: Series,
    /// Calls answered after their caller had given up, and hung up at once, over time.
    pub late: Series,
    /// Calls offered after the warm-up.
    pub calls: u64,
    /// Outcomes of calls after the warm-up.
    pub outcomes: Outcomes,
    /// Delay from INVITE to the 2xx at the caller, calls answered late included.
    pub answer_delay: Delays,
    /// Delay from INVITE at the caller to ACK at the callee, without calls answered late: the paper's setup delay.
    pub setup_delay: Delays,
    /// Delay from BYE to its 2xx.
    pub bye_delay: Delays,
    /// Calls answered, and the sum of their seconds from INVITE to 2xx, over time. They give the means of batches.
    pub answered: [Series; 2],
    /// Calls set up, without calls answered late, and the sum of their seconds from INVITE at the caller to ACK at the
    /// callee, over time.
    pub established: [Series; 2],
    /// Calls hung up, and the sum of their seconds from BYE to 2xx, over time.
    pub hung_up: [Series; 2],
    /// Calls that rang before any proxy on the path announced that it keeps their state, over time, warm-up included. A
    /// proxy that keeps the state of every call does not announce it.
    pub unmarked: Series,
    /// Retransmissions of requests by callers and callees, over time.
    pub resends: Series,
}

/// Calls per second in a bin of the time series, over all streams.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BinRates {
    /// Offered.
    pub offered: f64,
    /// Answered.
    pub answered: f64,
    /// Completed.
    pub completed: f64,
}

/// Measures a stream.
#[derive(Debug)]
pub(crate) struct StreamMeasure {
    from: Instant,
    pub(crate) results: StreamResults,
}

/// Adds a delay to a series of numbers and a series of sums.
fn note([number, seconds]: &mut [Series; 2], now: Instant, delay: Duration) {
    number.add(now, 1.0);
    seconds.add(now, delay.as_secs_f64());
}

impl StreamMeasure {
    pub(crate) fn new(name: String, bin: Duration, from: Instant) -> Self {
        let series = || Series::new(bin);
        let pair = || [series(), series()];
        let results = StreamResults {
            name,
            offered: series(),
            completed: series(),
            late: series(),
            calls: 0,
            outcomes: Outcomes::default(),
            answer_delay: Delays::default(),
            setup_delay: Delays::default(),
            bye_delay: Delays::default(),
            answered: pair(),
            established: pair(),
            hung_up: pair(),
            unmarked: series(),
            resends: series(),
        };
        Self { from, results }
    }

    /// Records that a callee rings. `is_unmarked`: no proxy on the path has announced that it keeps the call's state.
    pub(crate) fn rang(&mut self, now: Instant, is_unmarked: bool) {
        if is_unmarked {
            self.results.unmarked.add(now, 1.0);
        }
    }

    pub(crate) fn offered(&mut self, now: Instant) {
        self.results.offered.add(now, 1.0);
        self.results.calls += u64::from(now >= self.from);
    }

    pub(crate) fn answered(&mut self, now: Instant, since: Instant) {
        note(&mut self.results.answered, now, now - since);
        if now >= self.from {
            self.results.answer_delay.add(now - since);
        }
    }

    pub(crate) fn established(&mut self, now: Instant, since: Instant) {
        note(&mut self.results.established, now, now - since);
        if now >= self.from {
            self.results.setup_delay.add(now - since);
        }
    }

    pub(crate) fn hung_up(&mut self, now: Instant, since: Instant) {
        note(&mut self.results.hung_up, now, now - since);
        if now >= self.from {
            self.results.bye_delay.add(now - since);
        }
    }

    pub(crate) fn ended(&mut self, now: Instant, outcome: CallOutcome) {
        match outcome {
            CallOutcome::Completed => self.results.completed.add(now, 1.0),
            CallOutcome::AnsweredLate => self.results.late.add(now, 1.0),
            _ => {}
        }
        if now >= self.from {
            self.results.outcomes.count(outcome);
        }
    }
}

/// Results of a host, over time unless stated otherwise.
#[derive(Debug)]
pub struct HostResults {
    /// Name of its group, and its number in the group.
    pub name: String,
    /// Utilisation of the processors in each bin.
    pub utilisation: Vec<(Instant, f64)>,
    /// Number of waiting messages at the end of each bin.
    pub queue: Vec<(Instant, f64)>,
    /// Firings of timers A, E and G: retransmissions.
    pub resends: Series,
    /// Firings of timers B, F and H: timeouts of transactions.
    pub give_ups: Series,
    /// Messages dropped by a full buffer, or by a full queue of the network card in either direction.
    pub dropped: Series,
    /// INVITEs rejected by this host, without those dropped by a full buffer before the rejection.
    pub rejected: Series,
    /// Numbers of the calls whose state a proxy has kept, in order, warm-up included. Empty if it keeps every call.
    pub kept: Vec<u32>,
    /// Of a server behind a balancer: numbers of transactions in progress at the arrival of another, and how often each
    /// number occurred, warm-up included.
    pub occupancy: Vec<(u64, u64)>,
    /// Operations of the host, warm-up included, counted like in the server.
    pub operations: Ledger,
}

impl HostResults {
    pub(crate) fn new(name: String, bin: Duration) -> Self {
        Self {
            name,
            utilisation: Vec::new(),
            queue: Vec::new(),
            resends: Series::new(bin),
            give_ups: Series::new(bin),
            dropped: Series::new(bin),
            rejected: Series::new(bin),
            kept: Vec::new(),
            occupancy: Vec::new(),
            operations: Ledger::default(),
        }
    }
}

/// All results of a run.
#[derive(Debug)]
pub struct RunResults {
    /// By stream.
    pub streams: Vec<StreamResults>,
    /// By host.
    pub hosts: Vec<HostResults>,
    /// Number of messages that arrived at hosts and agents.
    pub messages: u64,
    /// Number of calls in progress at the end.
    pub calls_left: usize,
    /// Number of transactions of agents and hosts in progress at the end.
    pub transactions_left: usize,
    /// Digest of all events: equal for the same scenario and seed.
    pub trace: u64,
}

impl RunResults {
    /// Returns calls offered and calls completed per second between two instants, over all streams.
    pub fn rates(&self, from: Instant, to: Instant) -> (f64, f64) {
        let sum = |of: fn(&StreamResults) -> &Series| -> f64 {
            self.streams.iter().map(|stream| of(stream).rate(from, to)).sum()
        };
        (sum(|stream| &stream.offered), sum(|stream| &stream.completed))
    }
}
