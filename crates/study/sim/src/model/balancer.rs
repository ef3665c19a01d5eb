//! The balancer of the model: [`balance::Balancer`] on typed messages, with [`control::Membership`] for probes and for
//! the servers' health from probes and traffic.

use super::medium::Map;
use super::message::{CallId, HostId, LinkMessage, ModelMessage, ModelStart, ModelVia, Route, Sent, Vias};
use balance::{
    CallKey, Direction, HealthSettings, NodeDecision, NodeId, PoolId, RequestFacts, Response,
    SessionSettings, Slot, Tags, Why,
};
use base::{Instant, Ledger, Operation};
use control::{Membership, Probe, ProbeSettings, ReachableMember};
use std::ops::Range;
use std::sync::Arc;
use wire::Method;

/// A balancer and the servers behind it.
pub(crate) struct Balancer {
    core: balance::Balancer,
    map: Arc<Map>,
    servers: Range<u16>,
    members: Membership<HostId>,
    /// Version of the members that the core has.
    known_version: (u64, u64),
    /// Without probes, failures are not noticed: a real server's closed port would cause an ICMP error, which the model
    /// does not have.
    is_probing: bool,
    /// Number of this process's life, so that answers to an earlier life's probes are ignored.
    life: u32,
    /// Operations that the server's shard does around its balancer for the same messages.
    pub(crate) ledger: Ledger,
}

/// Key that a balancer makes of a Call-ID. The number of the call makes it unique for certain.
fn key_of(call_id: u64, message: &ModelMessage) -> CallKey {
    CallKey(u128::from(call_id) << 64 | u128::from(message.call.generation))
}

fn direction_of(message: &ModelMessage) -> Direction {
    if message.by_callee { Direction::FromPool } else { Direction::ToPool }
}

impl Balancer {
    /// `capacity` is the capacity of each server as the policy sees it. The real capacity may be lower.
    pub(crate) fn new(
        (now, life): (Instant, u32),
        map: Arc<Map>,
        (servers, capacity): (Range<u16>, impl Fn(HostId) -> f64),
        policy: Box<dyn balance::Policy>,
        settings: SessionSettings,
        health: HealthSettings,
        probes: Option<ProbeSettings>,
    ) -> Self {
        let member = |host: u16| ReachableMember {
            name: String::new(),
            label: None,
            id: NodeId(host.into()),
            address: HostId(host),
            capacity: capacity(HostId(host)),
            max_calls: 0,
            max_rate: 0,
            pools: vec![PoolId::default()],
        };
        let mut members = Membership::new(&[(health, probes.unwrap_or_default())]);
        members.set_members(now, &servers.clone().map(member).collect::<Vec<_>>(), false);
        let mut core = balance::Balancer::new(settings, policy);
        core.set_nodes(members.nodes());
        let (known_version, is_probing) = (members.version(), probes.is_some());
        Self { core, map, servers, members, known_version, is_probing, life, ledger: Ledger::default() }
    }

