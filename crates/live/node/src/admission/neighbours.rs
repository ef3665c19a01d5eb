//! The neighbours with which overload control is exchanged, and what is known of each.

use crate::outcome::rejection::{Refused, refused};
use base::{Instant, Peer};
use core::time::Duration;
use overload::hop::{Law, Limit};
use overload::{FeedbackLaw, LocalLaw, MessageClass, NEIGHBOURS_MAX, RequestInfo};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wire::{Method, OverloadAlgorithm};

/// What a request gets for which the next hop has asked not to be sent it (RFC 7339 §5.10: without Retry-After).
pub(crate) const NEXT_HOP_OVERLOADED: Refused = refused(503, "Next Hop Overloaded");

/// Responses of a neighbour without an answer to our offer after which it is told that it gives none.
const UNANSWERED: u64 = 100;

/// Responses in a row with an answer to our offer after which a neighbour is believed. One that answers does so in each
/// response (RFC 7339 §4.2). One that passes our Via on as it is may have a callee behind it that writes an answer there,
/// and its responses to others have none.
pub(super) const BELIEVED: u64 = 8;

/// Overload control with one neighbour, as a shard sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NeighbourReport {
    /// Where it is.
    pub address: SocketAddr,
    /// What it has asked for of the process, as far as that holds now: this part of the requests at most, or so many a
    /// second.
    pub limit: Option<Limit>,
    /// Whether it leaves requests unanswered, so that only one at a time is sent.
    pub is_silent: bool,
    /// Whether it has ever answered our offer.
    pub answers: bool,
    /// Its responses since it did last.
    pub unanswered: u64,
    /// Requests for it that came to its limit.
    pub offered: u64,
    /// Requests that its limit held back: another server got them, or a 503.
    pub refused: u64,
    /// Requests from it that offered to keep to feedback.
    pub received: u64,
}

impl NeighbourReport {
    /// Adds what another shard of the process has with the same neighbour. Each shard hears of limits by itself; the
    /// first of them is shown.
    pub fn merge(&mut self, other: &Self) {
        self.limit = self.limit.or(other.limit);
        self.is_silent |= other.is_silent;
        self.answers |= other.answers;
        self.unanswered += other.unanswered;
        self.offered += other.offered;
        self.refused += other.refused;
        self.received += other.received;
    }

    /// Whether it has never answered our offer, and had occasion to.
    pub fn ignores_offer(&self) -> bool {
        !self.answers && self.unanswered >= UNANSWERED
    }
}

/// What is counted of a neighbour.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    /// Whether it has ever answered our offer.
    pub(super) answers: bool,
    /// Its responses in a row that did.
    pub(super) answered: u64,
    pub(super) unanswered: u64,
    pub(super) offered: u64,
    pub(super) refused: u64,
    pub(super) received: u64,
}

impl Known {
    /// It has responded. Returns whether it is now certain that it does not answer our offer.
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
    /// What is used with those who offer it.
    pub(super) algorithm: OverloadAlgorithm,
    /// Whether the local law leaves those alone who keep to feedback: they are told its acceptance probability, and
    /// would be refused twice (Overload paper, VII-A).
    pub(super) spares: bool,
    /// How many shards share what a neighbour sends.
    pub(super) shards: u32,
    /// What a shard's numbers begin at: the time of its zero, in units of `oc-seq`.
    pub(super) epoch: u64,
    pub(super) known: BTreeMap<Peer, Known>,
}

/// `oc-seq` counts 10 microseconds where it is a time.
const SEQUENCE_UNIT: Duration = Duration::from_micros(10);

impl Neighbours {
    /// Those of a shard with these laws, if they have feedback with a name on the wire.
    pub(super) fn of(laws: &overload::OverloadSettings, shards: usize, epoch_unix: u64) -> Option<Self> {
        let algorithm = match laws.feedback {
            FeedbackLaw::Hop(Law::Loss(_)) => OverloadAlgorithm::Loss,
            FeedbackLaw::Hop(Law::Rate) => OverloadAlgorithm::Rate,
            FeedbackLaw::Hop(Law::Window) | FeedbackLaw::EndToEnd | FeedbackLaw::None => return None,
        };
        let is_loss = algorithm == OverloadAlgorithm::Loss;
        Some(Self {
            algorithm,
            spares: is_loss && matches!(laws.local, LocalLaw::Occupancy(_)),
            shards: shards.max(1) as u32,
            epoch: epoch_unix * 100_000,
            known: BTreeMap::new(),
        })
    }

    /// What is known of one; none if there is no room for another.
    pub(super) fn known(&mut self, at: Peer) -> Option<&mut Known> {
        if self.known.len() >= NEIGHBOURS_MAX && !self.known.contains_key(&at) {
            return None;
        }
        Some(self.known.entry(at).or_default())
    }

    /// The number of feedback that has none.
    pub(super) fn sequence(&self, now: Instant) -> u64 {
        let since = now.saturating_since(Instant::ZERO).as_nanos() / SEQUENCE_UNIT.as_nanos();
        self.epoch + since as u64
    }
}

/// A limit for so many times the traffic. A fraction is the same for each part of it.
pub(super) fn scaled(limit: Limit, by: f64) -> Limit {
    match limit {
        Limit::Rate(rate) => Limit::Rate(rate * by),
        Limit::Loss(_) | Limit::Window(_) => limit,
    }
}

/// The class of a request of a dialog.
pub(crate) fn class_in_dialog(method: Method) -> MessageClass {
    MessageClass::of(RequestInfo { method, in_dialog: true, repeat: false, priority: false })
}

/// The class of a request outside dialogs that is no copy.
pub(crate) fn class_of(method: Method, priority: bool) -> MessageClass {
    MessageClass::of(RequestInfo { method, in_dialog: false, repeat: false, priority })
}
