use arrayvec::ArrayVec;
use base::Instant;
use core::time::Duration;

/// What happens to a callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalleeEvent {
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
    /// Answer the request that just came, a CANCEL or BYE.
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
    /// 2xx sent, again after this interval; given up at this time.
    Answered { interval: Duration, until: Instant },
    /// Acknowledged.
    Talking,
    /// BYE sent: nobody acknowledged.
    Closing,
    /// Refused, after a CANCEL, or hung up.
    Over,
}

/// The callee of one call, from the INVITE that it just got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Callee(Stage);

impl Callee {
    /// A callee that has got an INVITE, and what it does first.
    pub fn new(now: Instant, plan: &CalleePlan) -> (Self, CalleeActs) {
        let mut callee = Self(Stage::Called);
        let acts = if plan.ring.is_zero() {
            callee.alarm(now, plan)
        } else {
            CalleeActs::from_iter([CalleeAct::Alarm(now + plan.ring)])
        };
        (callee, acts)
    }

    /// Whether nothing is left to do.
    pub fn is_over(self) -> bool {
        self.0 == Stage::Over
    }

    /// Whether it waits for nothing but a BYE, or for nothing at all.
    pub fn is_settled(self) -> bool {
        matches!(self.0, Stage::Talking | Stage::Over)
    }

    /// One bounded step.
    pub fn on(&mut self, now: Instant, event: CalleeEvent, plan: &CalleePlan) -> CalleeActs {
        match event {
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
                Stage::Called | Stage::Ringing => {
                    self.0 = Stage::Over;
                    CalleeActs::from_iter([
                        CalleeAct::RespondToThis(200),
                        CalleeAct::Respond(487),
                        CalleeAct::Ended,
                    ])
                }
                _ => CalleeActs::from_iter([CalleeAct::RespondToThis(200)]),
            },
            CalleeEvent::Bye => match self.0 {
                Stage::Answered { .. } | Stage::Talking | Stage::Closing => {
                    self.0 = Stage::Over;
                    CalleeActs::from_iter([CalleeAct::RespondToThis(200), CalleeAct::Ended])
                }
                // §15.1.2.
                Stage::Called | Stage::Ringing | Stage::Over => {
                    CalleeActs::from_iter([CalleeAct::RespondToThis(481)])
                }
            },
            CalleeEvent::Done => self.end(),
        }
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
            Stage::Ringing => {
                self.0 = Stage::Answered { interval: plan.t1, until: now + plan.t1 * 64 };
                CalleeActs::from_iter([CalleeAct::Respond(200), CalleeAct::Alarm(now + plan.t1)])
            }
            // §13.3.1.4: the 2xx is sent again, at intervals that double up to T2, over any transport.
            Stage::Answered { interval, until } if now < until => {
                let interval = (interval * 2).min(plan.t2);
                self.0 = Stage::Answered { interval, until };
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
