//! Marks of state distribution in the Via of requests, and notices in the Via of responses.

use crate::edge::Edge;
use crate::event::ShardEvent;
use crate::forward::onward::{Onward, RecordRoute};
use crate::sharing::param;
use crate::token::copies::copies_key;
use base::{Flow, Outbox};
use core::fmt::Write as _;
use distribute::{Call, Decision, Function, Mark, NextHop, Notice};
use std::net::SocketAddr;
use wire::{Message, Method};

impl Edge {
    /// Whether this proxy shares out the state of dialogs, and so keeps it of the calls of which it keeps transactions.
    pub(crate) fn shares_dialogs(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.function == Function::Dialog)
    }

    /// Whether a neighbour that this request has come from says that a proxy before us keeps the dialogs of the call, and
    /// writes its record.
    pub(crate) fn has_record_elsewhere(&self, message: &Message<'_>, from: SocketAddr) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.mark(message, from).has(Function::Dialog))
    }

    /// Which proxy keeps the transaction of a request outside dialogs that goes on to `to`; `has_room`: there is room
    /// for it here. A copy of one that is kept here must not be asked for: it belongs to its transaction.
    pub(crate) fn who_keeps(
        &mut self,
        message: &Message<'_>,
        from: SocketAddr,
        to: SocketAddr,
        has_room: bool,
    ) -> Decision {
        let Some(sharing) = &mut self.sharing else { return Decision::Keep };
        let call = Call {
            from: sharing.neighbour(from),
            // A neighbour without a recent notice may not share out state: then no proxy behind would keep the call.
            to: sharing
                .neighbour(to)
                .filter(|to| sharing.distributor.hears(self.now, *to))
                .map_or(NextHop::Exit, NextHop::Neighbour),
            kept: sharing.mark(message, from).has(sharing.function),
            key: copies_key(&self.tokens, message, from),
        };
        let elsewhere =
            if has_room { None } else { sharing.distributor.on_call_without_room(self.now, call) };
        let decision = elsewhere.unwrap_or_else(|| sharing.distributor.on_call(self.now, call));
        match decision {
            Decision::Keep => sharing.report.kept += 1,
            Decision::PassOpen => sharing.report.passed_open += 1,
            Decision::PassKept => sharing.report.passed_kept += 1,
        }
        decision
    }

    /// The share of new requests that this proxy takes of a sender, from 0 to 1, where it shares out state. `None` for a
    /// neighbour: what it sends was taken at the entry. And for OPTIONS, by which others find out whether this proxy lives:
    /// whoever gets 503 sends it no calls for a while.
    pub(crate) fn takes_of(&self, from: SocketAddr, method: Method) -> Option<f64> {
        let sharing = self.sharing.as_ref().filter(|_| method != Method::Options)?;
        sharing.neighbour(from).is_none().then(|| sharing.distributor.takes())
    }

    /// Whether an INVITE from there gets its 100 at once. Between those that share out state it would pass the one before,
    /// which has no state, as two more messages. RFC 3261 §17.2.1 leaves it out where another response follows within 200
    /// ms.
    pub(crate) fn tries_at_once(&self, from: SocketAddr) -> bool {
        self.sharing.as_ref().is_none_or(|sharing| sharing.neighbour(from).is_none())
    }

    /// Appends the mark to our Via of a request that begins something, for a neighbour; `keeps`: its transaction is kept
    /// here.
    pub(crate) fn write_mark(&mut self, message: &Message<'_>, onward: &Onward<'_>, keeps: bool) {
        let Some(sharing) = &self.sharing else { return };
        if sharing.neighbour(onward.hop.peer).is_none() {
            return;
        }
        let kept: &[_] = match onward.record_route {
            _ if !keeps => &[],
            RecordRoute::WithDialogs => &[Function::State, Function::Dialog],
            RecordRoute::Stateless | RecordRoute::WithTransactions | RecordRoute::No => &[Function::State],
        };
        let mark = sharing.mark(message, onward.from.peer);
        let mark = kept.iter().fold(mark, |mark, function| mark.with(*function));
        write_param(&mut self.scratch, Mark::PARAMETER, mark);
    }

    /// Reads the notice of the neighbour that sent this response, which is verified by now.
    pub(crate) fn hear_notice(&mut self, response: &Message<'_>, from: SocketAddr) {
        let Some(sharing) = &mut self.sharing else { return };
        let Some(neighbour) = sharing.neighbour(from) else { return };
        let value = param(response, response.top_via(), sharing.function.notice_parameter());
        if let Some(notice) = value.and_then(Notice::parse) {
            sharing.distributor.on_notice(self.now, neighbour, notice);
        }
    }

    /// Takes what a neighbour says of its load in a response that is verified by now (RFC 7339 §5.4).
    pub(crate) fn hear_load(&mut self, response: &Message<'_>, flow: Flow, out: &mut Outbox<ShardEvent>) {
        if self.gate.overload.heard(self.now, response, self.topology.known_as(flow)) {
            out.event(ShardEvent::NoFeedback(flow.peer));
        }
    }

    /// Writes the notice into the Via of the next receiver of a response, if it is a neighbour, and removes any other
    /// notice.
    pub(crate) fn tell_notice(&mut self, response: &Message<'_>, to: SocketAddr) {
        let Self { sharing: Some(sharing), scratch, edits, .. } = self else { return };
        let Some(via) = response.second_via() else { return };
        let bytes = response.bytes();
        scratch.clear();
        let mut done = via.value.start;
        for param in via.params(bytes).filter(|param| is_notice(param.name)) {
            scratch.extend_from_slice(&bytes[done as usize..param.whole.start as usize]);
            done = param.whole.end;
        }
        let was_clean = done == via.value.start;
        scratch.extend_from_slice(&bytes[done as usize..via.value.end as usize]);
        let notice = sharing.neighbour(to).and_then(|neighbour| sharing.notice(neighbour));
        if let Some(notice) = notice {
            write_param(scratch, sharing.function.notice_parameter(), notice);
        }
        if notice.is_some() || !was_clean {
            edits.replace(response, via.value.of(bytes), scratch);
        }
    }
}

fn is_notice(name: &[u8]) -> bool {
    Function::ALL.iter().any(|function| name.eq_ignore_ascii_case(function.notice_parameter().as_bytes()))
}

fn write_param(out: &mut Vec<u8>, name: &str, value: impl core::fmt::Display) {
    /// Text as bytes.
    struct Text<'a>(&'a mut Vec<u8>);
    impl core::fmt::Write for Text<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    write!(Text(out), ";{name}={value}").expect("there is always room");
}
