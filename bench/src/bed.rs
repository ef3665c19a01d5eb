//! The server's code on datagrams, without sockets: messages of calls passed by hand.

use anyhow::{Context, Result, ensure};
use balance::{Members, PolicyKind, Slot};
use base::{Flow, Instant, Ledger, Outbox};
use node::{PoolSetup, ProxyLimits, Setup, Shard, ShardEvent, ShardIdentity, ShardInput, TokenKey, Tokens};
use route::Service;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

/// Where all requests come from.
pub const CLIENT: SocketAddr = local(5070);
/// The element.
const ELEMENT: SocketAddr = local(5060);
const NODES: u16 = 4;
/// What takes datagrams.
pub trait Element {
    /// One step.
    fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>);
    /// The server's code in it.
    fn shard(&self) -> &Shard;

    /// When a timer is due.
    fn deadline(&self) -> Option<Instant> {
        self.shard().deadline()
    }
    /// What it counted.
    fn ledger(&self) -> Ledger {
        self.shard().ledger()
    }
}

impl Element for Shard {
    fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>) {
        self.handle(now, input, out);
    }

    fn shard(&self) -> &Shard {
        self
    }
}

const fn local(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// A shard of the balancer with four members, policy `tlwl`.
pub fn balancer() -> Shard {
    shard(balancer_of(1, NODES))
}

/// What one with so many pools of so many members each is set up with.
pub fn balancer_of(pools: u16, members: u16) -> Setup {
    let mut setup = setup(pools * members);
    let slots = |pool: u16| (pool * members..(pool + 1) * members).map(Slot);
    let pool = |pool| match pools {
        1 => PoolSetup::new(Service::Balance, PolicyKind::Tlwl, Members::All),
        _ => PoolSetup::new(Service::Balance, PolicyKind::Tlwl, Members::of(slots(pool))),
    };
    setup.pools = (0..pools).map(pool).collect();
    setup
}

/// A shard of the proxy with four next hops.
pub fn proxy() -> Shard {
    shard(proxy_of(Service::HOPS))
}

/// The same without transactions (RFC 3261 §16.11).
pub fn stateless() -> Shard {
    shard(proxy_of(Service::Relay { record_route: true }))
}

fn proxy_of(mode: Service) -> Setup {
    let mut setup = setup(NODES);
    setup.settings.forwards_orphans = true;
    setup.settings.limits =
        ProxyLimits { transactions: usize::MAX, memory: usize::MAX, ..ProxyLimits::default() };
    setup.pools = [PoolSetup::new(mode, PolicyKind::Hash, Members::All)].into();
    setup
}

/// Of an element with so many nodes, which are always up.
fn setup(nodes: u16) -> Setup {
    let node = |n: u16| Flow::udp(0, SocketAddr::from(([127, 0, (n >> 8) as u8 + 1, n as u8], 5080)));
    let tokens = Tokens::new(TokenKey([7; 16]), &[], Duration::from_hours(24));
    let mut setup = testbed::shard_setup(&[ELEMENT], &[], tokens);
    testbed::set_members(&mut setup, &(1..=nodes).map(node).collect::<Vec<_>>());
    setup
}

/// A shard that is set up so.
pub fn shard(setup: Setup) -> Shard {
    Shard::new(ShardIdentity::only([9; 16], 1), &Arc::new(setup))
}

/// An element, and a clock that stands still unless told.
pub struct Bed<E> {
    /// What takes the datagrams.
    pub element: E,
    /// What it did in the last step.
    pub out: Outbox<ShardEvent>,
    /// The time.
    pub now: Instant,
    /// Forwarded in the last step.
    pub last: Vec<u8>,
}

impl<E: Element> Bed<E> {
    /// At time zero.
    pub fn new(element: E) -> Self {
        Self { element, out: Outbox::default(), now: Instant::ZERO, last: Vec::new() }
    }

    /// One datagram in; where the last one that came of it goes: before it there may be a 100 of the element's own.
    pub fn pass(&mut self, from: SocketAddr, bytes: &[u8]) -> Result<SocketAddr> {
        self.out.clear();
        let input = ShardInput::Message { flow: Flow::udp(0, from), bytes };
        self.element.handle(self.now, input, &mut self.out);
        let sent = self.out.transmits().last();
        let sent = sent.with_context(|| format!("nothing came of {}", String::from_utf8_lossy(bytes)))?;
        self.last.clear();
        self.last.extend_from_slice(self.out.message(sent));
        Ok(sent.flow.peer)
    }

    /// The server's answer to the request that was forwarded last, which stays the last.
    pub fn answer(&mut self, node: SocketAddr, status: u16) -> Result<()> {
        let request = self.last.clone();
        let scanned = wire::scan(&request).map_err(|discard| anyhow::anyhow!(discard.reason()))?;
        let mut response = Vec::new();
        wire::write_response(&scanned, ELEMENT, status, "OK", "callee", &[], &mut response);
        let to = self.pass(node, &response)?;
        ensure!(to == CLIENT, "a response went to {to}");
        self.last = request;
        Ok(())
    }

    /// The 200 of a server that the INVITE was forwarded to last, with its route and a Contact; returns the route as
    /// the caller gets it.
    pub fn accept(&mut self, node: SocketAddr) -> Result<Vec<u8>> {
        let (request, route) = (self.last.clone(), self.route()?);
        let scanned = wire::scan(&request).map_err(|discard| anyhow::anyhow!(discard.reason()))?;
        let (route, contact) = (String::from_utf8(route)?, format!("<sip:bob@{node}>"));
        let mut response = Vec::new();
        let headers = [("Record-Route", &route[..]), ("Contact", &contact[..])];
        wire::write_response(&scanned, ELEMENT, 200, "OK", "callee", &headers, &mut response);
        let to = self.pass(node, &response)?;
        ensure!(to == CLIENT, "a response went to {to}");
        let route = self.route();
        self.last = request;
        route
    }

    /// The Record-Route URI of the request that was forwarded last: the Route of the caller's later requests.
    pub fn route(&self) -> Result<Vec<u8>> {
        let forwarded = wire::scan(&self.last).map_err(|discard| anyhow::anyhow!(discard.reason()))?;
        Ok(forwarded.header("Record-Route").context("the INVITE was not record-routed")?.to_vec())
    }
}

/// A request of the caller of this call; within the dialog where it has a route.
pub fn request(call: u64, method: &str, cseq: u32, route: Option<&[u8]>) -> Vec<u8> {
    let (tag, route) = match route {
        Some(route) => (";tag=callee", format!("Route: {}\r\n", String::from_utf8_lossy(route))),
        None => ("", String::new()),
    };
    format!(
        "{method} sip:bob@127.0.0.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP {CLIENT};branch=z9hG4bK{call}-{method}-{cseq}\r\n\
         {route}Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=a{call}\r\nTo: <sip:bob@example.com>{tag}\r\n\
         Call-ID: {call:016x}@example.com\r\nCSeq: {cseq} {method}\r\nContact: <sip:alice@{CLIENT}>\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}
