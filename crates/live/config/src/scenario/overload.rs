//! Overload control of a host: its settings in the scenario and the settings of its guard.

use ::overload::hop::ReceiverLaw;
use ::overload::local::{bang_bang, delay, occupancy};
use ::overload::retry_after::{self, During};
use ::overload::{OverloadSettings, RejectAt, RejectState, Triage};
use std::time::Duration;

/// Messages that may wait at a host (Overload paper, section IV-A).
pub(super) const BUFFER: u32 = 1_000;

/// `[host.<name>.overload]`
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "keys of the file that are true or false")]
pub struct Overload {
    /// The law by which a host admits new INVITEs.
    pub local: ScenarioLocal,
    /// Feedback to the host before.
    pub feedback: ScenarioFeedback,
    /// Time of the decision.
    pub reject: RejectAt,
    /// Whether requests that wait for an early rejection take room in the buffer, and are dropped if it is full.
    pub buffer_rejections: bool,
    /// Whether a rejection creates a transaction.
    pub stateful: bool,
    /// Whether a repeated INVITE is recognised before it can be rejected. `false` is possible with stateless rejections
    /// only (Overload paper, section VI-A).
    pub look_up: bool,
    /// Whether a request that got 503 is sent to another host.
    pub retry: bool,
    /// Retry-After of a 503; `None`: none.
    pub retry_after: Option<Duration>,
    /// Effect of a 503 with Retry-After during a pause.
    pub during_pause: During,
    /// Shares of the buffer above which bang-bang starts to reject, and below which it stops.
    pub watermarks: (f64, f64),
    /// The constants of the occupancy algorithm.
    pub occupancy: occupancy::OccupancySettings,
    /// Expected wait from which the delay law admits nothing; from half of it on it rejects some.
    pub wait: Duration,
    /// Whether timers come first, then responses and requests within dialogs, then new INVITEs; retransmissions are
    /// merged and stale messages dropped.
    pub triage: bool,
}

impl Default for Overload {
    fn default() -> Self {
        // The watermarks of the paper are for its buffer.
        let bang_bang::BangBangSettings { high, low } = bang_bang::BangBangSettings::default();
        let watermarks = (high as f64 / f64::from(BUFFER), low as f64 / f64::from(BUFFER));
        Self {
            local: ScenarioLocal::None,
            feedback: ScenarioFeedback::None,
            reject: RejectAt::default(),
            buffer_rejections: false,
            stateful: false,
            look_up: true,
            retry: false,
            retry_after: None,
            during_pause: During::default(),
            watermarks,
            occupancy: occupancy::OccupancySettings::default(),
            wait: delay::DelaySettings::default().bound,
            triage: false,
        }
    }
}

/// A law of local overload control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioLocal {
    /// Everything is admitted; a full buffer drops.
    None,
    /// Bang-bang on the queue length (Overload paper, section VI-B).
    BangBang,
    /// Occupancy (section VI-B, equations 1 and 2).
    Occupancy,
    /// Expected wait.
    Delay,
}

/// Feedback of a host to the previous host, which then rejects in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioFeedback {
    /// Nothing.
    None,
    /// Acceptance probability, hop by hop (section VII-A).
    HopByHop,
    /// Acceptance probability, the least along the way to each target (section VII-A).
    EndToEnd,
    /// A rate (RFC 7415).
    Rate,
    /// A window of INVITEs in progress (RFC 6357).
    Window,
}

impl Overload {
    /// Settings of the guard of a host with this buffer.
    pub(super) fn guard(&self, buffer: u32) -> OverloadSettings {
        let Self { occupancy, during_pause, triage, stateful, retry, .. } = *self;
        OverloadSettings {
            local: self.local(buffer),
            feedback: match self.feedback {
                ScenarioFeedback::None => ::overload::FeedbackLaw::None,
                ScenarioFeedback::HopByHop => ::overload::FeedbackLaw::Hop(ReceiverLaw::Loss(occupancy)),
                ScenarioFeedback::EndToEnd => ::overload::FeedbackLaw::EndToEnd,
                ScenarioFeedback::Rate => ::overload::FeedbackLaw::Hop(ReceiverLaw::Rate),
                ScenarioFeedback::Window => ::overload::FeedbackLaw::Hop(ReceiverLaw::Window),
            },
            reject_at: self.reject,
            reject_state: if stateful { RejectState::Stateful } else { RejectState::Stateless },
            alternate: retry,
            during: during_pause,
            triage: triage.then(Triage::default),
            ..OverloadSettings::default()
        }
    }

    fn local(&self, buffer: u32) -> ::overload::LocalLaw {
        let Self { local, retry_after, occupancy, wait, .. } = *self;
        match (local, retry_after) {
            (ScenarioLocal::None, _) => ::overload::LocalLaw::None,
            (ScenarioLocal::BangBang, Some(pause)) => {
                let watermarks = self.watermarks(buffer);
                ::overload::LocalLaw::RetryAfter(retry_after::RetryAfterSettings { pause, watermarks })
            }
            (ScenarioLocal::BangBang, None) => ::overload::LocalLaw::BangBang(self.watermarks(buffer)),
            (ScenarioLocal::Occupancy, _) => ::overload::LocalLaw::Occupancy(occupancy),
            (ScenarioLocal::Delay, _) => {
                ::overload::LocalLaw::Delay(delay::DelaySettings { onset: wait / 2, bound: wait })
            }
        }
    }

    fn watermarks(&self, buffer: u32) -> bang_bang::BangBangSettings {
        let (high, low) = self.watermarks;
        let [high, low] = [high, low].map(|share| (share * f64::from(buffer)).round() as usize);
        // A full buffer must be above the high watermark, and an empty one below the low one.
        bang_bang::BangBangSettings { high: high.min(buffer as usize - 1), low: low.max(1) }
    }
}
