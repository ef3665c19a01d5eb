//! Transactions of the agents: the state machines of `transaction`, each with its own timers.
//!
//! The agents do not use `transaction::Layer`, which keeps a table of keys and the messages for retransmission. An
//! agent finds its call from its own branches and tags, and can render each of its messages again.
use base::Instant;
use core::time::Duration;
use transaction::{
    Life, Machine, MachineStep, Pace, Timer, Timers, TransactionEvent, TransactionKind, TransportKind,
};

/// Instant that is never reached.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A transaction. Its owner keeps the messages.
#[derive(Debug)]
pub(crate) struct Timed {
    machine: Machine,
    /// Over a reliable transport, requests are not retransmitted.
    transport: TransportKind,
    /// Timer that ends the current state.
    life: Timer,
    life_at: Instant,
    /// Time of the next retransmission; `interval` is the length of its last period.
    resend_at: Instant,
    interval: Duration,
}

impl Timed {
    /// Returns the client transaction of a request that is sent now.
    pub(crate) fn client(
        now: Instant,
        kind: TransactionKind,
        transport: TransportKind,
        timers: &Timers,
    ) -> Self {
        let step = Machine::client(kind, transport);
        let mut timed = Self::idle(step.next, transport);
        timed.follow(now, step, timers);
        timed
    }

    /// Returns the server transaction of a received request. The transaction has no timer for the 100, because the 100
    /// is sent at once or never.
    pub(crate) fn server(kind: TransactionKind, transport: TransportKind) -> Self {
        Self::idle(Machine::server(kind).next, transport)
    }

    /// Returns a transaction that is over.
    pub(crate) fn over() -> Self {
        let state = transaction::client::non_invite::ClientNonInviteState::Terminated;
        Self::idle(Machine::ClientNonInvite(state), TransportKind::Reliable)
    }

    fn idle(machine: Machine, transport: TransportKind) -> Self {
        // The value of `life` is unused while its timer does not run.
        Self {
            machine,
            transport,
            life: Timer::K,
            life_at: NEVER,
            resend_at: NEVER,
            interval: Duration::ZERO,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.machine.is_terminated()
    }

    /// Time of the next [`due`](Self::due) timer; [`NEVER`] if none runs.
    pub(crate) fn deadline(&self) -> Instant {
        self.life_at.min(self.resend_at)
    }

    /// Returns the due timer as an event for [`on`](Self::on). If both are due, the end of the state comes before a
    /// retransmission.
    pub(crate) fn due(&mut self, now: Instant) -> Option<TransactionEvent> {
        if now >= self.life_at {
            self.life_at = NEVER;
            Some(TransactionEvent::Timer(self.life))
        } else if now >= self.resend_at {
            self.resend_at = NEVER;
            Some(TransactionEvent::Timer(self.machine.pace_timer()))
        } else {
            None
        }
    }

    /// Handles an event and updates the timers. The owner sends and reports as the returned step says.
    pub(crate) fn on(
        &mut self,
        now: Instant,
        event: TransactionEvent,
        timers: &Timers,
    ) -> MachineStep<Machine> {
        let step = self.machine.on(event, self.transport);
        self.follow(now, step, timers);
        step
    }

    fn follow(&mut self, now: Instant, step: MachineStep<Machine>, timers: &Timers) {
        self.machine = step.next;
        if self.is_over() {
            (self.life_at, self.resend_at) = (NEVER, NEVER);
            return;
        }
        match step.life {
            Life::Keep => {}
            Life::Set(timer) => (self.life, self.life_at) = (timer, now + timers.value(timer)),
            Life::Clear => self.life_at = NEVER,
        }
        let interval = match step.pace {
            Pace::Keep => return,
            Pace::Stop => return self.resend_at = NEVER,
            Pace::Start => timers.t1,
            Pace::Double => self.interval * 2,
            Pace::DoubleToT2 => (self.interval * 2).min(timers.t2),
            Pace::T2 => timers.t2,
        };
        (self.interval, self.resend_at) = (interval, now + interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transaction::{Send, StatusClass, Tell};

    /// Returns the seconds at which a request is retransmitted, and the second of its timeout.
    fn schedule(kind: TransactionKind, transport: TransportKind) -> Vec<f64> {
        let timers = Timers::default();
        let mut request = Timed::client(Instant::ZERO, kind, transport, &timers);
        let mut seconds = Vec::new();
        while request.deadline() != NEVER {
            let now = request.deadline();
            let event = request.due(now).unwrap();
            let step = request.on(now, event, &timers);
            assert!((step.send == Send::Again) != (step.tell == Tell::Timeout));
            seconds.push(now.as_secs_f64());
        }
        assert!(request.is_over());
        seconds
    }

    #[test]
    fn intervals_double_as_timers_a_and_e_do() {
        // RFC 3261 §17.1.1.2 and §17.1.2.2, with the default values.
        assert_eq!(
            schedule(TransactionKind::Invite, TransportKind::Unreliable),
            [0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 32.0]
        );
        let capped = [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5, 32.0];
        assert_eq!(schedule(TransactionKind::NonInvite, TransportKind::Unreliable), capped);
    }

    #[test]
    fn over_a_reliable_transport_a_request_is_sent_once() {
        for kind in [TransactionKind::Invite, TransactionKind::NonInvite] {
            assert_eq!(schedule(kind, TransportKind::Reliable), [32.0]);
        }
    }

    #[test]
    fn a_response_moves_the_timers() {
        let (timers, now) = (Timers::default(), Instant::from_millis(100));
        let udp = |kind| Timed::client(Instant::ZERO, kind, TransportKind::Unreliable, &timers);
        let mut invite = udp(TransactionKind::Invite);
        invite.on(now, TransactionEvent::Response(StatusClass::Provisional), &timers);
        assert_eq!((invite.deadline(), invite.due(now + timers.t1 * 100)), (NEVER, None));
        invite.on(now, TransactionEvent::Response(StatusClass::Failure), &timers);
        assert_eq!(invite.deadline(), now + timers.value(Timer::D));
        let mut bye = udp(TransactionKind::NonInvite);
        bye.on(now, TransactionEvent::Response(StatusClass::Trying), &timers);
        let fires = bye.deadline();
        assert_eq!(fires, Instant::ZERO + timers.t1);
        let event = bye.due(fires).unwrap();
        assert_eq!((bye.on(fires, event, &timers).send, bye.deadline()), (Send::Again, fires + timers.t2));
    }
}
