//! Shards of the server without sockets: messages of calls passed by hand.

use anyhow::{Context, Result, ensure};
use balance::{Members, PolicyKind, Slot};
use base::{Flow, Instant, Ledger, Outbox};
use node::{PoolSetup, ProxyLimits, Setup, Shard, ShardEvent, ShardIdentity, ShardInput, TokenKey, Tokens};
use route::Service;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

/// Source of all requests.
pub const CLIENT: SocketAddr = local(5070);
/// Address of the element.
pub(crate) const ELEMENT: SocketAddr = local(5060);
const NODES: u16 = 4;
/// A shard, or a wrapper around one.
pub trait Element {
    /// Handles one input.
    fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>);
    /// Returns the shard in it.
    fn shard(&self) -> &Shard;

    /// Returns when the next timer is due.
    fn deadline(&self) -> Option<Instant> {
        self.shard().deadline()
    }
    /// Returns its counters.
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

/// Set-up of a balancer with this many pools of this many members.
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
    setup.pools = [PoolSetup::new(mode, PolicyKind::Hash, Members::All)].into();
    setup
}

/// Set-up with this many nodes, which are always up.
pub(crate) fn setup(nodes: u16) -> Setup {
    let node = |n: u16| Flow::udp(0, SocketAddr::from(([127, 0, (n >> 8) as u8 + 1, n as u8], 5080)));
    let tokens = Tokens::new(TokenKey([7; 16]), &[], Duration::from_hours(24));
    let mut setup = testbed::shard_setup(&[ELEMENT], &[], tokens);
    setup.settings.limits =
        ProxyLimits { transactions: usize::MAX, memory: usize::MAX, ..ProxyLimits::default() };
    testbed::set_members(&mut setup, &(1..=nodes).map(node).collect::<Vec<_>>());
    setup
}

/// Creates a shard with this set-up.
pub fn shard(setup: Setup) -> Shard {
    Shard::new(ShardIdentity::only([9; 16], 1), &Arc::new(setup))
}

/// An element with a clock that the caller sets.
pub struct Bed<E> {
    /// The element.
    pub element: E,
    /// Output of the last step.
    pub out: Outbox<ShardEvent>,
    /// The time.
    pub now: Instant,
    /// Last message sent in the last step.
    pub last: Vec<u8>,
}

impl<E: Element> Bed<E> {
    /// Starts at time zero.
    pub fn new(element: E) -> Self {
        Self { element, out: Outbox::default(), now: Instant::ZERO, last: Vec::new() }
    }

    /// Passes one datagram. Returns the destination of the last message sent: a 100 of the element may come before it.
    pub fn pass(&mut self, from: SocketAddr, bytes: &[u8]) -> Result<SocketAddr> {
        self.out.clear();
        let input = ShardInput::Message { flow: Flow::udp(0, from), bytes };
        self.element.handle(self.now, input, &mut self.out);
        let sent = self.out.transmits().last();
        let sent =
            sent.with_context(|| format!("no message was sent for {}", String::from_utf8_lossy(bytes)))?;
        self.last.clear();
        self.last.extend_from_slice(self.out.message(sent));
        Ok(sent.flow.peer)
    }

    /// Sends the server's response to the last forwarded request, which stays the last.
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

    /// Sends a server's 200 to the last forwarded INVITE, with its Record-Route and a Contact. Returns the route that
    /// the caller gets.
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

    /// Returns the Record-Route URI of the last forwarded request: the Route of the caller's later requests.
    pub fn route(&self) -> Result<Vec<u8>> {
        let forwarded = wire::scan(&self.last).map_err(|discard| anyhow::anyhow!(discard.reason()))?;
        Ok(forwarded.header("Record-Route").context("the INVITE was not record-routed")?.to_vec())
    }
}

/// Makes a request of a call's caller. With a route it is within the dialog.
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
