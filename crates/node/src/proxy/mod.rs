//! The role of a transaction-stateful proxy with static next hops: [`proxy::Proxy`] on live bytes.

mod medium;
mod shard;

pub use medium::HopFailure;
pub use shard::{ProxyLimits, ProxyReport, ProxySettings, ProxyShard};
