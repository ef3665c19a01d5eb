//! Ways of forwarding a request: without a transaction and with one.

pub(crate) mod contacts;
pub(crate) mod keep_alive;
pub(crate) mod onward;
mod path_header;
pub(crate) mod stateful;
pub(crate) mod stateless;
