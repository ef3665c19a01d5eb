//! Tolerated wait at a server with a small socket buffer. A queue shorter than the tolerated wait overflows before
//! responses are late.
//!
//! A lost request is retransmitted after T1 (RFC 3261 §17.1.2.2), so its response takes longer. A server answers BYE,
//! REGISTER and others at once, without a person, so their times show losses. The answer to an INVITE may take any time.
//! But if INVITEs were lost, more answers come shortly after T1 than shortly before.

use super::batch::RequestKind;
use crate::T1;
use base::Instant;
use core::time::Duration;

/// Shortest time over which losses are counted. A loss becomes visible after T1, and answers to INVITEs are compared
/// around T1.
const WINDOW: Duration = Duration::from_millis(T1.as_millis() as u64 + 2 * NEAR.as_millis() as u64);
/// Longest time over which losses are counted.
const LONGEST: Duration = Duration::from_secs(10);
/// Fewest lost requests that count...
const LOST: i32 = 8;
/// ...and their smallest share: one in this number of requests. A network that is usable for calls has a smaller loss.
const SHARE: i32 = 20;
/// Time before and after T1 in which answers to INVITEs are compared.
const NEAR: Duration = Duration::from_millis(100);
/// Smallest patience: it is halved at most twice.
const LEAST: f64 = 0.25;
/// Time without losses after which the patience doubles.
const FORGETS: Duration = Duration::from_mins(1);

/// Losses of a server, and its patience: the factor of the tolerated wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    /// Time of sending of the first request that counts. Earlier requests were not sent with the present patience.
    since: Instant,
    answers: i32,
    lost: i32,
    patience: f64,
    changed: Instant,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self { since: Instant::ZERO, answers: 0, lost: 0, patience: 1.0, changed: Instant::ZERO }
    }

    /// Factor of the tolerated wait; 1 for servers without losses.
    pub(super) fn patience(&self) -> f64 {
        self.patience
    }

    /// Counts a response to a request of this kind that was first sent at `sent`.
    pub(super) fn answer(&mut self, now: Instant, work: RequestKind, sent: Instant) {
        if sent < self.since {
            return;
        }
        let took = now.saturating_since(sent);
        self.answers += 1;
        self.lost += match work {
            RequestKind::Invite if took + NEAR < T1 || took >= T1 + NEAR => 0,
            // Two for one, so that chance alone does not count as a difference.
            RequestKind::Invite if took < T1 => -2,
            _ => i32::from(took >= T1),
        };
    }

    /// Whether enough requests were lost to tolerate less wait. If so, halves the patience.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        let length = now.saturating_since(self.since);
        if length < WINDOW {
            return false;
        }
        let loses = self.lost >= LOST && SHARE * self.lost >= self.answers;
        let is_clean = self.answers >= LOST * SHARE || length >= LONGEST;
        if loses {
            self.patience = (self.patience / 2.0).max(LEAST);
            self.changed = now;
        } else if is_clean && now.saturating_since(self.changed) >= FORGETS {
            self.patience = (self.patience * 2.0).min(1.0);
            self.changed = now;
        }
        if loses || is_clean {
            (self.since, self.answers, self.lost) = (now, 0, 0);
        }
        loses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a hundred requests of this kind a second for ten seconds, one in `one_in` of them lost at first; returns
    /// the patience.
    fn patience(losses: &mut Losses, from_s: u64, work: RequestKind, one_in: u64) -> f64 {
        for n in 0..1_000 {
            let sent = Instant::from_millis(from_s * 1_000 + n * 10);
            let took = if n % one_in == 0 { T1 } else { Duration::from_millis(2) };
            // The order of responses does not matter: a late response comes among the responses to later requests.
            losses.answer(sent + took, work, sent);
            losses.look(sent + took);
        }
        losses.patience()
    }

    #[test]
    fn losses_reduce_the_tolerated_wait_and_a_minute_without_losses_restores_it() {
        let mut losses = Losses::new();
        assert!((patience(&mut losses, 1, RequestKind::Bye, 8) - LEAST).abs() < 1e-9);
        assert!((patience(&mut losses, 11, RequestKind::Bye, u64::MAX) - LEAST).abs() < 1e-9);
        assert!((patience(&mut losses, 71, RequestKind::Bye, u64::MAX) - 2.0 * LEAST).abs() < 1e-9);
    }

    #[test]
    fn small_network_loss_and_long_ringing_do_not_count_as_losses() {
        let mut losses = Losses::new();
        assert!(patience(&mut losses, 1, RequestKind::Bye, 40) >= 1.0);
        // Telephones that ring for 0.2 to 2 s.
        let sent = |n: u64| {
            (
                Instant::from_millis(11_000 + n * 4),
                Duration::from_millis(200 + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 1_800),
            )
        };
        let mut calls: Vec<_> = (0..5_000).map(sent).collect();
        calls.sort_by_key(|(sent, rang)| *sent + *rang);
        for (sent, rang) in calls {
            losses.answer(sent + rang, RequestKind::Invite, sent);
            losses.look(sent + rang);
        }
        assert!(losses.patience() >= 1.0);
        assert!(patience(&mut losses, 40, RequestKind::Invite, 8) < 1.0, "an eighth is answered after T1");
    }
}
