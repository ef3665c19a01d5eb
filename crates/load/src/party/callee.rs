use arrayvec::ArrayVec;
use base::Instant;
use core::time::Duration;

/// What happens to a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalleeEvent {
    /// Its INVITE: it begins to ring. Before that it is [`Callee::CALLED`].
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
pub enum CalleeAct {
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
pub type CalleeActs = ArrayVec<CalleeAct, 3>;

/// How a callee answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CalleePlan {
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
pub struct Callee(Stage);

impl Callee {
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
    pub fn on(&mut self, now: Instant, event: CalleeEvent, plan: &CalleePlan) -> CalleeActs {
        match event {
            CalleeEvent::Invited if plan.ring.is_zero() => self.alarm(now, plan),
            CalleeEvent::Invited => CalleeActs::from_iter([CalleeAct::Alarm(now + plan.ring)]),
            CalleeEvent::Reinvited => self.reinvited(now, plan),
            CalleeEvent::Alarm => self.alarm(now, plan),
            CalleeEvent::Ack => match self.0 {
                Stage::Answered { .. } => {
                    self.0 = Stage::Talking;
                    CalleeActs::from_iter([CalleeAct::Established])
                }
                _ => CalleeActs::new(),
            },
            CalleeEvent::Cancel => match self.0 {
                // RFC 3261 §9.2.
                Stage::Called | Stage::Ringing => self.terminated(),
                _ => CalleeActs::from_iter([CalleeAct::RespondToThis(200)]),
            },
            CalleeEvent::Bye => match self.0 {
                Stage::Answered { .. } | Stage::Talking | Stage::Closing => {
                    self.0 = Stage::Over;
                    CalleeActs::from_iter([CalleeAct::RespondToThis(200), CalleeAct::Ended])
                }
                // §15.1.2: the dialog is an early one, and what is pending in it gets 487.
                Stage::Ringing => self.terminated(),
                // The same section: there is no dialog.
                Stage::Called | Stage::Over => CalleeActs::from_iter([CalleeAct::RespondToThis(481)]),
            },
            CalleeEvent::Done => self.end(),
        }
    }

    /// By a request that takes the INVITE back.
    fn terminated(&mut self) -> CalleeActs {
        self.0 = Stage::Over;
        CalleeActs::from_iter([CalleeAct::RespondToThis(200), CalleeAct::Respond(487), CalleeAct::Ended])
    }

    /// §14.2.
    fn reinvited(&mut self, now: Instant, plan: &CalleePlan) -> CalleeActs {
        match self.0 {
            // Who asks for another session has seen the 2xx, with or without an ACK.
            Stage::Answered { .. } | Stage::Talking => {
                CalleeActs::from_iter([CalleeAct::RespondToThis(200), self.answer(now, plan)])
            }
            Stage::Called | Stage::Ringing => CalleeActs::from_iter([CalleeAct::RespondToThis(500)]),
            Stage::Closing | Stage::Over => CalleeActs::from_iter([CalleeAct::RespondToThis(481)]),
        }
    }

    /// What is to be done besides the 2xx.
    fn answer(&mut self, now: Instant, plan: &CalleePlan) -> CalleeAct {
        self.0 = Stage::Answered { again: 0, until: now + plan.t1 * 64 };
        CalleeAct::Alarm(now + plan.t1)
    }

    fn alarm(&mut self, now: Instant, plan: &CalleePlan) -> CalleeActs {
        match self.0 {
            Stage::Called => {
                self.0 = Stage::Ringing;
                let mut acts = CalleeActs::from_iter([CalleeAct::Respond(180)]);
                if plan.answer.is_zero() {
                    acts.extend(self.alarm(now, plan));
                } else {
                    acts.push(CalleeAct::Alarm(now + plan.answer));
                }
                acts
            }
            Stage::Ringing => CalleeActs::from_iter([CalleeAct::Respond(200), self.answer(now, plan)]),
            // §13.3.1.4: the 2xx is sent again, at intervals that double up to T2, over any transport.
            Stage::Answered { again, until } if now < until => {
                let again = (again + 1).min(DOUBLINGS_MAX);
                let interval = (plan.t1 * (1 << again)).min(plan.t2);
                self.0 = Stage::Answered { again, until };
                CalleeActs::from_iter([
                    CalleeAct::Respond(200),
                    CalleeAct::Alarm((now + interval).min(until)),
                ])
            }
            // §13.3.1.4: without an ACK the session is to be ended.
            Stage::Answered { .. } => {
                self.0 = Stage::Closing;
                CalleeActs::from_iter([CalleeAct::Bye])
            }
            Stage::Talking | Stage::Closing | Stage::Over => CalleeActs::new(),
        }
    }

    fn end(&mut self) -> CalleeActs {
        match self.0 {
            Stage::Over | Stage::Talking | Stage::Answered { .. } => CalleeActs::new(),
            Stage::Called | Stage::Ringing | Stage::Closing => {
                self.0 = Stage::Over;
                CalleeActs::from_iter([CalleeAct::Ended])
            }
        }
    }
}
