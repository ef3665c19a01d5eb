//! The course of a received request: service, ringing, final responses, end.
//!
//! [`Uas`](crate::user_agent::Uas) decides the acts, and the transactions retransmit. This file turns acts into
//! messages.
use super::dialogs::DialogId;
use super::texts::Text;
use super::transactions::Transaction;
use super::{Answerer, Job};
use crate::AgentEvent;
use crate::timers::{NEVER, Timed};
use crate::user_agent::{UasAct, UasEvent};
use base::{Flow, Instant, Outbox};
use transaction::{Send, StatusClass, Tell, TransactionEvent as Happening, TransactionKind};
use wire::Method;

impl Answerer {
    /// Handles a request that the processor has served.
    pub(super) fn serve(&mut self, now: Instant, slot: u32, job: Job, out: &mut Outbox<AgentEvent>) {
        let (dialog, event, otherwise) = match job {
            Job::Respond(status) => return self.answer(now, slot, status, out),
            // RFC 3261 §15.1.2: the dialog may have ended while the request was queued.
            Job::Call(event) => (self.transactions[slot].dialog, event, 481),
            // 200 even if the CANCEL is too late (RFC 3261 §9.2).
            Job::Cancel(invite) => (self.invited(invite), UasEvent::Cancel, 200),
        };
        match dialog.filter(|&id| self.dialogs.get_mut(id).is_some()) {
            Some(id) => self.tell(now, id, event, Some(slot), out),
            None => self.answer(now, slot, otherwise, out),
        }
    }

    /// Returns the dialog whose INVITE still waits for an answer or an ACK.
    fn invited(&mut self, invite: u64) -> Option<DialogId> {
        let slot = *self.index.get(&invite)?;
        let id = self.transactions[slot].dialog?;
        (self.dialogs.get_mut(id)?.transaction == Some(slot)).then_some(id)
    }

