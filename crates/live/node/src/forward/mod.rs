//! The ways to forward a request: without keeping anything of it but its call's node, and with a transaction.

pub(crate) mod contacts;
pub(crate) mod onward;
mod path_header;
pub(crate) mod stateful;
pub(crate) mod stateless;
