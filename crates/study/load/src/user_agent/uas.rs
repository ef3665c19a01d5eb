//! The callee of one call: what it does on which event.

use arrayvec::ArrayVec;
use base::Instant;
use core::time::Duration;

/// What happens to a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UasEvent {
    /// Its INVITE: it begins to ring. Before that it is [`Uas::CALLED`].
    Invited,
    /// Another INVITE in the dialog. Responses to an INVITE are now responses to this one.
    Reinvited,
    /// The time it asked for has come.
    Alarm,
    /// The ACK to its 2xx.
    Ack,
    /// CANCEL.
    Cancel,
    /// The caller's BYE.
    Bye,
    /// The INVITE's transaction, refused, ended without an ACK; or its own BYE was answered or lost.
    Done,
}

/// What a callee does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UasAct {
    /// Answer the INVITE.
    Respond(u16),
    /// Answer the request that just came: a CANCEL, a BYE, another INVITE.
    RespondToThis(u16),
    /// Send BYE.
    Bye,
    /// Wake me at this time.
    Alarm(Instant),
    /// The call stands: the ACK came.
    Established,
    /// Nothing is left to do.
    Ended,
}

/// The acts of one step, in order.
pub type UasActs = ArrayVec<UasAct, 3>;

/// How a callee answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UasPlan {
    /// From INVITE to 180.
    pub ring: Duration,
    /// From 180 to 200.
    pub answer: Duration,
    /// T1 and T2 of RFC 3261, for the 2xx that the callee itself sends again.
    pub t1: Duration,
    /// See [`Self::t1`].
    pub t2: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Nothing sent yet.
    Called,
    /// 180 sent.
    Ringing,
    /// 2xx sent, so many times again; given up at this time.
    Answered { again: u8, until: Instant },
    /// Acknowledged.
    Talking,
    /// BYE sent: nobody acknowledged.
    Closing,
    /// Refused, after a CANCEL, or hung up.
    Over,
}

/// T1 need not be doubled more often: at 64*T1 the ACK is given up.
const DOUBLINGS_MAX: u8 = 6;

/// The callee of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uas(Stage);

impl Uas {
    /// A callee that has got an INVITE, and has done nothing yet.
    pub const CALLED: Self = Self(Stage::Called);

    /// Whether nothing is left to do.
    pub fn is_over(self) -> bool {
        self.0 == Stage::Over
    }

    /// Whether it waits for nothing but a BYE, or for nothing at all.
    pub fn is_settled(self) -> bool {
        matches!(self.0, Stage::Talking | Stage::Over)
    }

    /// Whether there is a session: it has answered, and the call is not over.
    pub fn is_answered(self) -> bool {
        matches!(self.0, Stage::Answered { .. } | Stage::Talking | Stage::Closing)
    }

    /// Whether it has answered an INVITE that nobody acknowledged yet.
    pub fn awaits_ack(self) -> bool {
        matches!(self.0, Stage::Answered { .. })
    }

    /// One bounded step.
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
                // §15.1.2: the dialog is an early one, and what is pending in it gets 487.
                Stage::Ringing => self.terminated(),
                // The same section: there is no dialog.
                Stage::Called | Stage::Over => UasActs::from_iter([UasAct::RespondToThis(481)]),
            },
            UasEvent::Done => self.end(),
        }
    }

    /// By a request that takes the INVITE back.
    fn terminated(&mut self) -> UasActs {
        self.0 = Stage::Over;
        UasActs::from_iter([UasAct::RespondToThis(200), UasAct::Respond(487), UasAct::Ended])
    }

    /// §14.2.
    fn reinvited(&mut self, now: Instant, plan: &UasPlan) -> UasActs {
        match self.0 {
            // Who asks for another session has seen the 2xx, with or without an ACK.
            Stage::Answered { .. } | Stage::Talking => {
                UasActs::from_iter([UasAct::RespondToThis(200), self.answer(now, plan)])
            }
            Stage::Called | Stage::Ringing => UasActs::from_iter([UasAct::RespondToThis(500)]),
            Stage::Closing | Stage::Over => UasActs::from_iter([UasAct::RespondToThis(481)]),
        }
    }

    /// What is to be done besides the 2xx.
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
            // §13.3.1.4: without an ACK the session is to be ended.
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
