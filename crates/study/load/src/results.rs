//! Measurements of the agents. Times are in microseconds; the names of the JSON keys contain the units.
use core::fmt::Write as _;
use core::time::Duration;
use hdrhistogram::Histogram;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Longest response time that the histogram distinguishes: an hour, far longer than any SIP timeout.
const TIME_MAX_US: u64 = 3_600_000_000;

/// Distribution of times with three significant digits, from 1 us to an hour.
///
/// Serialized as `{count, min_us, mean_us, p50_us, p90_us, p95_us, p99_us, p999_us, max_us}`.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, TIME_MAX_US, 3);
        Self(histogram.expect("the bounds are constants that the histogram accepts"))
    }
}

impl Times {
    pub(crate) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Number of recorded times that do not exceed `limit`.
    pub fn count_within(&self, limit: Duration) -> u64 {
        self.0.count_between(0, u64::try_from(limit.as_micros()).unwrap_or(u64::MAX))
    }

    /// Time in microseconds that `percent` (0 to 100) of the recorded times do not exceed; 0 when empty.
    pub fn percentile_us(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// Mean in microseconds; 0 when empty.
    pub fn mean_us(&self) -> f64 {
        self.0.mean()
    }

    /// Adds the times of another agent.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both histograms have the same bounds");
    }

    /// Returns the times recorded after `before`, an earlier copy of this distribution.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut times = self.0.clone();
        times.subtract(&before.0).expect("an earlier copy has no more counts");
        Self(times)
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let percentiles = [
            ("p50_us", 50.0),
            ("p90_us", 90.0),
            ("p95_us", 95.0),
            ("p99_us", 99.0),
            ("p999_us", 99.9),
            ("max_us", 100.0),
        ];
        let mut object = serializer.serialize_struct("Times", 3 + percentiles.len())?;
        object.serialize_field("count", &self.count())?;
        object.serialize_field("min_us", &self.percentile_us(0.0))?;
        object.serialize_field("mean_us", &self.mean_us())?;
        for (name, percent) in percentiles {
            object.serialize_field(name, &self.percentile_us(percent))?;
        }
        object.end()
    }
}

/// Counts and response times of callers.
///
/// Each started call ends in exactly one of `calls_completed`, `calls_refused`, `calls_abandoned`,
/// `calls_answered_late`, `invite_timeouts`, `bye_timeouts` and `bye_refused`, or is still in `calls_in_progress`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CallResults {
    /// Calls whose INVITE was sent.
    pub calls_started: u64,
    /// Calls in setup, established, or being ended.
    pub calls_in_progress: u64,
    /// Calls answered by a 2xx.
    pub calls_answered: u64,
    /// Calls answered before the caller gave up, and ended by a BYE that got a 2xx, or by the other side's BYE.
    pub calls_completed: u64,
    /// Calls refused by a final response of 300 or more, by status.
    pub calls_refused: BTreeMap<u16, u64>,
    /// Calls given up because no answer came in time, and refused after that.
    pub calls_abandoned: u64,
    /// Calls answered after the caller had given up, and ended at once by a BYE that got a 2xx.
    pub calls_answered_late: u64,
    /// Calls whose INVITE got no final response, whether or not the caller gave up.
    pub invite_timeouts: u64,
    /// Calls whose BYE got no final response.
    pub bye_timeouts: u64,
    /// Calls whose BYE was refused by a final response of 300 or more, by status.
    pub bye_refused: BTreeMap<u16, u64>,
    /// Retransmissions of INVITE, CANCEL and BYE requests, and of ACKs to repeated final responses.
    pub retransmissions_sent: u64,
    /// Responses whose Server name differs from earlier responses of the same call.
    pub wrong_server: u64,
    /// 2xx responses of a second party to the same INVITE, or to the INVITE of a call that is over. The caller
    /// acknowledges each and hangs up at once.
    pub forks_hung_up: u64,
    /// Datagrams that are not SIP or belong to no known call.
    pub stray_datagrams: u64,
    /// Answered calls by the Server name of the 2xx.
    pub calls_by_server: BTreeMap<String, u64>,
    /// Longest delay of an INVITE behind its schedule: the lateness of the generator itself.
    pub start_lag_max_us: u64,
    /// Times from the scheduled start of a call to the 2xx.
    pub invite_response: Times,
    /// Times from the scheduled start of a call to a final response of 300 or more.
    pub refusal_response: Times,
    /// Times from the scheduled end of a call to the final response of its BYE.
    pub bye_response: Times,
}

