use crate::Outcome;
use arrayvec::ArrayVec;
use base::Instant;
use core::time::Duration;

/// What happens to a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallerEvent {
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
pub enum CallerAct {
    /// Acknowledge the 2xx that just came (RFC 3261 §13.2.2.4: each of them).
    Ack,
    /// Send BYE: in the dialog of the 2xx that just came, if one did, which may be another one than the call's.
    Bye,
    /// Send CANCEL.
    Cancel,
    /// Wake me at this time.
    Alarm(Instant),
    /// The call is over.
    Ended(Outcome),
}

/// The acts of one step, in order.
pub type CallerActs = ArrayVec<CallerAct, 2>;

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
pub struct Caller {
    stage: Stage,
    holding: Duration,
    has_given_up: bool,
}

impl Caller {
    /// A caller that has sent its INVITE, will give up when [`CallerEvent::Alarm`] comes before an answer, and talk for
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

    /// Lets it hang up as soon as it is answered. One that talks already waits for its [`CallerEvent::Alarm`].
    pub fn hurry(&mut self) {
        self.holding = Duration::ZERO;
    }

    /// One bounded step.
    pub fn on(&mut self, now: Instant, event: CallerEvent) -> CallerActs {
        match event {
            CallerEvent::Provisional => self.provisional(),
            CallerEvent::Answered => self.answered(now),
            // §13.2.2.4: every 2xx is acknowledged, and the dialogs that are not wanted are ended.
            CallerEvent::ForkAnswered => CallerActs::from_iter([CallerAct::Ack, CallerAct::Bye]),
            CallerEvent::Refused(status) => self.refused(status),
            CallerEvent::InviteLost => self.invite_lost(),
            CallerEvent::Bye => self.bye(),
            CallerEvent::ByeAnswered(status) => {
                let outcome = if status < 300 { self.hung_up() } else { Outcome::ByeRefused(status) };
                self.closed(outcome)
            }
            CallerEvent::ByeLost => self.closed(Outcome::ByeTimeout),
            CallerEvent::Alarm => self.alarm(),
        }
    }

    fn provisional(&mut self) -> CallerActs {
        match self.stage {
            Stage::Calling => self.stage = Stage::Ringing,
            Stage::Leaving => {
                self.stage = Stage::Cancelling;
                return CallerActs::from_iter([CallerAct::Cancel]);
            }
            _ => {}
        }
        CallerActs::new()
    }

    fn answered(&mut self, now: Instant) -> CallerActs {
        match self.stage {
            Stage::Calling | Stage::Ringing if !self.holding.is_zero() => {
                self.stage = Stage::Talking;
                CallerActs::from_iter([CallerAct::Ack, CallerAct::Alarm(now + self.holding)])
            }
            // Nothing to say, or the 2xx crossed the CANCEL: there is a call now, and nobody wants it (§9.1).
            Stage::Calling | Stage::Ringing | Stage::Leaving | Stage::Cancelling => {
                self.stage = Stage::Closing;
                CallerActs::from_iter([CallerAct::Ack, CallerAct::Bye])
            }
            Stage::Talking | Stage::Closing | Stage::Over => CallerActs::from_iter([CallerAct::Ack]),
            // Too late: the call has been counted as over, and the dialog that there is now is not wanted.
            Stage::Unanswered => CallerActs::from_iter([CallerAct::Ack, CallerAct::Bye]),
        }
    }

    fn refused(&mut self, status: u16) -> CallerActs {
        match self.stage {
            Stage::Calling | Stage::Ringing => self.end(Outcome::Refused(status)),
            Stage::Leaving | Stage::Cancelling => self.end(Outcome::Abandoned),
            _ => CallerActs::new(),
        }
    }

    /// §9.1: with or without a CANCEL, nobody has answered.
    fn invite_lost(&mut self) -> CallerActs {
        match self.stage {
            Stage::Calling | Stage::Ringing | Stage::Leaving | Stage::Cancelling => {
                self.end(Outcome::InviteTimeout)
            }
            _ => CallerActs::new(),
        }
    }

    /// §15.1.2: both may hang up at once.
    fn bye(&mut self) -> CallerActs {
        match self.stage {
            Stage::Talking | Stage::Closing => self.end(self.hung_up()),
            _ => CallerActs::new(),
        }
    }

    /// What a call is that was answered and has ended properly.
    fn hung_up(self) -> Outcome {
        if self.has_given_up { Outcome::AnsweredLate } else { Outcome::Completed }
    }

    fn closed(&mut self, outcome: Outcome) -> CallerActs {
        if self.stage == Stage::Closing { self.end(outcome) } else { CallerActs::new() }
    }

    fn alarm(&mut self) -> CallerActs {
        self.has_given_up |= matches!(self.stage, Stage::Calling | Stage::Ringing);
        match self.stage {
            Stage::Calling => {
                self.stage = Stage::Leaving;
                CallerActs::new()
            }
            Stage::Ringing => {
                self.stage = Stage::Cancelling;
                CallerActs::from_iter([CallerAct::Cancel])
            }
            Stage::Talking => {
                self.stage = Stage::Closing;
                CallerActs::from_iter([CallerAct::Bye])
            }
            _ => CallerActs::new(),
        }
    }

    fn end(&mut self, outcome: Outcome) -> CallerActs {
        self.stage = match self.stage {
            Stage::Talking | Stage::Closing => Stage::Over,
            _ => Stage::Unanswered,
        };
        CallerActs::from_iter([CallerAct::Ended(outcome)])
    }
}
