//! Decisions about servers that are started and stopped as the load changes. [`elastic::scale`] calculates how many
//! servers there should be; this module compares that with the state of the pool and the driver. The caller calls the
//! driver, drains members and writes the log. `docs/scaling.md` describes scaling for users.
//!
//! - [`PoolView`]: state of a pool at one moment,
//! - [`Listing`]: list of a driver; [`DriverServer`]: a server in requests to the driver,
//! - [`Fleet`]: mapping of servers to members, and requests about them,
//! - [`Reconciler`]: a fleet with the schedule of its driver's lists,
//! - [`Advice`]: recommended number of servers if no driver starts and stops servers.

mod advice;
mod driver;
mod fleet;
mod outlook;
mod reconciler;
mod server_list;
#[cfg(test)]
mod tests;
mod trouble;
mod view;

pub use advice::Advice;
pub use driver::{DriverServer, ListedState, Listing, ServerSet};
pub use fleet::{Fleet, News, Order, detection};
pub use outlook::{DecisionCounts, ScalerOutlook};
pub use reconciler::{ListNews, Reconciler};
pub use server_list::{ListedServer, ServerList};
pub use trouble::Trouble;
pub use view::{MemberLoad, MemberWork, PoolView};
