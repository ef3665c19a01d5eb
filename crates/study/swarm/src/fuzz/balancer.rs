//! A balancer's shard under operations that a fuzzer chooses.

use super::traffic::{CLIENTS, Received, Traffic, addr, resolved};
use crate::{BalancerWatch, Sent};
use balance::{Cluster, ClusterMember, HealthSettings, Load, Members, PolicyKind, PoolId, Slot, TableCounts};
use base::{Flow, Instant, Outbox, Peer, Transport};
use core::time::Duration;
use node::{
    HopName, Orphans, PoolSetup, Setup, Shard, ShardCounters, ShardEvent, ShardIdentity, ShardInput,
    TokenKey, Tokens, node_id,
};
use route::Service;
use std::sync::Arc;

/// One for IPv4 clients, one for all of IPv6, one for IPv4 nodes.
const LISTENERS: [&str; 3] = ["192.0.2.1:5060", "[2001:db8::1]:5060", "198.51.100.1:5060"];
const NODES: [(&str, u16); 3] =
    [("198.51.100.11:5060", 2), ("198.51.100.12:5070", 2), ("[2001:db8::13]:5060", 1)];

/// Timers run at the end: far more than a run can have set.
const MOST_TIMERS: usize = 1_000_000;

/// The element, the parties around it, and the operations still to come.
pub(super) struct World<'a, T> {
    traffic: Traffic<'a>,
    tamper: T,
    watch: BalancerWatch,
    cluster: Cluster,
    shard: Shard,
    setup: Setup,
    key: u8,
    now: Instant,
    /// Names that the element asks for.
    asked: Vec<HopName>,
    /// Of the processes before the restarts.
    done: ShardCounters,
}

fn tokens(key: u8) -> Tokens {
    Tokens::new(TokenKey([key; 16]), &[TokenKey([key.wrapping_sub(1); 16])], Duration::from_hours(1))
}

impl<'a, T: FnMut(&mut Vec<Sent>)> World<'a, T> {
    pub(super) fn new(data: &'a [u8], tamper: T) -> Self {
        let listeners = LISTENERS.map(addr);
        let slow_start = Duration::from_secs(30);
        let mut cluster = Cluster::new(HealthSettings { fall: 1, slow_start, ..HealthSettings::default() });
        cluster.set_members(Instant::ZERO, &members(0xff));
        let mut setup = testbed::shard_setup(&listeners, &["pool.example"], tokens(1));
        testbed::set_members(
            &mut setup,
            &NODES.map(|(address, listener)| Flow::udp(listener, addr(address))),
        );
        setup.nodes = cluster.nodes().into();
        setup.pools = [pool(PolicyKind::RoundRobin)].into();
        Self {
            traffic: Traffic::new(data, listeners),
            tamper,
            watch: BalancerWatch::new(&listeners, &NODES.map(|(address, _)| addr(address))),
            shard: shard(&setup),
            cluster,
            setup,
            key: 1,
            now: Instant::ZERO,
            asked: Vec::new(),
            done: ShardCounters::default(),
        }
    }

    /// Carries out one operation; `false` when there are no more.
    pub(super) fn step(&mut self) -> bool {
        let Some(operation) = self.traffic.operation() else { return false };
        let received = match operation % 32 {
            0..6 => Some(self.client_asks()),
            6..8 => Some(self.traffic.inside_asks(&NODES)),
            8..15 => self.traffic.someone_answers(),
            15..22 => self.traffic.someone_follows(),
            22 => self.traffic.repeated(),
            23 => self.traffic.someone_passes_on(),
            24..26 => self.traffic.altered(),
            26 => Some(self.traffic.noise()),
            other => {
                self.happen(other);
                None
            }
        };
        if let Some(received) = received {
            self.deliver(received);
        }
        assert_eq!(self.shard.audit(), Ok(()));
        true
    }

    /// Something other than a datagram.
    fn happen(&mut self, operation: u8) {
        match operation {
            27 => self.wait(),
            28..30 => self.health(),
            30 => self.reconfigure(),
            _ => self.restart(),
        }
    }

    fn client_asks(&mut self) -> Received {
        let from = addr(CLIENTS[usize::from(self.traffic.choose()) % CLIENTS.len()]);
        let listener = if from.is_ipv6() { 1 } else { u16::from(self.traffic.choose() & 1) * 2 };
        self.traffic.client_asks(from, listener)
    }

    fn wait(&mut self) {
        // From 0.25 ms to 8.5 hours.
        let exponent = self.traffic.choose() % 28;
        self.run_timers_until(self.now + Duration::from_micros(250 << exponent));
    }

    fn health(&mut self) {
        let slot = Slot(u16::from(self.traffic.choose()) % NODES.len() as u16);
        let how = self.traffic.choose();
        match how % 4 {
            0 | 1 => self.cluster.probed(self.now, slot, how & 1 == 1),
            2 => self.cluster.drain(slot, how & 4 == 4),
            _ => {
                self.cluster.set_members(self.now, &members(how >> 2));
                let is_member = |at: usize| how >> 2 >> at & 1 == 1;
                let nodes = NODES.iter().enumerate().map(|(at, (node, _))| (addr(node), is_member(at)));
                self.watch.set_nodes(nodes);
            }
        }
        self.set_up();
    }

