use super::super::{Sent, parties};
use super::watch::{Cause, ProxyWatch};
use crate::{
    Counters, Event, Input, Key, Listener, NodeAddress, Orphans, ProxySettings, ProxyShard, Settings, Tokens,
    Topology,
};
use base::{Instant, Outbox};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

/// One for clients, one for next hops, one for IPv6.
const LISTENERS: [&str; 3] = ["192.0.2.1:5060", "198.51.100.1:5060", "[2001:db8::1]:5060"];
const HOPS: [(&str, u16); 3] =
    [("198.51.100.11:5060", 1), ("198.51.100.12:5070", 1), ("[2001:db8::13]:5060", 2)];
const CLIENTS: [&str; 3] = ["192.0.2.66:5060", "192.0.2.67:6000", "[2001:db8::66]:6000"];

/// Messages kept to be answered, followed, repeated or altered.
const KEPT: usize = 32;
/// Timers run at the end: far more than a run can have set.
const MOST_TIMERS: usize = 1_000_000;
/// Few, so that a run can fill them; the reserve is a quarter.
const TRANSACTIONS_MAX: usize = 40;
const TOKEN_LIFETIME: Duration = Duration::from_hours(1);
/// What ICMP sends back of a datagram.
const QUOTED: usize = 256;

/// A datagram that came in.
#[derive(Clone)]
struct Received {
    listener: u16,
    from: SocketAddr,
    bytes: Vec<u8>,
}

/// The proxy, the parties around it, and the operations still to come.
pub(in super::super) struct World<'a, T> {
    data: core::slice::Iter<'a, u8>,
    tamper: T,
    watch: ProxyWatch,
    topology: Arc<Topology>,
    shard: ProxyShard,
    settings: Settings,
    hops: u8,
    key: u8,
    lives: u64,
    now: Instant,
    received: Vec<Received>,
    sent: Vec<Sent>,
    /// Of the processes before the restarts.
    done: Counters,
}

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("the constants are addresses")
}

fn tokens(key: u8) -> Tokens {
    Tokens::new(Key([key; 16]), &[Key([key.wrapping_sub(1); 16])], TOKEN_LIFETIME)
}

fn keep<M>(list: &mut Vec<M>, message: M, at: u8) {
    if list.len() < KEPT {
        list.push(message);
    } else {
        list[usize::from(at) % KEPT] = message;
    }
}

fn hops(mask: u8) -> Vec<NodeAddress> {
    let node = |(_, (address, listener)): (u8, (&str, u16))| NodeAddress { address: addr(address), listener };
    (0..).zip(HOPS).filter(|(at, _)| mask >> at & 1 == 1).map(node).collect()
}

impl<'a, T: FnMut(&mut Vec<Sent>)> World<'a, T> {
    pub(in super::super) fn new(data: &'a [u8], tamper: T) -> Self {
        let listeners = LISTENERS.map(addr);
        let names = vec![("pool.example".to_owned(), None)];
        let topology = Arc::new(Topology::new(listeners.map(Listener::new).to_vec(), names));
        let settings = Settings { orphans: Orphans::Reject, epoch_unix: 1_800_000_000, stopping: false };
        let timers = transaction::Timers::default();
        let mut world = Self {
            data: data.iter(),
            tamper,
            watch: ProxyWatch::new(&listeners, timers, TOKEN_LIFETIME),
            shard: shard(&topology, 1, settings, 0),
            topology,
            settings,
            hops: 0b111,
            key: 1,
            lives: 0,
            now: Instant::ZERO,
            received: Vec::new(),
            sent: Vec::new(),
            done: Counters::default(),
        };
        world.set_hops();
        world
    }

    fn set_hops(&mut self) {
        let hops = hops(self.hops);
        self.shard.set_hops(&hops);
        self.watch.set_hops(hops.iter().map(|hop| hop.address));
    }

