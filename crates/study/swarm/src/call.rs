//! Keys by which observers identify calls, dialogs and requests.

use core::time::Duration;
use wire::{Message, Method};

/// Call-ID, and tag of the caller.
pub(crate) type CallName = (Vec<u8>, Vec<u8>);
/// A call, and the tag of the callee.
pub(crate) type DialogName = (CallName, Vec<u8>);
/// Call-ID, From tag and CSeq number: equal in all copies of a request, whatever their branches.
pub(crate) type RequestName = (Vec<u8>, Vec<u8>, u32);

/// Time after its final response in which copies of a request may arrive: 64*T1 (RFC 3261 §17.1.1.2, §17.1.2.2).
pub(crate) const COPIES: Duration = Duration::from_secs(32);

/// Returns the call of a request that the caller sent, or of a response to the caller.
pub(crate) fn call_of(message: &Message<'_>) -> CallName {
    (message.call_id().to_vec(), message.from_tag().unwrap_or_default().to_vec())
}

/// Returns the dialog of a message twice: as seen if the caller sent the request, and if the callee did.
pub(crate) fn dialogs_of(message: &Message<'_>) -> [DialogName; 2] {
    let tag = |tag: Option<&[u8]>| tag.unwrap_or_default().to_vec();
    let (from, to) = (tag(message.from_tag()), tag(message.to_tag()));
    let call_id = message.call_id().to_vec();
    [((call_id.clone(), from.clone()), to.clone()), ((call_id, to), from)]
}

pub(crate) fn request_of(message: &Message<'_>) -> RequestName {
    let (call_id, from_tag) = call_of(message);
    (call_id, from_tag, message.cseq().number)
}

/// Returns true if `message` is an INVITE outside any dialog.
pub(crate) fn is_initial_invite(message: &Message<'_>) -> bool {
    message.method() == Some(Method::Invite) && message.to_tag().is_none()
}
