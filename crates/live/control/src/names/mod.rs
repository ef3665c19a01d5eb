//! Members by name: A and AAAA records, or SRV (RFC 2782), looked up regularly. An address stays until an answer shows
//! that it is gone. A failed look-up, or a failed part of one, removes nothing.

mod found;
mod look_up;
mod search;

pub use found::{Families, FoundAddresses, Share};
pub use look_up::{
    DnsQuery, DnsQuestion, DnsRecord, LookUp, PointerRecord, RecordKind, ServiceRecord, Usable,
};
pub use search::SearchList;

use crate::{Address, LogEntry, MemberSettings};
use balance::PoolId;
use base::Peer;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

/// One address of a member.
#[derive(Clone, PartialEq, Debug)]
pub struct ResolvedMember {
    /// Name of the member in the configuration.
    pub name: String,
    /// Its name for display, from the first of its pools that has one.
    pub label: Option<String>,
    /// Address and transport.
    pub peer: Peer,
    /// Relative capacity.
    pub capacity: f64,
    /// Limit of calls in progress; 0 for no limit.
    pub max_calls: u32,
    /// Limit of new calls a second; 0 for no limit.
    pub max_rate: u32,
    /// Pools of the member, at least one, in their order.
    pub pools: Vec<PoolId>,
}

/// A name with a look-up under way. The number distinguishes this question from earlier questions about the name whose
/// answers no longer count, because the resolver has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameLookUp {
    name: Address,
    number: u64,
}

impl NameLookUp {
    /// Returns the name as in the configuration.
    pub fn name(&self) -> &Address {
        &self.name
    }

    /// Returns the question to ask the DNS.
    pub fn question(&self) -> DnsQuestion {
        match &self.name {
            // An address is never looked up.
            Address::Socket(peer) => {
                DnsQuestion::Addresses { name: peer.address.ip().to_string(), port: peer.address.port() }
            }
            Address::Host { transport, name, port } => {
                let port = port.unwrap_or(transport.default_port());
                DnsQuestion::Addresses { name: name.clone(), port }
            }
            Address::Srv(name) => DnsQuestion::Services(name.clone()),
        }
    }
}

/// Look-up state of a name among the members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberName {
    /// The name as in the configuration.
    pub name: String,
    /// Number of its addresses; 0 if none was ever found.
    pub addresses: usize,
    /// Error of the last look-up or of a part of it; `None` if there was none.
    pub error: Option<String>,
}

/// Look-up state of all names among the members.
///
/// - Asking: [`ask`](Self::ask), [`ask_again`](Self::ask_again), [`learn`](Self::learn),
///   [`start_over`](Self::start_over), [`keep_only`](Self::keep_only).
/// - Reading: [`resolved`](Self::resolved), [`peers`](Self::peers), [`leads_to`](Self::leads_to),
///   [`awaits`](Self::awaits), [`view`](Self::view).
#[derive(Debug, Default)]
pub struct Names {
    /// Last answers. A part that has failed since keeps its former addresses.
    last: BTreeMap<Address, FoundAddresses>,
    /// Error of the last look-up, or of a part of it.
    failed: BTreeMap<Address, String>,
    /// Numbers of the questions under way.
    under_way: BTreeMap<Address, u64>,
    questions: u64,
}

impl Names {
    /// Returns the members' addresses from the last answers. Names without an address are left out.
    pub fn resolved(&self, members: &[MemberSettings]) -> Vec<ResolvedMember> {
        let mut all: Vec<ResolvedMember> = Vec::new();
        for member in members {
            let shares = match &member.address {
                Address::Socket(peer) => vec![(peer.address, 1.0)],
                name => self.last.get(name).map_or(Vec::new(), FoundAddresses::shares),
            };
            for (address, share) in shares {
                let peer = Peer::new(member.address.transport(), address);
                // Two names of one server are one node, whatever their pools.
                match all.iter_mut().find(|other| other.peer == peer) {
                    Some(known) if known.pools.contains(&member.pool) => {}
                    Some(known) => {
                        known.label = known.label.take().or_else(|| member.name.clone());
                        known.pools.push(member.pool);
                    }
                    None => all.push(ResolvedMember {
                        name: member.address.to_string(),
                        label: member.name.clone(),
                        peer,
                        capacity: member.capacity * share,
                        max_calls: member.max_calls,
                        max_rate: member.max_rate,
                        pools: vec![member.pool],
                    }),
                }
            }
        }
        all
    }

