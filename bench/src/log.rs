//! Results of single calls, and summaries over a window of time.

use std::ops::Range;

use hdrhistogram::Histogram;

/// Longest useful set-up delay in nanoseconds: T1, after which the caller retransmits the INVITE.
pub const IN_TIME_NS: u64 = 500_000_000;

/// A call or registration of a run. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord {
    /// Whether it is a registration instead of a call. Its set-up is its confirmation.
    pub is_registration: bool,
    /// When it was due, since the start of the run.
    pub due_ns: u64,
    /// From when it was due to the first 180 or similar response, if one came before the 2xx.
    pub rang_ns: Option<u64>,
    /// From when it was due to its 2xx, if there was one.
    pub set_up_ns: Option<u64>,
    /// From when it was due to its refusal, if there was one.
    pub refused_ns: Option<u64>,
    /// When its BYE was first sent, since the start of the run.
    pub hung_up_ns: Option<u64>,
    /// From then to the response to its BYE, if there was one.
    pub ended_ns: Option<u64>,
    /// Number of the answerer whose 2xx came first.
    pub server: Option<usize>,
    /// Retransmissions of its INVITE or REGISTER.
    pub repeated: u32,
}

impl CallRecord {
    /// A call or registration due then, without results yet.
    pub(crate) fn new(is_registration: bool, due_ns: u64) -> Self {
        Self {
            is_registration,
            due_ns,
            rang_ns: None,
            set_up_ns: None,
            refused_ns: None,
            hung_up_ns: None,
            ended_ns: None,
            server: None,
            repeated: 0,
        }
    }
}

/// All calls of a run, in the order in which they were due.
#[derive(Clone, Debug, Default)]
pub struct CallLog {
    /// The calls.
    pub calls: Vec<CallRecord>,
    /// Times of all retransmissions since the start of the run, in order.
    pub repetitions_ns: Vec<u64>,
    /// Greatest delay between the due time and the start of a call: lateness of the callers themselves.
    pub late_ns_max: u64,
    /// INVITEs that reached each answerer.
    pub invites: Vec<u64>,
    /// Requests within dialogs that reached another answerer than the call's own.
    pub misrouted: u64,
}

/// Summary of the calls due in a window. Rates are per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowResult {
    /// Calls that were due.
    pub offered: f64,
    /// Of these, calls that were set up in time.
    pub goodput: f64,
    /// Of these, calls that were set up, late ones included.
    pub set_up: f64,
    /// Of these, calls that were refused.
    pub refused: f64,
    /// Requests retransmitted in the window.
    pub repetitions: f64,
    /// Median set-up delay of the calls that were set up, in milliseconds; NaN if there are none.
    pub p50_ms: f64,
    /// 99th percentile of the same.
    pub p99_ms: f64,
}

impl WindowResult {
    /// No result.
    pub(crate) const NOTHING: Self = Self {
        offered: f64::NAN,
        goodput: f64::NAN,
        set_up: f64::NAN,
        refused: f64::NAN,
        repetitions: f64::NAN,
        p50_ms: f64::NAN,
        p99_ms: f64::NAN,
    };
}

/// Returns the percentile of sorted values in milliseconds; NaN if there are none.
pub(crate) fn percentile_ms(sorted_ns: &[u64], percent: usize) -> f64 {
    let at = (sorted_ns.len() * percent).div_ceil(100).checked_sub(1);
    at.map_or(f64::NAN, |at| sorted_ns[at] as f64 / 1e6)
}

impl CallLog {
    fn count(&self, is: impl Fn(&CallRecord) -> bool) -> u64 {
        self.calls.iter().filter(|call| is(call)).count() as u64
    }

    /// Returns the number of calls with a 2xx to the INVITE and one to the BYE.
    pub fn completed(&self) -> u64 {
        self.count(|call| call.ended_ns.is_some())
    }

    /// Returns the number of calls that did not complete.
    pub fn failed(&self) -> u64 {
        self.calls.len() as u64 - self.completed()
    }

    /// Returns the number of calls that a final response of 300 or above ended.
    pub fn refused(&self) -> u64 {
        self.count(|call| call.refused_ns.is_some())
    }

