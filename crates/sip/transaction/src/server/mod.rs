//! Server transactions (RFC 3261 §17.2): a request comes in, responses go out.

pub mod invite;
pub mod non_invite;
