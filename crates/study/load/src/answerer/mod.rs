//! The answering side (UAS) of many concurrent calls.
mod dialogs;
mod flow;
mod texts;
mod transactions;

use crate::alarms::Alarms;
use crate::service::Processor;
use crate::timers::NEVER;
use crate::user_agent::{UasEvent, UasPlan};
use crate::{
    AgentEvent, AgentInput, AnswererResults, COOKIE, RandomTime, ServiceModel, Timers, WORK_MAX, way_back,
};
use base::{Flow, Instant, Outbox, Rng, Slab, Transport};
use core::time::Duration;
use dialogs::{DialogId, Dialogs, Owner};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use texts::{Text, Texts};
use transaction::{Pace, Send, StatusClass, Tell, TransactionEvent as Happening};
use transactions::{Transaction, call_id_hash, key};
use wire::{Message, Method};

/// Configuration of an [`Answerer`].
#[derive(Clone, PartialEq, Debug)]
pub struct AnswererConfig {
    /// Transport of all messages.
    pub transport: Transport,
    /// Index of the local port.
    pub listener: u16,
    /// Address of the port, used in Contact.
    pub local: SocketAddr,
    /// Name in the Server header and the Contact of responses. A caller distinguishes servers by it.
    pub name: String,
    /// Ringing time of a call.
    pub ring: RandomTime,
    /// Answers each INVITE with 100 (Trying) before serving it, as a SIP stack does when its server is busy.
    pub trying: bool,
    /// Speed of the processor and limit of its queue.
    pub service: ServiceModel,
    /// Retransmission timers.
    pub timers: Timers,
}

/// Action after the processor has served a request.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// Pass the event to the callee of the request's dialog.
    Call(UasEvent),
    /// CANCEL of the INVITE with this key.
    Cancel(u64),
    /// Answer with this status.
    Respond(u16),
}

/// A request and its parsed properties.
struct Incoming<'a> {
    request: &'a Message<'a>,
    from: Flow,
    /// Destination of responses.
    to: Flow,
    method: Method,
    /// Key of its transaction.
    key: u64,
}

/// An agent that takes calls: 180, then 200 after the ringing time; 200 to BYE, CANCEL and every other method. Each
/// response is sent after the service time of its [`ServiceModel`]. Retransmissions are answered again or absorbed (RFC
/// 3261 §17.2). A call whose 2xx gets no ACK is ended by a BYE.
///
/// - Create: [`new`](Self::new).
/// - Run: call [`handle`](Self::handle) for every message and at each [`deadline`](Self::deadline).
/// - Read: [`results`](Self::results).
///
/// A request within a call that was set up with another answerer gets 481 and is counted as a wrong server.
#[derive(Debug)]
pub struct Answerer {
    config: AnswererConfig,
    texts: Texts,
    ring_rng: Rng,
    processor: Processor<(u32, Job)>,
    transactions: Slab<Transaction>,
    /// Transactions by their key. A tree, because growing a hash table delays the calls of that moment.
    index: BTreeMap<u64, u32>,
    dialogs: Dialogs,
    alarms: Alarms,
    /// Plan of all callees, without the ringing time of each call. The 180 leaves as soon as the INVITE is served.
    plan: UasPlan,
    results: AnswererResults,
}

impl Answerer {
    /// Returns an answerer. The same configuration, seed and input give the same output.
    pub fn new(config: AnswererConfig, rng: Rng) -> Self {
        Self {
            texts: Texts::new(&config),
            processor: Processor::new(config.service, rng.fork("service")),
            transactions: Slab::default(),
            index: BTreeMap::new(),
            dialogs: Dialogs::new(rng.fork("tags")),
            ring_rng: rng,
            alarms: Alarms::default(),
            plan: UasPlan {
                ring: Duration::ZERO,
                answer: Duration::ZERO,
                t1: config.timers.t1,
                t2: config.timers.t2,
            },
            results: AnswererResults::default(),
            config,
        }
    }

    /// Handles a message, or the alarms that are due.
    pub fn handle(&mut self, now: Instant, input: AgentInput<'_>, out: &mut Outbox<AgentEvent>) {
        if let AgentInput::Message { from, bytes } = input
            && self.receive(now, from, bytes, out).is_none()
        {
            self.results.stray_datagrams += 1;
        }
        for _ in 0..WORK_MAX {
            if let Some((_, (slot, job))) = self.processor.pop(now) {
                self.serve(now, slot, job, out);
            } else if let Some((at, slot)) = self.alarms.pop(now) {
                if self.transactions.get(slot).is_some_and(|transaction| transaction.alarm == at) {
                    self.transactions[slot].alarm = NEVER;
                    self.expire(now, slot, out);
                }
            } else {
                break;
            }
        }
    }

