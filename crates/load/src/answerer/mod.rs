//! The answering side (UAS) of many calls at a time.
mod dialogs;
mod flow;
mod texts;
mod transaction;

use crate::alarms::Alarms;
use crate::service::Processor;
use crate::{AnswererResults, Event, Holding, Input, ServiceModel, Timers, WORK_MAX};
use base::{Instant, Outbox, Rng, Slab};
use dialogs::{Dialogs, Owner};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use texts::Texts;
use transaction::{State, Transaction, call_id_hash, key};
use wire::{Message, Method};

/// What an [`Answerer`] does.
#[derive(Clone, PartialEq, Debug)]
pub struct AnswererConfig {
    /// Index of the socket that responses are sent from.
    pub listener: u16,
    /// Address of that socket, for Contact.
    pub local: SocketAddr,
    /// Name in the Server header and the Contact of its responses; a caller tells servers apart by it.
    pub name: String,
    /// How long a call rings.
    pub ring: Holding,
    /// Answer each INVITE with 100 (Trying) before it is served, as a stack does that sees its server busy.
    pub trying: bool,
    /// How fast it is.
    pub service: ServiceModel,
    /// Retransmission timers.
    pub timers: Timers,
}

/// What is to be done when the processor has served a request.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// INVITE outside dialogs.
    Ring,
    /// CANCEL of the INVITE with this key.
    Cancel(u64),
    /// BYE within a dialog.
    Bye,
    /// Anything else gets this status.
    Respond(u16),
}

/// A request with what was found out about it.
struct Incoming<'a> {
    request: &'a Message<'a>,
    from: SocketAddr,
    /// Where responses go.
    to: SocketAddr,
    method: Method,
    /// Of its transaction.
    key: u64,
}

/// An agent that takes calls: 180, 200 after the ringing time, 200 to BYE, CANCEL and every other method, each after
/// the time that its [`ServiceModel`] takes. Repeated requests get the last response again for 64*T1.
///
/// - Make: [`new`](Self::new).
/// - Run: [`handle`](Self::handle) for every datagram, and when [`deadline`](Self::deadline) has come.
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
    /// Transactions by their key. A tree, because a hash table stops to grow and the calls of that moment see it.
    index: BTreeMap<u64, u32>,
    dialogs: Dialogs,
    alarms: Alarms,
    results: AnswererResults,
}

impl Answerer {
    /// An answerer. Same config, same seed, same input: same output.
    pub fn new(config: AnswererConfig, rng: Rng) -> Self {
        Self {
            texts: Texts::new(&config),
            processor: Processor::new(config.service, rng.fork("service")),
            transactions: Slab::default(),
            index: BTreeMap::new(),
            dialogs: Dialogs::new(rng.fork("tags")),
            ring_rng: rng,
            alarms: Alarms::default(),
            results: AnswererResults::default(),
            config,
        }
    }

