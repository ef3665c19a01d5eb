//! Overload control between typed messages: an [`overload::Guard`] decides.

use super::message::{HostId, ModelMessage, ModelStart};
use base::Instant;
use core::time::Duration;
use overload::{Guard, MessageClass, RequestInfo, UpstreamFeedback};

/// Handles a response that arrived at a host with this guard.
pub(crate) fn on_response(
    guard: &mut Guard<HostId>,
    now: Instant,
    message: &ModelMessage,
    from: HostId,
    notice: Option<&UpstreamFeedback>,
) {
    if let (ModelStart::Response(status), Some(from)) = (message.start, from.server()) {
        let retry_after = (message.retry_after > 0).then(|| Duration::from_secs(message.retry_after.into()));
        guard.on_response(now, from, status, retry_after, notice);
    }
}

/// Returns the class of a message. `known`: a transaction of this host matches it.
pub(crate) fn class_of(message: &ModelMessage, known: bool) -> MessageClass {
    if !message.is_request() {
        return MessageClass::Response;
    }
    MessageClass::of(RequestInfo {
        method: message.method,
        in_dialog: message.is_in_dialog(),
        repeat: known,
        priority: false,
    })
}
