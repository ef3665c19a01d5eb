//! Server transactions (RFC 3261 §17.2): receive a request, send responses.

pub mod invite;
pub mod non_invite;
