//! A test bed for the proxy: one shard, its listeners and next hops, and calls that pass through it.

use super::dialog::Dialog;
use super::text::{Req, answer};
use super::{KEY, LIFETIME, Sent, addr};
use balance::Members;
use base::{Flow, Instant, Outbox};
use dialog::CallRecord;
use node::{
    Listener, Orphans, PipelineSettings, PoolMode, ProxyLimits, ProxySettings, Shard, ShardEvent, ShardInput,
    Tokens, Topology,
};
use route::Forward;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PROXY: &str = "127.0.0.1:5060";
pub(crate) const HOPS: [&str; 2] = ["127.0.1.1:5060", "127.0.1.2:5060"];

/// Next hops without transactions.
pub(crate) const STATELESS: PoolMode = PoolMode { forward: Forward::Stateless, ..PoolMode::HOPS };

pub(crate) const LIMITS: ProxyLimits = ProxyLimits { transactions: 1_000, memory: 256 << 20, branches: 12 };

pub(crate) fn client() -> SocketAddr {
    addr("127.0.9.1:6000")
}

pub(crate) struct ProxyBed {
    pub(crate) shard: Shard,
    /// How its next hops are forwarded to.
    pub(crate) mode: PoolMode,
    pub(crate) now: Instant,
    pub(crate) events: Vec<ShardEvent>,
}

impl ProxyBed {
    pub(crate) fn new(listeners: &[&str], hops: &[(&str, u16)]) -> Self {
        Self::with_tokens(listeners, hops, Tokens::new(KEY, &[], LIFETIME))
    }

    pub(crate) fn with_tokens(listeners: &[&str], hops: &[(&str, u16)], tokens: Tokens) -> Self {
        let listeners = listeners.iter().map(|text| Listener::udp(addr(text))).collect();
        let topology = Topology::new(listeners, vec![("proxy.example".to_owned(), None)]);
        let settings = PipelineSettings {
            orphans: Orphans::Balance,
            epoch_unix: 1_800_000_000,
            stopping: None,
            tell_failures: false,
        };
        let limits = ProxySettings { timers: proxy::ProxyTimers::default(), limits: LIMITS };
        let mut shard = Shard::proxy(Arc::new(topology), tokens, settings, limits, ([9; 16], 77));
        let hop = |&(address, listener): &(&str, u16)| Flow::udp(listener, addr(address));
        shard.set_hops(&hops.iter().map(hop).collect::<Vec<_>>());
        Self { shard, mode: PoolMode::HOPS, now: Instant::from_millis(1_000), events: Vec::new() }
    }

    /// The same with next hops that are forwarded to in this way.
    pub(crate) fn with_mode(mut self, mode: PoolMode) -> Self {
        self.shard.set_modes(vec![mode], Members::All);
        Self { mode, ..self }
    }

    /// One listener, one next hop.
    pub(crate) fn plain() -> Self {
        Self::new(&[PROXY], &[(HOPS[0], 0)])
    }

    pub(crate) fn receive(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.step(|shard, now, out| {
            shard.handle(now, ShardInput::Message { flow: Flow::udp(listener, from), bytes }, out);
        })
    }

    pub(crate) fn step(
        &mut self,
        run: impl FnOnce(&mut Shard, Instant, &mut Outbox<ShardEvent>),
    ) -> Vec<Sent> {
        let mut out = Outbox::default();
        run(&mut self.shard, self.now, &mut out);
        self.events.extend(out.drain_events());
        let sent = |t: &base::Transmit| Sent {
            listener: t.flow.listener,
            to: t.flow.peer,
            bytes: out.message(t).to_vec(),
        };
        out.transmits().iter().map(sent).collect()
    }

    /// A datagram to the first listener that has exactly one consequence.
    pub(crate) fn one(&mut self, from: SocketAddr, bytes: &[u8]) -> Sent {
        self.one_at(0, from, bytes)
    }

    pub(crate) fn one_at(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Sent {
        let mut sent = self.receive(listener, from, bytes);
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// An INVITE from the client; the 100, if there is to be one, has been looked at, this is what goes on.
    pub(crate) fn invite(&mut self, request: &Req) -> Sent {
        self.invite_from(0, client(), request)
    }

    pub(crate) fn invite_from(&mut self, listener: u16, from: SocketAddr, request: &Req) -> Sent {
        if self.mode.forward == Forward::Stateless {
            return self.one_at(listener, from, &request.bytes());
        }
        let mut sent = self.receive(listener, from, &request.bytes());
        assert_eq!(sent.len(), 2, "{sent:#?}");
        assert_eq!((sent[0].status(), sent[0].to), (100, from));
        sent.remove(1)
    }

    /// A call from the client to the next hop, answered by it: INVITE, 200.
    pub(crate) fn call(&mut self, call_id: &str) -> Dialog {
        let at_hop = self.invite(&Req::new("INVITE", call_id, client()));
        let ok = self.one(at_hop.to, &answer(&at_hop.bytes, addr(PROXY), 200, at_hop.to));
        Dialog::of(call_id, (client(), 0), (at_hop.to, at_hop.listener), &at_hop, &ok)
    }

    /// Time passes, and every timer goes off when it is due; what was sent meanwhile.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(due) = self.shard.deadline().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            sent.extend(self.step(|shard, now, out| shard.handle(now, ShardInput::Timer, out)));
        }
        self.now = end;
        sent
    }

    pub(crate) fn drops(&self, reason: &str) -> u64 {
        self.shard.counters().drops.get(reason).copied().unwrap_or_default()
    }

    /// The hops that rest since they have failed.
    pub(crate) fn resting(&self) -> Vec<SocketAddr> {
        let nodes = self.shard.balancer().nodes().iter().zip(self.shard.topology().nodes());
        nodes.filter(|(node, _)| node.paused_until > self.now).map(|(_, flow)| flow.peer).collect()
    }

    pub(crate) fn assert_forgets(&mut self) {
        self.wait(Duration::from_hours(1));
        let report = self.shard.proxy_report().expect("it has next hops");
        let left = (report.transactions, report.unanswered, report.memory, self.shard.deadline());
        assert_eq!(left, (0, 0, 0, None));
    }
}

/// The records of calls that were written since the last time.
pub(crate) fn records(bed: &mut ProxyBed) -> Vec<CallRecord> {
    let record = |event| match event {
        ShardEvent::Record(record) => Some(*record),
        _ => None,
    };
    core::mem::take(&mut bed.events).into_iter().filter_map(record).collect()
}

/// The one record that there is.
pub(crate) fn record(bed: &mut ProxyBed) -> CallRecord {
    let mut all = records(bed);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

/// A next hop answers what it got: what the caller gets.
pub(crate) fn answered(bed: &mut ProxyBed, request: &Sent, status: u16) -> Sent {
    bed.one(request.to, &answer(&request.bytes, addr(PROXY), status, request.to))
}