    /// Forgets names that are no longer among the members.
    pub fn keep_only(&mut self, members: &[MemberSettings]) {
        let is_named = |name: &Address| names(members).any(|named| named == name);
        self.last.retain(|name, _| is_named(name));
        self.failed.retain(|name, _| is_named(name));
        self.under_way.retain(|name, _| is_named(name));
    }

    /// Forgets errors and look-ups under way, since the resolver has changed. The new one may find more, and answers of
    /// the former one no longer count.
    pub fn start_over(&mut self) {
        self.failed.clear();
        self.under_way.clear();
    }

    /// Returns whether the first look-up of a name among the members has not ended yet.
    pub fn awaits(&self, members: &[MemberSettings]) -> bool {
        names(members).any(|name| !self.last.contains_key(name) && !self.failed.contains_key(name))
    }

    /// Returns whether [`ask_again`](Self::ask_again) would ask.
    pub fn lacks_any(&self, members: &[MemberSettings]) -> bool {
        names(members).any(|name| self.lacks(name) && !self.under_way.contains_key(name))
    }

    /// Returns whether a name was never found, or its last look-up failed at least in part.
    fn lacks(&self, name: &Address) -> bool {
        !self.last.contains_key(name) || self.failed.contains_key(name)
    }

    /// Starts look-ups of all names among the members, except those with a look-up under way.
    pub fn ask(&mut self, members: &[MemberSettings]) -> Vec<NameLookUp> {
        self.begin(names(members).cloned().collect())
    }

    /// Starts look-ups of the names that are not completely known.
    pub fn ask_again(&mut self, members: &[MemberSettings]) -> Vec<NameLookUp> {
        self.begin(names(members).filter(|name| self.lacks(name)).cloned().collect())
    }

    fn begin(&mut self, names: Vec<Address>) -> Vec<NameLookUp> {
        let mut asked = Vec::new();
        for name in names {
            if let Entry::Vacant(entry) = self.under_way.entry(name) {
                self.questions += 1;
                asked.push(NameLookUp { name: entry.key().clone(), number: self.questions });
                entry.insert(self.questions);
            }
        }
        asked
    }

    /// Returns the addresses of an address or name among the members.
    pub fn peers(&self, of: &Address) -> Vec<Peer> {
        match of {
            Address::Socket(peer) => vec![*peer],
            name => {
                let shares = self.last.get(name).map_or(Vec::new(), FoundAddresses::shares);
                shares.into_iter().map(|(address, _)| Peer::new(name.transport(), address)).collect()
            }
        }
    }

    /// Returns whether an address or name among the members leads to a server at this address, over any transport.
    pub fn leads_to(&self, of: &Address, at: SocketAddr) -> bool {
        match of {
            Address::Socket(peer) => peer.address == at,
            name => self.last.get(name).is_some_and(|found| found.has(at)),
        }
    }

    /// Returns the look-up state of the names among the members.
    pub fn view(&self, members: &[MemberSettings]) -> Vec<MemberName> {
        let view = |name: &Address| MemberName {
            name: name.to_string(),
            addresses: self.last.get(name).map_or(0, |found| found.shares().len()),
            error: self.failed.get(name).cloned(),
        };
        names(members).map(view).collect()
    }

    /// Takes the answer to a question; an answer without addresses is an error. Returns a log entry when the state
    /// changes.
    pub fn learn(
        &mut self,
        NameLookUp { name, number }: NameLookUp,
        answer: Result<FoundAddresses, String>,
    ) -> Option<LogEntry> {
        if self.under_way.get(&name) != Some(&number) {
            return None;
        }
        self.under_way.remove(&name);
        let Some(error) = self.take(&name, answer) else {
            return self.failed.remove(&name).map(|_| LogEntry::NameResolved { name });
        };
        if self.failed.get(&name) == Some(&error) {
            return None;
        }
        self.failed.insert(name.clone(), error.clone());
        let is_known = self.last.contains_key(&name);
        Some(LogEntry::NameFailed { name, error, is_known })
    }

    /// Stores an answer. Returns the error of the look-up, or of a failed part.
    fn take(&mut self, name: &Address, answer: Result<FoundAddresses, String>) -> Option<String> {
        let mut found = match answer {
            Ok(found) => found,
            Err(error) => return Some(error),
        };
        let failure = found.failure().map(str::to_owned);
        if let Some(former) = self.last.get(name) {
            found.keep(former);
        }
        if found.shares().is_empty() {
            return failure.or_else(|| Some(found.absent().to_owned()));
        }
        self.last.insert(name.clone(), found);
        failure
    }
}

