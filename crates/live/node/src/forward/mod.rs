//! The ways to forward a request: without keeping anything of it but its call's node, and with a transaction.

mod onward;
pub(crate) mod stateful;
mod stateless;

pub(crate) use onward::{Onward, Stay};
pub(crate) use stateful::Refresh;
pub(crate) use stateless::{SearchLimits, Searches, Unacknowledged};
