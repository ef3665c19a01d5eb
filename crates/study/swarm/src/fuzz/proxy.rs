//! A stateful proxy's shard under operations that a fuzzer chooses.

use super::traffic::{CLIENTS, Received, Traffic, addr, resolved};
use crate::{ProcessInput, ProxyWatch, Sent};
use balance::{Members, PolicyKind};
use base::{Flow, Instant, Outbox};
use core::time::Duration;
use node::{
    HopName, Orphans, PoolSetup, ProxyLimits, Setup, Shard, ShardCounters, ShardEvent, ShardIdentity,
    ShardInput, TokenKey, Tokens,
};
use route::Service;
use std::sync::Arc;

/// One for clients, one for next hops, one for IPv6.
const LISTENERS: [&str; 3] = ["192.0.2.1:5060", "198.51.100.1:5060", "[2001:db8::1]:5060"];
const HOPS: [(&str, u16); 3] =
    [("198.51.100.11:5060", 1), ("198.51.100.12:5070", 1), ("[2001:db8::13]:5060", 2)];

/// Timers run at the end: far more than a run can have set.
const MOST_TIMERS: usize = 1_000_000;
/// Few, so that a run can fill them; the reserve is a quarter.
const LIMITS: ProxyLimits = ProxyLimits { transactions: 40, memory: 200_000, branches: 12 };
/// With the reserve, and one step more.
const MEMORY_MAX: usize = LIMITS.memory / 4 * 5 + 2_000;
const FEW: ProxyLimits = ProxyLimits { transactions: 10, memory: 120_000, branches: 12 };
const TOKEN_LIFETIME: Duration = Duration::from_hours(1);
/// What ICMP sends back of a datagram.
const QUOTED: usize = 256;

/// The proxy, the parties around it, and the operations still to come.
pub(super) struct World<'a, T> {
    traffic: Traffic<'a>,
    tamper: T,
    watch: ProxyWatch,
    shard: Shard,
    setup: Setup,
    hops: u8,
    key: u8,
    lives: u64,
    now: Instant,
    /// Names that the proxy asks for.
    asked: Vec<HopName>,
    /// Of the processes before the restarts.
    done: ShardCounters,
}

fn tokens(key: u8) -> Tokens {
    Tokens::new(TokenKey([key; 16]), &[TokenKey([key.wrapping_sub(1); 16])], TOKEN_LIFETIME)
}

fn hops(mask: u8) -> Vec<Flow> {
    let node = |(_, (address, listener)): (u8, (&str, u16))| Flow::udp(listener, addr(address));
    (0..).zip(HOPS).filter(|(at, _)| mask >> at & 1 == 1).map(node).collect()
}

impl<'a, T: FnMut(&mut Vec<Sent>)> World<'a, T> {
    pub(super) fn new(data: &'a [u8], tamper: T) -> Self {
        let listeners = LISTENERS.map(addr);
        let mut setup = testbed::shard_setup(&listeners, &["pool.example"], tokens(1));
        (setup.settings.orphans, setup.settings.limits) = (Orphans::Balance, LIMITS);
        setup.pools = [PoolSetup::new(Service::HOPS, PolicyKind::Hash, Members::All)].into();
        let timers = transaction::Timers::default();
        let mut world = Self {
            traffic: Traffic::new(data, listeners),
            tamper,
            watch: ProxyWatch::new(&listeners, timers, TOKEN_LIFETIME),
            shard: shard(&setup, 0),
            setup,
            hops: 0b111,
            key: 1,
            lives: 0,
            now: Instant::ZERO,
            asked: Vec::new(),
            done: ShardCounters::default(),
        };
        world.set_hops();
        world
    }

    fn set_hops(&mut self) {
        let hops = hops(self.hops);
        testbed::set_members(&mut self.setup, &hops);
        self.set_up();
        self.watch.set_hops(hops.iter().map(|hop| hop.peer));
    }

    fn set_up(&mut self) {
        let setup = Arc::new(self.setup.clone());
        let sent = self.run(ShardInput::SetUp(&setup));
        assert!(sent.is_empty(), "nothing waits for another set-up");
    }

    /// Carries out one operation; `false` when there are no more.
    pub(super) fn step(&mut self) -> bool {
        let Some(operation) = self.traffic.operation() else { return false };
        let received = match operation % 32 {
            0..6 => Some(self.client_asks()),
            6 => Some(self.traffic.inside_asks(&HOPS)),
            7..15 => self.traffic.someone_answers(),
            15..20 => self.traffic.someone_follows(),
            20..22 => self.traffic.repeated(),
            22 => self.traffic.someone_passes_on(),
            23 => self.traffic.altered(),
            24 => Some(self.traffic.noise()),
            other => {
                self.happen(other);
                None
            }
        };
        if let Some(received) = received {
            self.deliver(received);
        }
        let report = self.shard.proxy_report().expect("it has next hops");
        self.watch.audit(self.now, &report);
        assert!(report.memory <= MEMORY_MAX, "{} bytes", report.memory);
        true
    }

    /// Something other than a datagram.
    fn happen(&mut self, operation: u8) {
        match operation {
            25..28 => self.wait(),
            28 | 29 => self.unreachable(),
            30 => self.reconfigure(),
            _ => self.restart(),
        }
    }