    /// The next number; 0 when there are no more.
    fn choose(&mut self) -> u8 {
        self.data.next().copied().unwrap_or_default()
    }

    /// Carries out one operation; `false` when there are no more.
    pub(in super::super) fn step(&mut self) -> bool {
        let Some(&operation) = self.data.next() else { return false };
        match operation % 32 {
            0..6 => self.client_asks(),
            6 => self.hop_asks(),
            7..15 => self.someone_answers(),
            15..20 => self.someone_follows(),
            20..22 => self.repeat(),
            22 => self.someone_passes_on(),
            23 => self.alter(),
            24 => self.noise(),
            25..28 => self.wait(),
            28 | 29 => self.unreachable(),
            30 => self.reconfigure(),
            _ => self.restart(),
        }
        self.watch.audit(self.now, &self.shard.report());
        true
    }

    fn client_asks(&mut self) {
        // Each asks its own listener.
        let listener = usize::from(self.choose()) % CLIENTS.len();
        let (from, listener) = (addr(CLIENTS[listener]), listener as u16);
        let bytes = parties::request(from, &LISTENERS.map(addr), &mut || self.choose());
        self.deliver(Received { listener, from, bytes });
    }

    fn hop_asks(&mut self) {
        let (from, listener) = HOPS[usize::from(self.choose()) % HOPS.len()];
        let from = addr(from);
        let bytes = parties::request(from, &CLIENTS.map(addr), &mut || self.choose());
        self.deliver(Received { listener, from, bytes });
    }

    fn someone_answers(&mut self) {
        let Some(sent) = self.pick_sent() else { return };
        let source = addr(LISTENERS[usize::from(sent.listener)]);
        if let Some(bytes) = parties::answer(&sent, source, &mut || self.choose()) {
            self.deliver(Received { listener: sent.listener, from: sent.to, bytes });
        }
    }

    fn someone_follows(&mut self) {
        let Some(sent) = self.pick_sent() else { return };
        if let Some(bytes) = parties::follow(&sent, &mut || self.choose()) {
            self.deliver(Received { listener: sent.listener, from: sent.to, bytes });
        }
    }

    fn someone_passes_on(&mut self) {
        let Some(sent) = self.pick_sent() else { return };
        if let Some(bytes) = parties::pass_on(&sent, &mut || self.choose()) {
            self.deliver(Received { listener: sent.listener, from: sent.to, bytes });
        }
    }

    fn repeat(&mut self) {
        if let Some(received) = self.pick_received() {
            self.deliver(received);
        }
    }

    /// Changes some bytes of a message, or sends it from another place.
    fn alter(&mut self) {
        let Some(mut received) = self.pick_received() else { return };
        for _ in 0..self.choose() % 4 {
            let at = usize::from(self.choose()) << 8 | usize::from(self.choose());
            let at = at % received.bytes.len();
            received.bytes[at] = self.choose();
        }
        if self.choose() & 1 == 1 {
            received.from = addr(CLIENTS[usize::from(received.listener == 2) * 2]);
        }
        self.deliver(received);
    }

    fn noise(&mut self) {
        let length = usize::from(self.choose());
        let bytes: Vec<_> = self.data.by_ref().take(length).copied().collect();
        self.deliver(Received { listener: 0, from: addr(CLIENTS[0]), bytes });
    }

    fn wait(&mut self) {
        // From 0.25 ms to 2.3 hours, mostly short: what waits is to be answered.
        let exponent = (self.choose() % 26).min(self.choose() % 26);
        self.run_timers_until(self.now + Duration::from_micros(250 << exponent));
    }