    /// Nanoseconds from when a request was due to its first response: for INVITE the 180, if there was one, for BYE the
    /// 200.
    pub fn round_trips(&self) -> Histogram<u64> {
        // At most a minute: no run waits longer for a response.
        let mut all = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order");
        for call in &self.calls {
            for taken in [call.rang_ns.or(call.set_up_ns), call.ended_ns].into_iter().flatten() {
                all.saturating_record(taken.max(1));
            }
        }
        all
    }

    /// Returns the calls alone, or the registrations.
    #[must_use]
    pub fn of(&self, registrations: bool) -> Self {
        let calls = self.calls.iter().copied().filter(|call| call.is_registration == registrations).collect();
        Self { calls, ..self.clone() }
    }

    /// Summarizes the calls due in this window, in seconds since the start.
    pub fn window(&self, seconds: Range<f64>) -> WindowResult {
        let [from, to] = [seconds.start, seconds.end].map(|at| (at.max(0.0) * 1e9) as u64);
        let first = self.calls.partition_point(|call| call.due_ns < from);
        let end = self.calls.partition_point(|call| call.due_ns < to);
        let calls = &self.calls[first..end];
        let mut delays: Vec<u64> = calls.iter().filter_map(|call| call.set_up_ns).collect();
        delays.sort_unstable();
        let rate = |count: usize| count as f64 / (seconds.end - seconds.start);
        let repeated = self.repetitions_ns.partition_point(|at| *at < to)
            - self.repetitions_ns.partition_point(|at| *at < from);
        WindowResult {
            offered: rate(calls.len()),
            goodput: rate(delays.partition_point(|delay| *delay <= IN_TIME_NS)),
            set_up: rate(delays.len()),
            refused: rate(calls.iter().filter(|call| call.refused_ns.is_some()).count()),
            repetitions: rate(repeated),
            p50_ms: percentile_ms(&delays, 50),
            p99_ms: percentile_ms(&delays, 99),
        }
    }

    /// Returns consecutive windows of this length in seconds: the middle of each since the start, and its summary.
    pub fn course(&self, length: f64) -> Vec<(f64, WindowResult)> {
        let end = self.calls.last().map_or(0.0, |call| call.due_ns as f64 / 1e9);
        let windows = (end / length).round() as usize;
        let window = |index: usize| {
            let from = index as f64 * length;
            (from + length / 2.0, self.window(from..from + length))
        };
        (0..windows).map(window).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn call(due_ms: u64, set_up_ms: Option<u64>, refused_ms: Option<u64>) -> CallRecord {
        let [set_up_ns, refused_ns] = [set_up_ms, refused_ms].map(|time| time.map(|ms| ms * MS));
        CallRecord { set_up_ns, refused_ns, ..CallRecord::new(false, due_ms * MS) }
    }

    #[test]
    fn a_window_has_the_calls_that_were_due_in_it() {
        let calls = vec![
            call(900, Some(1), None),
            call(1_000, Some(10), None),
            call(1_100, Some(501), None),
            call(1_200, None, Some(3)),
            call(1_300, None, None),
            call(3_000, Some(1), None),
        ];
        let repetitions_ns = [999, 1_000, 2_999, 3_000].map(|ms| ms * MS).to_vec();
        let log = CallLog { calls, repetitions_ns, ..CallLog::default() };
        let window = log.window(1.0..3.0);

        let halves = |values: &[f64]| values.iter().map(|value| (2.0 * value) as u64).collect::<Vec<_>>();
        let rates = [window.offered, window.set_up, window.goodput, window.refused];
        assert_eq!(halves(&rates), [4, 2, 1, 1]);
        assert_eq!(halves(&[window.repetitions, window.p50_ms, window.p99_ms]), [2, 20, 1_002]);
        assert!(log.window(4.0..5.0).p50_ms.is_nan());
        let course = log.course(1.0).into_iter().map(|(at, window)| (at, window.offered));
        assert_eq!(course.collect::<Vec<_>>(), [(0.5, 1.0), (1.5, 4.0), (2.5, 0.0)]);
    }
}
