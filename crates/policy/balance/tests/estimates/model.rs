//! Servers that take one request after the other, behind a balancer with the policy `tlwl`.

use crate::waits::Waits;
use balance::policy::Tlwl;
use balance::{
    Adaptive, Balancer, CallKey, Cluster, ClusterMember, Decision, Direction, HealthSettings, NodeId, PoolId,
    Request, Response, SessionSettings, Slot, Tags, Weights,
};
use base::{Instant, Rng};
use core::cmp::Reverse;
use rand::Rng as _;
use rand_distr::{Distribution as _, Exp1};
use std::collections::BinaryHeap;
use wire::Method;

/// What makes costs hard to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hard {
    /// Nothing: each request takes its time.
    Nothing,
    /// Exponentially distributed times.
    Exponential,
    /// Each server stands still for half a second every five seconds or so.
    Stalls,
    /// Each may work for 40 ms of every 400 ms, in its own beat.
    Quota,
    /// Every second server is half as fast.
    Unequal,
    /// The way there and back takes 20 ms.
    FarAway,
    /// A fifth of an INVITE's work is done with its ACK.
    LateWork,
    /// Of a hundred requests one is lost, and sent again after half a second.
    Losses,
}

impl Hard {
    pub(crate) const ALL: [Self; 8] = [
        Self::Nothing,
        Self::Exponential,
        Self::Stalls,
        Self::Quota,
        Self::Unequal,
        Self::FarAway,
        Self::LateWork,
        Self::Losses,
    ];
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The next call.
    Call,
    /// A request is at its server.
    Arrival {
        call: u64,
        server: u16,
        is_invite: bool,
        sent_ns: u64,
        ahead: [u32; 2],
    },
    /// A server has done one.
    Done {
        call: u64,
        server: u16,
        is_invite: bool,
        sent_ns: u64,
        ahead: [u32; 2],
    },
    /// The end of a call.
    Bye {
        call: u64,
        server: u16,
    },
    Stall {
        server: u16,
    },
}

const SERVERS: usize = 4;
/// Seconds that a BYE takes.
const BYE_S: f64 = 1e-2;
/// Seconds of a stall, and from one to the next in the mean.
const STALL: [f64; 2] = [0.5, 5.0];
/// Work in each period, and the period, in seconds.
const QUOTA: [f64; 2] = [4e-2, 4e-1];
/// Part of an INVITE's work that is done with its ACK.
const ACK: f64 = 0.2;
const LASTS_S: f64 = 2.0;

pub(crate) struct Model {
    hard: Hard,
    /// Seconds that an INVITE takes, with its ACK.
    invite_s: f64,
    rate: f64,
    rng: Rng,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// So that events at the same time have an order.
    number: u64,
    calls: u64,
    /// When each server has done all that it has.
    free: [f64; SERVERS],
    /// INVITEs and others that each has.
    open: [[u32; 2]; SERVERS],
    cluster: Cluster,
    balancer: Balancer,
    told: u64,
    /// The other estimator.
    pub(crate) waits: Waits,
    /// Times of INVITEs in milliseconds, by number.
    pub(crate) invite_ms: Vec<f64>,
}

