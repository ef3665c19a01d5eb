//! A shard under test: set up like in a process, with a clock that advances only on demand, and messages in and out.
#![forbid(unsafe_code)]

mod setup;

pub use setup::{routes, set_members, shard_setup, shard_setup_of};

use base::{Flow, Instant, Outbox, Transmit};
use core::time::Duration;
use node::{Explanation, PoolSetup, QueueSetup, Setup, Shard, ShardEvent, ShardIdentity, ShardInput};
use route::Service;
use std::net::SocketAddr;
use std::sync::Arc;

/// A message that the shard sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Sent {
    /// Flow by which it leaves.
    pub flow: Flow,
    /// Index of the listener that sends it.
    pub listener: u16,
    /// Destination address.
    pub to: SocketAddr,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl core::fmt::Debug for Sent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Flow { transport, connection, .. } = self.flow;
        let text = String::from_utf8_lossy(&self.bytes);
        write!(f, "by {} to {} {} {connection:?}:\n{text}", self.listener, transport.name(), self.to)
    }
}

impl Sent {
    /// Returns a message that leaves by this flow.
    pub fn by(flow: Flow, bytes: Vec<u8>) -> Self {
        Self { flow, listener: flow.listener, to: flow.peer, bytes }
    }

    /// Returns all sent messages in order.
    pub fn all<E>(out: &Outbox<E>) -> Vec<Self> {
        let sent = |transmit: &Transmit| Self::by(transmit.flow, out.message(transmit).to_vec());
        out.transmits().iter().map(sent).collect()
    }

    /// Parses the message.
    ///
    /// # Panics
    /// When it is not a SIP message, or has a fault.
    pub fn message(&self) -> wire::Message<'_> {
        let message = wire::scan(&self.bytes).unwrap_or_else(|error| panic!("{error:?}:\n{self:?}"));
        assert_eq!(message.fault(), None, "{self:?}");
        message
    }

    /// Returns the status code.
    ///
    /// # Panics
    /// When it is not a response.
    pub fn status(&self) -> u16 {
        self.message().status().expect("a response")
    }

    /// Returns the branch of its topmost Via.
    ///
    /// # Panics
    /// When the Via has no branch.
    pub fn branch(&self) -> Vec<u8> {
        self.message().top_via().branch.expect("a branch").to_vec()
    }
}

/// A process with one shard.
pub struct Bed {
    /// The shard.
    pub shard: Shard,
    /// The shard's current set-up.
    pub setup: Setup,
    /// Current time.
    pub now: Instant,
    /// Events of the shard, oldest first.
    pub events: Vec<ShardEvent>,
}

impl Bed {
    /// Returns a shard one second after the start of its process.
    pub fn new(setup: Setup) -> Self {
        Self::with_identity(ShardIdentity::only([9; 16], 77), setup)
    }

    /// Returns a shard with another identity.
    pub fn with_identity(identity: ShardIdentity, setup: Setup) -> Self {
        let shard = Shard::new(identity, &Arc::new(setup.clone()));
        Self { shard, setup, now: Instant::from_millis(1_000), events: Vec::new() }
    }

    /// Passes an input to the shard. Returns the messages it sends, in order.
    ///
    /// # Panics
    /// When the audit fails: a load differs from the sum of its leases, or a ticket belongs to no request.
    pub fn input(&mut self, input: ShardInput<'_>) -> Vec<Sent> {
        let mut out = Outbox::default();
        self.shard.handle(self.now, input, &mut out);
        assert_eq!(self.shard.audit(), Ok(()));
        self.events.extend(out.drain_events());
        Sent::all(&out)
    }

    /// Receives a datagram.
    pub fn receive(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.receive_by(Flow::udp(listener, from), bytes)
    }

    /// Receives a message by this flow.
    pub fn receive_by(&mut self, flow: Flow, bytes: &[u8]) -> Vec<Sent> {
        self.input(ShardInput::Message { flow, bytes })
    }

