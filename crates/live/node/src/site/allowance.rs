//! Limits the bytes sent to an unverified address. A sender may forge a source address, or name another address in
//! `maddr`. It then causes at most twice the bytes that it sends, and one repetition of a failure.
//!
//! The limit applies to messages that this process itself causes: its own responses, and any response that a timer
//! repeats. Responses of other elements go back once, and once more for each copy of the request (RFC 3261 §17.2).

use crate::site::Site;
use crate::site::edit::is_trusted;
use base::Flow;
use transaction::UNLIMITED_REPEATS;

/// Bytes that may be sent for each byte of the request.
const TIMES: usize = 2;

/// Maximum bytes by which a final response of this process is longer than the 100 before it: tag, reason phrase,
/// Retry-After.
const FINAL_ADDS: usize = 80;

/// How far the sender of a request is verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    /// The source may be forged.
    Unproved,
    /// A user who has proved to know a password.
    Genuine,
}

/// Amount of data that may be sent back for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowance {
    /// In bytes; `None`: unlimited.
    total: Option<usize>,
}

/// Returns the allowance at `to` for a request of `request` bytes that came by `from`. `is_genuine`: the sender has
/// proved that it knows a password. So it has returned a nonce that was sent to the address of this response, or to a
/// client behind a trusted proxy.
pub(crate) fn allowance(site: &Site, from: Flow, to: Flow, is_genuine: bool, request: usize) -> Allowance {
    let has_shown = is_genuine && !is_trusted(site, from);
    // A connection proves the address of its peer: its source cannot be forged, and responses leave only over an
    // established connection.
    let is_free = has_shown || to.transport.is_reliable() || is_trusted(site, to);
    Allowance { total: (!is_free).then_some(TIMES * request) }
}

impl Allowance {
    /// Returns the maximum length of one response. `usual` is the maximum without an allowance.
    pub(crate) fn most(self, usual: usize) -> usize {
        self.total.map_or(usual, |total| usual.min(total))
    }

    /// Returns the maximum length of a 100, so that the final response fits as well. `usual` is the maximum without an
    /// allowance.
    pub(crate) fn most_of_trying(self, usual: usize) -> usize {
        self.total.map_or(usual, |total| usual.min(total.saturating_sub(FINAL_ADDS) / 2))
    }

    /// Returns how often timers may repeat a failure of `length` bytes, after `before` other bytes. RFC 3261 §17.2.1: a
    /// failure MUST be repeated, since a client that has got a 100 or 180 does not repeat the INVITE. So one repetition
    /// is always allowed.
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
    fn only_one_repetition_may_exceed_the_allowance() {
        let bound = Allowance { total: Some(1_000) };
        for before in 0..1_200 {
            for length in [1, 3, 99, 250, 500, 501, 1_000] {
                let repeats = usize::from(bound.repeats(before, length));
                let sent = before + length * (1 + repeats);
                assert!(sent <= 1_000 || repeats == 1, "{before} and {repeats} times {length}");
                assert!(
                    sent + length > 1_000 || repeats == 254,
                    "another repetition would exceed the allowance"
                );
            }
        }
        assert_eq!(Allowance { total: None }.repeats(1 << 20, 400), UNLIMITED_REPEATS);
    }
}
