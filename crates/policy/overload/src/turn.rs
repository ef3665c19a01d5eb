//! Which new requests a host takes that learns how long each message has waited in the buffers before it.

use crate::{Fate, Guard, MessageClass, Mix, Rejection, RequestPath, Scope, T1, Triage};
use base::{Instant, Rng};
use core::time::Duration;

/// Decides about new requests when their turn comes, with the [`Guard`] of the host: by the wait that stays, and by
/// the share that is taken of a request's sender.
#[derive(Clone, Debug)]
pub struct TurnControl {
    standing: Standing,
    /// What kinds of requests come from senders of which a share is taken.
    entry: Mix,
    /// Requests that were refused by the share.
    outside: u64,
    rng: Rng,
}

/// Whom a new request comes from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Origin {
    /// A client. This share of what clients send is taken, 0 to 1.
    Client(f64),
    /// A host of the same chain. It has worked for the request, and so have those before it; refused, all of that is
    /// lost. So by the law `delay` its request may wait half as long again, and clients are refused first, calls with
    /// priority last.
    Chain,
}

/// Why a new request is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnRefusal {
    /// How it is answered.
    pub rejection: Rejection,
    /// Whether the share had let it in, so that the host itself has refused it.
    pub is_by_law: bool,
}

impl TurnControl {
    /// One that has seen no request. `rng` draws by the share.
    pub fn new(rng: Rng) -> Self {
        Self { standing: Standing::default(), entry: Mix::new(Scope::NewRequests), outside: 0, rng }
    }

    /// A message of this class, whose turn is now, has waited so long. Messages with priority are served first and
    /// probes last, so that their waits do not tell how long others wait.
    pub fn on_waited<N: Ord + Copy>(
        &mut self,
        guard: &mut Guard<N>,
        now: Instant,
        waited: Duration,
        class: MessageClass,
    ) {
        let counts = match class {
            MessageClass::NewInvite | MessageClass::NewOther => {
                self.standing.counts(now, waited, guard.settings().late())
            }
            _ => self.standing.is_on,
        };
        guard.on_waited(now, if counts { waited } else { Duration::ZERO });
    }

    /// Whether a new request is taken. A host without any law refuses nothing by the share of clients either.
    pub fn admit<N: Ord + Copy>(
        &mut self,
        guard: &mut Guard<N>,
        now: Instant,
        class: MessageClass,
        path: &RequestPath<N>,
        origin: Origin,
    ) -> Result<(), TurnRefusal> {
        if guard.is_off() {
            return Ok(());
        }
        let is_let_in = match origin {
            Origin::Client(share) => self.entry.draw(now, class, share, &mut self.rng),
            Origin::Chain => true,
        };
        let waited = guard.wait(now);
        let is_stale = |triage: Triage| triage.fate(class, waited) != Fate::Serve;
        let taken = if guard.settings().triage.is_some_and(is_stale) {
            Err(REFUSED)
        } else if !is_let_in {
            let retry_after = 1 + (self.outside % PAUSE_MAX) as u16;
            self.outside += 1;
            Err(Rejection { retry_after, ..REFUSED })
        } else {
            guard.on_request(now, class, &RequestPath { is_onward: origin == Origin::Chain, ..*path })
        };
        taken.map_err(|rejection| TurnRefusal { rejection, is_by_law: is_let_in })
    }
}

/// What a request gets that has waited too long.
const REFUSED: Rejection = Rejection { status: 503, retry_after: 0 };

/// The longest Retry-After, in seconds, of a request that the share refuses. Callers are told each number of seconds
/// up to it in turn, so that they do not come back together.
const PAUSE_MAX: u64 = 5;

/// Whether the wait of new requests without priority is a standing one. A pause of the thread (another program on its
/// processor, a process that starts) delays once what came during it, and is no reason to refuse anything: the wait
/// falls until that is made up for. With too many requests it stays.
#[derive(Clone, Debug, Default)]
struct Standing {
    noted: Instant,
    /// Since when messages are late whose wait does not fall, and how long the first of them had waited.
    late_since: Option<(Instant, Duration)>,
    calm_since: Option<Instant>,
    is_on: bool,
}

/// So long messages have to be late in a row: much longer than a pause takes to be made up for, short against T1.
const LATE_FOR: Duration = Duration::from_millis(100);
/// So long none may have been late until waits count no more.
const CALM_FOR: Duration = Duration::from_secs(1);

