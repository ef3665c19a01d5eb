//! One call of a caller: its states, and what each does with what comes in.
use super::CallerConfig;
use super::dialog::Dialog;
use super::texts::{Leg, Texts};
use super::token::Token;
use crate::timers::Resend;
use crate::{Event, Outcome, Results};
use base::{Instant, Outbox};
use core::time::Duration;
use wire::{Message, Method};

/// What a call acts on besides itself.
pub(super) struct Step<'a> {
    pub(super) now: Instant,
    pub(super) token: Token,
    pub(super) config: &'a CallerConfig,
    pub(super) texts: &'a Texts,
    /// The Server names met so far.
    pub(super) servers: &'a [Box<str>],
    pub(super) results: &'a mut Results,
    pub(super) out: &'a mut Outbox<Event>,
}

impl Step<'_> {
    /// Sends to where calls are sent.
    fn send(&mut self, write: impl FnOnce(&Texts, Token, &mut Vec<u8>)) {
        let (texts, token) = (self.texts, self.token);
        self.out.send(self.config.listener, self.config.target, |bytes| write(texts, token, bytes));
    }

    /// Sends along the dialog's route.
    fn send_in(&mut self, dialog: &Dialog, write: impl FnOnce(&Texts, Token, &mut Vec<u8>)) {
        let (texts, token) = (self.texts, self.token);
        self.out.send(self.config.listener, dialog.next_hop, |bytes| write(texts, token, bytes));
    }

    fn resend(&self) -> Resend {
        Resend::new(self.now, self.config.timers)
    }
}

#[derive(Debug)]
enum Stage {
    /// INVITE sent, nothing heard ("Calling" of RFC 3261 §17.1.1.2): timers A and B run.
    Calling(Resend),
    /// A provisional response came; CANCEL at `until`.
    Ringing { until: Instant },
    /// CANCEL sent, the INVITE still waits for its final response.
    Cancelling(Resend),
    /// Answered; BYE at `until`.
    Talking { until: Instant },
    /// BYE sent, which was due at `due`.
    Closing { due: Instant, resend: Resend },
    /// Counted; stays until `until` to answer what the other side repeats.
    Over { until: Instant },
    /// Nothing is left to do.
    Gone,
}

/// A call from its INVITE until nothing more can come of it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    number: u64,
    /// When it should have started.
    scheduled: Instant,
    holding: Duration,
    /// The alarm that is set for it.
    pub(super) alarm: Instant,
    /// Index of the Server name that its responses carry.
    pub(super) server: Option<u32>,
    stage: Stage,
    dialog: Option<Dialog>,
}

impl Call {
    /// Sends the INVITE.
    pub(super) fn start(&mut self, step: &mut Step<'_>) {
        step.send(Texts::invite);
        let lag = (step.now - self.scheduled).as_micros() as u64;
        step.results.start_lag_max_us = step.results.start_lag_max_us.max(lag);
        step.results.calls_started += 1;
        step.results.calls_in_progress += 1;
        self.stage = Stage::Calling(step.resend());
    }

    /// A call that has yet to [`start`](Self::start).
    pub(super) fn new(id: u64, number: u64, scheduled: Instant, holding: Duration) -> Self {
        let stage = Stage::Gone;
        let alarm = Instant::from_nanos(u64::MAX);
        Self { id, number, scheduled, holding, alarm, server: None, stage, dialog: None }
    }

