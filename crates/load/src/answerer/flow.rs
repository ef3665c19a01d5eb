//! What becomes of a request once it is in: service, ringing, final responses, the end.
use super::transaction::State;
use super::{Answerer, Job};
use crate::Event;
use crate::timers::Resend;
use base::{Instant, Outbox};
use wire::Method;

impl Answerer {
    /// Does what the processor has made time for.
    pub(super) fn serve(&mut self, now: Instant, slot: u32, job: Job, out: &mut Outbox<Event>) {
        match job {
            Job::Ring => self.ring(now, slot, out),
            Job::Cancel(invite) => {
                // 200 even if it comes too late (RFC 3261 §9.2).
                self.finish(now, slot, 200, out);
                if let Some(&invite) = self.index.get(&invite) {
                    self.terminate(now, invite, out);
                }
            }
            Job::Bye => {
                self.finish(now, slot, 200, out);
                self.end_call(now, slot, out);
            }
            Job::Respond(status) => self.finish(now, slot, status, out),
        }
    }

    fn ring(&mut self, now: Instant, slot: u32, out: &mut Outbox<Event>) {
        self.respond(slot, 180, out);
        let ring = self.config.ring.sample(&mut self.ring_rng);
        if ring.is_zero() {
            self.finish(now, slot, 200, out);
        } else {
            self.enter(slot, State::Ringing { until: now + ring });
        }
    }

    /// Sends a final response.
    fn finish(&mut self, now: Instant, slot: u32, status: u16, out: &mut Outbox<Event>) {
        self.respond(slot, status, out);
        let transaction = &self.transactions[slot];
        if transaction.method != Method::Invite {
            return self.complete(now, slot);
        }
        if status < 300
            && let Some(dialog) = transaction.dialog.and_then(|id| self.dialogs.get_mut(id))
            && !dialog.answered
        {
            dialog.answered = true;
            self.results.calls_answered += 1;
            self.results.calls_in_progress += 1;
        }
        self.enter(slot, State::Final(Resend::new(now, self.config.timers)));
    }

    /// 487 for an INVITE that still rings (RFC 3261 §9.2, §15.1.2). Its dialog ends with it.
    fn terminate(&mut self, now: Instant, invite: u32, out: &mut Outbox<Event>) {
        if let State::Ringing { .. } = self.transactions[invite].state {
            if let Some(id) = self.transactions[invite].dialog {
                self.dialogs.remove(id);
            }
            self.results.calls_cancelled += 1;
            self.finish(now, invite, 487, out);
        }
    }

    /// Ends the dialog of a BYE, if no other BYE did while this one was queued.
    fn end_call(&mut self, now: Instant, bye: u32, out: &mut Outbox<Event>) {
        let Some(dialog) = self.transactions[bye].dialog.and_then(|id| self.dialogs.remove(id)) else {
            return;
        };
        if dialog.answered {
            self.results.calls_completed += 1;
            self.results.calls_in_progress -= 1;
        }
        let Some(invite) = dialog.invite else { return };
        match self.transactions[invite].state {
            // Who hangs up has seen the 2xx: the ACK was lost.
            State::Final(_) => self.complete(now, invite),
            _ => self.terminate(now, invite, out),
        }
    }

    /// Nothing more is to be sent, but the request may come again.
    pub(super) fn complete(&mut self, now: Instant, slot: u32) {
        let transaction = &mut self.transactions[slot];
        transaction.head = Box::default();
        if transaction.method == Method::Invite
            && let Some(dialog) = transaction.dialog.and_then(|id| self.dialogs.get_mut(id))
        {
            dialog.invite = None;
        }
        self.enter(slot, State::Done { until: now + self.config.timers.life() });
    }

    /// Does what is due for a transaction.
    pub(super) fn expire(&mut self, now: Instant, slot: u32, out: &mut Outbox<Event>) {
        let t2 = self.config.timers.t2;
        let transaction = &mut self.transactions[slot];
        let status = transaction.status;
        match &mut transaction.state {
            State::Ringing { until } if now >= *until => return self.finish(now, slot, 200, out),
            State::Final(resend) => match resend.due(now, t2) {
                Some(true) => {
                    self.results.retransmissions_sent += 1;
                    self.respond(slot, status, out);
                }
                Some(false) => return self.give_up(slot),
                None => {}
            },
            State::Done { until } if now >= *until => return self.forget(slot),
            State::Ringing { .. } | State::Done { .. } | State::Queued => {}
        }
        self.set_alarm(slot);
    }

    /// No ACK came. RFC 3261 §13.3.1.4 would have a 2xx's call ended by a BYE; here the caller is gone, and the call
    /// is forgotten.
    fn give_up(&mut self, slot: u32) {
        self.results.ack_timeouts += 1;
        let dialog = self.transactions[slot].dialog.and_then(|id| self.dialogs.remove(id));
        if dialog.is_some_and(|dialog| dialog.answered) {
            self.results.calls_in_progress -= 1;
        }
        self.forget(slot);
    }

    fn forget(&mut self, slot: u32) {
        if let Some(transaction) = self.transactions.remove(slot) {
            self.index.remove(&transaction.key);
        }
    }

    /// Sends a response, which becomes the one to repeat.
    pub(super) fn respond(&mut self, slot: u32, status: u16, out: &mut Outbox<Event>) {
        let transaction = &mut self.transactions[slot];
        transaction.status = status;
        let (method, head) = (transaction.method, &transaction.head);
        out.send(self.config.listener, transaction.to, |bytes| {
            self.texts.response(status, method, head, bytes);
        });
    }

    fn enter(&mut self, slot: u32, state: State) {
        self.transactions[slot].state = state;
        self.set_alarm(slot);
    }

    /// Sets the alarm if the one that stands rings too late; one that rings too early is set again then.
    fn set_alarm(&mut self, slot: u32) {
        let transaction = &mut self.transactions[slot];
        if let Some(deadline) = transaction.deadline()
            && deadline < transaction.alarm
        {
            transaction.alarm = deadline;
            self.alarms.set(deadline, slot);
        }
    }
}