    fn client_asks(&mut self) -> Received {
        // Each asks its own listener.
        let listener = usize::from(self.traffic.choose()) % CLIENTS.len();
        self.traffic.client_asks(addr(CLIENTS[listener]), listener as u16)
    }

    fn wait(&mut self) {
        // From 0.25 ms to 2.3 hours, mostly short: what waits is to be answered.
        let exponent = (self.traffic.choose() % 26).min(self.traffic.choose() % 26);
        self.run_timers_until(self.now + Duration::from_micros(250 << exponent));
    }

    /// ICMP about something that was sent, or that somebody makes up.
    fn unreachable(&mut self) {
        let Some(mut sent) = self.traffic.pick_sent() else { return };
        sent.bytes.truncate(QUOTED + usize::from(self.traffic.choose()));
        let how = self.traffic.choose();
        if how & 7 == 7 {
            let at = usize::from(self.traffic.choose()) % sent.bytes.len();
            sent.bytes[at] = self.traffic.choose();
        }
        let (mut to, quoted) = (sent.to, sent.bytes);
        let is_wrong = how & 0x38 == 0x38;
        if is_wrong {
            to.set_port(to.port() ^ 1);
        }
        let rest = |shard: &Shard| shard.balancer().nodes().to_vec();
        let before = rest(&self.shard);
        let sent = self.run(ShardInput::Unreachable { to: Flow::udp(0, to), quoted: &quoted });
        if is_wrong {
            assert!(sent.is_empty() && rest(&self.shard) == before, "it never sent anything to {to}");
        }
        self.watch.check(self.now, ProcessInput::Unreachable, &sent);
        self.take(sent);
    }

    fn reconfigure(&mut self) {
        let how = self.traffic.choose();
        self.hops = how & 0b111;
        self.setup.stopping = (how >> 3 & 3 == 3).then(|| self.now + Duration::from_secs(9));
        self.setup.settings.limits = if how & 32 == 32 { FEW } else { LIMITS };
        if how & 64 == 64 {
            self.key = self.key.wrapping_add(1);
            // Two changes before a restart, and the first key is forgotten.
            self.watch.rekeyed(false);
            self.setup.settings.tokens = Arc::new(tokens(self.key));
        }
        self.set_hops();
    }

    fn restart(&mut self) {
        // Not often: most of what was going on is lost.
        if self.traffic.choose() & 3 != 3 {
            return;
        }
        self.lives += 1;
        self.setup.settings.limits = LIMITS;
        let new = shard(&self.setup, self.lives);
        let old = core::mem::replace(&mut self.shard, new);
        self.done.merge(&old.counters());
        self.watch.restarted();
        // A process that starts later does not know the keys that the one before had seen in between.
        self.watch.rekeyed(false);
        self.set_hops();
    }

    fn deliver(&mut self, received: Received) {
        let Received { listener, from, ref bytes } = received;
        let sent = self.run(ShardInput::Message { flow: Flow::udp(listener, from), bytes });
        self.watch.check(self.now, ProcessInput::Datagram { from, bytes }, &sent);
        for name in core::mem::take(&mut self.asked) {
            let answer = resolved(&name);
            self.run(ShardInput::Name { name: &name, answer: &answer });
        }
        self.take(sent);
        if !received.bytes.is_empty() {
            let at = self.traffic.choose();
            self.traffic.keep_received(received, at);
        }
    }

    /// What was sent may be answered.
    fn take(&mut self, sent: Vec<Sent>) {
        for one in sent {
            let at = self.traffic.choose();
            self.traffic.keep_sent(one, at);
        }
    }

    fn run(&mut self, input: ShardInput<'_>) -> Vec<Sent> {
        let mut out = Outbox::default();
        self.shard.handle(self.now, input, &mut out);
        self.asked.extend(out.drain_events().filter_map(|event| match event {
            ShardEvent::LookUp(name) => Some(name),
            ShardEvent::Sign(_)
            | ShardEvent::Ask(_)
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
            | ShardEvent::NoRoom(_) => None,
        }));
        let mut sent = Sent::all(&out);
        (self.tamper)(&mut sent);
        sent
    }

    fn run_timers_until(&mut self, end: Instant) {
        for _ in 0..MOST_TIMERS {
            let Some(due) = self.shard.deadline().filter(|&due| due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            let sent = self.run(ShardInput::Timer);
            self.watch.check(self.now, ProcessInput::Timer, &sent);
        }
        panic!("timers without end");
    }

    /// The traffic ends: nothing is remembered.
    pub(super) fn finish(mut self) -> ShardCounters {
        self.run_timers_until(self.now + Duration::from_hours(1));
        let report = self.shard.proxy_report().expect("it has next hops");
        let left = (report.transactions, report.unanswered, report.memory, self.shard.deadline());
        assert_eq!(left, (0, 0, 0, None));
        self.done.merge(&self.shard.counters());
        self.done
    }
}

/// A process, unlike those before it.
fn shard(setup: &Setup, life: u64) -> Shard {
    Shard::new(ShardIdentity::only([life as u8; 16], life << 32), &Arc::new(setup.clone()))
}
