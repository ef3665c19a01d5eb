//! The balancer of the model: [`balance::Balancer`] between typed messages, and beside it what the server's control task
//! does: probes, and what they and the traffic say about the health of the servers.

use super::message::{CallId, HostId, Letter, Message, Route, Sent, Start, Via, Vias};
use balance::{
    CallKey, Cluster, Decision, Direction, HealthSettings, Member, NodeId, OutlierSettings, Request,
    Response, Settings, Slot, Tags, Why,
};
use base::{Instant, Ledger, Operation};
use core::time::Duration;
use node::{Ask, ProbeSettings, Rounds, Step};
use std::ops::Range;
use wire::Method;

/// When servers are probed: the server's defaults.
pub(crate) fn probe_settings(timers: &config::scenario::Timers) -> ProbeSettings {
    let (interval, timeout) = (Duration::from_secs(2), Duration::from_millis(1_500));
    ProbeSettings { periodic: true, interval, timeout, t1: timers.t1 }
}

/// When a server counts as dead, and as an outlier: the server's defaults.
pub(crate) fn health_settings(probes: bool, outlier: bool) -> HealthSettings {
    let outlier = OutlierSettings { enabled: outlier, ..OutlierSettings::default() };
    HealthSettings { regular: probes, outlier, ..HealthSettings::default() }
}

/// A balancer and the servers behind it.
pub(crate) struct Balancer {
    core: balance::Balancer,
    servers: Range<u16>,
    cluster: Cluster,
    /// Version of the cluster that the core has.
    told: u64,
    /// `None` where nobody is asked, and so nothing that fails is noticed: live a closed port would tell, and there are
    /// none here.
    rounds: Option<Rounds<HostId>>,
    /// Unlike that of the process before it: answers to its probes are none to ours.
    life: u32,
    /// What the server's shard does around its balancer, for the same messages.
    pub(crate) ledger: Ledger,
}

/// The key that a balancer makes of a Call-ID.
fn key_of(message: &Message) -> CallKey {
    let number = u64::from(message.call.generation);
    // Spread over all bits, as a keyed hash would.
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let low = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    CallKey(u128::from(mixed) << 64 | u128::from(low ^ low >> 32))
}

fn direction_of(message: &Message) -> Direction {
    if message.by_callee { Direction::FromPool } else { Direction::ToPool }
}

impl Balancer {
    /// `capacity` of each server is what the policy is told; a server may be slower than that.
    pub(crate) fn new(
        (now, life): (Instant, u32),
        servers: Range<u16>,
        capacity: impl Fn(HostId) -> f64,
        policy: Box<dyn balance::Policy>,
        settings: Settings,
        health: HealthSettings,
        probes: Option<ProbeSettings>,
    ) -> Self {
        let mut cluster = Cluster::new(health);
        let member =
            |host: u16| Member { id: NodeId(host.into()), capacity: capacity(HostId(host)), max_calls: 0 };
        cluster.set_members(now, &servers.clone().map(member).collect::<Vec<_>>());
        let mut core = balance::Balancer::new(settings, policy);
        core.set_nodes(cluster.nodes());
        let rounds = probes.map(|settings| {
            let targets: Vec<_> = (0..).map(Slot).zip(servers.clone().map(HostId)).collect();
            let mut rounds = Rounds::new(settings);
            rounds.set_targets(now, &targets);
            rounds
        });
        let told = cluster.version();
        Self { core, servers, cluster, told, rounds, life, ledger: Ledger::default() }
    }

    /// A message: on to its server, or back to where its Via leads.
    pub(crate) fn handle(&mut self, now: Instant, id: HostId, message: Message, out: &mut Vec<Letter>) {
        self.ledger.charge(Operation::Scan);
        if !message.is_request() || message.is_in_dialog() {
            self.ledger.charge(Operation::VerifyToken);
        }
        self.ledger.charge(Operation::Lookup);
        match message.start {
            Start::Response(status) => self.response(now, id, message, status, out),
            Start::Request => self.request(now, id, message, out),
        }
        self.heed(now);
    }

