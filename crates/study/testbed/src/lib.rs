//! A shard under test: set up as a process sets it up, with a clock that stands still unless told, and datagrams in
//! and out.
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
    /// What it leaves by.
    pub flow: Flow,
    /// By which of its listeners.
    pub listener: u16,
    /// Where it goes.
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
    /// A message that leaves by this flow.
    pub fn by(flow: Flow, bytes: Vec<u8>) -> Self {
        Self { flow, listener: flow.listener, to: flow.peer, bytes }
    }

    /// All that was sent, in its order.
    pub fn all<E>(out: &Outbox<E>) -> Vec<Self> {
        let sent = |transmit: &Transmit| Self::by(transmit.flow, out.message(transmit).to_vec());
        out.transmits().iter().map(sent).collect()
    }

    /// As the scanner reads it.
    ///
    /// # Panics
    /// It is no SIP message, or one with a fault.
    pub fn message(&self) -> wire::Message<'_> {
        let message = wire::scan(&self.bytes).unwrap_or_else(|error| panic!("{error:?}:\n{self:?}"));
        assert_eq!(message.fault(), None, "{self:?}");
        message
    }

    /// The status code.
    ///
    /// # Panics
    /// It is no response.
    pub fn status(&self) -> u16 {
        self.message().status().expect("a response")
    }

    /// The branch of its topmost Via.
    ///
    /// # Panics
    /// It has none.
    pub fn branch(&self) -> Vec<u8> {
        self.message().top_via().branch.expect("a branch").to_vec()
    }
}

/// The only shard of a process.
pub struct Bed {
    /// The shard.
    pub shard: Shard,
    /// What it has been set up with last.
    pub setup: Setup,
    /// The time.
    pub now: Instant,
    /// What it has asked for or told, the oldest first.
    pub events: Vec<ShardEvent>,
}

impl Bed {
    /// A second after the start of the process.
    pub fn new(setup: Setup) -> Self {
        Self::with_identity(ShardIdentity::only([9; 16], 77), setup)
    }

    /// The same for another shard.
    pub fn with_identity(identity: ShardIdentity, setup: Setup) -> Self {
        let shard = Shard::new(identity, &Arc::new(setup.clone()));
        Self { shard, setup, now: Instant::from_millis(1_000), events: Vec::new() }
    }

    /// The shard is told something; what it sends, in order.
    ///
    /// # Panics
    /// Some load is not the sum of its leases any more, or a ticket belongs to no request.
    pub fn input(&mut self, input: ShardInput<'_>) -> Vec<Sent> {
        let mut out = Outbox::default();
        self.shard.handle(self.now, input, &mut out);
        assert_eq!(self.shard.audit(), Ok(()));
        self.events.extend(out.drain_events());
        Sent::all(&out)
    }

    /// A datagram comes in.
    pub fn receive(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.receive_by(Flow::udp(listener, from), bytes)
    }

    /// A message comes in by this flow.
    pub fn receive_by(&mut self, flow: Flow, bytes: &[u8]) -> Vec<Sent> {
        self.input(ShardInput::Message { flow, bytes })
    }

    /// The same, for a message that has exactly one consequence, but for a 100 before it.
    ///
    /// # Panics
    /// It has none, or several.
    pub fn one_by(&mut self, flow: Flow, bytes: &[u8]) -> Sent {
        let mut sent = self.receive_by(flow, bytes);
        sent.retain(|sent| sent.message().status() != Some(100));
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// The same, for a datagram that has exactly one consequence.
    ///
    /// # Panics
    /// It has none, or several.
    pub fn one(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Sent {
        let mut sent = self.receive(listener, from, bytes);
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// The same, for a datagram that is dropped for this reason.
    ///
    /// # Panics
    /// It is not.
    pub fn dropped(&mut self, listener: u16, from: SocketAddr, bytes: &[u8], reason: &str) {
        let before = self.drops(reason);
        assert_eq!(self.receive(listener, from, bytes), []);
        assert_eq!(self.drops(reason), before + 1, "{:?}", self.shard.counters().drops);
    }

    /// How many datagrams were dropped for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.shard.counters().drops.get(reason).copied().unwrap_or_default()
    }

    /// ICMP says that what began with `quoted` did not arrive at this address.
    pub fn unreachable(&mut self, to: SocketAddr, quoted: &[u8]) -> Vec<Sent> {
        self.unreachable_by(Flow::udp(0, to), quoted)
    }

    /// What began with `quoted` cannot be sent this way.
    pub fn unreachable_by(&mut self, to: Flow, quoted: &[u8]) -> Vec<Sent> {
        self.input(ShardInput::Unreachable { to, quoted })
    }

    /// What would become of a request at the first listener.
    ///
    /// # Errors
    /// It would be refused; the text says why.
    pub fn explain(&mut self, from: SocketAddr, bytes: &[u8]) -> Result<Explanation, String> {
        self.explain_by(Flow::udp(0, from), bytes)
    }

    /// The same by this flow.
    ///
    /// # Errors
    /// It would be refused; the text says why.
    pub fn explain_by(&mut self, flow: Flow, bytes: &[u8]) -> Result<Explanation, String> {
        self.shard.explain(self.now, flow, bytes, &mut Outbox::default())
    }

    /// Time passes, and every timer goes off when it is due; what is sent meanwhile.
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

    /// The set-up changes; what the shard sends for that.
    pub fn set(&mut self, change: impl FnOnce(&mut Setup)) -> Vec<Sent> {
        change(&mut self.setup);
        let setup = Arc::new(self.setup.clone());
        self.input(ShardInput::SetUp(&setup))
    }

    /// The pools change.
    pub fn set_pools(&mut self, pools: impl IntoIterator<Item = PoolSetup>) -> Vec<Sent> {
        self.set(|setup| setup.pools = pools.into_iter().collect())
    }

    /// Each pool changes in this way, with the value for it.
    fn set_each<T>(
        &mut self,
        values: impl IntoIterator<Item = T>,
        change: impl Fn(&mut PoolSetup, T),
    ) -> Vec<Sent> {
        let mut pools = self.setup.pools.to_vec();
        pools.iter_mut().zip(values).for_each(|(pool, value)| change(pool, value));
        self.set_pools(pools)
    }

    /// The pools are forwarded to in these ways.
    pub fn set_services(&mut self, services: impl IntoIterator<Item = Service>) -> Vec<Sent> {
        self.set_each(services, |pool, service| pool.service = service)
    }

    /// The pools have these queues.
    pub fn set_queues(&mut self, queues: impl IntoIterator<Item = Option<QueueSetup>>) -> Vec<Sent> {
        self.set_each(queues, |pool, queue: Option<QueueSetup>| {
            pool.queue = queue.map(Arc::new);
        })
    }
}
