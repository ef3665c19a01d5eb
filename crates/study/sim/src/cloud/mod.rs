//! A cluster of proxies in a cloud: hosts whose processors contend with neighbours, servers that take time to start,
//! and in front the queue, the estimators and the scaler of the crate `elastic`.
//!
//! A call is six messages through one server (INVITE, 180, 200, ACK, BYE, 200), which share the time that the server
//! takes for a call ([`PROXY`], [`SERVER`]). There are no retransmissions: the front has sent 100.

mod host;
mod machine;
mod plan;
mod results;
mod world;

pub use plan::{
    Announcing, CallTimes, CloudHost, CloudPlan, CloudServers, Database, Front, Neighbours, PROXY, Resource,
    SERVER, Vantage,
};
pub use results::{CloudResults, CloudSecond};
pub use world::run;