/// Returns the members that are names.
fn names(members: &[MemberSettings]) -> impl Iterator<Item = &Address> {
    members.iter().map(|member| &member.address).filter(|address| !matches!(address, Address::Socket(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Transport;
    use std::net::SocketAddr;

    /// Error text of [`nothing`].
    const ABSENT: &str = "the DNS has no A record of this name";

    fn host(name: &str) -> Address {
        Address::Host { transport: Transport::Udp, name: name.to_owned(), port: None }
    }

    fn udp(address: SocketAddr) -> Peer {
        Peer::new(Transport::Udp, address)
    }

    fn member(address: Address) -> MemberSettings {
        MemberSettings { capacity: 2.0, ..MemberSettings::new(address) }
    }

    fn found(shares: &[Share]) -> FoundAddresses {
        let host = |&(address, share): &Share| {
            let (here, there) = (Ok(vec![address.ip()]), Ok(Vec::new()));
            let families = if address.is_ipv4() { [here, there] } else { [there, here] };
            (address.to_string(), address.port(), share, families)
        };
        FoundAddresses::new(shares.iter().map(host), ABSENT.to_owned())
    }

    fn hear(names: &mut Names, name: Address, answer: Result<FoundAddresses, String>) -> Option<LogEntry> {
        let asked = names.begin(vec![name]).pop().expect("no look-up of the name is under way");
        names.learn(asked, answer)
    }

    fn named(asked: Vec<NameLookUp>) -> Vec<Address> {
        asked.into_iter().map(|asked| asked.name).collect()
    }

    #[test]
    fn the_last_good_answer_stays_and_one_server_is_one_node() {
        let literal: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let members =
            [member(Address::Socket(udp(literal))), member(host("a.example")), member(host("b.example"))];
        let mut names = Names::default();
        let second: SocketAddr = "192.0.2.2:5060".parse().unwrap();
        hear(&mut names, host("a.example"), Ok(found(&[(literal, 1.0), (second, 0.5)])));
        hear(&mut names, host("a.example"), Ok(found(&[])));
        hear(&mut names, host("b.example"), Err("no such name".to_owned()));
        let resolved = names.resolved(&members);
        let seen: Vec<_> = resolved.iter().map(|r| (r.name.as_str(), r.peer.address, r.capacity)).collect();
        assert_eq!(seen, [("192.0.2.1:5060", literal, 2.0), ("a.example", second, 1.0)]);
        let view = |name: &str, addresses, error: &str| MemberName {
            name: name.to_owned(),
            addresses,
            error: Some(error.to_owned()),
        };
        assert_eq!(
            names.view(&members),
            [view("a.example", 2, ABSENT), view("b.example", 0, "no such name")]
        );
        assert_eq!(named(names.ask_again(&members)), [host("a.example"), host("b.example")]);
    }

    #[test]
    fn a_failure_and_its_end_are_each_logged_once() {
        let mut names = Names::default();
        let (name, address) = (host("a.example"), "192.0.2.1:5060".parse().unwrap());
        let failed = |error: &str, is_known| {
            Some(LogEntry::NameFailed { name: host("a.example"), error: error.to_owned(), is_known })
        };
        let mut learned = |answer| hear(&mut names, name.clone(), answer);
        let error = |text: &str| Err(text.to_owned());
        assert_eq!(learned(error("no answer in time")), failed("no answer in time", false));
        assert_eq!(learned(error("no answer in time")), None);
        assert_eq!(learned(error("refused")), failed("refused", false));
        assert_eq!(
            learned(Ok(found(&[(address, 1.0)]))),
            Some(LogEntry::NameResolved { name: host("a.example") })
        );
        assert_eq!(learned(Ok(found(&[(address, 1.0)]))), None);
        assert_eq!(learned(error("refused")), failed("refused", true));
    }

    /// The names lead to one server, which is two nodes because it is reached in two ways.
    #[test]
    fn a_name_determines_the_transport_of_its_addresses() {
        let name = |transport, port| Address::Host { transport, name: "a.example".to_owned(), port };
        let (tls, tcp) = (name(Transport::Tls, None), name(Transport::Tcp, Some(5061)));
        let mut names = Names::default();
        let address: SocketAddr = "192.0.2.1:5061".parse().unwrap();
        for (name, port) in [(&tls, 5061), (&tcp, 5061)] {
            let asked = names.begin(vec![name.clone()]).pop().unwrap();
            let question = DnsQuestion::Addresses { name: "a.example".to_owned(), port };
            assert_eq!(asked.question(), question);
            names.learn(asked, Ok(found(&[(address, 1.0)])));
        }
        let resolved = names.resolved(&[member(tls), member(tcp)]);
        let peers: Vec<_> = resolved.iter().map(|member| (&member.name[..], member.peer)).collect();
        assert_eq!(
            peers,
            [
                ("a.example;transport=tls", Peer::new(Transport::Tls, address)),
                ("a.example:5061;transport=tcp", Peer::new(Transport::Tcp, address)),
            ]
        );
    }

    /// A failed part keeps its addresses. An answered part gets the addresses of the answer, even if there are none.
    #[test]
    fn a_partial_answer_removes_only_answered_addresses() {
        let ip = |text: &str| text.parse().unwrap();
        let fails = || Err("SERVFAIL".to_owned());
        let target = |host: &str, families| (host.to_owned(), 5070, 1.0, families);
        let healthy = FoundAddresses::new(
            [
                target("one.test.", [Ok(vec![ip("192.0.2.1")]), Ok(vec![ip("2001:db8::1")])]),
                target("two.test.", [Ok(vec![ip("192.0.2.2")]), Ok(vec![])]),
                target("gone.test.", [Ok(vec![ip("192.0.2.3")]), Ok(vec![])]),
            ],
            String::new(),
        );
        let partial = FoundAddresses::new(
            [
                target("one.test.", [Ok(vec![ip("192.0.2.9")]), fails()]),
                target("two.test.", [fails(), Ok(vec![])]),
                target("gone.test.", [Ok(vec![]), Ok(vec![])]),
            ],
            String::new(),
        );
        let name = Address::Srv("_sip._udp.pool.test".to_owned());
        let members = [member(name.clone())];
        let mut names = Names::default();
        // The partial answer comes twice, since addresses that were kept once must be kept again.
        for answer in [&healthy, &partial, &partial] {
            hear(&mut names, name.clone(), Ok(answer.clone()));
        }
        let expected = ["192.0.2.2:5070", "192.0.2.9:5070", "[2001:db8::1]:5070"];
        assert_eq!(names.peers(&name), expected.map(|address| address.parse().unwrap()));
        assert!(names.view(&members)[0].error.is_some());
        assert_eq!(names.ask_again(&members).len(), 1, "soon, since a part is unknown");
        names.start_over();
        hear(&mut names, name.clone(), Ok(healthy));
        assert_eq!((names.peers(&name).len(), &names.view(&members)[0].error), (4, &None));
    }

    #[test]
    fn a_name_that_left_the_file_is_new_when_it_comes_back() {
        let members = ["a.example", "b.example"].map(|name| member(host(name)));
        let mut names = Names::default();
        assert!(names.awaits(&members));
        hear(&mut names, host("a.example"), Ok(found(&[("192.0.2.1:5060".parse().unwrap(), 1.0)])));
        hear(&mut names, host("b.example"), Err("no such name".to_owned()));
        assert!(!names.awaits(&members), "a failure ends the look-up, too");
        assert_eq!(
            named(names.ask_again(&members)),
            [host("b.example")],
            "the other name is completely known"
        );
        names.keep_only(&members[1..]);
        assert!(!names.awaits(&members[1..]) && names.awaits(&members[..1]));
    }

    #[test]
    fn a_name_has_one_look_up_at_a_time() {
        let members = ["a.example", "b.example", "a.example"].map(|name| member(host(name)));
        let mut names = Names::default();
        let asked = names.ask(&members);
        assert_eq!(named(asked.clone()), [host("a.example"), host("b.example")]);
        names.learn(asked[1].clone(), Err("no answer in time".to_owned()));
        assert_eq!(named(names.ask(&members)), [host("b.example")]);
    }

    #[test]
    fn answers_of_a_former_resolver_do_not_count() {
        let members = ["a.example", "b.example"].map(|name| member(host(name)));
        let mut names = Names::default();
        hear(&mut names, host("b.example"), Err("no answer in time".to_owned()));
        let former = names.ask(&members);
        names.start_over();
        assert!(names.awaits(&members[1..]), "the new resolver may find it");
        let asked = names.ask(&members);
        assert_eq!(named(asked.clone()), [host("a.example"), host("b.example")], "at once");
        let [old, new] = [1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], 5060)));
        names.learn(former[0].clone(), Ok(found(&[(old, 1.0)])));
        names.learn(former[1].clone(), Err("no answer in time".to_owned()));
        assert!(names.awaits(&members[..1]) && names.awaits(&members[1..]));
        assert_eq!(names.ask(&members), [], "the new questions are still under way");
        names.learn(asked[0].clone(), Ok(found(&[(new, 1.0)])));
        assert_eq!(names.peers(&host("a.example")), [udp(new)]);
    }
}
