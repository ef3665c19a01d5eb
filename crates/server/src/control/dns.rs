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

/// What is known of a name among the members.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct NameView {
    /// As the configuration has it.
    pub(crate) name: String,
    /// How many addresses its last good answer had; 0 if there was none.
    pub(crate) addresses: usize,
    /// How the last look-up failed, if it did.
    pub(crate) error: Option<String>,
}

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

    /// Forgets the names that are not among the members any more.
    pub(crate) fn keep_only(&mut self, members: &[Member]) {
        let is_named = |name: &Address| names(members).any(|named| named == name);
        self.last.retain(|name, _| is_named(name));
        self.failed.retain(|name, _| is_named(name));
    }

    /// Whether nothing is known yet of a name among the members: its first look-up has not come to an end.
    pub(crate) fn awaits(&self, members: &[Member]) -> bool {
        names(members).any(|name| !self.last.contains_key(name) && !self.failed.contains_key(name))
    }

    /// The names among the members that are to be asked for now: those that are not being asked for.
    pub(crate) fn ask(&mut self, members: &[Member]) -> Vec<Address> {
        names(members).filter(|name| self.under_way.insert((*name).clone())).cloned().collect()
    }

    /// Of these, those that have never been answered.
    pub(crate) fn ask_again(&mut self, members: &[Member]) -> Vec<Address> {
        let Self { last, under_way, .. } = self;
        let lacking = names(members).filter(|name| !last.contains_key(*name));
        lacking.filter(|name| under_way.insert((*name).clone())).cloned().collect()
    }

    /// What an address or name among the members stands for.
    pub(crate) fn addresses(&self, of: &Address) -> Vec<SocketAddr> {
        match of {
            Address::Socket(address) => vec![*address],
            name => self.last.get(name).into_iter().flatten().map(|&(address, _)| address).collect(),
        }
    }

    /// How the names among the members stand.
    pub(crate) fn view(&self, members: &[Member]) -> Vec<NameView> {
        let view = |name: &Address| NameView {
            name: name.to_string(),
            addresses: self.last.get(name).map_or(0, Vec::len),
            error: self.failed.get(name).cloned(),
        };
        names(members).map(view).collect()
    }

    /// Takes an answer of [`look_up`]; an empty one is no answer. Failures are logged when they are news.
    pub(crate) fn learn(&mut self, (name, answer): Answer) {
        self.under_way.remove(&name);
        match answer {
            Ok(shares) if !shares.is_empty() => {
                if self.failed.remove(&name).is_some() {
                    tracing::info!(member = %name, "name resolved");
                }
                self.last.insert(name, shares);
            }
            other => {
                let error = other.err().unwrap_or_else(|| "no address".to_owned());
                if self.failed.get(&name) != Some(&error) {
                    if self.last.contains_key(&name) {
                        tracing::warn!(member = %name, %error, "name not resolved; the last answer stays");
                    } else {
                        tracing::warn!(member = %name, %error, "name not resolved; no member until it is");
                    }
                    self.failed.insert(name, error);
                }
            }
        }
    }
}

/// The members that are names.
fn names(members: &[Member]) -> impl Iterator<Item = &Address> {
    members.iter().map(|member| &member.address).filter(|address| !matches!(address, Address::Socket(_)))
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
        let view = |name: &str, addresses, error: &str| NameView {
            name: name.to_owned(),
            addresses,
            error: Some(error.to_owned()),
        };
        assert_eq!(
            names.view(&members),
            [view("a.example", 2, "no address"), view("b.example", 0, "no such name")]
        );
        assert_eq!(names.ask_again(&members), [host("b.example")], "it was never answered");
    }

    #[test]
    fn a_name_that_left_the_file_is_new_when_it_comes_back() {
        let members = ["a.example", "b.example"].map(|name| Member {
            address: host(name),
            capacity: 1.0,
            max_calls: 0,
        });
        let mut names = Names::default();
        assert!(names.awaits(&members));
        names.learn((host("a.example"), Ok(vec![("192.0.2.1:5060".parse().unwrap(), 1.0)])));
        names.learn((host("b.example"), Err("no such name".to_owned())));
        assert!(!names.awaits(&members), "a failure is an end, too");
        names.keep_only(&members[1..]);
        assert!(!names.awaits(&members[1..]) && names.awaits(&members[..1]));
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