    fn response(
        &mut self,
        now: Instant,
        id: HostId,
        mut message: Message,
        status: u16,
        out: &mut Vec<Letter>,
    ) {
        message.vias.pop();
        let Some(next) = message.vias.last() else { return };
        let (to, key, direction) = (next.host, key_of(&message), direction_of(&message));
        // Who answers copies the request as it was sent to him.
        if direction == Direction::ToPool
            && let Some(slot) = self.slot_of(message.hop)
        {
            self.core.answered(now, slot);
        }
        let is_refused_cancel = message.method == Method::Cancel && status >= 300;
        if is_refused_cancel && self.core.session(key).is_none() {
            // Every server was asked; those that do not know the INVITE say so, and nobody needs to hear that.
            return self.ledger.charge(Operation::Discard);
        }
        let response = Response {
            key,
            method: message.method,
            cseq: message.cseq(),
            status,
            direction,
            branch: next.branch(),
            tags: Tags::default(),
        };
        self.core.response(now, &response);
        self.ledger.charge(Operation::Forward);
        out.push(Letter::new(id, Sent { to, message }));
    }

    fn request(&mut self, now: Instant, id: HostId, mut message: Message, out: &mut Vec<Letter>) {
        let direction = direction_of(&message);
        let has_token = message.is_in_dialog() && message.route.last() == Some(&id);
        if has_token {
            message.route.pop();
        }
        // What a token in Record-Route names: servers stand right behind the balancer, so it is the one that has the call.
        let pinned = if has_token { self.slot_of(message.target) } else { None };
        let call_id = message.call.generation.to_be_bytes();
        let request = Request {
            key: key_of(&message),
            call_id: &call_id,
            method: message.method,
            cseq: message.cseq(),
            in_dialog: message.is_in_dialog(),
            direction,
            pinned,
            by_token: pinned.is_some(),
            // Nobody invents tags here, and no call is answered twice.
            tags: Tags::default(),
            branch: message.top().branch(),
        };
        match self.core.request(now, &request) {
            Decision::Forward { slot, why } => {
                if matches!(why, Why::Policy | Why::Moved) {
                    self.ledger.charge(Operation::Choose);
                    self.ledger.charge(Operation::CreateSession);
                }
                let to = match direction {
                    Direction::ToPool => self.host_of(slot),
                    Direction::FromPool => *message.route.last().unwrap_or(&HostId::AGENTS),
                };
                self.forward(id, message, to, out);
            }
            Decision::Search => {
                for slot in (0..self.servers.len() as u16).map(Slot) {
                    self.forward(id, message, self.host_of(slot), out);
                }
            }
            Decision::Orphan => self.refuse(id, &message, 481, out),
            Decision::NoServer | Decision::NoRoom => self.refuse(id, &message, 503, out),
        }
    }

    fn forward(&mut self, id: HostId, mut message: Message, to: HostId, out: &mut Vec<Letter>) {
        if message.is_initial_invite() {
            self.ledger.charge(Operation::MakeToken);
            message.route.push(id);
        }
        // RFC 3261 §16.11: the branch depends on the request alone.
        self.ledger.charge(Operation::MakeToken);
        self.ledger.charge(Operation::Forward);
        message.vias.push(Via::new(id, message.top().branch()));
        message.stage += 1;
        message.hop = to;
        out.push(Letter::new(id, Sent { to, message }));
    }

    fn refuse(&mut self, id: HostId, request: &Message, status: u16, out: &mut Vec<Letter>) {
        if request.method == Method::Ack {
            return self.ledger.charge(Operation::Discard);
        }
        self.ledger.charge(Operation::Reject);
        let refusal = request.response(status, id);
        out.push(Letter::new(id, Sent { to: request.top().host, message: refusal }));
    }

    fn host_of(&self, slot: Slot) -> HostId {
        HostId(self.servers.start + slot.0)
    }

