//! Members by name: A and AAAA records, or SRV (RFC 2782), asked again and again; the last good answer is kept.

use config::{Address, Member, SIP_PORT};
use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::rdata::SRV;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// One address of a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Resolved {
    /// The member as the configuration names it.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) capacity: f64,
    pub(crate) max_calls: u32,
}

/// A look-up that takes longer has failed; the last good answer stays.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an address of a name is worth relative to the member's capacity.
type Share = (SocketAddr, f64);

/// Resolves members and remembers the last good answer for each name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    last: BTreeMap<Address, Vec<Share>>,
}

impl Names {
    /// The members' addresses, from the last good answers; names without one are left out.
    pub(crate) fn resolved(&self, members: &[Member]) -> Vec<Resolved> {
        let mut all: Vec<Resolved> = Vec::new();
        for member in members {
            let literal;
            let shares: &[Share] = match &member.address {
                Address::Socket(address) => {
                    literal = [(*address, 1.0)];
                    &literal
                }
                name => self.last.get(name).map_or(&[], Vec::as_slice),
            };
            for &(address, share) in shares {
                // Two names for one server are one node.
                if all.iter().all(|other| other.address != address) {
                    all.push(Resolved {
                        name: member.address.to_string(),
                        address,
                        capacity: member.capacity * share,
                        max_calls: member.max_calls,
                    });
                }
            }
        }
        all
    }

    /// Whether a name among the members has never been answered.
    pub(crate) fn lack(&self, members: &[Member]) -> bool {
        let known =
            |address: &Address| matches!(address, Address::Socket(_)) || self.last.contains_key(address);
        members.iter().any(|member| !known(&member.address))
    }

    /// Takes the answers of [`look_up`]; an empty one is no answer.
    pub(crate) fn learn(&mut self, answers: Vec<(Address, Vec<Share>)>) {
        self.last.extend(answers.into_iter().filter(|(_, shares)| !shares.is_empty()));
    }
}

/// Whether any member needs the DNS.
pub(crate) fn has_names(members: &[Member]) -> bool {
    members.iter().any(|member| !matches!(member.address, Address::Socket(_)))
}

/// Asks for all names among the members. Failures are logged and give an empty answer.
pub(crate) async fn look_up(members: Vec<Member>) -> Vec<(Address, Vec<Share>)> {
    let resolver = match TokioResolver::builder_tokio() {
        Ok(builder) => builder.build(),
        Err(error) => {
            tracing::error!(%error, "the system's resolver configuration cannot be read");
            return Vec::new();
        }
    };
    let mut answers = Vec::new();
    for member in members {
        let address = member.address;
        let asked = tokio::time::timeout(PATIENCE, ask(&resolver, &address)).await;
        match asked.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(shares) => answers.push((address, shares)),
            Err(error) => {
                tracing::warn!(member = %address, %error, "name not resolved; the last answer stays");
            }
        }
    }
    answers
}

async fn ask(resolver: &TokioResolver, address: &Address) -> Result<Vec<Share>, String> {
    match address {
        Address::Socket(_) => Ok(Vec::new()),
        Address::Host { name, port } => {
            let found = hosts(resolver, name, port.unwrap_or(SIP_PORT)).await?;
            Ok(found.into_iter().map(|address| (address, 1.0)).collect())
        }
        Address::Srv(name) => services(resolver, name).await,
    }
}

async fn hosts(resolver: &TokioResolver, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = resolver.lookup_ip(name).await.map_err(|error| error.to_string())?;
    let mut addresses: Vec<_> = found.iter().map(|ip| SocketAddr::new(ip, port)).collect();
    // Answers come in changing order; slots and shares should not.
    addresses.sort_unstable();
    Ok(addresses)
}

/// The targets of the most preferred priority, each with its weight relative to their mean (RFC 2782): the weights of
/// a name share out the capacity that the configuration gives.
async fn services(resolver: &TokioResolver, name: &str) -> Result<Vec<Share>, String> {
    let found = resolver.srv_lookup(name).await.map_err(|error| error.to_string())?;
    let best = found.iter().map(SRV::priority).min().ok_or("no SRV record")?;
    let preferred: Vec<_> = found.iter().filter(|srv| srv.priority() == best).collect();
    // Weight 0 means a very small share, not none.
    let weight = |weight: u16| f64::from(weight.max(1));
    let mean = preferred.iter().map(|srv| weight(srv.weight())).sum::<f64>() / preferred.len() as f64;
    let mut shares = Vec::new();
    for srv in preferred {
        for address in hosts(resolver, &srv.target().to_utf8(), srv.port()).await? {
            shares.push((address, weight(srv.weight()) / mean));
        }
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Address {
        Address::Host { name: name.to_owned(), port: None }
    }

    #[test]
    fn the_last_good_answer_stays_and_one_server_is_one_node() {
        let member = |address| Member { address, capacity: 2.0, max_calls: 0 };
        let literal: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let members =
            [member(Address::Socket(literal)), member(host("a.example")), member(host("b.example"))];
        let mut names = Names::default();
        let second: SocketAddr = "192.0.2.2:5060".parse().unwrap();
        names.learn(vec![(host("a.example"), vec![(literal, 1.0), (second, 0.5)])]);
        names.learn(vec![(host("a.example"), vec![]), (host("b.example"), vec![])]);
        let resolved = names.resolved(&members);
        let seen: Vec<_> = resolved.iter().map(|r| (r.name.as_str(), r.address, r.capacity)).collect();
        assert_eq!(seen, [("192.0.2.1:5060", literal, 2.0), ("a.example", second, 1.0)]);
        assert!(names.lack(&members) && !names.lack(&members[..2]), "b.example was never answered");
    }
}
