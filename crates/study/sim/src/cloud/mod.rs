//! A cluster of proxies in a cloud. Hosts share their processors with neighbours, and servers take time to start. The
//! front has the queue, estimators and scaler of the crate `elastic`.
//!
//! A call is six messages through one server (INVITE, 180, 200, ACK, BYE, 200). They share the server's time for a call
//! ([`PROXY`], [`SERVER`]). There are no retransmissions, because the front has sent a 100.

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