impl Model {
    pub(crate) fn new(ratio: f64, load: f64, hard: Hard, adaptive: Adaptive, seed: u64) -> Self {
        let invite_s = ratio * BYE_S;
        // What all servers do of such calls in a second.
        let part = match hard {
            Hard::Quota => QUOTA[0] / QUOTA[1],
            Hard::Unequal => 0.75,
            Hard::Stalls => 1.0 - STALL[0] / STALL[1],
            _ => 1.0,
        };
        let rate = load * part * SERVERS as f64 / (invite_s + BYE_S);
        let mut cluster = Cluster::new(HealthSettings { adaptive, ..HealthSettings::default() });
        let member = |id| ClusterMember {
            id: NodeId(id),
            capacity: 1.0,
            max_calls: 0,
            max_rate: 0,
            pool: PoolId::default(),
        };
        cluster.set_members(Instant::ZERO, &[0, 1, 2, 3].map(member));
        let mut balancer = Balancer::new(SessionSettings::default(), Box::new(Tlwl::new(0)));
        balancer.set_nodes(cluster.nodes());
        let mut model = Self {
            hard,
            invite_s,
            rate,
            rng: Rng::from_seed(seed),
            now_ns: 0,
            events: BinaryHeap::new(),
            number: 0,
            calls: 0,
            free: [0.0; SERVERS],
            open: [[0; 2]; SERVERS],
            told: cluster.version(),
            cluster,
            balancer,
            waits: Waits::default(),
            invite_ms: Vec::new(),
        };
        model.push(0.0, Event::Call);
        if hard == Hard::Stalls {
            (0..SERVERS as u16)
                .for_each(|server| model.push(f64::from(server) / 4.0, Event::Stall { server }));
        }
        model
    }

    /// What an INVITE weighs.
    pub(crate) fn weight(&self) -> f64 {
        self.cluster.nodes()[0]
            .weights
            .as_ref()
            .map_or(Weights::INVITE, |weights| weights.get(Method::Invite))
    }

    /// The capacities.
    pub(crate) fn capacities(&self) -> Vec<f64> {
        self.cluster.nodes().iter().map(|node| node.capacity).collect()
    }