    /// Passes an event and the request that caused it to a dialog's callee, and carries out its acts.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        id: DialogId,
        event: UasEvent,
        this: Option<u32>,
        out: &mut Outbox<AgentEvent>,
    ) {
        let Some(dialog) = self.dialogs.get_mut(id) else { return };
        if event == UasEvent::Invited {
            self.plan.answer = self.config.ring.sample(&mut self.ring_rng);
        }
        let was_answered = dialog.callee.is_answered();
        let acts = dialog.callee.on(now, event, &self.plan);
        let before = dialog.transaction;
        if event == UasEvent::Reinvited && dialog.callee.awaits_ack() {
            // From now on the ACK to this INVITE is awaited.
            dialog.transaction = this;
        }
        let slot = dialog.transaction;
        before.filter(|_| before != slot).into_iter().for_each(|before| self.silence(before));
        for act in acts {
            match (act, slot) {
                (UasAct::Respond(status), Some(slot)) => self.respond(now, slot, status, out),
                (UasAct::RespondToThis(status), _) => {
                    if let Some(this) = this {
                        self.answer(now, this, status, out);
                    }
                }
                (UasAct::Alarm(at), Some(slot)) => {
                    self.transactions[slot].wake = at;
                    self.set_alarm(slot);
                }
                (UasAct::Bye, Some(slot)) => self.hang_up(now, id, slot, out),
                (UasAct::Established, Some(slot)) => {
                    self.silence(slot);
                    if let Some(dialog) = self.dialogs.get_mut(id) {
                        dialog.transaction = None;
                    }
                }
                (UasAct::Ended, slot) => {
                    self.dialogs.remove(id);
                    if was_answered {
                        self.results.calls_in_progress -= 1;
                        self.results.calls_completed += u64::from(event == UasEvent::Bye);
                        self.end(slot);
                    }
                }
                // These acts occur only while the call is set up or hung up, and then there is a transaction.
                (_, None) => {}
            }
        }
    }

    /// Sends the callee's response to an INVITE.
    fn respond(&mut self, now: Instant, slot: u32, status: u16, out: &mut Outbox<AgentEvent>) {
        match (status, self.transactions[slot].status) {
            (200, 200) => self.results.retransmissions_sent += 1,
            (200, _) => {
                self.results.calls_answered += 1;
                self.results.calls_in_progress += 1;
            }
            (487, _) => {
                self.results.calls_cancelled += 1;
                self.transactions[slot].wake = NEVER;
            }
            _ => {}
        }
        self.answer(now, slot, status, out);
    }

    /// Sends the response of a transaction.
    fn answer(&mut self, now: Instant, slot: u32, status: u16, out: &mut Outbox<AgentEvent>) {
        let transaction = &mut self.transactions[slot];
        let event = Happening::Respond(StatusClass::of(status));
        let did = transaction.timed.on(now, event, &self.config.timers);
        if did.send != Send::Nothing {
            transaction.status = status;
            self.send(slot, out);
        }
        if self.transactions[slot].method != Method::Invite {
            self.silence(slot);
        }
        self.set_alarm(slot);
    }

    /// Ends the transaction of a call that is over. A BYE of this side is dropped. The transaction of an INVITE is
    /// kept, because the INVITE may be repeated if its ACK was lost.
    fn end(&mut self, slot: Option<u32>) {
        let Some(slot) = slot else { return };
        if self.transactions[slot].method == Method::Invite {
            self.silence(slot);
        } else {
            self.forget(slot);
        }
    }

    /// Drops the text and the alarm of a transaction: nothing more is sent, but the request may be repeated.
    pub(super) fn silence(&mut self, slot: u32) {
        let transaction = &mut self.transactions[slot];
        (transaction.text, transaction.wake) = (Text::default(), NEVER);
    }

    /// Handles the alarm and the timers of a transaction that are due.
    pub(super) fn expire(&mut self, now: Instant, slot: u32, out: &mut Outbox<AgentEvent>) {
        let transaction = &mut self.transactions[slot];
        if now >= transaction.wake {
            transaction.wake = NEVER;
            if let Some(id) = transaction.dialog {
                self.tell(now, id, UasEvent::Alarm, None, out);
            }
        }
        let transaction = &mut self.transactions[slot];
        if let Some(fired) = transaction.timed.due(now) {
            let did = transaction.timed.on(now, fired, &self.config.timers);
            if did.send == Send::Again {
                self.results.retransmissions_sent += 1;
                self.send(slot, out);
            }
            if did.tell == Tell::Timeout {
                self.timed_out(now, slot, out);
            }
        }
        match self.transactions.get(slot) {
            Some(transaction) if transaction.timed.is_over() => self.forget(slot),
            Some(_) => self.set_alarm(slot),
            None => {}
        }
    }

    /// Handles a timeout: no ACK to a refusal, or no response to a BYE.
    fn timed_out(&mut self, now: Instant, slot: u32, out: &mut Outbox<AgentEvent>) {
        let &Transaction { method, dialog, .. } = &self.transactions[slot];
        if method == Method::Invite {
            self.results.ack_timeouts += 1;
        } else if let Some(id) = dialog {
            self.tell(now, id, UasEvent::Done, None, out);
        }
    }

    /// Ends the call of an INVITE whose 2xx got no ACK (RFC 3261 §13.3.1.4).
    fn hang_up(&mut self, now: Instant, id: DialogId, slot: u32, out: &mut Outbox<AgentEvent>) {
        self.results.ack_timeouts += 1;
        let transaction = &mut self.transactions[slot];
        let Some((bye, to)) = transaction.text.bye(&self.config, transaction.to.peer) else {
            return self.tell(now, id, UasEvent::Done, None, out);
        };
        (transaction.text, transaction.to) = (bye, Flow { peer: to, connection: None, ..transaction.to });
        (transaction.method, transaction.status) = (Method::Bye, 0);
        transaction.timed =
            Timed::client(now, TransactionKind::NonInvite, self.config.transport.into(), &self.config.timers);
        self.send(slot, out);
        self.set_alarm(slot);
    }

    fn forget(&mut self, slot: u32) {
        if let Some(transaction) = self.transactions.remove(slot) {
            self.index.remove(&transaction.key);
        }
    }

    /// Sends the last response, or the BYE.
    pub(super) fn send(&self, slot: u32, out: &mut Outbox<AgentEvent>) {
        let transaction = &self.transactions[slot];
        out.send(transaction.to, |bytes| match transaction.status {
            0 => bytes.extend_from_slice(transaction.text.request()),
            _ => self.texts.response(transaction, bytes),
        });
    }

    /// Sets an earlier alarm if the current one is too late. An alarm that is too early is set again when it fires.
    pub(super) fn set_alarm(&mut self, slot: u32) {
        let transaction = &mut self.transactions[slot];
        let deadline = transaction.deadline();
        if deadline < transaction.alarm {
            transaction.alarm = deadline;
            self.alarms.set(deadline, slot);
        }
    }
}
