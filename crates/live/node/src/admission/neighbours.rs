//! The neighbours with which overload control is exchanged, and the state of each.

use crate::outcome::rejection::{Refused, refused};
use base::{Instant, Peer};
use core::time::Duration;
use overload::hop::{ClientLimit, ReceiverLaw};
use overload::{FeedbackLaw, MessageClass, NEIGHBOURS_MAX, RequestInfo};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wire::{Method, OverloadAlgorithm};

/// Refusal of a request that exceeds the limit of its next hop (RFC 7339 §5.10: without Retry-After).
pub(crate) const NEXT_HOP_OVERLOADED: Refused = refused(503, "Next Hop Overloaded");

/// Number of responses without an answer to the offer, after which a neighbour is reported as not answering.
const UNANSWERED: u64 = 100;

/// Number of successive responses with an answer to the offer, after which a neighbour's feedback is used. A neighbour
/// that supports feedback answers the offer in each response (RFC 7339 §4.2). If a neighbour only copies the Via, one
/// callee behind it may write an answer there, but responses of other callees have none.
pub(super) const BELIEVED: u64 = 8;

/// Overload control with one neighbour, as a shard sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NeighbourReport {
    /// Address of the neighbour.
    pub address: SocketAddr,
    /// The limit that the neighbour has asked this process to apply, if it is still valid: a share of the requests, or
    /// a rate per second.
    pub limit: Option<ClientLimit>,
    /// Whether the neighbour leaves requests unanswered, so that only one request at a time is sent to it.
    pub is_silent: bool,
    /// Whether the neighbour has ever answered the offer.
    pub answers: bool,
    /// Responses since the last answer to the offer.
    pub unanswered: u64,
    /// Requests to the neighbour that were checked against its limit.
    pub offered: u64,
    /// Requests that its limit refused. Each of them went to another server, or its caller got a 503.
    pub refused: u64,
    /// Requests from the neighbour that offered to follow feedback.
    pub received: u64,
}

impl NeighbourReport {
    /// Adds the report of another shard of the process. Each shard learns limits by itself; the merged report shows the
    /// first limit.
    pub fn merge(&mut self, other: &Self) {
        self.limit = self.limit.or(other.limit);
        self.is_silent |= other.is_silent;
        self.answers |= other.answers;
        self.unanswered += other.unanswered;
        self.offered += other.offered;
        self.refused += other.refused;
        self.received += other.received;
    }

    /// Returns whether the neighbour has sent many responses and never answered the offer.
    pub fn ignores_offer(&self) -> bool {
        !self.answers && self.unanswered >= UNANSWERED
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    /// Whether the neighbour has ever answered the offer.
    pub(super) answers: bool,
    /// Responses in a row with an answer to the offer.
    pub(super) answered: u64,
    pub(super) unanswered: u64,
    pub(super) offered: u64,
    pub(super) refused: u64,
    pub(super) received: u64,
}

impl Known {
    /// Counts a response. Returns whether it is now certain that the neighbour does not answer the offer.
    pub(super) fn note(&mut self, is_answer: bool) -> bool {
        if is_answer {
            (self.answers, self.unanswered) = (true, 0);
            self.answered += 1;
            return false;
        }
        self.answered = 0;
        self.unanswered += 1;
        !self.answers && self.unanswered == UNANSWERED
    }
}

/// Feedback of a shard with its neighbours.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// Algorithms of the feedback, in order of preference. The first one that a neighbour offers is used with it.
    pub(super) algorithms: &'static [OverloadAlgorithm],
    /// Number of shards that share the traffic of a neighbour.
    pub(super) shards: u32,
    /// Sequence number at [`Instant::ZERO`]: the Unix time in units of `oc-seq`.
    pub(super) epoch: u64,
    pub(super) known: BTreeMap<Peer, Known>,
}

/// Unit of `oc-seq` as a time: 10 microseconds.
const SEQUENCE_UNIT: Duration = Duration::from_micros(10);

impl Neighbours {
    /// Creates the state for a shard with these laws. `None` if the laws have no feedback, or only a kind without a
    /// name in RFC 7339 and RFC 7415.
    pub(super) fn of(laws: &overload::OverloadSettings, shards: usize, epoch_unix: u64) -> Option<Self> {
        let algorithms: &[_] = match laws.feedback {
            FeedbackLaw::Hop(ReceiverLaw::Rate) => &[OverloadAlgorithm::Rate, OverloadAlgorithm::Loss],
            FeedbackLaw::Hop(ReceiverLaw::RateAsLoss) => &[OverloadAlgorithm::Loss],
            // The other laws are for simulated hosts.
            FeedbackLaw::Hop(_) | FeedbackLaw::EndToEnd | FeedbackLaw::None => return None,
        };
        Some(Self {
            algorithms,
            shards: shards.max(1) as u32,
            epoch: epoch_unix * 100_000,
            known: BTreeMap::new(),
        })
    }

    /// Returns the counts of a neighbour; `None` if there is no room for another neighbour.
    pub(super) fn known(&mut self, at: Peer) -> Option<&mut Known> {
        if self.known.len() >= NEIGHBOURS_MAX && !self.known.contains_key(&at) {
            return None;
        }
        Some(self.known.entry(at).or_default())
    }

    /// Returns the sequence number for feedback without one.
    pub(super) fn sequence(&self, now: Instant) -> u64 {
        let since = now.saturating_since(Instant::ZERO).as_nanos() / SEQUENCE_UNIT.as_nanos();
        self.epoch + since as u64
    }
}

/// Returns a limit for `by` times the traffic. Only a rate changes: a fraction stays the same.
pub(super) fn scaled(limit: ClientLimit, by: f64) -> ClientLimit {
    match limit {
        ClientLimit::Rate(rate) => ClientLimit::Rate(rate * by),
        ClientLimit::Loss(_) | ClientLimit::Window(_) => limit,
    }
}

pub(crate) fn class_in_dialog(method: Method) -> MessageClass {
    MessageClass::of(RequestInfo { method, in_dialog: true, repeat: false, priority: false })
}

/// Returns the class of a request outside dialogs that is no copy.
pub(crate) fn class_of(method: Method, priority: bool) -> MessageClass {
    MessageClass::of(RequestInfo { method, in_dialog: false, repeat: false, priority })
}
