//! The caller of one call: what it does on which event.

use crate::CallOutcome;
use arrayvec::ArrayVec;
use base::Instant;
use core::time::Duration;

/// What happens to a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UacEvent {
    /// A provisional response to its INVITE.
    Provisional,
    /// A 2xx to its INVITE from the party that answered first, for the first time or again.
    Answered,
    /// A 2xx to its INVITE from another party: somebody forked it on its way.
    ForkAnswered,
    /// A final response of 300 or more to its INVITE.
    Refused(u16),
    /// The INVITE's transaction gave up, or could not send.
    InviteLost,
    /// A final response to its BYE.
    ByeAnswered(u16),
    /// The BYE's transaction gave up, or could not send.
    ByeLost,
    /// The other side's BYE.
    Bye,
    /// The time it asked for has come.
    Alarm,
}

/// What a caller does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UacAct {
    /// Acknowledge the 2xx that just came (RFC 3261 §13.2.2.4: each of them).
    Ack,
    /// Send BYE: in the dialog of the 2xx that just came, if one did, which may be another one than the call's.
    Bye,
    /// Send CANCEL.
    Cancel,
    /// Wake me at this time.
    Alarm(Instant),
    /// The call is over.
    Ended(CallOutcome),
}

/// The acts of one step, in order.
pub type UacActs = ArrayVec<UacAct, 2>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// INVITE sent.
    Calling,
    /// INVITE answered provisionally.
    Ringing,
    /// The caller has had enough before anybody answered: the CANCEL waits for a provisional response (§9.1).
    Leaving,
    /// CANCEL sent.
    Cancelling,
    /// Answered.
    Talking,
    /// BYE sent.
    Closing,
    /// Over, and was never answered.
    Unanswered,
    /// Over, after an answer.
    Over,
}

/// The caller of one call, from its INVITE on, which has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uac {
    stage: Stage,
    holding: Duration,
    has_given_up: bool,
}

impl Uac {
    /// A caller that has sent its INVITE, will give up when [`UacEvent::Alarm`] comes before an answer, and talk for
    /// `holding` after one.
    pub fn new(holding: Duration) -> Self {
        Self { stage: Stage::Calling, holding, has_given_up: false }
    }

    /// Whether the call is over.
    pub fn is_over(self) -> bool {
        matches!(self.stage, Stage::Unanswered | Stage::Over)
    }

    /// Whether it gave up before it was answered: what comes now is no call to it.
    pub fn has_given_up(self) -> bool {
        self.has_given_up
    }

    /// Lets it hang up as soon as it is answered. One that talks already waits for its [`UacEvent::Alarm`].
    pub fn hurry(&mut self) {
        self.holding = Duration::ZERO;
    }

    /// One bounded step.
    pub fn on(&mut self, now: Instant, event: UacEvent) -> UacActs {
        match event {
            UacEvent::Provisional => self.provisional(),
            UacEvent::Answered => self.answered(now),
            // §13.2.2.4: every 2xx is acknowledged, and the dialogs that are not wanted are ended.
            UacEvent::ForkAnswered => UacActs::from_iter([UacAct::Ack, UacAct::Bye]),
            UacEvent::Refused(status) => self.refused(status),
            UacEvent::InviteLost => self.invite_lost(),
            UacEvent::Bye => self.bye(),
            UacEvent::ByeAnswered(status) => {
                let outcome = if status < 300 { self.hung_up() } else { CallOutcome::ByeRefused(status) };
                self.closed(outcome)
            }
            UacEvent::ByeLost => self.closed(CallOutcome::ByeTimeout),
            UacEvent::Alarm => self.alarm(),
        }
    }

    fn provisional(&mut self) -> UacActs {
        match self.stage {
            Stage::Calling => self.stage = Stage::Ringing,
            Stage::Leaving => {
                self.stage = Stage::Cancelling;
                return UacActs::from_iter([UacAct::Cancel]);
            }
            _ => {}
        }
        UacActs::new()
    }

    fn answered(&mut self, now: Instant) -> UacActs {
        match self.stage {
            Stage::Calling | Stage::Ringing if !self.holding.is_zero() => {
                self.stage = Stage::Talking;
                UacActs::from_iter([UacAct::Ack, UacAct::Alarm(now + self.holding)])
            }
            // Nothing to say, or the 2xx crossed the CANCEL: there is a call now, and nobody wants it (§9.1).
            Stage::Calling | Stage::Ringing | Stage::Leaving | Stage::Cancelling => {
                self.stage = Stage::Closing;
                UacActs::from_iter([UacAct::Ack, UacAct::Bye])
            }
            Stage::Talking | Stage::Closing | Stage::Over => UacActs::from_iter([UacAct::Ack]),
            // Too late: the call has been counted as over, and the dialog that there is now is not wanted.
            Stage::Unanswered => UacActs::from_iter([UacAct::Ack, UacAct::Bye]),
        }
    }

    fn refused(&mut self, status: u16) -> UacActs {
        match self.stage {
            Stage::Calling | Stage::Ringing => self.end(CallOutcome::Refused(status)),
            Stage::Leaving | Stage::Cancelling => self.end(CallOutcome::Abandoned),
            _ => UacActs::new(),
        }
    }

    /// §9.1: with or without a CANCEL, nobody has answered.
    fn invite_lost(&mut self) -> UacActs {
        match self.stage {
            Stage::Calling | Stage::Ringing | Stage::Leaving | Stage::Cancelling => {
                self.end(CallOutcome::InviteTimeout)
            }
            _ => UacActs::new(),
        }
    }

    /// §15.1.2: both may hang up at once.
    fn bye(&mut self) -> UacActs {
        match self.stage {
            Stage::Talking | Stage::Closing => self.end(self.hung_up()),
            _ => UacActs::new(),
        }
    }

    /// What a call is that was answered and has ended properly.
    fn hung_up(self) -> CallOutcome {
        if self.has_given_up { CallOutcome::AnsweredLate } else { CallOutcome::Completed }
    }

    fn closed(&mut self, outcome: CallOutcome) -> UacActs {
        if self.stage == Stage::Closing { self.end(outcome) } else { UacActs::new() }
    }

    fn alarm(&mut self) -> UacActs {
        self.has_given_up |= matches!(self.stage, Stage::Calling | Stage::Ringing);
        match self.stage {
            Stage::Calling => {
                self.stage = Stage::Leaving;
                UacActs::new()
            }
            Stage::Ringing => {
                self.stage = Stage::Cancelling;
                UacActs::from_iter([UacAct::Cancel])
            }
            Stage::Talking => {
                self.stage = Stage::Closing;
                UacActs::from_iter([UacAct::Bye])
            }
            _ => UacActs::new(),
        }
    }

    fn end(&mut self, outcome: CallOutcome) -> UacActs {
        self.stage = match self.stage {
            Stage::Talking | Stage::Closing => Stage::Over,
            _ => Stage::Unanswered,
        };
        UacActs::from_iter([UacAct::Ended(outcome)])
    }
}
