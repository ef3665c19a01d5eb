//! Host names in the URIs of requests that leave the site (RFC 3263 §4). The caller of the shard looks them up; the
//! answers are kept here.

use crate::address::hop_name::{HopName, Resolved};
use crate::address::ports::Ports;
use crate::address::target::{NamedHost, Target, is_unicast};
use crate::address::topology::AddressTable;
use crate::outcome::counters::Drop;
use crate::outcome::event::ShardEvent;
use crate::outcome::rejection::{Refused, Rejection, refused};
use balance::CallKey;
use base::{Flow, Instant, Outbox, Peer, Recent, Transport};
use core::time::Duration;
use std::net::SocketAddr;

/// Reason why there is no next hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoHop {
    Refused(Refused),
    /// The address of this name is being looked up.
    Unresolved(HopName),
}

impl From<Refused> for NoHop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<NoHop> for Rejection {
    fn from(no_hop: NoHop) -> Self {
        match no_hop {
            NoHop::Refused(refused) => refused.into(),
            NoHop::Unresolved(_) => Self::Dropped(Drop::Unresolved),
        }
    }
}

/// Result of a search for a name.
#[derive(Clone, PartialEq, Debug)]
enum Found {
    Address(Peer),
    /// The name has no address, or none that a listener reaches.
    Nowhere,
    /// There is no complete answer yet.
    NotYet,
}

#[derive(Debug)]
struct Entry {
    transport: Transport,
    addresses: Vec<(SocketAddr, f64)>,
    /// Whether there was a complete answer. Until then there may be further addresses.
    is_whole: bool,
    /// Time when the name has to be looked up again.
    stale_at: Instant,
}

/// The most recently used names with their addresses.
#[derive(Debug)]
pub(crate) struct Names {
    known: Recent<Vec<u8>, Entry>,
    /// The key of the current search, kept to reuse its memory.
    key: Vec<u8>,
}

impl Default for Names {
    fn default() -> Self {
        Self { known: Recent::new(GENERATION), key: Vec::new() }
    }
}

/// Number of names in one generation: more than a site uses in a day.
const GENERATION: usize = 2_048;
/// Refusal of a request that would come back to this proxy, where it would look like a request of another sender.
const OURS: Refused = refused(404, "Leads Back Here");
/// Time after which an unanswered question is repeated.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Maximum length of a name (RFC 1035 §2.3.4).
const LONGEST: usize = 253;

