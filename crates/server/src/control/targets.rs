//! Host names in the URIs of requests that leave the site: looked up for the shards (RFC 3263 §4).

use super::dns::{PATIENCE, Share, hosts, resolver, services};
use config::SIP_PORT;
use hickory_resolver::TokioResolver;
use node::{Name, Resolved};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// What came of the look-up of a name: addresses with their weights.
pub(crate) type Found = (Name, Result<Vec<Share>, String>);

/// The names being asked for.
#[derive(Default)]
pub(crate) struct Targets {
    under_way: BTreeSet<Name>,
    look_ups: JoinSet<Found>,
}

/// Look-ups at a time. A question too many is forgotten, and the shard asks again.
const MOST: usize = 256;
/// A name that could not be found is asked for again after this.
const AGAIN: Duration = Duration::from_secs(5);

impl Targets {
    /// Asks for a name, unless that is being done. Without `servers`, asks those of the system.
    pub(crate) fn look_up(&mut self, name: Name, servers: &[SocketAddr]) {
        if self.under_way.len() >= MOST || !self.under_way.insert(name.clone()) {
            return;
        }
        let resolver = resolver(servers);
        self.look_ups.spawn(async move {
            let asked = async { ask(&resolver?, &name).await };
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            (name, answer.unwrap_or_else(|_| Err("no answer in time".to_owned())))
        });
    }

    /// The next answer; `None` if nothing is being asked for.
    pub(crate) async fn answered(&mut self) -> Option<Found> {
        self.look_ups.join_next().await.map(|found| found.expect("a look-up neither panics nor is aborted"))
    }

    /// What the shards are to know of an answer, which is good for `refresh`.
    pub(crate) fn learn(&mut self, (name, answer): Found, refresh: Duration) -> (Name, Resolved) {
        self.under_way.remove(&name);
        let (addresses, fresh_for) = match answer {
            Ok(addresses) if !addresses.is_empty() => (addresses, refresh),
            other => {
                let error = other.err().unwrap_or_else(|| "no address".to_owned());
                tracing::info!(%name, %error, "the name of a next hop was not resolved");
                (Vec::new(), AGAIN)
            }
        };
        (name, Resolved { addresses, fresh_for })
    }
}

/// Without a port, SRV records come first (RFC 3263 §4.2); NAPTR (§4.1) would choose among transports, and there is one.
async fn ask(resolver: &TokioResolver, name: &Name) -> Result<Vec<Share>, String> {
    if name.port.is_none()
        && let Ok(shares) = services(resolver, &format!("_sip._udp.{}", name.host)).await
        && !shares.is_empty()
    {
        return Ok(shares);
    }
    let addresses = hosts(resolver, &name.host, name.port.unwrap_or(SIP_PORT)).await?;
    Ok(addresses.into_iter().map(|address| (address, 1.0)).collect())
}