    /// Latest time of the next [`Tick`](AgentInput::Tick). There may be nothing to do then.
    pub fn deadline(&self) -> Option<Instant> {
        [self.processor.deadline(), self.alarms.deadline()].into_iter().flatten().min()
    }

    /// Time at which the request in service is done; `None` if there is none.
    pub fn service_ends(&self) -> Option<Instant> {
        self.processor.deadline()
    }

    /// Counts so far.
    pub fn results(&self) -> &AnswererResults {
        &self.results
    }

    /// Handles a received message; `None` if it cannot be answered.
    fn receive(
        &mut self,
        now: Instant,
        from: Flow,
        bytes: &[u8],
        out: &mut Outbox<AgentEvent>,
    ) -> Option<()> {
        let request = wire::scan(bytes).ok()?;
        if let Some(status) = request.status() {
            return self.receive_response(now, &request, status, out);
        }
        let method = request.method()?;
        if method == Method::Ack {
            self.acknowledge(now, &request, out);
            return Some(());
        }
        let to = way_back(&request, from)?;
        if let Some(fault) = request.fault() {
            let tag = self.dialogs.tag_of(0);
            out.send(to, |bytes| {
                wire::write_response(&request, from.peer, fault.status, fault.reason, &tag, &[], bytes);
            });
            return Some(());
        }
        let key = key(&request, method);
        let incoming = Incoming { request: &request, from, to, method, key };
        if let Some(&slot) = self.index.get(&key) {
            self.repeat(now, slot, &incoming, out);
        } else if self.processor.is_full() {
            self.results.queue_drops += 1;
        } else {
            self.accept(now, &incoming, out);
        }
        Some(())
    }

    /// Queues a request that is not a retransmission.
    fn accept(&mut self, now: Instant, incoming: &Incoming<'_>, out: &mut Outbox<AgentEvent>) {
        let &Incoming { request, from, to, method, key } = incoming;
        *self.results.requests.entry(method.name()).or_default() += 1;
        let call_id = call_id_hash(request);
        let owner = request.to_tag().map(|tag| self.dialogs.owner(tag, call_id));
        let mut tag = String::new();
        let (dialog, job) = match (owner, method) {
            (None, Method::Invite) => {
                let (dialog, new_tag) = self.dialogs.create(call_id);
                tag = new_tag;
                (Some(dialog), Job::Call(UasEvent::Invited))
            }
            (None, Method::Cancel) => (None, self.cancel_job(request, out)),
            // RFC 3261 §15.1.2: a BYE outside any dialog.
            (None, Method::Bye) => (None, Job::Respond(481)),
            (None, _) => (None, Job::Respond(200)),
            (Some(Owner::Known(dialog)), Method::Bye) => (Some(dialog), Job::Call(UasEvent::Bye)),
            (Some(Owner::Known(dialog)), Method::Invite) => (Some(dialog), Job::Call(UasEvent::Reinvited)),
            (Some(Owner::Known(dialog)), _) => (Some(dialog), Job::Respond(200)),
            (Some(Owner::Ended), _) => {
                self.results.late_requests += 1;
                (None, Job::Respond(481))
            }
            (Some(Owner::Foreign), _) => {
                self.count_wrong_server(request, out);
                (None, Job::Respond(481))
            }
        };
        if tag.is_empty() {
            tag = self.dialogs.tag_of(key);
        }
        let text = Text::of_request(request, from.peer, method, &tag);
        let slot = self.transactions.insert(Transaction::new(key, request, (method, to), text, dialog));
        self.index.insert(key, slot);
        if method == Method::Invite {
            if owner.is_none()
                && let Some(dialog) = dialog.and_then(|id| self.dialogs.get_mut(id))
            {
                dialog.transaction = Some(slot);
            }
            if self.config.trying {
                let transaction = &mut self.transactions[slot];
                transaction.timed.on(now, Happening::Respond(StatusClass::Trying), &self.config.timers);
                transaction.status = 100;
                self.send_trying(incoming, out);
            }
        }
        self.processor.push(now, method, (slot, job));
    }