    fn slot_of(&self, host: HostId) -> Option<Slot> {
        self.servers.contains(&host.0).then(|| Slot(host.0 - self.servers.start))
    }

    /// What the traffic says about the health of servers.
    fn heed(&mut self, now: Instant) {
        for sign in self.core.drain_signs() {
            self.cluster.sign(now, sign);
        }
        for effect in self.cluster.drain_effects() {
            self.rounds.iter_mut().for_each(|rounds| rounds.carry_out(effect));
        }
        if self.told != self.cluster.version() {
            self.told = self.cluster.version();
            self.core.set_nodes(self.cluster.nodes());
        }
    }

    /// Does what is due: ends leases and sessions, sends probes.
    pub(crate) fn tick(&mut self, now: Instant, id: HostId, out: &mut Vec<Letter>) {
        for _ in 0..self.core.expire(now) {
            self.ledger.charge(Operation::Expire);
        }
        let Self { rounds, cluster, life, .. } = self;
        if let Some(rounds) = rounds {
            rounds.tick(now, |step| match step {
                Step::Send(ask) => out.push(Letter::new(id, probe(id, *life, ask))),
                Step::Note(outcome) => outcome.apply(now, cluster),
            });
        }
        self.heed(now);
    }

    /// The answer to a probe.
    pub(crate) fn answered(&mut self, now: Instant, from: HostId, message: &Message) {
        let Start::Response(status) = message.start else { return };
        let CallId { at: life, generation: cseq } = message.call;
        let is_it = |ask: &Ask<HostId>| (life, ask.address, ask.cseq) == (self.life, from, cseq);
        if let Some(outcome) = self.rounds.as_mut().and_then(|rounds| rounds.answered(status, None, is_it)) {
            outcome.apply(now, &mut self.cluster);
            self.heed(now);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        Instant::earliest(self.core.deadline(), self.rounds.as_ref().and_then(Rounds::deadline))
    }

    pub(crate) fn transactions(&self) -> usize {
        self.core.open_transactions()
    }

    /// Of each server: occupancies that arriving transactions met, and how often (TLWL paper, section V).
    pub(crate) fn occupancy(&self) -> impl Iterator<Item = (HostId, Vec<(u64, u64)>)> + '_ {
        self.servers.clone().enumerate().map(|(slot, host)| {
            let met = self.core.stats(Slot(slot as u16)).occupancy.iter_recorded();
            (
                HostId(host),
                met.map(|met| (met.value_iterated_to(), u64::from(met.count_at_value()))).collect(),
            )
        })
    }

    /// Whether every load equals the sum of its leases.
    pub(crate) fn audit(&self) -> Result<(), String> {
        self.core.audit()
    }
}

fn probe(id: HostId, life: u32, ask: Ask<HostId>) -> Sent {
    let message = Message {
        start: Start::Request,
        method: Method::Options,
        by_callee: false,
        to_tag: None,
        stage: 0,
        stream: 0,
        retry_after: 0,
        target: ask.address,
        hop: HostId::AGENTS,
        call: CallId { at: life, generation: ask.cseq },
        vias: Vias::one(Via::new(id, ask.cseq)),
        route: Route::none(),
    };
    Sent { to: ask.address, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_probed_as_the_server_does_by_default() {
        let text = "[listen]\nudp = [\"192.0.2.1:5060\"]\n[pool.servers]\nmembers = [\"192.0.2.2\"]\n";
        let config = config::parse(text, "default.toml").expect("a right file");
        let pool = config.pool().expect("it has one");
        let config::Probe { enabled, interval, timeout, fall, rise } = pool.probe;
        let here = probe_settings(&config::scenario::Timers::default());
        assert_eq!((here.periodic, here.interval, here.timeout), (enabled, interval, timeout));
        let health = HealthSettings::default();
        assert_eq!((health.fall, health.rise, health.slow_start), (fall, rise, pool.slow_start));
        assert_eq!(health.max_rest, pool.max_rest);
        assert_eq!(health.forget_after, pool.forget_after);
    }
}
