//! The calls in progress of pools with dialogs.

use super::failures::WallClock;
use super::metric::figures;
use dialog::OpenCall;
use std::net::SocketAddr;

figures! {
    /// `GET /api/calls`
    OpenCallsView as "OpenCalls" {
        /// The oldest calls first.
        calls: Vec<OpenCallView>,
        /// Number of calls that fulfil the conditions.
        count: usize,
    }
}

figures! {
    /// A call in progress.
    OpenCallView as "OpenCall" from (call: &OpenCall, clock: &WallClock) {
        /// Call-ID.
        call_id: String = text(call.about.call_id()),
        /// URI in From.
        from: String = text(call.about.from()),
        /// URI in To.
        to: String = text(call.about.to()),
        /// Request-URI as received.
        uri: String = text(call.about.uri()),
        /// Pool; null for a call to a user.
        pool: Option<String> = Some(text(call.about.pool())).filter(|pool| !pool.is_empty()),
        /// Source of the INVITE.
        source: Option<SocketAddr> = call.about.source,
        /// Server that answered; null while the call rings.
        member: Option<SocketAddr> = call.peer,
        /// Whether the call was answered.
        answered: bool = call.is_answered,
        /// Time since the INVITE.
        seconds: u64 = (clock.unix.as_millis() / 1_000).saturating_sub(call.began_unix.into()),
        /// Time since the answer; null without an answer, or if it was given before a restart.
        answered_seconds: Option<f64> = call.answered.map(|at| clock.now.saturating_since(at).as_secs_f64()),
    }
}

figures! {
    /// `DELETE /api/calls`
    EndedCallsView as "EndedCalls" {
        /// Number of ended dialogs; a forked call may have several.
        ended: usize,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