    /// RFC 3261 §9.2: a CANCEL belongs to the INVITE that is equal except for the method.
    fn cancel_job(&mut self, cancel: &Message<'_>, out: &mut Outbox<AgentEvent>) -> Job {
        let invite = key(cancel, Method::Invite);
        if self.index.contains_key(&invite) {
            return Job::Cancel(invite);
        }
        self.count_wrong_server(cancel, out);
        Job::Respond(481)
    }

    fn send_trying(&self, incoming: &Incoming<'_>, out: &mut Outbox<AgentEvent>) {
        let &Incoming { request, from, to, .. } = incoming;
        out.send(to, |bytes| {
            wire::write_response(
                request,
                from.peer,
                100,
                "Trying",
                "",
                &[("Server", &self.config.name)],
                bytes,
            );
        });
    }

    /// Answers a retransmission with the last response, or absorbs it (RFC 3261 §17.2.1, §17.2.2, RFC 6026 §7.1).
    fn repeat(&mut self, now: Instant, slot: u32, incoming: &Incoming<'_>, out: &mut Outbox<AgentEvent>) {
        self.results.retransmissions_received += 1;
        let &Incoming { request, from, method, key, .. } = incoming;
        let transaction = &mut self.transactions[slot];
        let did = transaction.timed.on(now, Happening::Request, &self.config.timers);
        if did.send != Send::Again {
            return;
        }
        if transaction.status == 100 {
            self.send_trying(incoming, out);
        } else if transaction.text.is_empty() {
            // The text was dropped, but the retransmission contains all of it.
            transaction.text = Text::of_request(request, from.peer, method, &self.dialogs.tag_of(key));
            self.send(slot, out);
            self.silence(slot);
        } else {
            self.send(slot, out);
        }
    }

    /// Stops the retransmission of a final response. The ACK to a 2xx is matched by its dialog and the CSeq number of
    /// the INVITE (RFC 3261 §13.2.2.4, §13.3.1.4). The number is needed because the ACK to an earlier INVITE may be
    /// late. The ACK to a refusal is matched by its transaction (§17.2.1), because its dialog is gone or never existed.
    fn acknowledge(&mut self, now: Instant, ack: &Message<'_>, out: &mut Outbox<AgentEvent>) {
        let owner = ack.to_tag().map(|tag| self.dialogs.owner(tag, call_id_hash(ack)));
        match owner {
            Some(Owner::Known(id)) if self.awaits_ack(id, ack.cseq().number) => {
                self.tell(now, id, UasEvent::Ack, None, out);
            }
            _ => {
                if let Some(&slot) = self.index.get(&key(ack, Method::Invite)) {
                    let timed = &mut self.transactions[slot].timed;
                    if timed.on(now, Happening::Ack, &self.config.timers).pace == Pace::Stop {
                        self.silence(slot);
                        self.set_alarm(slot);
                    }
                } else if owner == Some(Owner::Foreign) {
                    self.count_wrong_server(ack, out);
                }
            }
        }
    }

    /// Whether the dialog's last accepted INVITE has this CSeq number and still waits for its ACK.
    fn awaits_ack(&mut self, id: DialogId, cseq: u32) -> bool {
        let accepted = self.dialogs.get_mut(id).filter(|dialog| dialog.callee.awaits_ack());
        let slot = accepted.and_then(|dialog| dialog.transaction);
        slot.is_some_and(|slot| self.transactions[slot].cseq == cseq)
    }

    /// Handles the response to a BYE of this answerer; `None` for any other response.
    fn receive_response(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        status: u16,
        out: &mut Outbox<AgentEvent>,
    ) -> Option<()> {
        let tag = response.top_via().branch?.strip_prefix(COOKIE.as_bytes())?;
        let Owner::Known(id) = self.dialogs.owner(tag, call_id_hash(response)) else { return None };
        let slot = self.dialogs.get_mut(id)?.transaction?;
        let transaction = &mut self.transactions[slot];
        if transaction.method != Method::Bye || response.second_via().is_some() {
            return None;
        }
        let event = Happening::Response(StatusClass::of(status));
        let did = transaction.timed.on(now, event, &self.config.timers);
        if did.tell == Tell::Message && status >= 200 {
            self.tell(now, id, UasEvent::Done, None, out);
        }
        Some(())
    }

    fn count_wrong_server(&mut self, request: &Message<'_>, out: &mut Outbox<AgentEvent>) {
        self.results.wrong_server += 1;
        out.event(AgentEvent::WrongServer { call_id: String::from_utf8_lossy(request.call_id()).into() });
    }
}
