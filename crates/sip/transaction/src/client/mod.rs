//! Client transactions (RFC 3261 §17.1): send a request, receive responses.

pub mod invite;
pub mod non_invite;
