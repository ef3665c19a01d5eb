//! The caller of one call: a state machine from events to acts.

use crate::CallOutcome;
use arrayvec::ArrayVec;
use base::Instant;
use core::time::Duration;

/// An event of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UacEvent {
    /// A provisional response to its INVITE.
    Provisional,
    /// A 2xx to its INVITE from the party that answered first, for the first time or again.
    Answered,
    /// A 2xx to its INVITE from another party: a proxy forked the INVITE.
    ForkAnswered,
    /// A final response of 300 or more to its INVITE.
    Refused(u16),
    /// The INVITE's transaction timed out or could not send.
    InviteLost,
    /// A final response to its BYE.
    ByeAnswered(u16),
    /// The BYE's transaction timed out or could not send.
    ByeLost,
    /// The other side's BYE.
    Bye,
    /// The requested alarm is due.
    Alarm,
}

/// An act of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UacAct {
    /// Acknowledge the 2xx that just came (RFC 3261 §13.2.2.4: each 2xx).
    Ack,
    /// Send BYE. If a 2xx just came, the BYE belongs to the dialog of that 2xx, otherwise to the call's dialog.
    Bye,
    /// Send CANCEL.
    Cancel,
    /// Deliver [`UacEvent::Alarm`] at this time.
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
    /// The caller gave up before an answer: the CANCEL waits for a provisional response (§9.1).
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

/// The caller of one call whose INVITE has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uac {
    stage: Stage,
    holding: Duration,
    has_given_up: bool,
}

impl Uac {
    /// Returns a caller that has sent its INVITE. It gives up if [`UacEvent::Alarm`] precedes an answer; an answered
    /// call lasts `holding`.
    pub fn new(holding: Duration) -> Self {
        Self { stage: Stage::Calling, holding, has_given_up: false }
    }

    /// Whether the call is over.
    pub fn is_over(self) -> bool {
        matches!(self.stage, Stage::Unanswered | Stage::Over)
    }

    /// Whether it gave up before an answer. A later answer does not count as a completed call.
    pub fn has_given_up(self) -> bool {
        self.has_given_up
    }

    /// Makes the caller hang up as soon as it is answered. An established call still waits for its [`UacEvent::Alarm`].
    pub fn hurry(&mut self) {
        self.holding = Duration::ZERO;
    }

    /// Handles one event in a bounded step.
    pub fn on(&mut self, now: Instant, event: UacEvent) -> UacActs {
        match event {
            UacEvent::Provisional => self.provisional(),
            UacEvent::Answered => self.answered(now),
            // §13.2.2.4: every 2xx is acknowledged, and unwanted dialogs are ended.
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
            // No holding time, or the 2xx crossed the CANCEL: the call exists now, but the caller has given up (§9.1).
            Stage::Calling | Stage::Ringing | Stage::Leaving | Stage::Cancelling => {
                self.stage = Stage::Closing;
                UacActs::from_iter([UacAct::Ack, UacAct::Bye])
            }
            Stage::Talking | Stage::Closing | Stage::Over => UacActs::from_iter([UacAct::Ack]),
            // Too late: the call has been counted as over, and the new dialog is unwanted.
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

    /// §9.1: no final response came, with or without a CANCEL.
    fn invite_lost(&mut self) -> UacActs {
        match self.stage {
            Stage::Calling | Stage::Ringing | Stage::Leaving | Stage::Cancelling => {
                self.end(CallOutcome::InviteTimeout)
            }
            _ => UacActs::new(),
        }
    }

    /// §15.1.2: both sides may send a BYE at the same time.
    fn bye(&mut self) -> UacActs {
        match self.stage {
            Stage::Talking | Stage::Closing => self.end(self.hung_up()),
            _ => UacActs::new(),
        }
    }

    /// Outcome of a call that was answered and ended properly.
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
