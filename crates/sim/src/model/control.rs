//! Overload control of a host, in the scenario's words and between typed messages: an [`overload::Guard`] decides.

use super::message::{HostId, Message, Start};
use base::{Instant, Rng};
use config::scenario::{self, Group};
use core::time::Duration;
use overload::hop::{Law, rate, window};
use overload::local::{bang_bang, delay, occupancy};
use overload::retry_after::{self, During};
use overload::{
    Class, Facts, Feedback, Guard, Local, Notice, RejectAt, RejectState, Settings, Triage, end_to_end,
};

/// The guard of a host that takes about `mean` for a message.
pub(crate) fn guard(group: &Group, mean: Duration, rng: Rng) -> Guard<HostId> {
    Guard::new(Instant::ZERO, settings(group), group.workers.into(), mean, rng)
}

/// A scenario's words for it in the terms of the controllers.
fn settings(group: &Group) -> Settings {
    let buffer = f64::from(group.buffer);
    let group = &group.overload;
    let [high, low] = [group.watermarks.0, group.watermarks.1].map(|share| (share * buffer).round() as usize);
    // A full buffer is above the one, an empty one below the other.
    let watermarks = bang_bang::Settings { high: high.min(buffer as usize - 1), low: low.max(1) };
    let scenario::Occupancy { target, acceptance_min, increase_max, period, smoothing } = group.occupancy;
    let occupancy = occupancy::Settings { acceptance_min, increase_max, target, period, weight: smoothing };
    let local = match (group.local, group.retry_after) {
        (scenario::Local::None, _) => Local::None,
        (scenario::Local::BangBang, Some(pause)) => {
            Local::RetryAfter(retry_after::Settings { pause, watermarks })
        }
        (scenario::Local::BangBang, None) => Local::BangBang(watermarks),
        (scenario::Local::Occupancy, _) => Local::Occupancy(occupancy),
        (scenario::Local::Delay, _) => {
            Local::Delay(delay::Settings { onset: group.wait / 2, bound: group.wait })
        }
    };
    let feedback = match group.feedback {
        scenario::Feedback::None => Feedback::None,
        scenario::Feedback::HopByHop => Feedback::Hop(Law::Loss(occupancy)),
        scenario::Feedback::EndToEnd => Feedback::EndToEnd(end_to_end::Settings::default()),
        scenario::Feedback::Rate => Feedback::Hop(Law::Rate(rate::Settings::default())),
        scenario::Feedback::Window => Feedback::Hop(Law::Window(window::Settings::default())),
    };
    Settings {
        local,
        feedback,
        reject_at: match group.reject {
            scenario::RejectAt::Arrival => RejectAt::Arrival,
            scenario::RejectAt::Service => RejectAt::Service,
        },
        reject_state: if group.stateful { RejectState::Stateful } else { RejectState::Stateless },
        alternate: group.retry,
        during: match group.during_pause {
            scenario::DuringPause::Prolong => During::Prolong,
            scenario::DuringPause::Ignore => During::Ignore,
        },
        triage: group.triage.then(Triage::default),
        ..Settings::default()
    }
}

/// A response came to a host that has this guard.
pub(crate) fn on_response(
    guard: &mut Guard<HostId>,
    now: Instant,
    message: &Message,
    from: HostId,
    notice: Option<&Notice>,
) {
    if let (Start::Response(status), Some(from)) = (message.start, from.server()) {
        let retry_after = (message.retry_after > 0).then(|| Duration::from_secs(message.retry_after.into()));
        guard.on_response(now, from, status, retry_after, notice);
    }
}

/// The class of a message. `known`: a transaction here knows it already.
pub(crate) fn class_of(message: &Message, known: bool) -> Class {
    if !message.is_request() {
        return Class::Response;
    }
    Class::of(Facts {
        method: message.method,
        in_dialog: message.is_in_dialog(),
        repeat: known,
        priority: false,
    })
}
