//! The callee of one call: a state machine from events to acts.

use arrayvec::ArrayVec;
use base::Instant;
use core::time::Duration;

/// An event of a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UasEvent {
    /// The INVITE is served and ringing starts. Before this event the callee is [`Uas::CALLED`].
    Invited,
    /// Another INVITE in the dialog. If it is accepted, [`UasAct::Respond`] answers this one from now on.
    Reinvited,
    /// The requested alarm is due.
    Alarm,
    /// The ACK to its 2xx.
    Ack,
    /// CANCEL.
    Cancel,
    /// The caller's BYE.
    Bye,
    /// The INVITE was refused and its transaction ended without an ACK; or the callee's BYE was answered, or timed out.
    Done,
}

/// An act of a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UasAct {
    /// Answer the INVITE.
    Respond(u16),
    /// Answer the request that just came: a CANCEL, a BYE, or another INVITE.
    RespondToThis(u16),
    /// Send BYE.
    Bye,
    /// Deliver [`UasEvent::Alarm`] at this time.
    Alarm(Instant),
    /// The call is established: the ACK came.
    Established,
    /// Nothing is left to do.
    Ended,
}

/// The acts of one step, in order.
pub type UasActs = ArrayVec<UasAct, 3>;

/// Timing of a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UasPlan {
    /// Time from INVITE to 180.
    pub ring: Duration,
    /// Time from 180 to 200.
    pub answer: Duration,
    /// T1 of RFC 3261: the callee itself retransmits the 2xx.
    pub t1: Duration,
    /// T2 of RFC 3261.
    pub t2: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Nothing sent yet.
    Called,
    /// 180 sent.
    Ringing,
    /// 2xx sent and repeated at intervals doubled `again` times; given up at `until`.
    Answered { again: u8, until: Instant },
    /// Acknowledged.
    Talking,
    /// BYE sent because no ACK came.
    Closing,
    /// Refused after a CANCEL, or hung up.
    Over,
}

/// Maximum of doublings of T1: the ACK is given up at 64*T1.
const DOUBLINGS_MAX: u8 = 6;

/// The callee of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uas(Stage);

impl Uas {
    /// A callee that has received an INVITE and done nothing yet.
    pub const CALLED: Self = Self(Stage::Called);

    /// Whether nothing is left to do.
    pub fn is_over(self) -> bool {
        self.0 == Stage::Over
    }

    /// Whether it waits only for a BYE, or for nothing.
    pub fn is_settled(self) -> bool {
        matches!(self.0, Stage::Talking | Stage::Over)
    }

    /// Whether there is a session: the callee has answered, and the call is not over.
    pub fn is_answered(self) -> bool {
        matches!(self.0, Stage::Answered { .. } | Stage::Talking | Stage::Closing)
    }

    /// Whether an answered INVITE still waits for its ACK.
    pub fn awaits_ack(self) -> bool {
        matches!(self.0, Stage::Answered { .. })
    }

    /// Handles one event in a bounded step.
    pub fn on(&mut self, now: Instant, event: UasEvent, plan: &UasPlan) -> UasActs {
        match event {
            UasEvent::Invited if plan.ring.is_zero() => self.alarm(now, plan),
            UasEvent::Invited => UasActs::from_iter([UasAct::Alarm(now + plan.ring)]),
            UasEvent::Reinvited => self.reinvited(now, plan),
            UasEvent::Alarm => self.alarm(now, plan),
            UasEvent::Ack => match self.0 {
                Stage::Answered { .. } => {
                    self.0 = Stage::Talking;
                    UasActs::from_iter([UasAct::Established])
                }
                _ => UasActs::new(),
            },
            UasEvent::Cancel => match self.0 {
                // RFC 3261 §9.2.
                Stage::Called | Stage::Ringing => self.terminated(),
                _ => UasActs::from_iter([UasAct::RespondToThis(200)]),
            },
            UasEvent::Bye => match self.0 {
                Stage::Answered { .. } | Stage::Talking | Stage::Closing => {
                    self.0 = Stage::Over;
                    UasActs::from_iter([UasAct::RespondToThis(200), UasAct::Ended])
                }
                // §15.1.2: the dialog is early, and its pending INVITE gets 487.
                Stage::Ringing => self.terminated(),
                // §15.1.2: there is no dialog.
                Stage::Called | Stage::Over => UasActs::from_iter([UasAct::RespondToThis(481)]),
            },
            UasEvent::Done => self.end(),
        }
    }

    /// Ends a call that is not answered yet, on a CANCEL or BYE of the caller.
    fn terminated(&mut self) -> UasActs {
        self.0 = Stage::Over;
        UasActs::from_iter([UasAct::RespondToThis(200), UasAct::Respond(487), UasAct::Ended])
    }

    /// Handles a re-INVITE (RFC 3261 §14.2).
    fn reinvited(&mut self, now: Instant, plan: &UasPlan) -> UasActs {
        match self.0 {
            // A caller that sends a re-INVITE has received the 2xx, even if the ACK is missing.
            Stage::Answered { .. } | Stage::Talking => {
                UasActs::from_iter([UasAct::RespondToThis(200), self.answer(now, plan)])
            }
            Stage::Called | Stage::Ringing => UasActs::from_iter([UasAct::RespondToThis(500)]),
            Stage::Closing | Stage::Over => UasActs::from_iter([UasAct::RespondToThis(481)]),
        }
    }

    /// Begins to wait for the ACK; returns the act that accompanies the 2xx.
    fn answer(&mut self, now: Instant, plan: &UasPlan) -> UasAct {
        self.0 = Stage::Answered { again: 0, until: now + plan.t1 * 64 };
        UasAct::Alarm(now + plan.t1)
    }

    fn alarm(&mut self, now: Instant, plan: &UasPlan) -> UasActs {
        match self.0 {
            Stage::Called => {
                self.0 = Stage::Ringing;
                let mut acts = UasActs::from_iter([UasAct::Respond(180)]);
                if plan.answer.is_zero() {
                    acts.extend(self.alarm(now, plan));
                } else {
                    acts.push(UasAct::Alarm(now + plan.answer));
                }
                acts
            }
            Stage::Ringing => UasActs::from_iter([UasAct::Respond(200), self.answer(now, plan)]),
            // §13.3.1.4: the 2xx is sent again, at intervals that double up to T2, over any transport.
            Stage::Answered { again, until } if now < until => {
                let again = (again + 1).min(DOUBLINGS_MAX);
                let interval = (plan.t1 * (1 << again)).min(plan.t2);
                self.0 = Stage::Answered { again, until };
                UasActs::from_iter([UasAct::Respond(200), UasAct::Alarm((now + interval).min(until))])
            }
            // §13.3.1.4: without an ACK the session is ended.
            Stage::Answered { .. } => {
                self.0 = Stage::Closing;
                UasActs::from_iter([UasAct::Bye])
            }
            Stage::Talking | Stage::Closing | Stage::Over => UasActs::new(),
        }
    }

    fn end(&mut self) -> UasActs {
        match self.0 {
            Stage::Over | Stage::Talking | Stage::Answered { .. } => UasActs::new(),
            Stage::Called | Stage::Ringing | Stage::Closing => {
                self.0 = Stage::Over;
                UasActs::from_iter([UasAct::Ended])
            }
        }
    }
}
