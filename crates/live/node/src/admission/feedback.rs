//! The Via parameters of overload control between neighbours (RFC 7339, RFC 7415).
//!
//! Only to and from neighbours that the configuration names, and never passed on: what a neighbour behind us says
//! ends where our Via is removed from its response.

use super::neighbours::{BELIEVED, Known, NeighbourReport, class_in_dialog, class_of, scaled};
use super::overload::Overload;
use base::{Flow, Instant, Peer};
use overload::hop::Feedback;
use overload::{MessageClass, Notice};
use wire::{Message, Method, OVERLOAD_OFFER, OverloadEdit, OverloadParams, edit_overload};

/// The most bytes that a response gains by what it tells: of loss, with the longest number.
const TOLD_MAX: usize = 80;

impl Overload {
    /// Appends to our Via for this hop that we keep to feedback (RFC 7339 §4.1).
    pub(crate) fn offer(&self, hop: Flow, via: &mut Vec<u8>) {
        if self.with(hop).is_some() {
            via.extend_from_slice(OVERLOAD_OFFER);
        }
    }

    /// Whether a request may go there: the neighbour's limit counts it, and may hold it back.
    pub(crate) fn may_go(&mut self, now: Instant, class: MessageClass, hop: Flow) -> bool {
        if self.with(hop).is_none() {
            return true;
        }
        let may = self.guard.may_pass(now, class, hop.remote());
        if let Some(known) = self.feedback.as_mut().and_then(|feedback| feedback.known(hop.remote())) {
            known.offered += 1;
            known.refused += u64::from(!may);
        }
        may
    }

    /// Whether there is anything that [`may_go`](Self::may_go) could hold back.
    pub(crate) fn limits_hops(&self) -> bool {
        self.feedback.is_some()
    }

    /// A next hop has left a request without any answer (RFC 7339 §5.9).
    pub(crate) fn silent(&mut self, now: Instant, hop: Flow) {
        if self.with(hop).is_some() {
            self.guard.on_silence(now, hop.remote());
        }
    }

    /// A response came by this flow to a request of ours: our Via is on top. Returns whether it is now certain that
    /// the neighbour does not answer our offer.
    pub(crate) fn heard(&mut self, now: Instant, response: &Message<'_>, flow: Flow) -> bool {
        let Some(neighbours) = self.with(flow) else { return false };
        let told = OverloadParams::of(response.top_via(), response.bytes()).feedback();
        let sequence = neighbours.sequence(now);
        // The limit is for the process; a shard keeps to its part.
        let part = f64::from(neighbours.shards).recip();
        let notice = |told| {
            let asked = Feedback::of_via(&told, sequence);
            Notice::Hop(Feedback { limit: asked.limit.map(|limit| scaled(limit, part)), ..asked })
        };
        let known = self.feedback.as_mut().and_then(|feedback| feedback.known(flow.remote()));
        let is_believed = known.as_ref().is_some_and(|known| known.answered >= BELIEVED);
        let is_deaf = known.is_some_and(|known| known.note(told.is_some()));
        let notice = told.filter(|_| is_believed).map(notice);
        self.guard.on_answer(now, flow.remote(), notice.as_ref());
        is_deaf
    }

    /// A request was handled that came by this flow, and that the law has not refused.
    pub(crate) fn handled(&mut self, now: Instant, flow: Flow, message: &Message<'_>) {
        if self.feedback.is_none() {
            return;
        }
        let from = self.keeps_to_feedback(flow, message).then(|| flow.remote());
        let method = message.method().unwrap_or(Method::Other);
        let in_dialog = message.to_tag().is_some();
        let class = if in_dialog { class_in_dialog(method) } else { class_of(method, false) };
        self.guard.on_handled(now, from, class);
        if let Some(from) = from
            && let Some(known) = self.feedback.as_mut().and_then(|feedback| feedback.known(from))
        {
            known.received += 1;
        }
    }

    /// Writes feedback into the topmost Via of a response to `to`, which `out` holds from `start` on. What servers
    /// behind us may have written into the Via of somebody else is removed (RFC 7339 §5.4).
    pub(crate) fn tell(&self, out: &mut Vec<u8>, start: usize, to: Flow) {
        let Some(feedback) = &self.feedback else { return };
        let neighbours = self.with(to);
        edit_overload(out, start, |offered| {
            let algorithm = neighbours.and_then(|neighbours| offered.common(&[neighbours.algorithm]));
            let told = algorithm.zip(self.guard.feedback()).and_then(|(algorithm, asked)| {
                // A shard asks for its part of what the neighbour sends; all parts are alike.
                let limit = asked.limit.map(|limit| scaled(limit, f64::from(feedback.shards)));
                let sequence = feedback.epoch + asked.sequence;
                Feedback { limit, sequence, ..asked }.to_via(algorithm)
            });
            told.map_or(OverloadEdit::Withdraw, OverloadEdit::Set)
        });
    }

    /// The bytes that a response to `to` may gain by that.
    pub(crate) fn room(&self, to: Flow) -> usize {
        self.with(to).map_or(0, |_| TOLD_MAX)
    }

    /// What is to be told of each neighbour.
    pub(crate) fn neighbours(&self, now: Instant) -> Vec<NeighbourReport> {
        let shards = self.feedback.as_ref().map_or(1.0, |feedback| f64::from(feedback.shards));
        let known = self.feedback.iter().flat_map(|feedback| &feedback.known);
        let report = |(at, known): (&Peer, &Known)| {
            let (limit, is_silent) = self.guard.limit_of(now, *at);
            let Known { answers, unanswered, offered, refused, received, .. } = *known;
            let (address, limit) = (at.address, limit.map(|limit| scaled(limit, shards)));
            NeighbourReport { address, limit, is_silent, answers, unanswered, offered, refused, received }
        };
        known.map(report).collect()
    }
}
