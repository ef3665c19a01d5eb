//! A balancer's shard under operations chosen by a fuzzer.

use super::bed::Bed;
use super::traffic::{CLIENTS, Received, addr, resolved};
use crate::{BalancerWatch, Sent};
use balance::{Cluster, ClusterMember, HealthSettings, Load, Members, PolicyKind, PoolId, Slot, TableCounts};
use base::{Flow, Instant, Peer, Transport};
use core::time::Duration;
use node::{PoolSetup, ShardCounters, ShardInput, node_id};
use route::Service;

/// Listeners for IPv4 clients, for IPv6, and for IPv4 nodes.
const LISTENERS: [&str; 3] = ["192.0.2.1:5060", "[2001:db8::1]:5060", "198.51.100.1:5060"];
const NODES: [(&str, u16); 3] =
    [("198.51.100.11:5060", 2), ("198.51.100.12:5070", 2), ("[2001:db8::13]:5060", 1)];

/// The element, the parties around it, and the remaining operations.
pub(super) struct World<'a, T> {
    bed: Bed<'a, T>,
    watch: BalancerWatch,
    cluster: Cluster,
}

impl<'a, T: FnMut(&mut Vec<Sent>)> World<'a, T> {
    pub(super) fn new(data: &'a [u8], tamper: T) -> Self {
        let listeners = LISTENERS.map(addr);
        let slow_start = Duration::from_secs(30);
        let mut cluster = Cluster::new(HealthSettings { fall: 1, slow_start, ..HealthSettings::default() });
        cluster.set_members(Instant::ZERO, &members(0xff));
        let bed = Bed::new(data, listeners, tamper, |setup| {
            testbed::set_members(setup, &NODES.map(|(address, listener)| Flow::udp(listener, addr(address))));
            setup.nodes = cluster.nodes().into();
            setup.pools = [pool(PolicyKind::RoundRobin)].into();
        });
        let watch = BalancerWatch::new(&listeners, &NODES.map(|(address, _)| addr(address)));
        Self { bed, watch, cluster }
    }

    /// Runs one operation. Returns false at the end of the input.
    pub(super) fn step(&mut self) -> bool {
        let Some(operation) = self.bed.traffic.operation() else { return false };
        let received = match operation % 32 {
            0..6 => Some(self.client_request()),
            6..8 => Some(self.bed.traffic.node_request(&NODES)),
            8..15 => self.bed.traffic.answer_to_sent(),
            15..22 => self.bed.traffic.follow_up(),
            22 => self.bed.traffic.repeated(),
            23 => self.bed.traffic.forwarded_by_recipient(),
            24..26 => self.bed.traffic.altered(),
            26 => Some(self.bed.traffic.noise()),
            other => {
                self.happen(other);
                None
            }
        };
        if let Some(received) = received {
            self.deliver(received);
        }
        assert_eq!(self.bed.shard.audit(), Ok(()));
        true
    }

    /// Runs an operation other than a datagram.
    fn happen(&mut self, operation: u8) {
        match operation {
            27 => self.wait(),
            28..30 => self.health(),
            30 => self.reconfigure(),
            _ => self.bed.restart(),
        }
    }

    fn client_request(&mut self) -> Received {
        let from = addr(CLIENTS[usize::from(self.bed.traffic.choose()) % CLIENTS.len()]);
        let listener = if from.is_ipv6() { 1 } else { u16::from(self.bed.traffic.choose() & 1) * 2 };
        self.bed.traffic.client_request(from, listener)
    }

    fn wait(&mut self) {
        // From 0.25 ms to 8.5 hours.
        let exponent = self.bed.traffic.choose() % 28;
        self.run_timers_until(self.bed.now + Duration::from_micros(250 << exponent));
    }

    fn health(&mut self) {
        let slot = Slot(u16::from(self.bed.traffic.choose()) % NODES.len() as u16);
        let how = self.bed.traffic.choose();
        match how % 4 {
            0 | 1 => self.cluster.probed(self.bed.now, slot, how & 1 == 1),
            2 => self.cluster.drain(slot, how & 4 == 4),
            _ => {
                self.cluster.set_members(self.bed.now, &members(how >> 2));
                let is_member = |at: usize| how >> 2 >> at & 1 == 1;
                let nodes = NODES.iter().enumerate().map(|(at, (node, _))| (addr(node), is_member(at)));
                self.watch.set_nodes(nodes);
            }
        }
        self.set_up();
    }

    fn set_up(&mut self) {
        self.bed.setup.nodes = self.cluster.nodes().into();
        self.bed.set_up();
        self.heed();
    }

    /// Passes the shard's signs about nodes to the cluster.
    fn heed(&mut self) {
        for sign in self.bed.signs.drain(..) {
            self.cluster.sign(self.bed.now, sign);
        }
    }

    fn reconfigure(&mut self) {
        let how = self.bed.traffic.choose();
        self.bed.setup.settings.forwards_orphans = how & 3 == 1;
        self.bed.setup.stopping = (how >> 2 & 3 == 3).then(|| self.bed.now + Duration::from_secs(9));
        if how & 16 == 16 {
            self.bed.rekey();
        }
        let policy = if how & 32 == 32 { PolicyKind::Tlwl } else { PolicyKind::RoundRobin };
        self.bed.setup.pools = [pool(policy)].into();
        self.set_up();
    }

    /// Delivers a datagram twice: the copy must have the same effect (RFC 3261 §16.11).
    fn deliver(&mut self, received: Received) {
        let sent = self.handle(&received);
        self.watch.check(received.from, &received.bytes, &sent);
        assert_eq!(self.handle(&received), sent, "a repetition fares differently");
        for name in core::mem::take(&mut self.bed.names_asked) {
            let answer = resolved(&name);
            answer.addresses.iter().for_each(|&(address, _)| self.watch.resolved(address));
            self.bed.run(ShardInput::Name { name: &name, answer: &answer });
            self.heed();
        }
        let at = self.bed.traffic.choose();
        for one in sent {
            self.bed.traffic.keep_sent(one, at);
        }
        if !received.bytes.is_empty() {
            self.bed.traffic.keep_received(received, at);
        }
    }

    fn handle(&mut self, received: &Received) -> Vec<Sent> {
        let Received { listener, from, ref bytes } = *received;
        let sent = self.bed.run(ShardInput::Message { flow: Flow::udp(listener, from), bytes });
        self.heed();
        sent
    }

    fn run_timers_until(&mut self, end: Instant) {
        self.bed.run_timers_until(end, |_, sent| assert!(sent.is_empty(), "a timer sends nothing"));
        self.heed();
    }

    /// Ends the traffic: no load and no session may be left.
    pub(super) fn finish(mut self) -> ShardCounters {
        self.run_timers_until(self.bed.now + Duration::from_hours(24));
        let balancer = self.bed.shard.balancer();
        assert_eq!(self.bed.shard.audit(), Ok(()));
        for slot in 0..NODES.len() as u16 {
            assert_eq!(balancer.load(Slot(slot)).own, Load::default());
        }
        assert_eq!((balancer.counts(), balancer.open_transactions()), (TableCounts::default(), 0));
        self.bed.counters()
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
