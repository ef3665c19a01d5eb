//! A test bed for the proxy: one shard, its listeners and next hops, and calls that pass through it.

use super::*;
use ::dialog::CallRecord;

pub(crate) const PROXY: &str = "127.0.0.1:5060";
pub(crate) const HOPS: [&str; 2] = ["127.0.1.1:5060", "127.0.1.2:5060"];

/// Next hops without transactions.
pub(crate) const STATELESS: Service = Service::Relay { record_route: true };

pub(crate) const LIMITS: ProxyLimits = ProxyLimits { transactions: 1_000, memory: 256 << 20, branches: 12 };

pub(crate) fn client() -> SocketAddr {
    addr("127.0.9.1:6000")
}

/// A proxy: a shard with its next hops.
pub(crate) struct ProxyBed {
    pub(crate) inner: testbed::Bed,
    /// How the next hops are forwarded to.
    pub(crate) mode: Service,
}

derefs_to_inner!(ProxyBed);

/// A pool of these next hops, chosen by a hash of the call.
pub(crate) fn hops(mode: Service, members: Members) -> PoolSetup {
    PoolSetup::new(mode, PolicyKind::Hash, members)
}

impl ProxyBed {
    pub(crate) fn new(listeners: &[&str], hops: &[(&str, u16)]) -> Self {
        Self::with_tokens(listeners, hops, Tokens::new(KEY, &[], LIFETIME))
    }

    pub(crate) fn with_tokens(listeners: &[&str], next: &[(&str, u16)], tokens: Tokens) -> Self {
        let listeners: Vec<_> = listeners.iter().map(|text| addr(text)).collect();
        let mut setup = testbed::shard_setup(&listeners, &["proxy.example"], tokens);
        (setup.settings.forwards_orphans, setup.settings.limits) = (true, LIMITS);
        setup.pools = [hops(Service::HOPS, Members::All)].into();
        let hop = |&(address, listener): &(&str, u16)| Flow::udp(listener, addr(address));
        testbed::set_members(&mut setup, &next.iter().map(hop).collect::<Vec<_>>());
        Self { inner: testbed::Bed::new(setup), mode: Service::HOPS }
    }

    /// The same with next hops that are forwarded to in this mode.
    pub(crate) fn with_mode(mut self, mode: Service) -> Self {
        self.set_services([mode]);
        Self { mode, ..self }
    }

    /// The same at another time.
    pub(crate) fn at(mut self, now: base::Instant) -> Self {
        self.now = now;
        self
    }

    /// One listener, one next hop.
    pub(crate) fn plain() -> Self {
        Self::new(&[PROXY], &[(HOPS[0], 0)])
    }

    /// One listener, two next hops.
    pub(crate) fn two_hops() -> Self {
        Self::new(&[PROXY], &HOPS.map(|hop| (hop, 0)))
    }

    /// Receives a datagram at the first listener, and returns the one message sent.
    pub(crate) fn one(&mut self, from: SocketAddr, bytes: &[u8]) -> Sent {
        self.one_at(0, from, bytes)
    }

    pub(crate) fn one_at(&mut self, listener: u16, from: SocketAddr, bytes: &[u8]) -> Sent {
        self.inner.one(listener, from, bytes)
    }

    /// Receives an INVITE from the client. Checks for the 100, if there is to be one, and returns the forwarded INVITE.
    pub(crate) fn invite(&mut self, request: &Req) -> Sent {
        self.invite_from(0, client(), request)
    }

    pub(crate) fn invite_from(&mut self, listener: u16, from: SocketAddr, request: &Req) -> Sent {
        if self.mode.forward() == Forward::Stateless {
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
        let ok = answered(self, &at_hop, 200);
        Dialog::of(&at_hop, &ok)
    }

    /// Returns the hops that are paused after a failure.
    pub(crate) fn resting(&self) -> Vec<SocketAddr> {
        let nodes = self.shard.balancer().nodes().iter().zip(self.shard.topology().nodes());
        nodes.filter(|(node, _)| node.paused_until > self.now).map(|(_, flow)| flow.peer).collect()
    }

    pub(crate) fn assert_forgets(&mut self) {
        self.wait(Duration::from_hours(1));
        let report = self.shard.proxy_report().expect("the proxy has next hops");
        let left = (report.transactions, report.unanswered, report.memory, self.shard.deadline());
        assert_eq!(left, (0, 0, 0, None));
    }
}

/// Takes the records of calls written since the last time.
pub(crate) fn records(bed: &mut ProxyBed) -> Vec<CallRecord> {
    let record = |event| match event {
        ShardEvent::Record(record) => Some(*record),
        _ => None,
    };
    core::mem::take(&mut bed.events).into_iter().filter_map(record).collect()
}

/// Takes the only record.
pub(crate) fn record(bed: &mut ProxyBed) -> CallRecord {
    let mut all = records(bed);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}
