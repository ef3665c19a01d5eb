//! Client transactions (RFC 3261 §17.1): a request goes out, responses come in.

pub mod invite;
pub mod non_invite;