impl Standing {
    /// Whether this wait counts. Above `late` a message is late.
    fn counts(&mut self, now: Instant, waited: Duration, late: Duration) -> bool {
        // Where nothing came for a while, nothing waited.
        if now.saturating_since(core::mem::replace(&mut self.noted, now)) > LATE_FOR {
            self.late_since = None;
        }
        if waited > late {
            self.calm_since = None;
            let (since, first) = *self.late_since.get_or_insert((now, waited));
            if now.saturating_since(since) >= LATE_FOR {
                // Callers repeat what has waited for T1, so that more comes than is made up for.
                self.is_on |= waited >= first.min(T1);
                self.late_since = Some((now, waited));
            }
        } else {
            self.late_since = None;
            let since = *self.calm_since.get_or_insert(now);
            self.is_on &= now.saturating_since(since) < CALM_FOR;
        }
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the last of these waits counts, each in milliseconds at a time in milliseconds.
    fn counts(standing: &mut Standing, waits: impl IntoIterator<Item = (u64, u64)>) -> bool {
        let late = Duration::from_millis(31);
        let note =
            |(at, waited)| standing.counts(Instant::from_millis(at), Duration::from_millis(waited), late);
        waits.into_iter().map(note).last().expect("a wait")
    }

    #[test]
    fn what_has_waited_too_long_is_refused_by_the_law_and_the_rest_by_the_share() {
        let (now, rng) = (Instant::from_millis(1_000), Rng::from_seed(1));
        let mut guard: Guard<u8> = Guard::new(
            now,
            crate::OverloadSettings::by_wait(),
            1,
            Duration::from_millis(1),
            rng.fork("guard"),
        );
        let mut turn = TurnControl::new(rng);
        let path = RequestPath { from: None, takes_feedback: false, to: None, path: None, is_onward: false };
        let admit = |turn: &mut TurnControl, guard: &mut Guard<u8>, at, origin| {
            turn.admit(guard, at, MessageClass::NewInvite, &path, origin)
        };
        assert_eq!(admit(&mut turn, &mut guard, now, Origin::Chain), Ok(()));
        // Nobody from outside is let in, and they come back at different times.
        let refused = |retry_after, is_by_law| {
            Err(TurnRefusal { rejection: Rejection { retry_after, ..REFUSED }, is_by_law })
        };
        for retry_after in [1, 2, 3, 4, 5, 1] {
            assert_eq!(admit(&mut turn, &mut guard, now, Origin::Client(0.0)), refused(retry_after, false));
        }
        assert_eq!(admit(&mut turn, &mut guard, now, Origin::Client(1.0)), Ok(()));
        // A minute's wait that stays: whoever is let in is refused all the same.
        let later = now + LATE_FOR;
        for at in [now, later] {
            turn.on_waited(&mut guard, at, Duration::from_mins(1), MessageClass::NewInvite);
        }
        assert_eq!(admit(&mut turn, &mut guard, later, Origin::Chain), refused(0, true));
        assert_eq!(admit(&mut turn, &mut guard, later, Origin::Client(0.0)), refused(0, false));
    }

    #[test]
    fn clients_are_refused_before_other_hosts_of_the_chain() {
        let (now, rng) = (Instant::from_millis(1_000), Rng::from_seed(2));
        let mut guard: Guard<u8> = Guard::new(
            now,
            crate::OverloadSettings::by_wait(),
            1,
            Duration::from_millis(1),
            rng.fork("guard"),
        );
        let mut turn = TurnControl::new(rng);
        let path = RequestPath { from: None, takes_feedback: false, to: None, path: None, is_onward: false };
        let later = now + LATE_FOR;
        let mut taken = |wait, class, origin| {
            for at in [now, later] {
                turn.on_waited(&mut guard, at, Duration::from_millis(wait), MessageClass::NewInvite);
            }
            (0..100).filter(|_| turn.admit(&mut guard, later, class, &path, origin).is_ok()).count()
        };
        let everybody = Origin::Client(1.0);
        for class in [MessageClass::NewInvite, MessageClass::NewOther] {
            assert_eq!([everybody, Origin::Chain].map(|origin| taken(46, class, origin) / 60), [0, 1]);
            let some = taken(70, class, Origin::Chain);
            assert!((20..80).contains(&some), "{some}");
            assert_eq!(
                [63, 94].map(|wait| taken(wait, class, if wait == 63 { everybody } else { Origin::Chain })),
                [0, 0]
            );
        }
        // Whoever lets it in, an emergency call has more room.
        for origin in [everybody, Origin::Chain] {
            assert!(taken(94, MessageClass::Priority, origin) > 20, "{origin:?}");
        }
    }

    #[test]
    fn a_wait_counts_that_stays_and_a_pause_does_not() {
        let mut standing = Standing::default();
        // A pause of 300 ms, of which the messages that came in it are read within 20 ms.
        assert!(!counts(&mut standing, (0..20).map(|at| (1_000 + at, 300 - at * 15))));
        // One of 400 ms at 70 % load, which takes longer to make up for.
        assert!(!counts(&mut standing, (0..100).map(|at| (1_500 + at * 10, 400 - at * 3))));
        // Two pauses with nothing between.
        assert!(!counts(&mut standing, [(3_000, 50), (3_500, 50)]));
        // Too many requests.
        assert!(!counts(&mut standing, (0..10).map(|at| (4_000 + at * 10, 50))));
        assert!(counts(&mut standing, [(4_100, 50)]));
        // The wait falls as some are refused.
        assert!(counts(&mut standing, (0..99).map(|at| (4_110 + at * 10, 20))));
        assert!(!counts(&mut standing, (0..10).map(|at| (5_100 + at * 10, 20))));
    }
}