    fn now(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    fn push(&mut self, after: f64, event: Event) {
        self.number += 1;
        let at_ns = self.now_ns + (after * 1e9) as u64;
        self.events.push(Reverse((at_ns, self.number, event)));
    }

    /// When a server has done so much work that it begins then, in seconds.
    fn done(&self, server: u16, begins: f64, work: f64) -> f64 {
        let slow = if self.hard == Hard::Unequal && server % 2 == 1 { 2.0 } else { 1.0 };
        if self.hard != Hard::Quota {
            return begins + slow * work;
        }
        let [quota, period] = QUOTA;
        let beat = f64::from(server) / SERVERS as f64 * period;
        let (mut at, mut left) = (begins, work);
        loop {
            let within = (at + beat).rem_euclid(period);
            // What is left of a period is no time to work in, where rounding has made it of nothing.
            if within < quota - 1e-9 {
                let part = left.min(quota - within);
                (at, left) = (at + part, left - part);
                if left <= 1e-12 {
                    return at;
                }
            }
            // A little more, so that rounding does not end in the period before.
            at = (((at + beat) / period).floor() + 1.0) * period - beat + 1e-9;
        }
    }

    /// The work of a request, or of a part of it.
    fn work(&mut self, seconds: f64) -> f64 {
        let chance: f64 = if self.hard == Hard::Exponential { Exp1.sample(&mut self.rng) } else { 1.0 };
        seconds * chance
    }

    fn now_at(&self) -> Instant {
        Instant::from_nanos(self.now_ns)
    }

    /// The balancer gets a request, and sends it on.
    fn send(&mut self, call: u64, bye_to: Option<u16>) {
        let is_invite = bye_to.is_none();
        let request = Request {
            key: key(call),
            call_id: b"call",
            pool: PoolId::default(),
            method: if is_invite { Method::Invite } else { Method::Bye },
            cseq: if is_invite { 1 } else { 2 },
            in_dialog: !is_invite,
            direction: Direction::ToPool,
            pinned: bye_to.map(Slot),
            by_token: !is_invite,
            begun_by_peer: false,
            branch: 0,
            tags: Tags { from: 0, to: u64::from(!is_invite) },
            has_priority: false,
        };
        let Decision::Forward { slot: Slot(server), .. } = self.balancer.request(self.now_at(), &request)
        else {
            panic!("all servers take calls");
        };
        let ahead = self.open[usize::from(server)];
        self.open[usize::from(server)][usize::from(!is_invite)] += 1;
        let lost = self.hard == Hard::Losses && self.rng.random_bool(0.01);
        let arrival = Event::Arrival { call, server, is_invite, sent_ns: self.now_ns, ahead };
        self.push(if lost { 0.5 } else { 0.0 }, arrival);
    }

    fn arrive(&mut self, (call, server, is_invite): (u64, u16, bool), sent_ns: u64, ahead: [u32; 2]) {
        let late = if self.hard == Hard::LateWork { ACK } else { 0.0 };
        let work = self.work(if is_invite { self.invite_s * (1.0 - late) } else { BYE_S });
        let begins = self.free[usize::from(server)].max(self.now());
        let free = self.done(server, begins, work);
        self.free[usize::from(server)] = free;
        let way = if self.hard == Hard::FarAway { 2e-2 } else { 5e-4 };
        self.push(free - self.now() + way, Event::Done { call, server, is_invite, sent_ns, ahead });
    }

    fn answer(
        &mut self,
        (call, server, is_invite): (u64, u16, bool),
        sent_ns: u64,
        [invites, others]: [u32; 2],
    ) {
        self.open[usize::from(server)][usize::from(!is_invite)] -= 1;
        let seconds = (self.now_ns - sent_ns) as f64 / 1e9;
        self.waits.note([invites + u32::from(is_invite), others + u32::from(!is_invite)], seconds);
        let response = Response {
            key: key(call),
            method: if is_invite { Method::Invite } else { Method::Bye },
            cseq: if is_invite { 1 } else { 2 },
            status: 200,
            direction: Direction::ToPool,
            branch: 0,
            tags: Tags { from: 0, to: 1 },
        };
        let now = self.now_at();
        self.balancer.response(now, &response);
        self.balancer.expire(now);
        let signs: Vec<_> = self.balancer.drain_signs().collect();
        for sign in signs {
            self.cluster.sign(now, sign);
        }
        if self.told != self.cluster.version() {
            self.told = self.cluster.version();
            self.balancer.set_nodes(self.cluster.nodes());
        }
        if is_invite {
            self.invite_ms.push(1e3 * seconds);
            if self.hard == Hard::LateWork {
                let work = self.work(self.invite_s * ACK);
                let begins = self.free[usize::from(server)].max(self.now());
                self.free[usize::from(server)] = self.done(server, begins, work);
            }
            let lasts: f64 = Exp1.sample(&mut self.rng);
            self.push(lasts * LASTS_S, Event::Bye { call, server });
        }
    }

    /// Goes on for so many seconds.
    pub(crate) fn run(&mut self, seconds: f64) {
        let end_ns = self.now_ns + (seconds * 1e9) as u64;
        while let Some(Reverse((at_ns, number, event))) = self.events.pop() {
            if at_ns >= end_ns {
                self.events.push(Reverse((at_ns, number, event)));
                break;
            }
            self.now_ns = at_ns;
            match event {
                Event::Call => {
                    self.calls += 1;
                    self.send(self.calls, None);
                    let gap: f64 = Exp1.sample(&mut self.rng);
                    self.push(gap / self.rate, Event::Call);
                }
                Event::Bye { call, server } => self.send(call, Some(server)),
                Event::Stall { server } => {
                    let [length, mean] = STALL;
                    // What is in work waits; what has been promised by now is done, which is as if it had stood still
                    // a little later.
                    let free = &mut self.free[usize::from(server)];
                    *free = free.max(self.now_ns as f64 / 1e9) + length;
                    let gap: f64 = Exp1.sample(&mut self.rng);
                    self.push(length + gap * (mean - length), Event::Stall { server });
                }
                Event::Arrival { call, server, is_invite, sent_ns, ahead } => {
                    self.arrive((call, server, is_invite), sent_ns, ahead);
                }
                Event::Done { call, server, is_invite, sent_ns, ahead } => {
                    self.answer((call, server, is_invite), sent_ns, ahead);
                }
            }
        }
        self.now_ns = end_ns;
        // Leases give back what they took, whatever transactions weigh by now.
        assert_eq!(self.balancer.audit(), Ok(()));
    }
}

/// Spread as a hash would spread it.
fn key(call: u64) -> CallKey {
    CallKey((u128::from(call) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}
