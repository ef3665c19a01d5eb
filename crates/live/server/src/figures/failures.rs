//! The last failed requests, with the targets that were tried.

use super::metric::figures;
use super::peer::PeerText;
use super::view::View;
use base::{Instant, Transport, UnixTime};
use node::{FailedRequest, FailureCause, KeptFailure, Tried, TriedResult};

figures! {
    /// `GET /api/failures`
    FailuresView as "Failures" {
        /// Failed requests, the last failure at the end.
        failures: Vec<FailureView>,
    }
}

figures! {
    /// A failed request, or a failed handshake of a connection.
    FailureView as "Failure" from (shard: usize, kept: &KeptFailure, clock: &WallClock, view: &View) {
        /// Identifier, unique in the process.
        id: String = format!("{shard}-{}", kept.number),
        /// Time of the failure in UTC; of several, of the first.
        time: String = clock.text(kept.request.failed),
        /// Time of the last of several failures.
        last: String = clock.text(kept.last),
        /// Number of requests that failed with the same cause and source.
        count: u64 = kept.count,
        /// Whether some of these requests came from other sources.
        several_sources: bool = kept.is_mixed,
        /// Time from the arrival to the failure.
        seconds: f64 = since(&kept.request, kept.request.failed),
        /// Source of the request, or the other end of the connection.
        source: PeerText = kept.request.source.into(),
        /// Method; empty for a connection.
        method: String = kept.request.method.to_string(),
        /// Call-ID; empty for a connection.
        call_id: String = kept.request.call_id.to_string(),
        /// User and host of the Request-URI; empty if it is not known.
        uri: String = kept.request.uri.to_string(),
        /// User and host of From.
        from: String = kept.request.from.to_string(),
        /// User and host of To.
        to: String = kept.request.to.to_string(),
        /// Route of the request; null if no route applied.
        route: Option<String> = Some(kept.request.route.to_string()).filter(|route| !route.is_empty()),
        /// Targets that got the request, in this order.
        tried: Vec<TriedView> = kept.request.tried.iter().map(|tried| TriedView::new(&kept.request, tried, view)).collect(),
        /// Status that the source got; null without a response.
        status: Option<u16> = status(kept.request.cause),
        /// Cause in words.
        cause: String = cause(&kept.request, view),
    }
}

figures! {
    /// A target of a failed request.
    TriedView as "Tried" from (request: &FailedRequest, tried: &Tried, view: &View) {
        /// Address of the target.
        target: PeerText = tried.target.into(),
        /// Name of the member at this address; null without one.
        name: Option<String> = view.name_at(tried.target),
        /// Time from the arrival of the request until it was sent to this target.
        seconds: f64 = since(request, tried.at),
        /// Result in words.
        result: String = result(tried),
    }
}

/// Conversion from the clock of the process to the time of day.
pub(crate) struct WallClock {
    pub(crate) now: Instant,
    pub(crate) unix: UnixTime,
}

impl WallClock {
    fn text(&self, at: Instant) -> String {
        let ago = self.now.saturating_since(at).as_millis() as u64;
        UnixTime::from_millis(self.unix.as_millis().saturating_sub(ago)).rfc3339()
    }
}

fn since(request: &FailedRequest, at: Instant) -> f64 {
    at.saturating_since(request.arrived).as_secs_f64()
}

fn status(cause: FailureCause) -> Option<u16> {
    match cause {
        FailureCause::Refused { status, .. } | FailureCause::Answered { status } => Some(status),
        FailureCause::Dropped(_) | FailureCause::Handshake(_) => None,
    }
}

fn result(tried: &Tried) -> String {
    match tried.result {
        TriedResult::Answered(status) => format!("answered {status}"),
        TriedResult::Silent => "no response".to_owned(),
        TriedResult::Unreachable if tried.target.transport == Transport::Udp => {
            "unreachable (ICMP)".to_owned()
        }
        TriedResult::Unreachable => "no connection".to_owned(),
        TriedResult::ConnectionLost => "connection closed".to_owned(),
        TriedResult::NoFinalResponse => "no final response".to_owned(),
    }
}

/// Returns the cause of a failure: the result at the last target, or the reason why the request got no target.
fn cause(request: &FailedRequest, view: &View) -> String {
    let detail = Some(&*request.detail).filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    let here = match request.cause {
        FailureCause::Refused { reason, .. } => format!("refused here: {reason}"),
        FailureCause::Dropped(drop) => format!("dropped here: {}", drop.reason()),
        FailureCause::Handshake(reason) => format!("handshake failed: {reason}"),
        FailureCause::Answered { .. } => String::new(),
    };
    match request.tried.last() {
        Some(last) => {
            let target = last.target;
            let target = view.name_at(target).map_or(target.to_string(), |name| format!("{name} {target}"));
            format!("{target}: {}", result(last))
        }
        None => here + &detail,
    }
}
