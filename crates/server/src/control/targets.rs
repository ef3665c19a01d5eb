//! Host names in the URIs of requests that leave the site: looked up for the shards (RFC 3263 §4).

use super::dns::{PATIENCE, Share, hosts, resolver, services};
use config::SIP_PORT;
use hickory_resolver::TokioResolver;
use node::{Name, Resolved};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::{Id, JoinSet};

/// What came of the look-up of a name: addresses with their weights.
pub(crate) type Found = (Name, Result<Vec<Share>, String>);

/// The names being asked for.
#[derive(Default)]
pub(crate) struct Targets {
    under_way: BTreeMap<Id, Name>,
    look_ups: JoinSet<Result<Vec<Share>, String>>,
}

/// Look-ups at a time. A question too many is forgotten, and the shard asks again.
const MOST: usize = 256;
/// A name that could not be found is asked for again after this.
const AGAIN: Duration = Duration::from_secs(5);

impl Targets {
    /// Asks for a name, unless that is being done. Without `servers`, asks those of the system.
    pub(crate) fn look_up(&mut self, name: Name, servers: &[SocketAddr]) {
        if self.under_way.len() >= MOST || self.under_way.values().any(|asked| *asked == name) {
            return;
        }
        let (resolver, asked) = (resolver(servers), name.clone());
        let task = self.look_ups.spawn(async move {
            let asked = async { ask(&resolver?, &asked).await };
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            answer.unwrap_or_else(|_| Err("no answer in time".to_owned()))
        });
        self.under_way.insert(task.id(), name);
    }

    /// The next answer; `None` if nothing is being asked for.
    pub(crate) async fn answered(&mut self) -> Option<Found> {
        let (id, answer) = match self.look_ups.join_next_with_id().await? {
            Ok(found) => found,
            // A bug of the resolver must not end the process.
            Err(error) => (error.id(), Err(error.to_string())),
        };
        self.under_way.remove(&id).map(|name| (name, answer))
    }

    /// What the shards are to know of an answer, which is good for `refresh`.
    pub(crate) fn learn((name, answer): Found, refresh: Duration) -> (Name, Resolved) {
        let failure = match &answer {
            Ok(addresses) if !addresses.is_empty() => None,
            Ok(_) => Some("no address"),
            Err(error) => Some(error.as_str()),
        };
        if let Some(error) = failure {
            tracing::info!(%name, error, "the name of a next hop was not resolved");
        }
        let fresh_for = if failure.is_some() { AGAIN } else { refresh };
        (name, Resolved { addresses: answer.ok(), fresh_for })
    }
}

/// Without a port, SRV records come first, and only where there are none the addresses (RFC 3263 §4.2); NAPTR (§4.1)
/// would choose among transports, and there is one. The name is a whole one: the system's search list is not for it.
async fn ask(resolver: &TokioResolver, name: &Name) -> Result<Vec<Share>, String> {
    if name.port.is_none() {
        let shares = services(resolver, &format!("_sip._udp.{}.", name.host)).await?;
        if !shares.is_empty() {
            return Ok(shares);
        }
    }
    let addresses = hosts(resolver, &format!("{}.", name.host), name.port.unwrap_or(SIP_PORT)).await?;
    Ok(addresses.into_iter().map(|address| (address, 1.0)).collect())
}