    /// Forwards a request to its server, or a response to its next Via.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        id: HostId,
        message: ModelMessage,
        out: &mut Vec<LinkMessage>,
    ) {
        self.ledger.charge(Operation::Scan);
        if !message.is_request() || message.is_in_dialog() {
            self.ledger.charge(Operation::VerifyToken);
        }
        self.ledger.charge(Operation::Lookup);
        match message.start {
            ModelStart::Response(status) => self.response(now, id, message, status, out),
            ModelStart::Request => self.request(now, id, message, out),
        }
        self.heed(now);
    }

    fn response(
        &mut self,
        now: Instant,
        id: HostId,
        mut message: ModelMessage,
        status: u16,
        out: &mut Vec<LinkMessage>,
    ) {
        message.vias.pop();
        let Some(next) = message.vias.last() else { return };
        let key = key_of(self.map.call_id(message.call), &message);
        let (to, direction) = (next.host, direction_of(&message));
        // A response copies `hop` from the request that the server received.
        if direction == Direction::ToPool
            && let Some(slot) = self.slot_of(message.hop)
        {
            self.core.answered(now, slot);
        }
        let is_refused_cancel = message.method == Method::Cancel && status >= 300;
        if is_refused_cancel && self.core.session(key).is_none() {
            // Every server was asked, and servers without the INVITE answer 481: those answers are dropped.
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
        out.push(LinkMessage::new(id, Sent { to, message }));
    }

    fn request(&mut self, now: Instant, id: HostId, mut message: ModelMessage, out: &mut Vec<LinkMessage>) {
        let direction = direction_of(&message);
        let has_token = message.is_in_dialog() && message.route.last() == Some(&id);
        if has_token {
            message.route.pop();
        }
        // A token in Record-Route names the server of the call, because servers come right after the balancer.
        let pinned = if has_token { self.slot_of(message.target) } else { None };
        let call_id = self.map.call_id(message.call);
        let request = RequestFacts {
            key: key_of(call_id, &message),
            call_id: &call_id.to_be_bytes(),
            pool: PoolId::default(),
            method: message.method,
            cseq: message.cseq(),
            in_dialog: message.is_in_dialog(),
            direction,
            pinned,
            by_token: pinned.is_some(),
            // The model has no invented tags, and no call is answered twice.
            started_by_peer: false,
            tags: Tags::default(),
            has_priority: false,
            branch: message.top().branch(),
        };
        match self.core.request(now, &request) {
            NodeDecision::Forward { slot, why } => {
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
            NodeDecision::Search => {
                for slot in (0..self.servers.len() as u16).map(Slot) {
                    self.forward(id, message, self.host_of(slot), out);
                }
            }
            NodeDecision::Orphan => self.refuse(id, &message, 481, out),
            NodeDecision::NoServer | NodeDecision::AtLimit(_) | NodeDecision::NoRoom => {
                self.refuse(id, &message, 503, out);
            }
        }
    }

    fn forward(&mut self, id: HostId, mut message: ModelMessage, to: HostId, out: &mut Vec<LinkMessage>) {
        if message.is_initial_invite() {
            self.ledger.charge(Operation::MakeToken);
            message.route.push(id);
        }
        // RFC 3261 §16.11: the branch depends on the request alone.
        self.ledger.charge(Operation::MakeToken);
        self.ledger.charge(Operation::Forward);
        message.vias.push(ModelVia::new(id, message.top().branch()));
        message.stage += 1;
        message.hop = to;
        out.push(LinkMessage::new(id, Sent { to, message }));
    }

    fn refuse(&mut self, id: HostId, request: &ModelMessage, status: u16, out: &mut Vec<LinkMessage>) {
        if request.method == Method::Ack {
            return self.ledger.charge(Operation::Discard);
        }
        self.ledger.charge(Operation::Reject);
        let refusal = request.response(status, id);
        out.push(LinkMessage::new(id, Sent { to: request.top().host, message: refusal }));
    }

    fn host_of(&self, slot: Slot) -> HostId {
        HostId(self.servers.start + slot.0)
    }

    fn slot_of(&self, host: HostId) -> Option<Slot> {
        self.servers.contains(&host.0).then(|| Slot(host.0 - self.servers.start))
    }

    /// Applies the signs of the servers' health from the traffic.
    fn heed(&mut self, now: Instant) {
        for sign in self.core.drain_signs() {
            self.members.sign(now, sign);
        }
        // The model has no log.
        self.members.drain_events().for_each(drop);
        if self.known_version != self.members.version() {
            self.known_version = self.members.version();
            self.core.set_nodes(self.members.nodes());
        }
    }

    /// Ends leases and sessions that are due, and sends probes.
    pub(crate) fn tick(&mut self, now: Instant, id: HostId, out: &mut Vec<LinkMessage>) {
        for _ in 0..self.core.expire(now) {
            self.ledger.charge(Operation::Expire);
        }
        let Self { members, is_probing, life, .. } = self;
        if *is_probing {
            members.tick(now, |probe| out.push(LinkMessage::new(id, options(id, *life, probe))));
        }
        self.heed(now);
    }

    /// Handles the answer to a probe.
    pub(crate) fn answered(&mut self, now: Instant, from: HostId, message: &ModelMessage) {
        let ModelStart::Response(status) = message.start else { return };
        let CallId { at: life, generation: cseq } = message.call;
        let our_life = self.life;
        let is_it = |probe: &Probe<HostId>| (life, probe.address, probe.cseq) == (our_life, from, cseq);
        self.members.answered(now, status, None, is_it);
        self.heed(now);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let probes = self.members.deadline().filter(|_| self.is_probing);
        Instant::earliest(self.core.deadline(), probes)
    }

    pub(crate) fn transactions(&self) -> usize {
        self.core.open_transactions()
    }

    /// Returns for each server the occupancies that arriving transactions met, and how often (TLWL paper, section V).
    pub(crate) fn occupancy(&self) -> impl Iterator<Item = (HostId, Vec<(u64, u64)>)> + '_ {
        self.servers.clone().enumerate().map(|(slot, host)| {
            let histograms = self.core.stats(Slot(slot as u16)).histograms.iter();
            let met = histograms.flat_map(|histograms| histograms.occupancy.iter_recorded());
            (
                HostId(host),
                met.map(|met| (met.value_iterated_to(), u64::from(met.count_at_value()))).collect(),
            )
        })
    }

    /// Checks that every load equals the sum of its leases.
    pub(crate) fn audit(&self) -> Result<(), String> {
        self.core.audit()
    }
}

/// Returns a probe as a message.
fn options(id: HostId, life: u32, probe: Probe<HostId>) -> Sent {
    let message = ModelMessage {
        start: ModelStart::Request,
        method: Method::Options,
        by_callee: false,
        to_tag: None,
        stage: 0,
        stream: 0,
        retry_after: 0,
        target: probe.address,
        hop: HostId::AGENTS,
        keeper: HostId::AGENTS,
        call: CallId { at: life, generation: probe.cseq },
        vias: Vias::one(ModelVia::new(id, probe.cseq)),
        route: Route::none(),
    };
    Sent { to: probe.address, message }
}
