//! What a run shows.

use crate::stats::{Delays, Series};
use base::{Instant, Ledger};
use core::time::Duration;
use load::CallOutcome;

/// How calls ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    /// Answered before the caller gave up, held, hung up.
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
    /// Calls that ended.
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

/// What a stream of calls shows. Counts and delays leave the warm-up out, series have all of the run.
#[derive(Debug)]
pub struct StreamResults {
    /// Name of the stream.
    pub name: String,
    /// Calls offered, over time.
    pub offered: Series,
    /// Calls completed, over time: the paper's goodput. Those answered late are not among them.
    pub completed: Series,
    /// Calls answered after their callers had given up, and hung up at once, over time.
    pub late: Series,
    /// Calls offered after the warm-up.
    pub calls: u64,
    /// How calls ended after the warm-up.
    pub outcomes: Outcomes,
    /// From INVITE to the 2xx at the caller, calls answered late included.
    pub answer_delay: Delays,
    /// From INVITE at the caller to ACK at the callee, without calls answered late: the paper's setup delay.
    pub setup_delay: Delays,
    /// From BYE to its 2xx.
    pub bye_delay: Delays,
    /// Calls answered, over time, and the sum of the seconds from INVITE to 2xx: the means of batches.
    pub answered: [Series; 2],
    /// Calls set up, those answered late left out, over time, and the sum of the seconds from INVITE at the caller to
    /// ACK at the callee.
    pub established: [Series; 2],
    /// Calls hung up, over time, and the sum of the seconds from BYE to 2xx.
    pub hung_up: [Series; 2],
    /// Calls that rang while no proxy on the way had said that it keeps their state, over time, warm-up included: a
    /// proxy that keeps the state of every call does not say so.
    pub unmarked: Series,
    /// Requests that callers and callees sent again, over time.
    pub resends: Series,
}

/// Calls a second in a bin of the time series, over all streams.
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

/// Counts a delay in the series of numbers and of sums.
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

    /// A callee rings. Whether no proxy on the way has said that it keeps the call's state.
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

/// What a host shows, over time unless said otherwise.
#[derive(Debug)]
pub struct HostResults {
    /// Name of its group, and its number in it.
    pub name: String,
    /// Share of the processors' time in use, a bin.
    pub utilisation: Vec<(Instant, f64)>,
    /// Messages that wait, at the end of each bin.
    pub queue: Vec<(Instant, f64)>,
    /// Timers A, E and G that fired: messages sent again.
    pub resends: Series,
    /// Timers B, F and H that fired: transactions given up.
    pub give_ups: Series,
    /// Messages that met a full buffer, or a full queue of the network card on their way in or out.
    pub dropped: Series,
    /// INVITEs answered with a rejection by this host; not those that were to be rejected and met a full buffer.
    pub rejected: Series,
    /// Numbers of the calls whose state it has kept, in order, warm-up included; of a proxy that need not keep all.
    pub kept: Vec<u32>,
    /// Of a server behind a balancer: transactions in progress that an arriving one met, and how often, warm-up
    /// included.
    pub occupancy: Vec<(u64, u64)>,
    /// All that it did, warm-up included: as the server counts it.
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

/// All that a run shows.
#[derive(Debug)]
pub struct RunResults {
    /// By stream.
    pub streams: Vec<StreamResults>,
    /// By host.
    pub hosts: Vec<HostResults>,
    /// Messages that arrived at hosts and agents.
    pub messages: u64,
    /// Calls that were not over at the end.
    pub calls_left: usize,
    /// Transactions that were not over at the end, agents' and hosts'.
    pub transactions_left: usize,
    /// Digest of everything that happened: the same for the same scenario and seed.
    pub trace: u64,
}

impl RunResults {
    /// Calls offered and completed a second over all streams, from one instant to another.
    pub fn rates(&self, from: Instant, to: Instant) -> (f64, f64) {
        let sum = |of: fn(&StreamResults) -> &Series| -> f64 {
            self.streams.iter().map(|stream| of(stream).rate(from, to)).sum()
        };
        (sum(|stream| &stream.offered), sum(|stream| &stream.completed))
    }
}
