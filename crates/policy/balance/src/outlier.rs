//! Outlier detection: which member fails new requests that the others do not fail.
//!
//! A member that fails at once has nothing to do, so policies of least load send it nearly all calls. It is found in
//! two ways, and ejected: it gets no new calls for a while, longer each time.
//!
//! - *In a row*: [`ROW`] server failures one after the other, while other members answer as they should. Judged at
//!   once.
//! - *By share*: in an interval it fails more than half, and more than three times the share of all others together
//!   and ten points. What every member gives, such as a 404 or a 486, is no sign.
//!
//! 503 does not count: who sends it pauses, which is another mechanism.

use core::ops::AddAssign;
use core::time::Duration;

/// Time over which answers are counted.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// Fewest final answers of a member in an interval from which its share of failures is judged.
const MIN_ANSWERS: u32 = 20;

/// Server failures in a row that make an outlier. Even where one call in ten fails, that is chance once in 100,000
/// times.
pub(crate) const ROW: u32 = 5;
/// Fewest answers of all others together that a share is compared with: a policy of least load leaves them few.
const MIN_OTHERS: u32 = 5;

/// What became of a new request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It rings, or the like.
    Progress,
    /// It was answered as by a server that works; asking for credentials and the answer to a CANCEL are that too.
    Success,
    /// It failed, which may be the caller's fault.
    Failure,
    /// It failed, by the word of the server for its own fault.
    ServerFailure,
}

impl Outcome {
    /// The outcome that a response stands for, if it counts.
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

/// Outcomes of new requests, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutcomeTally {
    /// How many were answered provisionally.
    pub progressed: u32,
    /// How many of these ended.
    pub resolved: u32,
    /// How many ended.
    pub ended: u32,
    /// How many of these failed.
    pub failed: u32,
    /// Server failures in a row up to the last answer.
    pub row: u32,
}

impl OutcomeTally {
    /// `progressed`: it had been answered provisionally.
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

    /// Whether these, of all other members, are those of servers that work: more succeeds, or rings still, than
    /// fails.
    pub(crate) fn is_sound(&self) -> bool {
        let well = self.ended - self.failed + self.progressed.saturating_sub(self.resolved);
        well > 0 && well >= self.failed
    }

    /// Whether a member with this is an outlier by its share, beside all `others`; not where there is too little to
    /// say.
    pub(crate) fn stands_out(&self, others: &Self) -> bool {
        let enough = self.ended >= MIN_ANSWERS && others.ended >= MIN_OTHERS;
        enough && self.share() > 0.5 && self.share() > 3.0 * others.share() + 0.1
    }
}

impl AddAssign for OutcomeTally {
    /// The row is that of the later one.
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
    fn what_every_member_gives_is_no_sign() {
        let judge = |own: OutcomeTally, others: OutcomeTally| own.stands_out(&others);
        assert!(!judge(tally(20, 20), tally(100, 100)));
        assert!(!judge(tally(20, 20), tally(100, 40)), "all have trouble");
        assert!(judge(tally(20, 20), tally(100, 20)));
        assert!(!judge(tally(20, 10), tally(100, 0)), "half is not more than half");
        assert!(judge(tally(20, 11), tally(100, 0)));
        assert!(!judge(tally(19, 19), tally(100, 0)));
        assert!(!judge(tally(20, 20), tally(4, 0)), "nobody to compare with");
    }

    #[test]
    fn a_row_ends_with_any_other_answer() {
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
