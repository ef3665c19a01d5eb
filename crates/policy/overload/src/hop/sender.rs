//! Client side of hop-by-hop feedback.

use super::bucket::Bucket;
use super::refusals::Refusals;
use super::silence::Silence;
use super::{ClientLimit, Feedback};
use crate::{AdmissionVerdict, MessageClass, Mix, Scope, Tier};
use base::{Instant, Rng};

/// Client side of hop-by-hop feedback, one for each downstream neighbour.
///
/// The host calls [`judge`](Self::judge) before it forwards a request, and reports its outcome
/// ([`on_settled`](Self::on_settled)). It also reports each response of the neighbour
/// ([`on_response`](Self::on_response)) and its feedback ([`on_feedback`](Self::on_feedback)).
#[derive(Clone, Debug)]
pub struct HopSender {
    scope: Scope,
    mix: Mix,
    in_force: Option<InForce>,
    silence: Silence,
    refusals: Refusals,
    under_way: u32,
}

/// Outcome of an accepted new request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestOutcome {
    /// A first response other than 100 and 503.
    Answered,
    /// A refusal: 503.
    Refused,
    /// A time-out, or a failure of the transport.
    Silent,
    /// The request turned out not to be sent.
    NotSent,
}

impl RequestOutcome {
    /// Returns the outcome for the status of the first response other than 100. A `status` of `None` means that there
    /// is no such response.
    pub const fn of(status: Option<u16>) -> Self {
        match status {
            Some(503) => Self::Refused,
            Some(_) => Self::Answered,
            None => Self::Silent,
        }
    }
}

#[derive(Clone, Debug)]
struct InForce {
    throttle: Throttle,
    until: Instant,
    sequence: u64,
}

#[derive(Clone, Debug)]
enum Throttle {
    /// The server supports control and sets no limit.
    Open,
    Loss(f64),
    Rate(Bucket),
    Window(Grown),
}

/// A window that grows only as fast as requests are confirmed (slow start). So no sender sends a burst when the windows
/// of many senders open at the same time.
#[derive(Clone, Debug)]
struct Grown {
    limit: f64,
    open: f64,
}

/// Largest delay of a response, 64*T1, in units of `oc-seq`. A number that is smaller by more than this comes from a
/// restarted count (RFC 7339 §4.4, overflow).
const TARDY: u64 = 32 * 100_000;

