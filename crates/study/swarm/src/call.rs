//! What observers know calls by.

use core::time::Duration;
use wire::{Message, Method};

/// Call-ID and tag of the caller.
pub(crate) type CallName = (Vec<u8>, Vec<u8>);
/// A call and the tag of the callee.
pub(crate) type DialogName = (CallName, Vec<u8>);
/// What all copies of a request have in common, whatever their branches: Call-ID, From tag, CSeq number.
pub(crate) type RequestName = (Vec<u8>, Vec<u8>, u32);

/// Copies of a request may come for 64*T1 after its final response (RFC 3261 §17.1.1.2, §17.1.2.2).
pub(crate) const COPIES: Duration = Duration::from_secs(32);

/// The call of a message of the caller's, or of a response to one.
pub(crate) fn call_of(message: &Message<'_>) -> CallName {
    (message.call_id().to_vec(), message.from_tag().unwrap_or_default().to_vec())
}

/// The dialog of a message within one, if the caller sent it or what it answers, and if the callee did.
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

/// Whether this is an INVITE that begins a call.
pub(crate) fn begins(message: &Message<'_>) -> bool {
    message.method() == Some(Method::Invite) && message.to_tag().is_none()
}