    /// ICMP about something that was sent, or that somebody makes up.
    fn unreachable(&mut self) {
        let Some(mut sent) = self.pick_sent() else { return };
        sent.bytes.truncate(QUOTED + usize::from(self.choose()));
        if self.choose() & 7 == 7 {
            let at = usize::from(self.choose()) % sent.bytes.len();
            sent.bytes[at] = self.choose();
        }
        let (to, quoted) = (sent.to, sent.bytes);
        let sent = self.run(|shard, now, out| shard.unreachable(now, to, &quoted, out));
        self.watch.check(self.now, Cause::Unreachable, &sent);
        self.take(sent);
    }

    fn reconfigure(&mut self) {
        let how = self.choose();
        self.hops = how & 0b111;
        self.set_hops();
        self.settings.stopping = how >> 3 & 3 == 3;
        self.shard.set_settings(self.settings);
        self.shard.set_limit(if how & 32 == 32 { TRANSACTIONS_MAX / 4 } else { TRANSACTIONS_MAX });
        if how & 64 == 64 {
            self.key = self.key.wrapping_add(1);
            // Two changes before a restart, and the first key is forgotten.
            self.watch.rekeyed(false);
            self.shard.set_tokens(&tokens(self.key));
        }
    }

    fn restart(&mut self) {
        // Not often: most of what was going on is lost.
        if self.choose() & 3 != 3 {
            return;
        }
        self.lives += 1;
        let new = shard(&self.topology, self.key, self.settings, self.lives);
        let old = core::mem::replace(&mut self.shard, new);
        self.done.merge(&old.counters());
        self.watch.restarted();
        // A process that starts later does not know the keys that the one before had seen in between.
        self.watch.rekeyed(false);
        self.set_hops();
    }

    fn pick_sent(&mut self) -> Option<Sent> {
        let at = usize::from(self.choose());
        self.sent.get(at % self.sent.len().max(1)).cloned()
    }

    fn pick_received(&mut self) -> Option<Received> {
        let at = usize::from(self.choose());
        self.received.get(at % self.received.len().max(1)).cloned()
    }

    fn deliver(&mut self, received: Received) {
        let Received { listener, from, ref bytes } = received;
        let sent =
            self.run(|shard, now, out| shard.handle(now, Input::Datagram { listener, from, bytes }, out));
        self.watch.check(self.now, Cause::Datagram { from, bytes }, &sent);
        self.take(sent);
        if !received.bytes.is_empty() {
            let at = self.choose();
            keep(&mut self.received, received, at);
        }
    }

    /// What was sent may be answered.
    fn take(&mut self, sent: Vec<Sent>) {
        for one in sent {
            let at = self.choose();
            keep(&mut self.sent, one, at);
        }
    }

    fn run(&mut self, step: impl FnOnce(&mut ProxyShard, Instant, &mut Outbox<Event>)) -> Vec<Sent> {
        let mut out = Outbox::default();
        step(&mut self.shard, self.now, &mut out);
        let sent = |transmit: &base::Transmit| Sent {
            listener: transmit.listener,
            to: transmit.to,
            bytes: out.datagram(transmit).to_vec(),
        };
        let mut sent: Vec<_> = out.transmits().iter().map(sent).collect();
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
            let sent = self.run(|shard, now, out| shard.handle(now, Input::Timer, out));
            self.watch.check(self.now, Cause::Timer, &sent);
        }
        panic!("timers without end");
    }

    /// The traffic ends: nothing is remembered.
    pub(in super::super) fn finish(mut self) -> Counters {
        self.run_timers_until(self.now + Duration::from_hours(1));
        let report = self.shard.report();
        assert_eq!((report.transactions, report.unanswered, self.shard.deadline()), (0, 0, None));
        self.done.merge(&self.shard.counters());
        self.done
    }
}

/// A process, unlike those before it.
fn shard(topology: &Arc<Topology>, key: u8, settings: Settings, life: u64) -> ProxyShard {
    let limits = ProxySettings { core: ::proxy::Settings::default(), max_transactions: TRANSACTIONS_MAX };
    ProxyShard::new(Arc::clone(topology), tokens(key), settings, limits, ([life as u8; 16], life << 32))
}
