//! Overload control between typed messages: an [`overload::Guard`] decides.

use super::message::{HostId, Message, Start};
use base::Instant;
use core::time::Duration;
use overload::{Class, Facts, Guard, Notice};

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
