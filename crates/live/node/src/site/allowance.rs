//! Limits what is sent to an address that nobody has verified: whoever forges a source address, or names another address in
//! `maddr`, has at most twice as many bytes sent there as he sends, and one repetition of a failure.
//!
//! The limit is on what this process sends by itself: its own answers, and what timers repeat of anybody's answer. Answers of
//! others go back once, and once more for each copy of the request (RFC 3261 §17.2).

use crate::site::Site;
use crate::site::edit::is_trusted;
use base::Flow;
use transaction::UNLIMITED_REPEATS;

/// So many bytes go out for each byte of the request.
const TIMES: usize = 2;

/// By so many bytes a final answer of our own is longer than the 100 before it: tag, reason phrase, Retry-After.
const FINAL_ADDS: usize = 80;

/// What is known of who sends a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    /// Nothing: its source may be forged.
    Unproved,
    /// A user who has proved to know a password.
    Genuine,
}

/// What may be sent back for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowance {
    /// In bytes; `None` without bound.
    total: Option<usize>,
}

/// What may be sent to `to` for a request of so many bytes that came by `from`. `is_genuine`: its sender has proved to know a
/// password, so that a nonce has come back that was sent where this answer goes, or behind a trusted proxy.
pub(crate) fn allowance(site: &Site, from: Flow, to: Flow, is_genuine: bool, request: usize) -> Allowance {
    let has_shown = is_genuine && !is_trusted(site, from);
    // Nobody forges the source of a connection, nor does anything arrive at whom a connection is not opened to.
    let is_free = has_shown || to.transport.is_reliable() || is_trusted(site, to);
    Allowance { total: (!is_free).then_some(TIMES * request) }
}

impl Allowance {
    /// The most bytes of one answer, of which `usual` are enough where there is no bound.
    pub(crate) fn most(self, usual: usize) -> usize {
        self.total.map_or(usual, |total| usual.min(total))
    }

    /// The most bytes of a 100, of which `usual` are enough where there is no bound: the final answer has to fit as well.
    pub(crate) fn most_of_trying(self, usual: usize) -> usize {
        self.total.map_or(usual, |total| usual.min(total.saturating_sub(FINAL_ADDS) / 2))
    }

    /// How often timers may repeat a failure of this length, when so many other bytes have been sent before. RFC 3261
    /// §17.2.1: it MUST be repeated, since a client that has got a 100 or 180 does not repeat the INVITE. So one
    /// repetition is always allowed.
    pub(crate) fn repeats(self, before: usize, length: usize) -> u8 {
        let Some(total) = self.total else { return UNLIMITED_REPEATS };
        let left = total.saturating_sub(before + length) / length.max(1);
        u8::try_from(left).unwrap_or(UNLIMITED_REPEATS - 1).clamp(1, UNLIMITED_REPEATS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_sent_fits_in_but_for_one_repetition() {
        let bound = Allowance { total: Some(1_000) };
        for before in 0..1_200 {
            for length in [1, 3, 99, 250, 500, 501, 1_000] {
                let repeats = usize::from(bound.repeats(before, length));
                let sent = before + length * (1 + repeats);
                assert!(sent <= 1_000 || repeats == 1, "{before} and {repeats} times {length}");
                assert!(sent + length > 1_000 || repeats == 254, "one more would fit");
            }
        }
        assert_eq!(Allowance { total: None }.repeats(1 << 20, 400), UNLIMITED_REPEATS);
    }
}
