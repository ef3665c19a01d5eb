//! Observers of one process. They see its incoming and outgoing datagrams, know its configuration, and panic when a
//! datagram breaks a rule.

mod balancer;
mod calls;
mod dialogs;
mod home;
mod hop;
mod passing;
mod proxy;
mod rule;
mod transactions;

pub use balancer::BalancerWatch;
pub(crate) use home::HomeWatch;
pub(crate) use hop::Hop;
pub use proxy::{ProcessInput, ProxyWatch};
pub use rule::ProcessRule;
pub(crate) use rule::rules;
pub use testbed::Sent;
pub(crate) use transactions::ServerId;