    /// Takes a datagram, or does what is due.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, out: &mut Outbox<Event>) {
        if let Input::Datagram { from, bytes } = input
            && self.receive(now, from, bytes, out).is_none()
        {
            self.results.stray_datagrams += 1;
        }
        for _ in 0..WORK_MAX {
            if let Some((_, (slot, job))) = self.processor.pop(now) {
                self.serve(now, slot, job, out);
            } else if let Some((at, slot)) = self.alarms.pop(now) {
                if self.transactions.get(slot).is_some_and(|transaction| transaction.alarm == at) {
                    self.transactions[slot].alarm = Instant::from_nanos(u64::MAX);
                    self.expire(now, slot, out);
                }
            } else {
                break;
            }
        }
    }

    /// When to [`Tick`](Input::Tick) next, at the latest; there may be nothing to do then.
    pub fn deadline(&self) -> Option<Instant> {
        [self.processor.deadline(), self.alarms.deadline()].into_iter().flatten().min()
    }

    /// Counts so far.
    pub fn results(&self) -> &AnswererResults {
        &self.results
    }

    /// `None` for what cannot be answered.
    fn receive(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox<Event>,
    ) -> Option<()> {
        let request = wire::scan(bytes).ok()?;
        let method = request.method()?;
        if method == Method::Ack {
            self.acknowledge(now, &request, out);
            return Some(());
        }
        let to = wire::request_source_target(request.top_via(), from)?;
        if let Some(fault) = request.fault() {
            let tag = self.dialogs.tag_of(0);
            out.send(self.config.listener, to, |bytes| {
                wire::write_response(&request, from, fault.status, fault.reason, &tag, &[], bytes);
            });
            return Some(());
        }
        let key = key(&request, method);
        let incoming = Incoming { request: &request, from, to, method, key };
        if let Some(&slot) = self.index.get(&key) {
            self.repeat(slot, &incoming, out);
        } else if self.processor.is_full() {
            self.results.queue_drops += 1;
        } else {
            self.accept(now, &incoming, out);
        }
        Some(())
    }

    /// A request that has not been seen: queues it.
    fn accept(&mut self, now: Instant, incoming: &Incoming<'_>, out: &mut Outbox<Event>) {
        let &Incoming { request, from, to, method, key } = incoming;
        *self.results.requests.entry(method.name()).or_default() += 1;
        let call_id = call_id_hash(request);
        let owner = request.to_tag().map(|tag| self.dialogs.owner(tag, call_id));
        let mut tag = String::new();
        let (dialog, job) = match (owner, method) {
            (None, Method::Invite) => {
                let (dialog, new_tag) = self.dialogs.create(call_id);
                tag = new_tag;
                (Some(dialog), Job::Ring)
            }
            (None, Method::Cancel) => (None, self.cancel_job(request, out)),
            // RFC 3261 §15.1.2: a BYE outside any dialog.
            (None, Method::Bye) => (None, Job::Respond(481)),
            (None, _) => (None, Job::Respond(200)),
            (Some(Owner::Known(dialog)), Method::Bye) => (Some(dialog), Job::Bye),
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
        let head = texts::head(request, from, method, &tag);
        let slot = self.transactions.insert(Transaction::new(key, method, to, head, dialog));
        self.index.insert(key, slot);
        if method == Method::Invite {
            if let Some(dialog) = dialog.and_then(|id| self.dialogs.get_mut(id)) {
                dialog.invite = Some(slot);
            }
            if self.config.trying {
                self.send_trying(incoming, out);
            }
        }
        self.processor.push(now, method, (slot, job));
    }

    /// RFC 3261 §9.2: a CANCEL is about the INVITE that is the same but for the method.
    fn cancel_job(&mut self, cancel: &Message<'_>, out: &mut Outbox<Event>) -> Job {
        let invite = key(cancel, Method::Invite);
        if self.index.contains_key(&invite) {
            return Job::Cancel(invite);
        }
        self.count_wrong_server(cancel, out);
        Job::Respond(481)
    }

    fn send_trying(&self, incoming: &Incoming<'_>, out: &mut Outbox<Event>) {
        let &Incoming { request, from, to, .. } = incoming;
        out.send(self.config.listener, to, |bytes| {
            wire::write_response(request, from, 100, "Trying", "", &[("Server", &self.config.name)], bytes);
        });
    }

    /// A repeated request gets the last response again (RFC 3261 §17.2.1, §17.2.2), an acknowledged INVITE none
    /// (RFC 6026 §7.1).
    fn repeat(&mut self, slot: u32, incoming: &Incoming<'_>, out: &mut Outbox<Event>) {
        self.results.retransmissions_received += 1;
        let &Incoming { request, from, method, key, .. } = incoming;
        let Transaction { status, ref state, .. } = self.transactions[slot];
        let done = matches!(state, State::Done { .. });
        if status == 0 {
            if method == Method::Invite && self.config.trying {
                self.send_trying(incoming, out);
            }
        } else if !done {
            self.respond(slot, status, out);
        } else if method != Method::Invite {
            // The head was dropped, but the request brings all of it again.
            self.transactions[slot].head = texts::head(request, from, method, &self.dialogs.tag_of(key));
            self.respond(slot, status, out);
            self.transactions[slot].head = Box::default();
        }
    }

    /// An ACK ends the retransmission of a final response: of a 2xx by its dialog (RFC 3261 §13.3.1.4), of a refusal,
    /// whose dialog is gone or never was, by its transaction (§17.2.1).
    fn acknowledge(&mut self, now: Instant, ack: &Message<'_>, out: &mut Outbox<Event>) {
        let owner = ack.to_tag().map(|tag| self.dialogs.owner(tag, call_id_hash(ack)));
        let slot = match owner {
            Some(Owner::Known(id)) => self.dialogs.get_mut(id).and_then(|dialog| dialog.invite),
            _ => self.index.get(&key(ack, Method::Invite)).copied(),
        };
        match slot {
            Some(slot) if matches!(self.transactions[slot].state, State::Final(_)) => {
                self.complete(now, slot);
            }
            None if owner == Some(Owner::Foreign) => self.count_wrong_server(ack, out),
            _ => {}
        }
    }

    fn count_wrong_server(&mut self, request: &Message<'_>, out: &mut Outbox<Event>) {
        self.results.wrong_server += 1;
        out.event(Event::WrongServer { call_id: String::from_utf8_lossy(request.call_id()).into() });
    }
}
