//! What is decided about the servers of a pool that are started and stopped as calls come and go. [`elastic::scale`]
//! says how many there should be; here it is held against what the pool and a driver show. Whoever uses it asks the
//! driver, drains members, and tells people. `docs/elastic.md` describes it for users.
//!
//! - [`PoolView`]: what a pool is like at one moment,
//! - [`Listing`]: what a driver says, and [`Server`]: what it is told,
//! - [`Fleet`]: which server is which member, and what has been asked about it,
//! - [`Reconciler`]: the fleet, and when its driver is asked what runs,
//! - [`Advice`]: how many there should be, where nobody here starts and stops servers.

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
pub use driver::{Listing, Running, Server, Word};
pub use fleet::{Fleet, News, Order, detection};
pub use outlook::{DecisionCounts, Outlook};
pub use reconciler::{ListNews, Reconciler};
pub use server_list::{ListedServer, ServerList};
pub use trouble::Trouble;
pub use view::{MemberLoad, MemberWork, PoolView};
