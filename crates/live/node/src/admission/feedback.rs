//! The Via parameters of overload control between neighbours (RFC 7339, RFC 7415).
//!
//! They are exchanged only with configured neighbours and never passed on. Feedback from the next hop is in this
//! proxy's Via, so it is removed from the response together with this Via.

use super::neighbours::{BELIEVED, Known, NeighbourReport, class_in_dialog, class_of, scaled};
use super::overload::Overload;
use base::{Flow, Instant, Peer};
use overload::hop::Feedback;
use overload::{MessageClass, UpstreamFeedback};
use wire::{Message, Method, OVERLOAD_OFFER, OverloadAlgorithm, OverloadEdit, OverloadParams, edit_overload};

/// Maximum bytes that feedback adds to a response: with the algorithm `loss` and the longest number.
const FEEDBACK_BYTES_MAX: usize = 80;

impl Overload {
    /// Appends the offer to follow feedback (RFC 7339 §4.1) to this proxy's Via, if `hop` is a neighbour.
    pub(crate) fn offer(&self, hop: Flow, via: &mut Vec<u8>) {
        if self.with(hop).is_some() {
            via.extend_from_slice(OVERLOAD_OFFER);
        }
    }

    /// Returns whether a request may go to this hop. The request counts for the neighbour's limit, which may refuse it.
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

    /// Returns whether [`may_go`](Self::may_go) may refuse anything.
    pub(crate) fn limits_hops(&self) -> bool {
        self.feedback.is_some()
    }

    /// Records that a next hop has sent no response to a request (RFC 7339 §5.9).
    pub(crate) fn silent(&mut self, now: Instant, hop: Flow) {
        if self.with(hop).is_some() {
            self.guard.on_silence(now, hop.remote());
        }
    }

    /// Reads a response that came by this flow, with this proxy's Via on top. Returns whether it is now certain that
    /// the neighbour does not answer the offer.
    pub(crate) fn heard(&mut self, now: Instant, response: &Message<'_>, flow: Flow) -> bool {
        let Some(neighbours) = self.with(flow) else { return false };
        let received = OverloadParams::of(response.top_via(), response.bytes()).feedback();
        let sequence = neighbours.sequence(now);
        // The limit is for the whole process; each shard applies it to its part of the requests.
        let part = f64::from(neighbours.shards).recip();
        let notice = |feedback| {
            let asked = Feedback::of_via(&feedback, sequence);
            UpstreamFeedback::Hop(Feedback { limit: asked.limit.map(|limit| scaled(limit, part)), ..asked })
        };
        let known = self.feedback.as_mut().and_then(|feedback| feedback.known(flow.remote()));
        let is_believed = known.as_ref().is_some_and(|known| known.answered >= BELIEVED);
        let ignores_offer = known.is_some_and(|known| known.note(received.is_some()));
        let notice = received.filter(|_| is_believed).map(notice);
        self.guard.on_answer(now, flow.remote(), notice.as_ref());
        ignores_offer
    }

    /// Records a request from this flow that this proxy handled and the law did not refuse.
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

    /// Writes feedback into the topmost Via of a response to `to`, which starts at `start` in `out`. Removes feedback
    /// that servers behind this proxy have written into the Via of another element (RFC 7339 §5.4).
    pub(crate) fn tell(&self, out: &mut Vec<u8>, start: usize, to: Flow) {
        let Some(feedback) = &self.feedback else { return };
        let neighbours = self.with(to);
        edit_overload(out, start, |offered| {
            let algorithm = neighbours.and_then(|neighbours| offered.common(neighbours.algorithms));
            let feedback = algorithm.and_then(|algorithm| {
                let asked = match algorithm {
                    OverloadAlgorithm::Rate => self.guard.feedback(),
                    OverloadAlgorithm::Loss => self.guard.loss_feedback(to.remote()),
                }?;
                // The law limits this shard's part of the neighbour's traffic. All parts are equal.
                let limit = asked.limit.map(|limit| scaled(limit, f64::from(feedback.shards)));
                let sequence = feedback.epoch + asked.sequence;
                Feedback { limit, sequence, ..asked }.to_via(algorithm)
            });
            feedback.map_or(OverloadEdit::Withdraw, OverloadEdit::Set)
        });
    }

    /// Returns the maximum bytes that feedback adds to a response to `to`.
    pub(crate) fn room(&self, to: Flow) -> usize {
        self.with(to).map_or(0, |_| FEEDBACK_BYTES_MAX)
    }

    /// Returns the report on each neighbour.
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
