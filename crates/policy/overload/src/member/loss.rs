//! How long a server may make requests wait, where its socket has little room: a queue that is shorter than the wait
//! that is borne overflows before anything is late.
//!
//! What is lost is sent again after T1 (RFC 3261 §17.1.2.2), so its answer takes longer than that. A server answers BYE,
//! REGISTER and others at once, whoever has to answer the telephone; so they show losses, and INVITE does not.

use super::batch::Work;
use crate::T1;
use base::Instant;
use core::time::Duration;

/// The least time in which losses are counted: what is lost shows T1 later.
const WINDOW: Duration = Duration::from_millis(3 * T1.as_millis() as u64);
/// ...and the longest.
const LONGEST: Duration = Duration::from_secs(10);
/// The least requests that have to be lost...
const LOST: u32 = 8;
/// ...and their least share, one in so many: above that of any network that calls can be made through.
const SHARE: u32 = 20;
/// The patience is halved this often at most.
const LEAST: f64 = 0.25;
/// It doubles after so long without losses.
const FORGETS: Duration = Duration::from_mins(1);

/// What a server loses, and the patience with it that is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    /// Answers to earlier requests say nothing of the present patience.
    since: Instant,
    answers: u32,
    lost: u32,
    patience: f64,
    changed: Instant,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self { since: Instant::ZERO, answers: 0, lost: 0, patience: 1.0, changed: Instant::ZERO }
    }

    /// The part of the wait that is borne of other servers.
    pub(super) fn patience(&self) -> f64 {
        self.patience
    }

    /// A request of this kind was answered that was sent then for the first time.
    pub(super) fn answer(&mut self, now: Instant, work: Work, sent: Instant) {
        if work == Work::Invite || sent < self.since {
            return;
        }
        self.answers += 1;
        self.lost += u32::from(now.saturating_since(sent) >= T1);
    }

    /// Looks whether so much was lost that the server has to wait for less: the patience is halved then.
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

    /// Ten seconds of a hundred requests of this kind, one in so many of which is lost at first; the patience then.
    fn patience(losses: &mut Losses, from_s: u64, work: Work, one_in: u64) -> f64 {
        for n in 0..1_000 {
            let sent = Instant::from_millis(from_s * 1_000 + n * 10);
            let took = if n % one_in == 0 { T1 } else { Duration::from_millis(2) };
            // In the order of the answers it would be the same: what is lost is answered among later ones.
            losses.answer(sent + took, work, sent);
            losses.look(sent + took);
        }
        losses.patience()
    }

    #[test]
    fn a_server_that_loses_requests_is_waited_for_less_and_for_longer_again_after_a_minute() {
        let mut losses = Losses::new();
        assert!((patience(&mut losses, 1, Work::Bye, 8) - LEAST).abs() < 1e-9);
        assert!((patience(&mut losses, 11, Work::Bye, u64::MAX) - LEAST).abs() < 1e-9);
        assert!((patience(&mut losses, 71, Work::Bye, u64::MAX) - 2.0 * LEAST).abs() < 1e-9);
    }

    #[test]
    fn a_network_that_loses_little_and_telephones_that_ring_long_are_no_loss_of_the_server() {
        let mut losses = Losses::new();
        assert!(patience(&mut losses, 1, Work::Bye, 40) >= 1.0);
        assert!(patience(&mut losses, 11, Work::Invite, 2) >= 1.0);
    }
}