    /// Receives a message by this flow and returns the only message that the shard sends, apart from a 100.
    ///
    /// # Panics
    /// When the shard sends none, or several.
    pub fn one_by(&mut self, flow: Flow, bytes: &[u8]) -> Sent {
        let mut sent = self.receive_by(flow, bytes);
        sent.retain(|sent| sent.message().status() != Some(100));
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// Receives a datagram and returns the only message that the shard sends.
    ///
    /// # Panics
    /// When the shard sends none, or several.
    pub fn one(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Sent {
        let mut sent = self.receive(listener, from, bytes);
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// Receives a datagram that must be dropped for this reason.
    ///
    /// # Panics
    /// When the shard sends a message, or does not count the drop.
    pub fn dropped(&mut self, listener: u16, from: SocketAddr, bytes: &[u8], reason: &str) {
        let before = self.drops(reason);
        assert_eq!(self.receive(listener, from, bytes), []);
        assert_eq!(self.drops(reason), before + 1, "{:?}", self.shard.counters().drops);
    }

    /// Number of datagrams dropped for this reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.shard.counters().drops.get(reason).copied().unwrap_or_default()
    }

    /// Reports an ICMP error: the datagram that starts with `quoted` did not reach this address.
    pub fn unreachable(&mut self, to: SocketAddr, quoted: &[u8]) -> Vec<Sent> {
        self.unreachable_by(Flow::udp(0, to), quoted)
    }

    /// Reports that the message that starts with `quoted` cannot be sent by this flow.
    pub fn unreachable_by(&mut self, to: Flow, quoted: &[u8]) -> Vec<Sent> {
        self.input(ShardInput::Unreachable { to, quoted })
    }

    /// Returns the decision about a request at the first listener, without sending it.
    ///
    /// # Errors
    /// When the request would be refused; the text says why.
    pub fn explain(&mut self, from: SocketAddr, bytes: &[u8]) -> Result<Explanation, String> {
        self.explain_by(Flow::udp(0, from), bytes)
    }

    /// Returns the decision about a request by this flow, without sending it.
    ///
    /// # Errors
    /// When the request would be refused; the text says why.
    pub fn explain_by(&mut self, flow: Flow, bytes: &[u8]) -> Result<Explanation, String> {
        self.shard.explain(self.now, flow, bytes, &mut Outbox::default())
    }

    /// Advances the time and fires each timer when it is due. Returns the messages sent meanwhile.
    pub fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(due) = self.shard.deadline().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            sent.extend(self.input(ShardInput::Timer));
        }
        self.now = end;
        sent
    }

    /// Changes the set-up. Returns the messages sent because of it.
    pub fn set(&mut self, change: impl FnOnce(&mut Setup)) -> Vec<Sent> {
        change(&mut self.setup);
        let setup = Arc::new(self.setup.clone());
        self.input(ShardInput::SetUp(&setup))
    }

    /// Replaces the pools.
    pub fn set_pools(&mut self, pools: impl IntoIterator<Item = PoolSetup>) -> Vec<Sent> {
        self.set(|setup| setup.pools = pools.into_iter().collect())
    }

    /// Applies a change to each pool, with the value for this pool.
    fn set_each<T>(
        &mut self,
        values: impl IntoIterator<Item = T>,
        change: impl Fn(&mut PoolSetup, T),
    ) -> Vec<Sent> {
        let mut pools = self.setup.pools.to_vec();
        pools.iter_mut().zip(values).for_each(|(pool, value)| change(pool, value));
        self.set_pools(pools)
    }

    /// Sets how requests to each pool are forwarded.
    pub fn set_services(&mut self, services: impl IntoIterator<Item = Service>) -> Vec<Sent> {
        self.set_each(services, |pool, service| pool.service = service)
    }

    /// Sets the queue of each pool.
    pub fn set_queues(&mut self, queues: impl IntoIterator<Item = Option<QueueSetup>>) -> Vec<Sent> {
        self.set_each(queues, |pool, queue: Option<QueueSetup>| {
            pool.queue = queue.map(Arc::new);
        })
    }
}