    fn set_up(&mut self) {
        self.setup.nodes = self.cluster.nodes().into();
        let sent = self.run(ShardInput::SetUp(&Arc::new(self.setup.clone())));
        assert!(sent.is_empty(), "nothing waits for another set-up");
    }

    fn reconfigure(&mut self) {
        let how = self.traffic.choose();
        let orphans = [Orphans::Reject, Orphans::Balance, Orphans::Drop, Orphans::Reject];
        self.setup.settings.orphans = orphans[usize::from(how & 3)];
        self.setup.stopping = (how >> 2 & 3 == 3).then(|| self.now + Duration::from_secs(9));
        if how & 16 == 16 {
            self.key = self.key.wrapping_add(1);
        }
        self.setup.settings.tokens = Arc::new(tokens(self.key));
        let policy = if how & 32 == 32 { PolicyKind::Tlwl } else { PolicyKind::RoundRobin };
        self.setup.pools = [pool(policy)].into();
        self.set_up();
    }

    fn restart(&mut self) {
        let new = shard(&self.setup);
        let old = core::mem::replace(&mut self.shard, new);
        self.done.merge(&old.counters());
    }

    /// Hands a datagram to the element, twice: what comes of a repetition is the same (RFC 3261 §16.11).
    fn deliver(&mut self, received: Received) {
        let sent = self.handle(&received);
        self.watch.check(received.from, &received.bytes, &sent);
        assert_eq!(self.handle(&received), sent, "a repetition fares differently");
        for name in core::mem::take(&mut self.asked) {
            let answer = resolved(&name);
            answer.addresses.iter().for_each(|&(address, _)| self.watch.resolved(address));
            self.run(ShardInput::Name { name: &name, answer: &answer });
        }
        let at = self.traffic.choose();
        for one in sent {
            self.traffic.keep_sent(one, at);
        }
        if !received.bytes.is_empty() {
            self.traffic.keep_received(received, at);
        }
    }

    fn handle(&mut self, received: &Received) -> Vec<Sent> {
        let Received { listener, from, ref bytes } = *received;
        let mut sent = self.run(ShardInput::Message { flow: Flow::udp(listener, from), bytes });
        (self.tamper)(&mut sent);
        sent
    }

    fn run(&mut self, input: ShardInput<'_>) -> Vec<Sent> {
        let mut out = Outbox::default();
        self.shard.handle(self.now, input, &mut out);
        for event in out.drain_events() {
            match event {
                ShardEvent::Sign(sign) => self.cluster.sign(self.now, sign),
                ShardEvent::LookUp(name) => self.asked.push(name),
                // There are no users here, and no stores.
                ShardEvent::Ask(_)
                | ShardEvent::Record(_)
                | ShardEvent::Failed(_)
                | ShardEvent::WrongPassword(_)
                | ShardEvent::Judgement(_)
                | ShardEvent::NoServer { .. }
                | ShardEvent::AtLimit { .. }
                | ShardEvent::NoRecordRoute(_)
                | ShardEvent::NoPath(_)
                | ShardEvent::MarkOfStranger(_)
                | ShardEvent::NoFeedback(_)
                | ShardEvent::NoRoom(_) => {}
            }
        }
        Sent::all(&out)
    }

    fn run_timers_until(&mut self, end: Instant) {
        for _ in 0..MOST_TIMERS {
            let Some(due) = self.shard.deadline().filter(|&due| due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            assert!(self.run(ShardInput::Timer).is_empty(), "a timer sends nothing");
        }
        panic!("timers without end");
    }

    /// The traffic ends: nothing is owed, nothing is remembered.
    pub(super) fn finish(mut self) -> ShardCounters {
        self.run_timers_until(self.now + Duration::from_hours(24));
        let balancer = self.shard.balancer();
        assert_eq!(self.shard.audit(), Ok(()));
        for slot in 0..NODES.len() as u16 {
            assert_eq!(balancer.load(Slot(slot)).own, Load::default());
        }
        assert_eq!((balancer.counts(), balancer.open_transactions()), (TableCounts::default(), 0));
        self.done.merge(&self.shard.counters());
        self.done
    }
}

fn members(mask: u8) -> Vec<ClusterMember> {
    let member = |(address, _): (&str, u16)| ClusterMember {
        id: node_id(Peer::new(Transport::Udp, addr(address))),
        capacity: 1.0,
        max_calls: 0,
        max_rate: 0,
        pool: PoolId::default(),
    };
    (0..).zip(NODES).filter(|(at, _)| mask >> at & 1 == 1).map(|(_, node)| member(node)).collect()
}

fn pool(policy: PolicyKind) -> PoolSetup {
    PoolSetup::new(Service::Balance, policy, Members::All)
}

/// A process that knows nothing of calls.
fn shard(setup: &Setup) -> Shard {
    Shard::new(ShardIdentity::only([0; 16], 0), &Arc::new(setup.clone()))
}