impl HopSender {
    /// Creates a sender without feedback: everything is sent (RFC 7339 §5). `scope`: requests that a fraction or a rate
    /// counts; the same at both ends.
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            mix: Mix::new(scope),
            in_force: None,
            silence: Silence::default(),
            refusals: Refusals::default(),
            under_way: 0,
        }
    }

    /// Handles feedback in a response. A number that is not above the last one means no new feedback (RFC 7339 §5.4).
    pub fn on_feedback(&mut self, now: Instant, feedback: &Feedback, rng: &mut Rng) {
        self.expire(now);
        if let Some(stored) = &self.in_force
            && feedback.sequence <= stored.sequence
            && stored.sequence - feedback.sequence < TARDY
        {
            return;
        }
        let before = self.in_force.take().map(|stored| stored.throttle);
        let throttle = match (feedback.limit, before) {
            (None, _) => Throttle::Open,
            (Some(ClientLimit::Loss(acceptance)), _) => Throttle::Loss(acceptance.clamp(0.0, 1.0)),
            (Some(ClientLimit::Rate(rate)), Some(Throttle::Rate(mut bucket))) => {
                bucket.set_rate(now, rate);
                Throttle::Rate(bucket)
            }
            (Some(ClientLimit::Rate(rate)), _) => Throttle::Rate(Bucket::new(now, rate, rng)),
            (Some(ClientLimit::Window(limit)), Some(Throttle::Window(grown))) => {
                Throttle::Window(Grown { limit, open: grown.open.min(limit) })
            }
            (Some(ClientLimit::Window(limit)), _) => {
                Throttle::Window(Grown { limit, open: f64::from(self.under_way).clamp(1.0, limit.max(1.0)) })
            }
        };
        // Feedback without a limit is kept only for its number, as long as a late response may come.
        let until =
            if matches!(throttle, Throttle::Open) { now + crate::T1 * 64 } else { now + feedback.validity };
        self.in_force = Some(InForce { throttle, until, sequence: feedback.sequence });
    }

    /// RFC 7339 §5.4: stored values MUST be reset once their validity has expired.
    fn expire(&mut self, now: Instant) {
        self.in_force.take_if(|stored| now >= stored.until);
    }

    /// Decides whether a request goes to the neighbour. `own` is the acceptance probability of this host, 1 if it has
    /// none. At the edge, the smaller one of `own` and the neighbour's probability is used (Overload paper, VII-A). An
    /// accepted request must be sent.
    pub fn judge(&mut self, now: Instant, class: MessageClass, own: f64, rng: &mut Rng) -> AdmissionVerdict {
        self.expire(now);
        let draw = self.mix.draw(now, class, self.acceptance().min(own), rng);
        let passes = draw && self.throttle(now, class, rng);
        // This check comes last, since a request that is admitted to a silent neighbour is the probe.
        let passes = passes && (class.tier() == Tier::Never || self.silence.admit(now));
        self.under_way += u32::from(passes && class.is_new());
        AdmissionVerdict::accept_if(passes)
    }

    fn throttle(&mut self, now: Instant, class: MessageClass, rng: &mut Rng) -> bool {
        match &mut self.in_force {
            Some(InForce { throttle: Throttle::Rate(bucket), .. }) if self.scope.counts(class) => {
                bucket.admit(now, class, rng)
            }
            Some(InForce { throttle: Throttle::Window(grown), .. }) if class.is_new() => {
                // As in the bucket, requests with priority have twice the room. They ignore the pause.
                let first = class.tier() == Tier::First;
                let room = if first { 1.0 } else { 2.0 };
                let open = !first || self.refusals.is_open(now);
                open && f64::from(self.under_way) + 1.0 <= grown.open.max(1.0) * room
            }
            _ => true,
        }
    }

    /// Reports the outcome of an accepted new request. Call it once for each request. Otherwise its place in the window
    /// stays taken.
    pub fn on_settled(&mut self, now: Instant, outcome: RequestOutcome) {
        self.under_way = self.under_way.saturating_sub(1);
        match outcome {
            RequestOutcome::Answered => {
                self.refusals.on_answered();
                if let Some(InForce { throttle: Throttle::Window(grown), .. }) = &mut self.in_force {
                    grown.open = (grown.open + 1.0).min(grown.limit.max(1.0));
                }
            }
            RequestOutcome::Refused => self.refusals.on_refused(now),
            // RFC 7339 §5.9.
            RequestOutcome::Silent => self.silence.on_timeout(now),
            RequestOutcome::NotSent => {}
        }
    }

    /// Reports that the neighbour answered a request, even if only with 100.
    pub fn on_response(&mut self) {
        self.silence.on_response();
    }

    /// Acceptance probability set by the neighbour; 1 if it set none, or another kind of limit.
    pub fn acceptance(&self) -> f64 {
        match &self.in_force {
            Some(InForce { throttle: Throttle::Loss(acceptance), .. }) => *acceptance,
            _ => 1.0,
        }
    }

    /// Limit set by the neighbour; `None` if there is none in force.
    pub fn limit(&self, now: Instant) -> Option<ClientLimit> {
        let stored = self.in_force.as_ref().filter(|stored| now < stored.until)?;
        match &stored.throttle {
            Throttle::Open => None,
            Throttle::Loss(acceptance) => Some(ClientLimit::Loss(*acceptance)),
            Throttle::Rate(bucket) => Some(ClientLimit::Rate(bucket.rate())),
            Throttle::Window(grown) => Some(ClientLimit::Window(grown.limit)),
        }
    }

    /// Whether the neighbour no longer answers (RFC 7339 §5.9).
    pub fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// Whether a new sender would act in the same way: nothing is under way, and no request is held back.
    pub(crate) fn is_at_rest(&self, now: Instant) -> bool {
        let is_free = self.in_force.as_ref().is_none_or(|stored| now >= stored.until);
        is_free && self.under_way == 0 && self.silence.is_at_rest(now) && self.refusals.is_open(now)
    }

    /// New requests sent and not yet confirmed.
    pub const fn under_way(&self) -> u32 {
        self.under_way
    }
}
