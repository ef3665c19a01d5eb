//! Members by name: A and AAAA records, or SRV (RFC 2782), asked again and again; the last good answer is kept.

use super::resolver::{Question, Resolver, Share};
use config::{Address, Member, SIP_PORT};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use tokio::sync::mpsc;

/// One address of a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Resolved {
    /// The member as the configuration names it.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) capacity: f64,
    pub(crate) max_calls: u32,
}

/// What came of the look-up of a name.
pub(crate) type Answer = (Address, Result<Vec<Share>, String>);

/// The last good answer for each name, and which are being asked for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    last: BTreeMap<Address, Vec<Share>>,
    /// How the last look-up failed.
    failed: BTreeMap<Address, String>,
    under_way: BTreeSet<Address>,
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

    /// The names among the members that are to be asked for now: those that are not being asked for.
    pub(crate) fn ask(&mut self, members: &[Member]) -> Vec<Address> {
        let names = members.iter().map(|member| &member.address);
        let mut names: Vec<_> = names.filter(|name| !matches!(name, Address::Socket(_))).cloned().collect();
        names.retain(|name| self.under_way.insert(name.clone()));
        names
    }

    /// Takes an answer of [`look_up`]; an empty one is no answer. Failures are logged when they are news.
    pub(crate) fn learn(&mut self, (name, answer): Answer) {
        self.under_way.remove(&name);
        match answer {
            Ok(shares) if !shares.is_empty() => {
                if self.failed.remove(&name).is_some() {
                    tracing::info!(member = %name, "name resolved again");
                }
                self.last.insert(name, shares);
            }
            other => {
                let error = other.err().unwrap_or_else(|| "no address".to_owned());
                if self.failed.get(&name) != Some(&error) {
                    tracing::warn!(member = %name, %error, "name not resolved; the last answer stays");
                    self.failed.insert(name, error);
                }
            }
        }
    }
}

/// Asks for these names at once; each answer comes when it is there.
pub(crate) fn look_up(names: Vec<Address>, resolver: &mut Resolver, answers: &mpsc::UnboundedSender<Answer>) {
    for name in names {
        let question = match &name {
            Address::Socket(_) => continue,
            Address::Host { name, port } => {
                Question::Addresses { name: name.clone(), port: port.unwrap_or(SIP_PORT) }
            }
            Address::Srv(name) => Question::Services(name.clone()),
        };
        let (answer, answers) = (resolver.ask(question), answers.clone());
        // Nobody waits for it when the process ends.
        tokio::spawn(async move { drop(answers.send((name, answer.await))) });
    }
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
        names.learn((host("a.example"), Ok(vec![(literal, 1.0), (second, 0.5)])));
        names.learn((host("a.example"), Ok(vec![])));
        names.learn((host("b.example"), Err("no such name".to_owned())));
        let resolved = names.resolved(&members);
        let seen: Vec<_> = resolved.iter().map(|r| (r.name.as_str(), r.address, r.capacity)).collect();
        assert_eq!(seen, [("192.0.2.1:5060", literal, 2.0), ("a.example", second, 1.0)]);
        assert!(names.lack(&members) && !names.lack(&members[..2]), "b.example was never answered");
    }

    #[test]
    fn a_name_is_asked_for_once_at_a_time() {
        let member = |address| Member { address, capacity: 1.0, max_calls: 0 };
        let members = [member(host("a.example")), member(host("b.example")), member(host("a.example"))];
        let mut names = Names::default();
        assert_eq!(names.ask(&members), [host("a.example"), host("b.example")]);
        names.learn((host("b.example"), Err("no answer in time".to_owned())));
        assert_eq!(names.ask(&members), [host("b.example")]);
    }
}
