//! Admission at a host that learns how long each message waited in the buffers in front of it.

use crate::{Guard, MessageClass, Mix, Rejection, RequestPath, Scope, T1, Triage, TriageDecision};
use base::{Instant, Rng};
use core::time::Duration;

/// Decides about new requests when their turn comes, using the host's [`Guard`]: by the standing wait, and by the share
/// of client requests to admit.
#[derive(Clone, Debug)]
pub struct TurnControl {
    standing: StandingWait,
    /// Classes of requests from clients.
    entry: Mix,
    /// Number of requests that exceeded the share of client requests.
    outside: u64,
    rng: Rng,
}

/// Sender of a new request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NewRequestSender {
    /// A client. This share of client requests is admitted, 0 to 1.
    Client(f64),
    /// A host of the same chain. The hosts of the chain have already worked on the request, and a refusal would waste
    /// their work. So by the law `delay` such a request may wait 1.5 times as long. Clients are refused first, calls
    /// with priority last.
    Chain,
}

/// Refusal of a new request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnRefusal {
    /// Response to the request.
    pub rejection: Rejection,
    /// Whether the share admitted the request, so that the host's own law refused it.
    pub is_by_law: bool,
}

impl TurnControl {
    /// Creates a control without requests. `rng` decides which client requests exceed the share.
    pub fn new(rng: Rng) -> Self {
        Self { standing: StandingWait::default(), entry: Mix::new(Scope::NewRequests), outside: 0, rng }
    }

    /// Reports the wait of a message of this class whose turn is now. Only new calls without priority show a standing
    /// wait: the classes before them do not wait for calls, and those behind wait longer. Of requests other than INVITE,
    /// which wait for their turn behind the calls, the law sees the wait divided by their
    /// [`patience`](MessageClass::patience).
    pub fn on_waited<N: Ord + Copy>(
        &mut self,
        guard: &mut Guard<N>,
        now: Instant,
        waited: Duration,
        class: MessageClass,
    ) {
        let counts = match class {
            MessageClass::NewInvite => {
                guard.note_wait(waited);
                self.standing.counts(now, waited, guard.settings().late())
            }
            MessageClass::NewOther => return guard.on_waited(now, waited / class.patience()),
            _ => self.standing.is_on,
        };
        guard.on_waited(now, if counts { waited } else { Duration::ZERO });
    }

    /// Decides whether a new request is accepted. A host without any law also admits all client requests.
    pub fn admit<N: Ord + Copy>(
        &mut self,
        guard: &mut Guard<N>,
        now: Instant,
        class: MessageClass,
        path: &RequestPath<N>,
        origin: NewRequestSender,
    ) -> Result<(), TurnRefusal> {
        if guard.is_off() {
            return Ok(());
        }
        let is_let_in = match origin {
            NewRequestSender::Client(share) => self.entry.draw(now, class, share, &mut self.rng),
            NewRequestSender::Chain => true,
        };
        let waited = guard.wait(now);
        let is_stale = |triage: Triage| triage.decision(class, waited) != TriageDecision::Serve;
        let taken = if guard.settings().triage.is_some_and(is_stale) {
            Err(REFUSED)
        } else if !is_let_in {
            let retry_after = 1 + (self.outside % PAUSE_MAX) as u16;
            self.outside += 1;
            Err(Rejection { retry_after, ..REFUSED })
        } else {
            guard.on_request(
                now,
                class,
                &RequestPath { is_onward: origin == NewRequestSender::Chain, ..*path },
            )
        };
        taken.map_err(|rejection| TurnRefusal { rejection, is_by_law: is_let_in })
    }
}

/// Rejection of a request that waited too long.
const REFUSED: Rejection = Rejection { status: 503, retry_after: 0 };

/// Longest Retry-After of a client request that exceeds the share, in seconds. Callers get each number of seconds in
/// turn, so that they do not all retry at the same time.
const PAUSE_MAX: u64 = 5;

/// Whether new requests without priority have a standing wait. A pause of the thread (another program on its processor,
/// a starting process) delays only the messages that come during the pause. The wait then falls until the backlog is
/// gone. So a pause is no reason to refuse requests. Under overload the wait does not fall.
#[derive(Clone, Debug, Default)]
struct StandingWait {
    noted: Instant,
    /// Start of a time in which messages were late and the wait did not fall, with the wait of its first message.
    late_since: Option<(Instant, Duration)>,
    /// Start of a time in which some message was not late in each `LATE_FOR`, and the last such message.
    calm: Option<(Instant, Instant)>,
    is_on: bool,
}

/// Time for which messages must be late before waits count. It is much longer than the recovery from a pause, and short
/// compared with T1.
const LATE_FOR: Duration = Duration::from_millis(100);
/// Time after which waits stop counting, if no queue stands: again and again some message is not late. Late messages
/// alone do not prolong it, since they may come from a quota of processor time.
const CALM_FOR: Duration = Duration::from_millis(500);

