//! A stateful proxy's shard under operations chosen by a fuzzer.

use super::bed::{Bed, TOKEN_LIFETIME};
use super::traffic::{CLIENTS, Received, addr, resolved};
use crate::{ProcessInput, ProxyWatch, Sent};
use balance::{Members, PolicyKind};
use base::{Flow, Instant};
use core::time::Duration;
use node::{PoolSetup, ProxyLimits, Shard, ShardCounters, ShardInput};
use route::Service;

/// Listeners for clients, for next hops, and for IPv6.
const LISTENERS: [&str; 3] = ["192.0.2.1:5060", "198.51.100.1:5060", "[2001:db8::1]:5060"];
const HOPS: [(&str, u16); 3] =
    [("198.51.100.11:5060", 1), ("198.51.100.12:5070", 1), ("[2001:db8::13]:5060", 2)];

/// Low limits, so that a run can reach them. The reserve is a quarter.
const LIMITS: ProxyLimits = ProxyLimits { transactions: 40, memory: 200_000, branches: 12 };
/// The limit with its reserve, and one step more.
const MEMORY_MAX: usize = LIMITS.memory / 4 * 5 + 2_000;
const FEW: ProxyLimits = ProxyLimits { transactions: 10, memory: 120_000, branches: 12 };
/// Bytes of a datagram that ICMP quotes.
const QUOTED: usize = 256;

/// The proxy, the parties around it, and the remaining operations.
pub(super) struct World<'a, T> {
    bed: Bed<'a, T>,
    watch: ProxyWatch,
    hops: u8,
}

fn hops(mask: u8) -> Vec<Flow> {
    let node = |(_, (address, listener)): (u8, (&str, u16))| Flow::udp(listener, addr(address));
    (0..).zip(HOPS).filter(|(at, _)| mask >> at & 1 == 1).map(node).collect()
}

impl<'a, T: FnMut(&mut Vec<Sent>)> World<'a, T> {
    pub(super) fn new(data: &'a [u8], tamper: T) -> Self {
        let listeners = LISTENERS.map(addr);
        let bed = Bed::new(data, listeners, tamper, |setup| {
            (setup.settings.forwards_orphans, setup.settings.limits) = (true, LIMITS);
            setup.pools = [PoolSetup::new(Service::HOPS, PolicyKind::Hash, Members::All)].into();
        });
        let watch = ProxyWatch::new(&listeners, transaction::Timers::default(), TOKEN_LIFETIME);
        let mut world = Self { bed, watch, hops: 0b111 };
        world.set_hops();
        world
    }

    fn set_hops(&mut self) {
        let hops = hops(self.hops);
        testbed::set_members(&mut self.bed.setup, &hops);
        self.bed.set_up();
        self.watch.set_hops(hops.iter().map(|hop| hop.peer));
    }

    /// Runs one operation. Returns false at the end of the input.
    pub(super) fn step(&mut self) -> bool {
        let Some(operation) = self.bed.traffic.operation() else { return false };
        let received = match operation % 32 {
            0..6 => Some(self.client_request()),
            6 => Some(self.bed.traffic.node_request(&HOPS)),
            7..15 => self.bed.traffic.answer_to_sent(),
            15..20 => self.bed.traffic.follow_up(),
            20..22 => self.bed.traffic.repeated(),
            22 => self.bed.traffic.forwarded_by_recipient(),
            23 => self.bed.traffic.altered(),
            24 => Some(self.bed.traffic.noise()),
            other => {
                self.happen(other);
                None
            }
        };
        if let Some(received) = received {
            self.deliver(received);
        }
        let report = self.bed.shard.proxy_report().expect("it has next hops");
        self.watch.audit(self.bed.now, &report);
        assert!(report.memory <= MEMORY_MAX, "{} bytes", report.memory);
        true
    }

    /// Runs an operation other than a datagram.
    fn happen(&mut self, operation: u8) {
        match operation {
            25..28 => self.wait(),
            28 | 29 => self.unreachable(),
            30 => self.reconfigure(),
            _ => self.restart(),
        }
    }

