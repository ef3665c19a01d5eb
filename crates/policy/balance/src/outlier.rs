//! Outlier detection: finds a member at which new requests fail that do not fail at the other members.
//!
//! A member that at once answers with failures has no load, so policies of least load send it nearly all calls. It is
//! found in two ways, and ejected: it gets no new calls for a while, each time for longer.
//!
//! - *In a row*: the member sends [`ROW`] successive server failures, while other members answer normally. It is
//!   ejected at once.
//! - *By share*: in an interval, more than half of the member's requests fail. This share is also more than three times
//!   the share of all other members together, plus ten points. Failures common to all members, such as a 404 or a 486,
//!   do not make an outlier.
//!
//! A 503 does not count, since its sender pauses, which is another mechanism.

use core::ops::AddAssign;
use core::time::Duration;

/// Time over which answers are counted.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// Least number of final responses of a member in an interval from which its share of failures is computed.
const MIN_ANSWERS: u32 = 20;

/// Number of successive server failures that make an outlier. Even if one call in ten fails, five failures in a row
/// occur by chance only once in 100,000 times.
pub(crate) const ROW: u32 = 5;
/// Least number of responses of all other members together for a comparison of shares. It is low, since a policy of
/// least load sends them few requests.
const MIN_OTHERS: u32 = 5;

/// Outcome of a new request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The request got a provisional response above 100.
    Progress,
    /// The request got the response of a working server, such as a challenge, or a 487 after a CANCEL.
    Success,
    /// The request failed, possibly by the caller's fault.
    Failure,
    /// The request failed with a response that means a fault of the server.
    ServerFailure,
}

impl Outcome {
    /// Outcome of a response; `None` if it does not count.
    pub(crate) fn of(status: u16) -> Option<Self> {
        match status {
            ..=100 | 503 => None,
            101..200 => Some(Self::Progress),
            200..=399 | 401 | 407 | 487 => Some(Self::Success),
            500 | 502 | 504 | 580 => Some(Self::ServerFailure),
            _ => Some(Self::Failure),
        }
    }
}

/// Counts of outcomes of new requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutcomeTally {
    /// Requests with a provisional response.
    pub progressed: u32,
    /// Requests of `progressed` that ended.
    pub resolved: u32,
    /// Requests that ended.
    pub ended: u32,
    /// Requests of `ended` that failed.
    pub failed: u32,
    /// Number of successive server failures up to the last response.
    pub row: u32,
}

impl OutcomeTally {
    /// Counts an outcome. `progressed`: the request had got a provisional response.
    pub(crate) fn count(&mut self, outcome: Outcome, progressed: bool) {
        self.resolved += u32::from(outcome != Outcome::Progress && progressed);
        self.progressed += u32::from(outcome == Outcome::Progress);
        self.ended += u32::from(outcome != Outcome::Progress);
        match outcome {
            Outcome::Progress => {}
            Outcome::Success => self.row = 0,
            Outcome::Failure => (self.failed, self.row) = (self.failed + 1, 0),
            Outcome::ServerFailure => (self.failed, self.row) = (self.failed + 1, self.row.saturating_add(1)),
        }
    }

    fn share(&self) -> f64 {
        f64::from(self.failed) / f64::from(self.ended.max(1))
    }

    /// Whether this tally of all other members shows working servers. At least one request has succeeded or still
    /// rings, and the number of such requests is not less than the number of failures.
    pub(crate) fn is_sound(&self) -> bool {
        let well = self.ended - self.failed + self.progressed.saturating_sub(self.resolved);
        well > 0 && well >= self.failed
    }

    /// Whether a member with this tally is an outlier by its share, compared with all `others`. False if there are too
    /// few responses.
    pub(crate) fn stands_out(&self, others: &Self) -> bool {
        let enough = self.ended >= MIN_ANSWERS && others.ended >= MIN_OTHERS;
        enough && self.share() > 0.5 && self.share() > 3.0 * others.share() + 0.1
    }
}

impl AddAssign for OutcomeTally {
    /// Adds the counts of a later tally, and sets the number of successive failures to the later one.
    fn add_assign(&mut self, later: Self) {
        self.progressed += later.progressed;
        self.resolved += later.resolved;
        self.ended += later.ended;
        self.failed += later.failed;
        self.row = later.row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(ended: u32, failed: u32) -> OutcomeTally {
        OutcomeTally { ended, failed, ..OutcomeTally::default() }
    }

    #[test]
    fn failures_common_to_all_members_make_no_outlier() {
        let judge = |own: OutcomeTally, others: OutcomeTally| own.stands_out(&others);
        assert!(!judge(tally(20, 20), tally(100, 100)));
        assert!(!judge(tally(20, 20), tally(100, 40)), "all members fail requests");
        assert!(judge(tally(20, 20), tally(100, 20)));
        assert!(!judge(tally(20, 10), tally(100, 0)), "half is not more than half");
        assert!(judge(tally(20, 11), tally(100, 0)));
        assert!(!judge(tally(19, 19), tally(100, 0)));
        assert!(!judge(tally(20, 20), tally(4, 0)), "too few responses of others to compare with");
    }

    #[test]
    fn a_row_of_failures_ends_with_any_other_answer() {
        let mut tally = OutcomeTally::default();
        for (status, row) in [(500, 1), (580, 2), (503, 2), (180, 2), (404, 0), (502, 1), (504, 2), (200, 0)]
        {
            if let Some(outcome) = Outcome::of(status) {
                tally.count(outcome, false);
            }
            assert_eq!(tally.row, row, "after {status}");
        }
        assert_eq!((tally.progressed, tally.ended, tally.failed), (1, 6, 5));
    }
}