impl StandingWait {
    /// Whether this wait counts. Waits start to count above twice `late`, and stop at `late`: a thread that is busy but
    /// keeps up has queues in between, and refusals would take the time that it needs.
    fn counts(&mut self, now: Instant, waited: Duration, late: Duration) -> bool {
        // If no message came for a while, none waited.
        if now.saturating_since(core::mem::replace(&mut self.noted, now)) > LATE_FOR {
            self.late_since = None;
        }
        if waited > late * 2 {
            let (since, first) = *self.late_since.get_or_insert((now, waited));
            if now.saturating_since(since) >= LATE_FOR {
                // Requests that waited for T1 are retransmitted, so the backlog may not fall.
                self.is_on |= waited >= first.min(T1);
                self.late_since = Some((now, waited));
            }
        } else {
            self.late_since = None;
        }
        if waited > late {
            self.calm.take_if(|(_, last)| now.saturating_since(*last) >= LATE_FOR);
        } else {
            let (since, last) = self.calm.get_or_insert((now, now));
            *last = now;
            let since = *since;
            self.is_on &= now.saturating_since(since) < CALM_FOR;
        }
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the last of these waits counts. Pairs of time and wait, in milliseconds.
    fn counts(standing: &mut StandingWait, waits: impl IntoIterator<Item = (u64, u64)>) -> bool {
        let late = Duration::from_millis(31);
        let note =
            |(at, waited)| standing.counts(Instant::from_millis(at), Duration::from_millis(waited), late);
        waits.into_iter().map(note).last().expect("a wait")
    }

    #[test]
    fn late_requests_are_refused_by_the_law_and_others_by_the_share() {
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
        assert_eq!(admit(&mut turn, &mut guard, now, NewRequestSender::Chain), Ok(()));
        // No client is admitted, and clients come back at different times.
        let refused = |retry_after, is_by_law| {
            Err(TurnRefusal { rejection: Rejection { retry_after, ..REFUSED }, is_by_law })
        };
        for retry_after in [1, 2, 3, 4, 5, 1] {
            assert_eq!(
                admit(&mut turn, &mut guard, now, NewRequestSender::Client(0.0)),
                refused(retry_after, false)
            );
        }
        assert_eq!(admit(&mut turn, &mut guard, now, NewRequestSender::Client(1.0)), Ok(()));
        // After a standing wait of a minute, requests within the share are refused as well.
        let later = now + LATE_FOR;
        for at in [now, later] {
            turn.on_waited(&mut guard, at, Duration::from_mins(1), MessageClass::NewInvite);
        }
        assert_eq!(admit(&mut turn, &mut guard, later, NewRequestSender::Chain), refused(0, true));
        assert_eq!(admit(&mut turn, &mut guard, later, NewRequestSender::Client(0.0)), refused(0, false));
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
            for (at, wait) in [(now, 140), (later, 140), (later, wait)] {
                turn.on_waited(&mut guard, at, Duration::from_millis(wait), MessageClass::NewInvite);
            }
            (0..100).filter(|_| turn.admit(&mut guard, later, class, &path, origin).is_ok()).count()
        };
        let everybody = NewRequestSender::Client(1.0);
        let class = MessageClass::NewInvite;
        assert_eq!([everybody, NewRequestSender::Chain].map(|origin| taken(92, class, origin) / 60), [0, 1]);
        let some = taken(140, class, NewRequestSender::Chain);
        assert!((20..80).contains(&some), "{some}");
        assert_eq!([taken(126, class, everybody), taken(188, class, NewRequestSender::Chain)], [0, 0]);
        // From either origin, an emergency call may wait longer.
        for origin in [everybody, NewRequestSender::Chain] {
            assert!(taken(188, MessageClass::Priority, origin) > 20, "{origin:?}");
        }
    }

    #[test]
    fn a_standing_wait_counts_and_a_pause_does_not() {
        let mut standing = StandingWait::default();
        // A pause of 300 ms, whose messages are read within 20 ms.
        assert!(!counts(&mut standing, (0..20).map(|at| (1_000 + at, 300 - at * 15))));
        // A pause of 400 ms at 70 % load, from which recovery takes longer.
        assert!(!counts(&mut standing, (0..100).map(|at| (1_500 + at * 10, 400 - at * 3))));
        // There are two pauses without messages in between.
        assert!(!counts(&mut standing, [(3_000, 70), (3_500, 70)]));
        // A high load, which the thread can carry.
        assert!(!counts(&mut standing, (0..20).map(|at| (3_700 + at * 10, 60))));
        // Overload.
        assert!(!counts(&mut standing, (0..10).map(|at| (4_000 + at * 10, 70))));
        assert!(counts(&mut standing, [(4_100, 70)]));
        // The wait falls as some requests are refused.
        assert!(counts(&mut standing, (0..49).map(|at| (4_110 + at * 10, 20))));
        assert!(!counts(&mut standing, (0..10).map(|at| (4_600 + at * 10, 20))));
        // Overload, and then a processor that stops for 80 of every 100 ms.
        assert!(counts(&mut standing, (0..20).map(|at| (6_000 + at * 10, 80))));
        assert!(!counts(&mut standing, (0..60).map(|at| (6_200 + at * 10, 90 - at % 10 * 10))));
    }
}