impl CallResults {
    /// Adds the results of another caller: counts and times are summed, `start_lag_max_us` is the larger of both.
    pub fn merge(&mut self, other: &Self) {
        self.calls_started += other.calls_started;
        self.calls_in_progress += other.calls_in_progress;
        self.calls_answered += other.calls_answered;
        self.calls_completed += other.calls_completed;
        add(&mut self.calls_refused, &other.calls_refused);
        self.calls_abandoned += other.calls_abandoned;
        self.calls_answered_late += other.calls_answered_late;
        self.invite_timeouts += other.invite_timeouts;
        self.bye_timeouts += other.bye_timeouts;
        add(&mut self.bye_refused, &other.bye_refused);
        self.retransmissions_sent += other.retransmissions_sent;
        self.wrong_server += other.wrong_server;
        self.forks_hung_up += other.forks_hung_up;
        self.stray_datagrams += other.stray_datagrams;
        add(&mut self.calls_by_server, &other.calls_by_server);
        self.start_lag_max_us = self.start_lag_max_us.max(other.start_lag_max_us);
        self.invite_response.merge(&other.invite_response);
        self.refusal_response.merge(&other.refusal_response);
        self.bye_response.merge(&other.bye_response);
    }

    /// Returns the same counts, with the times recorded since `before`, an earlier copy of these results.
    #[must_use]
    pub fn with_times_since(mut self, before: &Self) -> Self {
        self.invite_response = self.invite_response.since(&before.invite_response);
        self.refusal_response = self.refusal_response.since(&before.refusal_response);
        self.bye_response = self.bye_response.since(&before.bye_response);
        self
    }

    /// Counts an answered call for the server that answered it.
    pub(crate) fn count_server(&mut self, name: &str) {
        match self.calls_by_server.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.calls_by_server.insert(name.to_owned(), 1)),
        }
    }

    /// Number of failed calls: refused, timed out, or not ended properly.
    pub fn calls_failed(&self) -> u64 {
        self.calls_refused.values().sum::<u64>()
            + self.invite_timeouts
            + self.bye_timeouts
            + self.bye_refused.values().sum::<u64>()
    }

    /// Returns one line of text for a live view.
    pub fn progress(&self) -> String {
        let mut line = format!(
            "{} started, {} in progress, {} completed, {} failed",
            self.calls_started,
            self.calls_in_progress,
            self.calls_completed,
            self.calls_failed()
        );
        for (name, count) in [
            ("abandoned", self.calls_abandoned),
            ("answered late", self.calls_answered_late),
            ("retransmitted", self.retransmissions_sent),
            ("WRONG SERVER", self.wrong_server),
        ] {
            if count > 0 {
                write!(line, ", {count} {name}").expect("a String takes any text");
            }
        }
        for (name, times) in [("INVITE", &self.invite_response), ("BYE", &self.bye_response)] {
            let [p50, p99] = [50.0, 99.0].map(|percent| times.percentile_us(percent) as f64 / 1e3);
            write!(line, "; {name} p50 {p50:.2} ms p99 {p99:.2} ms").expect("a String takes any text");
        }
        line
    }
}

fn add<K: Ord + Clone>(sum: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *sum.entry(key.clone()).or_default() += count;
    }
}

/// Counts of answerers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswererResults {
    /// First copies of requests, by method. ACKs and requests within other servers' calls do not count.
    pub requests: BTreeMap<&'static str, u64>,
    /// Repeated copies of requests.
    pub retransmissions_received: u64,
    /// Final responses to INVITE repeated because no ACK came, and BYEs repeated because no response came.
    pub retransmissions_sent: u64,
    /// Calls answered with 200.
    pub calls_answered: u64,
    /// Calls answered and not yet ended.
    pub calls_in_progress: u64,
    /// Calls ended by the caller's BYE.
    pub calls_completed: u64,
    /// Calls cancelled before they were answered.
    pub calls_cancelled: u64,
    /// Final responses to INVITE whose ACK never came.
    pub ack_timeouts: u64,
    /// Requests within a call of another server, and CANCELs of an INVITE that this server did not receive.
    pub wrong_server: u64,
    /// Requests within calls of this server that are over.
    pub late_requests: u64,
    /// Requests dropped because the queue was full.
    pub queue_drops: u64,
    /// Datagrams without a response: not SIP, with an unusable Via, or a response to a request that was not sent here.
    pub stray_datagrams: u64,
}

