//! The balancer of the model: [`balance::Balancer`] between typed messages.

use super::message::{HostId, Letter, Message, Sent, Start, Via};
use balance::{
    CallKey, Cluster, Decision, Direction, HealthSettings, Member, NodeId, Request, Response, Settings, Slot,
    Why,
};
use base::{Instant, Ledger, Operation};
use core::time::Duration;
use std::ops::Range;
use wire::Method;

/// A balancer and the servers behind it.
pub(crate) struct Balancer {
    core: balance::Balancer,
    servers: Range<u16>,
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

impl Balancer {
    /// `capacity` of each server is what the policy is told; a server may be slower than that.
    pub(crate) fn new(
        servers: Range<u16>,
        capacity: impl Fn(HostId) -> f64,
        policy: Box<dyn balance::Policy>,
        settings: Settings,
    ) -> Self {
        let health = HealthSettings { fall: 2, rise: 1, slow_start: Duration::ZERO };
        let mut cluster = Cluster::new(health);
        let member =
            |host: u16| Member { id: NodeId(host.into()), capacity: capacity(HostId(host)), max_calls: 0 };
        cluster.set_members(Instant::ZERO, &servers.clone().map(member).collect::<Vec<_>>());
        let mut core = balance::Balancer::new(settings, policy);
        core.set_nodes(cluster.nodes());
        Self { core, servers, ledger: Ledger::default() }
    }

    /// A message: on to its server, or back to where its Via leads.
    pub(crate) fn handle(&mut self, now: Instant, id: HostId, mut message: Message, out: &mut Vec<Letter>) {
        let from_pool = message.by_callee;
        let direction = if from_pool { Direction::FromPool } else { Direction::ToPool };
        let key = key_of(&message);
        self.ledger.charge(Operation::Scan);
        if !message.is_request() || message.is_in_dialog() {
            self.ledger.charge(Operation::VerifyToken);
        }
        self.ledger.charge(Operation::Lookup);
        match message.start {
            Start::Response(status) => {
                message.vias.pop();
                let Some(next) = message.vias.last() else { return };
                let to = next.host;
                let response = Response {
                    key,
                    method: message.method,
                    cseq: message.cseq(),
                    status,
                    direction,
                    branch: next.branch(),
                    dialog: 1,
                };
                self.core.response(now, &response);
                self.ledger.charge(Operation::Forward);
                out.push(Letter::new(id, Sent { to, message }));
            }
            Start::Request => {
                let call_id = message.call.generation.to_be_bytes();
                let request = Request {
                    key,
                    call_id: &call_id,
                    method: message.method,
                    cseq: message.cseq(),
                    in_dialog: message.is_in_dialog(),
                    direction,
                    pinned: None,
                    by_token: false,
                    branch: message.top().branch(),
                };
                let Decision::Forward { slot, why } = self.core.request(now, &request) else {
                    let refusal = message.response(503, id);
                    if message.method == Method::Ack {
                        self.ledger.charge(Operation::Discard);
                    } else {
                        self.ledger.charge(Operation::Reject);
                        out.push(Letter::new(id, Sent { to: message.top().host, message: refusal }));
                    }
                    return;
                };
                if matches!(why, Why::Policy | Why::Moved) {
                    self.ledger.charge(Operation::Choose);
                    self.ledger.charge(Operation::CreateSession);
                }
                if message.is_in_dialog() && message.route.last() == Some(&id) {
                    message.route.pop();
                }
                if message.is_initial_invite() {
                    self.ledger.charge(Operation::MakeToken);
                    message.route.push(id);
                }
                // RFC 3261 §16.11: the branch depends on the request alone.
                self.ledger.charge(Operation::MakeToken);
                self.ledger.charge(Operation::Forward);
                message.vias.push(Via::new(id, message.top().branch()));
                message.stage += 1;
                let to = if from_pool { HostId::AGENTS } else { HostId(self.servers.start + slot.0) };
                out.push(Letter::new(id, Sent { to, message }));
            }
        }
        self.core.drain_signs().for_each(drop);
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        for _ in 0..self.core.expire(now) {
            self.ledger.charge(Operation::Expire);
        }
        self.core.drain_signs().for_each(drop);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.core.deadline()
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