    /// When [`expire`](Self::expire) has something to do; `None` when the call can be forgotten.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Calling(resend) | Stage::Cancelling(resend) | Stage::Closing { resend, .. } => {
                Some(resend.deadline())
            }
            Stage::Ringing { until } | Stage::Talking { until } | Stage::Over { until } => Some(*until),
            Stage::Gone => None,
        }
    }

    /// Lets it end at `now` if it is answered or rings, and as soon as it is answered otherwise. Whether
    /// [`deadline`](Self::deadline) has come closer.
    pub(super) fn end_at(&mut self, now: Instant) -> bool {
        self.holding = Duration::ZERO;
        match &mut self.stage {
            Stage::Ringing { until } | Stage::Talking { until } if now < *until => {
                *until = now;
                true
            }
            _ => false,
        }
    }

    /// Does what is due.
    pub(super) fn expire(&mut self, step: &mut Step<'_>) {
        let (now, t2) = (step.now, step.config.timers.t2);
        match &mut self.stage {
            // Timer A doubles without a limit, timer E up to T2 (RFC 3261 §17.1.1.2, §17.1.2.2).
            Stage::Calling(resend) => match resend.due(now, Duration::MAX) {
                Some(true) => {
                    step.results.retransmissions_sent += 1;
                    step.send(Texts::invite);
                }
                Some(false) => self.finish(step, Outcome::InviteTimeout),
                None => {}
            },
            Stage::Cancelling(resend) => match resend.due(now, t2) {
                Some(true) => {
                    step.results.retransmissions_sent += 1;
                    step.send(Texts::cancel);
                }
                // RFC 3261 §9.1: without a final response after 64*T1 the INVITE counts as cancelled.
                Some(false) => self.finish(step, Outcome::InviteTimeout),
                None => {}
            },
            Stage::Closing { resend, .. } => match resend.due(now, t2) {
                Some(true) => {
                    step.results.retransmissions_sent += 1;
                    self.send_bye(step);
                }
                Some(false) => self.finish(step, Outcome::ByeTimeout),
                None => {}
            },
            Stage::Ringing { until } if now >= *until => {
                step.send(Texts::cancel);
                self.stage = Stage::Cancelling(step.resend());
            }
            Stage::Talking { until } if now >= *until => {
                let due = *until;
                self.hang_up(step, due);
            }
            Stage::Over { until } if now >= *until => self.stage = Stage::Gone,
            Stage::Ringing { .. } | Stage::Talking { .. } | Stage::Over { .. } | Stage::Gone => {}
        }
    }

    /// Takes a response to one of the call's requests.
    pub(super) fn receive(&mut self, step: &mut Step<'_>, leg: Leg, response: &Message<'_>, status: u16) {
        match (leg, response.cseq().method) {
            (Leg::Invite, Method::Invite) => match status {
                100..=199 => self.provisional(step),
                200..=299 => self.answered(step, response),
                _ => self.refused(step, response, status),
            },
            (Leg::Invite, Method::Cancel) => {
                if let Stage::Cancelling(resend) = &mut self.stage
                    && status >= 200
                {
                    resend.pause();
                }
            }
            (Leg::Bye, Method::Bye) => self.bye_response(step, status),
            // The BYE of a fork is sent for each 2xx that the fork repeats: its own responses change nothing.
            _ => {}
        }
    }

    fn provisional(&mut self, step: &Step<'_>) {
        if let Stage::Calling(_) = self.stage {
            // No CANCEL before a provisional response (RFC 3261 §9.1), but then at once if it is overdue.
            let until = self.scheduled + step.config.answer_wait;
            self.stage = Stage::Ringing { until };
        }
    }

    fn answered(&mut self, step: &mut Step<'_>, response: &Message<'_>) {
        let ended_early = match self.stage {
            Stage::Calling(_) | Stage::Ringing { .. } => false,
            // The 2xx crossed the CANCEL: there is a call now, and nobody wants it.
            Stage::Cancelling(_) => true,
            _ => return self.repeated_answer(step, response),
        };
        let dialog = Dialog::new(response, &step.config.uri, step.config.target);
        step.send_in(&dialog, |texts, token, bytes| texts.ack(token, &dialog, bytes));
        self.dialog = Some(dialog);
        step.results.calls_answered += 1;
        if let Some(server) = self.server {
            step.results.count_server(&step.servers[server as usize]);
        }
        step.results.invite_response.record(step.now - self.scheduled);
        let holding = if ended_early { Duration::ZERO } else { self.holding };
        if holding.is_zero() {
            self.hang_up(step, step.now);
        } else {
            self.stage = Stage::Talking { until: step.now + holding };
        }
    }

    /// A 2xx after the first one. RFC 3261 §13.2.2.4: every one is acknowledged, also the repeated ones, and the
    /// dialog of another party that was reached as well is ended by a BYE.
    fn repeated_answer(&mut self, step: &mut Step<'_>, response: &Message<'_>) {
        match &self.dialog {
            Some(dialog) if dialog.has_remote_tag(response.to_tag()) => {
                step.results.retransmissions_sent += 1;
                step.send_in(dialog, |texts, token, bytes| texts.ack(token, dialog, bytes));
            }
            _ => {
                let fork = Dialog::new(response, &step.config.uri, step.config.target);
                step.results.forks_hung_up += 1;
                step.send_in(&fork, |texts, token, bytes| texts.ack(token, &fork, bytes));
                step.send_in(&fork, |texts, token, bytes| texts.bye(token, Leg::ForkBye, &fork, bytes));
            }
        }
    }

    fn refused(&mut self, step: &mut Step<'_>, response: &Message<'_>, status: u16) {
        // Acknowledged in Calling, Proceeding and Completed alike (RFC 3261 §17.1.1.2).
        step.send(|texts, token, bytes| texts.refusal_ack(token, response, bytes));
        match self.stage {
            Stage::Calling(_) | Stage::Ringing { .. } => {
                step.results.refusal_response.record(step.now - self.scheduled);
                self.finish(step, Outcome::Refused(status));
            }
            Stage::Cancelling(_) => self.finish(step, Outcome::Abandoned),
            _ => step.results.retransmissions_sent += 1,
        }
    }

    fn bye_response(&mut self, step: &mut Step<'_>, status: u16) {
        let Stage::Closing { due, resend } = &mut self.stage else { return };
        if status < 200 {
            // RFC 3261 §17.1.2.2, Proceeding: timer E runs on at T2.
            resend.slow_down(step.now, step.config.timers.t2);
            return;
        }
        step.results.bye_response.record(step.now - *due);
        let outcome = if status < 300 { Outcome::Completed } else { Outcome::ByeRefused(status) };
        self.finish(step, outcome);
    }

    /// The other side's BYE: whether the call knows it, to be answered with 200 then.
    pub(super) fn receive_bye(&mut self, step: &mut Step<'_>, request: &Message<'_>) -> bool {
        if !self.dialog.as_ref().is_some_and(|dialog| dialog.has_remote_tag(request.from_tag())) {
            return false;
        }
        if let Stage::Talking { .. } | Stage::Closing { .. } = self.stage {
            self.finish(step, Outcome::Completed);
            // Timer J (RFC 3261 §17.2.2): the BYE may come again.
            self.stage = Stage::Over { until: step.now + step.config.timers.life() };
        }
        true
    }

    fn hang_up(&mut self, step: &mut Step<'_>, due: Instant) {
        self.send_bye(step);
        self.stage = Stage::Closing { due, resend: step.resend() };
    }

    fn send_bye(&self, step: &mut Step<'_>) {
        if let Some(dialog) = &self.dialog {
            step.send_in(dialog, |texts, token, bytes| texts.bye(token, Leg::Bye, dialog, bytes));
        }
    }

    /// Counts the call as over.
    fn finish(&mut self, step: &mut Step<'_>, outcome: Outcome) {
        let results = &mut *step.results;
        results.calls_in_progress -= 1;
        match outcome {
            Outcome::Completed => results.calls_completed += 1,
            Outcome::Refused(status) => *results.calls_refused.entry(status).or_default() += 1,
            Outcome::Abandoned => results.calls_abandoned += 1,
            Outcome::InviteTimeout => results.invite_timeouts += 1,
            Outcome::ByeTimeout => results.bye_timeouts += 1,
            Outcome::ByeRefused(status) => *results.bye_refused.entry(status).or_default() += 1,
        }
        step.out.event(Event::CallEnded { call: self.number, outcome });
        // After a BYE nothing comes that would need an answer. A final response to the INVITE may come again or
        // late: timer D (RFC 3261 §17.1.1.2).
        self.stage = match self.dialog {
            Some(_) => Stage::Gone,
            None => Stage::Over { until: step.now + step.config.timers.life() },
        };
    }
}