impl AnswererResults {
    /// Adds the counts of another answerer.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.requests, &other.requests);
        self.retransmissions_received += other.retransmissions_received;
        self.retransmissions_sent += other.retransmissions_sent;
        self.calls_answered += other.calls_answered;
        self.calls_in_progress += other.calls_in_progress;
        self.calls_completed += other.calls_completed;
        self.calls_cancelled += other.calls_cancelled;
        self.ack_timeouts += other.ack_timeouts;
        self.wrong_server += other.wrong_server;
        self.late_requests += other.late_requests;
        self.queue_drops += other.queue_drops;
        self.stray_datagrams += other.stray_datagrams;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(milliseconds: impl Iterator<Item = u64>) -> CallResults {
        let mut results = CallResults { calls_started: 3, wrong_server: 1, ..CallResults::default() };
        results.calls_refused.insert(486, 2);
        milliseconds.for_each(|ms| results.invite_response.record(Duration::from_millis(ms)));
        results
    }

    #[test]
    fn merging_adds_counts_and_times() {
        let mut sum = some(1..=500);
        sum.merge(&some(501..=1_000));
        assert_eq!((sum.calls_started, sum.calls_refused[&486], sum.calls_failed()), (6, 4, 4));
        assert_eq!(sum.invite_response.count(), 1_000);
        let p90 = sum.invite_response.percentile_us(90.0);
        assert!(p90.abs_diff(900_000) <= 900, "three digits: {p90}");
        assert!(sum.invite_response.count_within(Duration::from_millis(900)).abs_diff(900) <= 1);
    }

    #[test]
    fn times_since_are_times_of_later_calls() {
        let (before, mut now) = (some(1..=10), some(1..=10));
        now.merge(&some(20..=22));
        let later = now.with_times_since(&before);
        assert_eq!((later.calls_started, later.invite_response.count()), (6, 3));
        assert_eq!(later.invite_response.percentile_us(1.0) / 1_000, 20);
    }

    #[test]
    fn merging_forgets_no_field() {
        let mut times = Times::default();
        times.record(Duration::from_millis(7));
        let counts = BTreeMap::from([(486, 3)]);
        let caller = CallResults {
            calls_started: 1,
            calls_in_progress: 2,
            calls_answered: 3,
            calls_completed: 4,
            calls_refused: counts.clone(),
            calls_abandoned: 5,
            calls_answered_late: 14,
            invite_timeouts: 6,
            bye_timeouts: 7,
            bye_refused: counts,
            retransmissions_sent: 8,
            wrong_server: 9,
            forks_hung_up: 10,
            stray_datagrams: 11,
            calls_by_server: BTreeMap::from([("a".to_owned(), 12)]),
            start_lag_max_us: 13,
            invite_response: times.clone(),
            refusal_response: times.clone(),
            bye_response: times,
        };
        let mut sum = CallResults::default();
        sum.merge(&caller);
        assert_eq!(serde_json::to_value(&sum).unwrap(), serde_json::to_value(&caller).unwrap());
        let answerer = AnswererResults {
            requests: BTreeMap::from([("BYE", 1)]),
            retransmissions_received: 2,
            retransmissions_sent: 3,
            calls_answered: 4,
            calls_in_progress: 5,
            calls_completed: 6,
            calls_cancelled: 7,
            ack_timeouts: 8,
            wrong_server: 9,
            late_requests: 10,
            queue_drops: 11,
            stray_datagrams: 12,
        };
        let mut sum = AnswererResults::default();
        sum.merge(&answerer);
        assert_eq!(sum, answerer);
    }

    #[test]
    fn json_names_its_units_and_the_progress_line_its_troubles() {
        let results = some(1..=100);
        let json = serde_json::to_value(&results).unwrap();
        assert_eq!(json["calls_refused"]["486"], 2);
        assert_eq!(json["invite_response"]["count"], 100);
        assert_eq!(json["invite_response"]["max_us"], 100_031);
        let line = results.progress();
        assert!(line.contains("1 WRONG SERVER") && line.contains("INVITE p50 50."), "{line}");
        assert!(!line.contains("abandoned") && !line.contains('\n'));
    }

    #[test]
    fn times_beyond_the_range_are_kept_at_its_ends() {
        let mut times = Times::default();
        times.record(Duration::ZERO);
        times.record(Duration::from_secs(100_000));
        assert_eq!(times.count(), 2);
        assert!(times.percentile_us(100.0).abs_diff(TIME_MAX_US) < TIME_MAX_US / 1_000);
    }
}