impl Names {
    /// Returns the next hop of a request that leaves the site (RFC 3261 §16.6 step 7). The flow leaves from a listener
    /// of the hop's address family, if possible from the `preferred` one. Fails if the hop is this proxy. If a name has
    /// to be looked up, adds an event.
    pub(crate) fn next_hop(
        &mut self,
        now: Instant,
        target: Target<'_>,
        call: CallKey,
        topology: &AddressTable,
        preferred: u16,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<Flow, NoHop> {
        let ports = &topology.ports;
        check_transport(target, ports)?;
        let peer = match target {
            Target::Address(peer) => peer,
            Target::Name(NamedHost { host, port, transport, .. })
                if topology.is_our_name(host, port.unwrap_or(transport.default_port())) =>
            {
                return Err(OURS.into());
            }
            Target::Name(name) => {
                let usable = |to: Peer| is_unicast(to.address.ip()) && ports.toward(preferred, to).is_some();
                let (found, question) = self.find(now, name, call, usable);
                if let Some(name) = question {
                    out.event(ShardEvent::LookUp(name));
                }
                match found {
                    Found::Address(peer) => peer,
                    Found::Nowhere => return Err(refused(502, "Next Hop Has No Address").into()),
                    Found::NotYet => return Err(NoHop::Unresolved(hop_name(name))),
                }
            }
            Target::OtherTransport | Target::Nowhere => {
                return Err(refused(502, "Next Hop Is No Address").into());
            }
        };
        if ports.is_own(peer) {
            return Err(OURS.into());
        }
        Ok(ports.toward(preferred, peer).ok_or(refused(502, "Next Hop Is Of Another Family"))?)
    }

    /// Looks up a name that a request will go to later.
    pub(crate) fn prepare(&mut self, now: Instant, name: NamedHost<'_>, out: &mut Outbox<ShardEvent>) {
        let (_, question) = self.find(now, name, CallKey(0), |_| true);
        if let Some(name) = question {
            out.event(ShardEvent::LookUp(name));
        }
    }

    /// Returns the address for requests of a call, and the question to ask now, if any. The address stays the same
    /// while the answers are the same (RFC 3263 §4.4: a stateless proxy must choose the same address for each
    /// retransmission). `usable` says whether an address can be reached.
    fn find(
        &mut self,
        now: Instant,
        name: NamedHost<'_>,
        call: CallKey,
        usable: impl Fn(Peer) -> bool,
    ) -> (Found, Option<HopName>) {
        let host = name.host.strip_suffix(b".").unwrap_or(name.host);
        if host.len() > LONGEST || is_invalid(host) {
            return (Found::Nowhere, None);
        }
        self.set_key(NamedHost { host, ..name });
        if self.known.get_mut(&self.key).is_none() {
            let transport = name.transport;
            let entry = Entry { transport, addresses: Vec::new(), is_whole: false, stale_at: Instant::ZERO };
            self.known.insert(self.key.clone(), entry);
        }
        let entry = self.known.get_mut(&self.key).expect("the entry exists or was just added");
        let ask = entry.stale_at <= now;
        if ask {
            entry.stale_at = now + ASK_AGAIN;
        }
        let at = |address| Peer::new(entry.transport, address);
        let found = match choose(&entry.addresses, call, |address| usable(at(address))) {
            Some(address) => Found::Address(at(address)),
            None if entry.is_whole => Found::Nowhere,
            None => Found::NotYet,
        };
        (found, ask.then(|| hop_name(name)))
    }

    /// Takes an answer. After a failed look-up the last good answer is kept. A partial answer replaces only the address
    /// families that it contains.
    pub(crate) fn learn(&mut self, now: Instant, name: &HopName, answer: &Resolved) {
        self.set_key(name.named());
        // The name is unknown if another shard asked for it, or if it was forgotten.
        let Some(entry) = self.known.get_mut(&self.key) else { return };
        entry.stale_at = now + answer.fresh_for;
        entry.is_whole |= !answer.partial;
        if answer.addresses.is_empty() {
            return;
        }
        let mut addresses = answer.addresses.clone();
        if answer.partial && answer.transport == entry.transport {
            let lacks = |family: bool| answer.addresses.iter().all(|(found, _)| found.is_ipv4() != family);
            let former = entry.addresses.iter().filter(|(known, _)| lacks(known.is_ipv4()));
            addresses.extend(former);
            // The addresses are sorted like a complete answer, so that each call keeps its address.
            addresses.sort_by_key(|&(address, _)| address);
        }
        (entry.transport, entry.addresses) = (answer.transport, addresses);
    }

    fn set_key(&mut self, NamedHost { host, port, transport, by_dns }: NamedHost<'_>) {
        self.key.clear();
        self.key.extend(host.iter().map(u8::to_ascii_lowercase));
        self.key.extend([b':', transport as u8, u8::from(by_dns)]);
        self.key.extend_from_slice(&port.unwrap_or(0).to_be_bytes());
    }
}

/// Checks that requests can leave over the transport of a target.
fn check_transport(target: Target<'_>, ports: &Ports) -> Result<(), Refused> {
    match target {
        // The DNS may give TCP as the transport of the name.
        Target::Name(NamedHost { by_dns: true, transport: Transport::Udp, .. })
            if ports.has(Transport::Tcp) =>
        {
            Ok(())
        }
        Target::Address(Peer { transport, .. }) | Target::Name(NamedHost { transport, .. })
            if ports.has(transport) =>
        {
            // A browser accepts no connections (RFC 7118 §5), so it is reached only by its own connection.
            let is_browser = matches!(transport, Transport::Ws | Transport::Wss);
            if is_browser { Err(refused(430, "Flow Failed")) } else { Ok(()) }
        }
        Target::Address(_) | Target::Name(_) | Target::OtherTransport => {
            Err(refused(502, "Next Hop Asks For Another Transport"))
        }
        Target::Nowhere => Ok(()),
    }
}

/// Returns the name for a question to the DNS.
pub(crate) fn hop_name(NamedHost { host, port, transport, by_dns }: NamedHost<'_>) -> HopName {
    let host = host.strip_suffix(b".").unwrap_or(host);
    HopName { transport, by_dns, host: String::from_utf8_lossy(host).to_ascii_lowercase(), port }
}

/// Returns whether a name ends in `.invalid` and never has an address (RFC 6761 §6.4). Browsers use such names in their
/// own Via and Contact (RFC 7118 §5).
fn is_invalid(host: &[u8]) -> bool {
    const INVALID: &[u8] = b".invalid";
    host.len().checked_sub(INVALID.len()).is_some_and(|at| host[at..].eq_ignore_ascii_case(INVALID))
}

/// Returns one of the reachable addresses, in proportion to the weights.
fn choose(
    addresses: &[(SocketAddr, f64)],
    CallKey(call): CallKey,
    usable: impl Fn(SocketAddr) -> bool,
) -> Option<SocketAddr> {
    let usable = || addresses.iter().filter(|(address, _)| usable(*address));
    let sum: f64 = usable().map(|(_, weight)| weight).sum();
    // Call keys are evenly distributed.
    let mut left = (call as u64 as f64 / u64::MAX as f64) * sum;
    let chosen = usable().find(|(_, weight)| {
        left -= weight;
        left <= 0.0
    });
    // Rounding may leave a small remainder at the end.
    chosen.or_else(|| usable().last()).map(|(address, _)| *address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: CallKey = CallKey(7);

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 5060))
    }

    fn peer(last: u8) -> Peer {
        Peer::new(Transport::Udp, address(last))
    }

    fn answer(addresses: &[(SocketAddr, f64)]) -> Resolved {
        let (addresses, fresh_for) = (addresses.to_vec(), Duration::from_secs(30));
        Resolved { transport: Transport::Udp, addresses, partial: false, fresh_for }
    }

    fn name(host: &str) -> HopName {
        HopName { transport: Transport::Udp, by_dns: true, host: host.to_owned(), port: None }
    }

    fn named(host: &str) -> NamedHost<'_> {
        NamedHost { host: host.as_bytes(), port: None, transport: Transport::Udp, by_dns: true }
    }

    fn find(names: &mut Names, now: u64, host: &str) -> (Found, Option<HopName>) {
        names.find(Instant::from_millis(now), named(host), CALL, |_| true)
    }

    #[test]
    fn a_name_is_looked_up_once_and_again_when_its_answer_is_stale() {
        let mut names = Names::default();
        assert_eq!(find(&mut names, 0, "A.example."), (Found::NotYet, Some(name("a.example"))));
        assert_eq!(find(&mut names, 10, "a.example"), (Found::NotYet, None));
        assert_eq!(
            find(&mut names, 5_000, "a.example"),
            (Found::NotYet, Some(name("a.example"))),
            "no answer"
        );
        names.learn(Instant::from_millis(5_100), &name("a.example"), &answer(&[(address(1), 1.0)]));
        assert_eq!(find(&mut names, 35_000, "a.EXAMPLE"), (Found::Address(peer(1)), None));
        let stale = find(&mut names, 35_100, "a.example");
        assert_eq!(
            stale,
            (Found::Address(peer(1)), Some(name("a.example"))),
            "the old answer is used until the new one arrives"
        );
        names.learn(Instant::from_millis(35_200), &name("a.example"), &answer(&[]));
        assert_eq!(
            find(&mut names, 35_200, "a.example"),
            (Found::Address(peer(1)), None),
            "the last good answer"
        );
        find(&mut names, 36_000, "b.example");
        let failed = Resolved { partial: true, ..answer(&[]) };
        names.learn(Instant::from_millis(36_000), &name("b.example"), &failed);
        assert_eq!(
            find(&mut names, 36_000, "b.example").0,
            Found::NotYet,
            "a failed look-up keeps the answer"
        );
        names.learn(Instant::from_millis(36_000), &name("b.example"), &answer(&[]));
        assert_eq!(find(&mut names, 36_001, "b.example"), (Found::Nowhere, None));
    }

    #[test]
    fn a_partial_answer_removes_no_family() {
        let mut names = Names::default();
        let six: SocketAddr = "[2001:db8::1]:5060".parse().expect("a constant");
        let partial = |of: SocketAddr| Resolved { partial: true, ..answer(&[(of, 1.0)]) };
        // All listeners count as IPv4 here.
        let find = |names: &mut Names| {
            names.find(Instant::ZERO, named("a.example"), CALL, |peer| peer.address.is_ipv4()).0
        };
        find(&mut names);
        let mut after = |answer: Resolved| {
            names.learn(Instant::ZERO, &name("a.example"), &answer);
            find(&mut names)
        };
        assert_eq!(after(partial(six)), Found::NotYet, "the other family may have a usable address");
        assert_eq!(after(partial(address(1))), Found::Address(peer(1)));
        assert_eq!(after(partial(six)), Found::Address(peer(1)));
        assert_eq!(after(partial(address(2))), Found::Address(peer(2)), "the answered family is used");
        assert_eq!(after(answer(&[(six, 1.0)])), Found::Nowhere, "the complete answer has no usable address");
    }

    #[test]
    fn port_and_transport_distinguish_names() {
        let mut names = Names::default();
        find(&mut names, 0, "a.example");
        names.learn(Instant::ZERO, &name("a.example"), &answer(&[(address(1), 1.0)]));
        let mut find = |name| names.find(Instant::ZERO, name, CALL, |_| true);
        let by_dns = false;
        let with_port = find(NamedHost { port: Some(5080), by_dns, ..named("a.example") });
        let asked = HopName { port: Some(5080), by_dns, ..name("a.example") };
        assert_eq!(with_port, (Found::NotYet, Some(asked)));
        for transport in [Transport::Udp, Transport::Tls] {
            let named = find(NamedHost { transport, by_dns, ..named("a.example") });
            assert_eq!(named, (Found::NotYet, Some(HopName { transport, by_dns, ..name("a.example") })));
        }
        assert_eq!(find(named("df7jal.INVALID.")), (Found::Nowhere, None), "such a name is never looked up");
    }

    /// RFC 3263 §4.1: the DNS determines the transport of a name whose URI names none.
    #[test]
    fn the_answer_determines_the_transport() {
        let mut names = Names::default();
        find(&mut names, 0, "a.example");
        let by = |transport, addresses: &[(SocketAddr, f64)], partial| Resolved {
            transport,
            partial,
            ..answer(addresses)
        };
        let mut after = |answer: Resolved| {
            names.learn(Instant::ZERO, &name("a.example"), &answer);
            find(&mut names, 0, "a.example").0
        };
        let tcp = |last| Found::Address(Peer::new(Transport::Tcp, address(last)));
        assert_eq!(after(by(Transport::Tcp, &[(address(1), 1.0)], false)), tcp(1));
        let six: SocketAddr = "[2001:db8::1]:5060".parse().expect("a constant");
        // Addresses of another transport are not merged.
        let partial = by(Transport::Udp, &[(six, 1.0)], true);
        assert_eq!(after(partial), Found::Address(Peer::new(Transport::Udp, six)));
    }

    #[test]
    fn calls_are_spread_by_weight_and_keep_their_address() {
        let mut names = Names::default();
        find(&mut names, 0, "a.example");
        let addresses = [(address(1), 1.0), (address(2), 3.0), (address(3), 100.0)];
        names.learn(Instant::ZERO, &name("a.example"), &answer(&addresses));
        let mut shares = [0; 3];
        for call in 0..4_000_u64 {
            let call = CallKey(u128::from(call.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let mut find = || {
                let usable = |at: Peer| at != peer(3);
                names.find(Instant::ZERO, named("a.example"), call, usable).0
            };
            let found = find();
            assert_eq!(find(), found);
            let index = (1..=3).position(|at| Found::Address(peer(at)) == found).expect("one of them");
            shares[index] += 1;
        }
        assert!((900..1_100).contains(&shares[0]) && shares[2] == 0, "{shares:?}");
    }

    #[test]
    fn memory_is_bounded_and_used_names_stay() {
        let mut names = Names::default();
        find(&mut names, 0, "used.example");
        names.learn(Instant::ZERO, &name("used.example"), &answer(&[(address(1), 1.0)]));
        for other in 0..10 * GENERATION {
            find(&mut names, 0, &format!("{other}.example"));
            assert_eq!(find(&mut names, 0, "used.example").0, Found::Address(peer(1)));
        }
        assert!(names.known.len() <= 2 * GENERATION);
    }
}