    fn client_request(&mut self) -> Received {
        // Each client uses its own listener.
        let listener = usize::from(self.bed.traffic.choose()) % CLIENTS.len();
        self.bed.traffic.client_request(addr(CLIENTS[listener]), listener as u16)
    }

    fn wait(&mut self) {
        // From 0.25 ms to 2.3 hours, mostly short, so that pending requests get answers.
        let exponent = (self.bed.traffic.choose() % 26).min(self.bed.traffic.choose() % 26);
        self.run_timers_until(self.bed.now + Duration::from_micros(250 << exponent));
    }

    /// Delivers an ICMP error about a sent datagram, or a forged one.
    fn unreachable(&mut self) {
        let Some(mut sent) = self.bed.traffic.pick_sent() else { return };
        sent.bytes.truncate(QUOTED + usize::from(self.bed.traffic.choose()));
        let how = self.bed.traffic.choose();
        if how & 7 == 7 {
            let at = usize::from(self.bed.traffic.choose()) % sent.bytes.len();
            sent.bytes[at] = self.bed.traffic.choose();
        }
        let (mut to, quoted) = (sent.to, sent.bytes);
        let is_wrong = how & 0x38 == 0x38;
        if is_wrong {
            to.set_port(to.port() ^ 1);
        }
        let rest = |shard: &Shard| shard.balancer().nodes().to_vec();
        let before = rest(&self.bed.shard);
        let sent = self.bed.run(ShardInput::Unreachable { to: Flow::udp(0, to), quoted: &quoted });
        if is_wrong {
            assert!(sent.is_empty() && rest(&self.bed.shard) == before, "it never sent anything to {to}");
        }
        self.watch.check(self.bed.now, ProcessInput::Unreachable, &sent);
        self.take(sent);
    }

    fn reconfigure(&mut self) {
        let how = self.bed.traffic.choose();
        self.hops = how & 0b111;
        self.bed.setup.stopping = (how >> 3 & 3 == 3).then(|| self.bed.now + Duration::from_secs(9));
        self.bed.setup.settings.limits = if how & 32 == 32 { FEW } else { LIMITS };
        if how & 64 == 64 {
            self.bed.rekey();
            // After two key changes without a restart the first key is not accepted any more.
            self.watch.rekeyed(false);
        }
        self.set_hops();
    }

    fn restart(&mut self) {
        // Rarely, since a restart loses most of what is in progress.
        if self.bed.traffic.choose() & 3 != 3 {
            return;
        }
        self.bed.setup.settings.limits = LIMITS;
        self.bed.restart();
        self.watch.restarted();
        // A new process knows two keys, the current one and the one before. Its predecessor may have known more keys.
        self.watch.rekeyed(false);
        self.set_hops();
    }

    fn deliver(&mut self, received: Received) {
        let Received { listener, from, ref bytes } = received;
        let sent = self.bed.run(ShardInput::Message { flow: Flow::udp(listener, from), bytes });
        self.watch.check(self.bed.now, ProcessInput::Datagram { from, bytes }, &sent);
        for name in core::mem::take(&mut self.bed.names_asked) {
            let answer = resolved(&name);
            self.bed.run(ShardInput::Name { name: &name, answer: &answer });
        }
        self.take(sent);
        if !received.bytes.is_empty() {
            let at = self.bed.traffic.choose();
            self.bed.traffic.keep_received(received, at);
        }
    }

    /// Keeps sent messages to be answered.
    fn take(&mut self, sent: Vec<Sent>) {
        for one in sent {
            let at = self.bed.traffic.choose();
            self.bed.traffic.keep_sent(one, at);
        }
    }

    fn run_timers_until(&mut self, end: Instant) {
        let watch = &mut self.watch;
        self.bed.run_timers_until(end, |now, sent| watch.check(now, ProcessInput::Timer, sent));
    }

    /// Ends the traffic: no state may be left.
    pub(super) fn finish(mut self) -> ShardCounters {
        self.run_timers_until(self.bed.now + Duration::from_hours(1));
        let report = self.bed.shard.proxy_report().expect("it has next hops");
        let left = (report.transactions, report.unanswered, report.memory, self.bed.shard.deadline());
        assert_eq!(left, (0, 0, 0, None));
        self.bed.counters()
    }
}
