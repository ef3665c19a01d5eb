//! Edits and routes typed messages: the simulator's counterpart of editing bytes.

use super::keeping::{NetworkState, ProxyModel, StateKeeping};
use super::message::{CallId, HostId, ModelMessage, ModelVia, Sent};
use base::Rng;
use config::scenario::{Scenario, ScenarioFeedback, Select};
use overload::end_to_end::{DownstreamPath, TargetServer};
use overload::hop::RequestOutcome;
use overload::{MessageClass, RequestPath, Settled};
use proxy::{Answered, Attempt, Form, KeptRequest, Medium, NewBranch, ProxyEvent, ProxyRefusal};
use rand::RngCore;
use std::ops::Range;
use std::sync::Arc;
use transaction::{TransactionKey, TransportKind};
use wire::Method;

/// Topology: the hosts of each group, and the groups on each stream's path.
#[derive(Debug)]
pub(crate) struct Map {
    /// Hosts of each group.
    pub(crate) groups: Vec<Range<u16>>,
    /// Group of each host.
    pub(crate) group_of: Vec<u16>,
    /// Groups on the path of each stream.
    pub(crate) paths: Vec<Vec<usize>>,
    /// Transport between agents and hosts, by stream.
    pub(crate) to_agents: Vec<TransportKind>,
    /// Transport between hosts, by the sender's group.
    pub(crate) to_hosts: Vec<TransportKind>,
    /// Overload feedback that each group exchanges with its neighbours.
    pub(crate) feedback: Vec<ScenarioFeedback>,
    /// How the proxies keep the state of calls.
    pub(crate) state: NetworkState,
    /// Generates Call-IDs.
    call_ids: Rng,
}

impl Map {
    pub(crate) fn new(scenario: &Scenario, state: NetworkState, rng: &Rng) -> Self {
        let mut groups = Vec::new();
        let mut group_of = Vec::new();
        for (index, group) in scenario.groups.iter().enumerate() {
            let start = group_of.len() as u16;
            group_of.extend(std::iter::repeat_n(index as u16, group.count.into()));
            groups.push(start..start + group.count);
        }
        Self {
            groups,
            group_of,
            paths: scenario.streams.iter().map(|stream| stream.path.clone()).collect(),
            to_agents: scenario.streams.iter().map(|stream| stream.transport.into()).collect(),
            to_hosts: scenario.groups.iter().map(|group| group.transport.into()).collect(),
            feedback: scenario.groups.iter().map(|group| group.overload.feedback).collect(),
            state,
            call_ids: rng.fork("call-ids"),
        }
    }

    /// Call-ID of a call: equal for all its messages, and different between calls like random numbers.
    pub(crate) fn call_id(&self, call: CallId) -> u64 {
        self.call_ids.number_of(call.generation.into())
    }

    /// Whether a host is a proxy whose marks and notices about state count.
    pub(crate) fn shares_state(&self, host: HostId) -> bool {
        host != HostId::AGENTS && self.state.shares(self.group_of[host.index()].into())
    }

    /// Hosts of the group that an initial request enters at a stage of its path.
    pub(crate) fn stage(&self, stream: u16, stage: usize) -> Range<u16> {
        self.groups[self.paths[stream as usize][stage]].clone()
    }

    /// Hosts of the group that follows this group on a path: the servers behind a balancer.
    pub(crate) fn after(&self, group: usize) -> Range<u16> {
        let follows = |path: &Vec<usize>| path.windows(2).find(|pair| pair[0] == group).map(|pair| pair[1]);
        self.paths.iter().find_map(follows).map_or(0..0, |next| self.groups[next].clone())
    }

    /// Transport of messages from one host to another. Either may be the agents.
    pub(crate) fn transport(&self, from: HostId, to: HostId, stream: u16) -> TransportKind {
        if from == HostId::AGENTS || to == HostId::AGENTS {
            self.to_agents[stream as usize]
        } else {
            // A connection is reliable only if both sides use a reliable transport.
            let of = |host: HostId| self.to_hosts[self.group_of[host.index()] as usize];
            match (of(from), of(to)) {
                (TransportKind::Reliable, TransportKind::Reliable) => TransportKind::Reliable,
                _ => TransportKind::Unreliable,
            }
        }
    }
}

/// Routing information of a proxy in the model.
#[derive(Debug)]
pub(crate) struct Router {
    map: Arc<Map>,
    host: HostId,
    select: Select,
    retry: bool,
    /// Whether all requests of a call take the same path.
    by_call: bool,
    rng: Rng,
    turn: u16,
    /// Answered requests since the host last read this list.
    settled: Vec<Settled<HostId>>,
}

impl Router {
    pub(crate) fn new(map: Arc<Map>, host: HostId, select: Select, retry: bool, rng: Rng) -> Self {
        let by_call = map.state.of(map.group_of[host.index()].into()) != StateKeeping::Always;
        Self { map, host, select, retry, by_call, rng, turn: 0, settled: Vec::new() }
    }

    /// Removes and returns the requests answered since the last call.
    pub(crate) fn drain_settled(&mut self) -> impl Iterator<Item = Settled<HostId>> + '_ {
        self.settled.drain(..)
    }

    /// Drops the list of answered requests, which is not used.
    pub(crate) fn forget_settled(&mut self) {
        self.settled.clear();
    }

    /// Transport of a received message.
    pub(crate) fn transport_of(&self, message: &ModelMessage) -> TransportKind {
        self.map.transport(self.host, message.top().host, message.stream)
    }

    /// Transport of a message, also a response, received from this host.
    pub(crate) fn transport_from(&self, from: HostId, message: &ModelMessage) -> TransportKind {
        self.map.transport(from, self.host, message.stream)
    }

    /// Returns the possible next hosts of a request, usually one.
    pub(crate) fn candidates(&self, request: &ModelMessage) -> Candidates {
        if request.is_in_dialog() {
            return Candidates::One(request.route.last().copied().unwrap_or(HostId::AGENTS));
        }
        let path = &self.map.paths[request.stream as usize];
        match usize::from(request.stage) + 1 {
            next if next >= path.len() => Candidates::One(HostId::AGENTS),
            next if next + 1 == path.len() => Candidates::One(request.target),
            next => Candidates::Any(self.map.stage(request.stream, next)),
        }
    }

    /// Returns the neighbours before and after this host, for a request whose next hop is chosen.
    pub(crate) fn way(
        &self,
        from: HostId,
        class: MessageClass,
        request: &ModelMessage,
    ) -> RequestPath<HostId> {
        RequestPath {
            from: from.server(),
            takes_feedback: self.takes_feedback(from),
            to: request.hop.server(),
            path: class.is_new().then(|| self.path(request)),
            is_onward: false,
        }
    }

    /// Whether a neighbour has the same feedback as this host.
    fn takes_feedback(&self, from: HostId) -> bool {
        let of = |host: HostId| self.map.feedback[self.map.group_of[host.index()] as usize];
        from != HostId::AGENTS && of(from) == of(self.host)
    }

    /// Returns the rest of a new call's path from this host.
    fn path(&self, message: &ModelMessage) -> DownstreamPath {
        self.path_after(message, message.stage.into())
    }

    /// Returns the rest of the path, from this host, of the request that a response answers. `None` for requests off
    /// the path of calls: a callee's request runs in the opposite direction, a CANCEL only from one host to the next.
    pub(crate) fn path_answered(&self, response: &ModelMessage) -> Option<DownstreamPath> {
        // One Via is the caller's, and each earlier host has added one.
        let passed = response.vias.len() - 1;
        let is_along = !response.by_callee && response.method != Method::Cancel;
        is_along.then(|| self.path_after(response, passed))
    }

    /// `passed`: number of hosts before this one.
    fn path_after(&self, message: &ModelMessage, passed: usize) -> DownstreamPath {
        let hosts = self.map.paths[message.stream as usize].len();
        DownstreamPath { target: TargetServer(message.target.0.into()), hops: (hosts - 1 - passed) as u8 }
    }

    /// Returns a number for the call of a request, equal for all requests of the call.
    fn draw_by_call(&self, request: &ModelMessage) -> u32 {
        // Also equal after a restart.
        let of_host = u64::from(self.host.0) + 1;
        self.map.call_ids.number_of(of_host << 32 | u64::from(request.call.generation)) as u32
    }

    /// Chooses the next host of a request, before it waits for the processor.
    pub(crate) fn choose(&mut self, request: &mut ModelMessage, mut available: impl FnMut(HostId) -> bool) {
        request.hop = match self.candidates(request) {
            Candidates::One(host) => host,
            Candidates::Any(hosts) => {
                let count = hosts.len() as u16;
                let of = |drawn: u32| ((u64::from(drawn) * u64::from(count)) >> 32) as u16;
                let first = match self.select {
                    // Without state, copies of a request must take the same path (RFC 3261 §16.11).
                    _ if self.by_call => of(self.draw_by_call(request)),
                    Select::Random => of(self.rng.next_u32()),
                    Select::RoundRobin => {
                        self.turn = self.turn.wrapping_add(1);
                        self.turn % count
                    }
                };
                let by_turn = |step: u16| HostId(hosts.start + (first + step) % count);
                (0..count).map(by_turn).find(|host| available(*host)).unwrap_or(by_turn(0))
            }
        };
    }
}

/// Possible next hosts of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Candidates {
    One(HostId),
    Any(Range<u16>),
}

/// Messages as small typed values.
#[derive(Debug)]
pub(crate) enum Typed {}

impl KeptRequest for ModelMessage {
    type Back = ();

    fn back(&self) {}
}

impl Form for Typed {
    type Message = Sent;
    type Request = ModelMessage;
    type Call = ();
    type Hop = HostId;
    type Medium<'a> = &'a mut Editor;
    type Router<'a> = &'a mut Router;
}

/// Edits the messages of a host.
#[derive(Debug)]
pub(crate) struct Editor {
    map: Arc<Map>,
    host: HostId,
}

impl Editor {
    pub(crate) fn new(map: Arc<Map>, host: HostId) -> Self {
        Self { map, host }
    }
}

impl Medium<Typed> for &mut Editor {
    fn call(&self, _request: &ModelMessage) {}

    fn transport(&self, request: &ModelMessage, hop: HostId, _: &Sent) -> TransportKind {
        self.map.transport(self.host, hop, request.stream)
    }

    fn forward(
        &mut self,
        request: &ModelMessage,
        hop: HostId,
        branch: Option<NewBranch>,
    ) -> (Sent, TransactionKey) {
        let branch = branch.map_or_else(|| request.stateless_branch(), |new| new.serial as u32 & !(1 << 31));
        let mut message = *request;
        message.vias.push(ModelVia::new(self.host, branch));
        if request.is_initial_invite() {
            message.route.push(self.host);
        }
        message.stage += 1;
        let key = message.client_key();
        (Sent { to: hop, message }, key)
    }

    fn relay(&mut self, _: Answered<'_, ModelMessage>, response: &ModelMessage) -> Option<Sent> {
        let mut message = *response;
        message.vias.pop();
        let to = message.vias.last()?.host;
        Some(Sent { to, message })
    }

    /// No server of the model asks for credentials.
    fn add_challenges(&mut self, _: &mut Sent, _: &ModelMessage) {}

    fn respond(&mut self, request: &ModelMessage, status: u16) -> Option<Sent> {
        let is_silent = status == 100 && self.map.state.model == ProxyModel::OfPaper { trying: false };
        (!is_silent).then(|| Sent { to: request.top().host, message: request.response(status, self.host) })
    }

    fn tries_at_once(&self, request: &ModelMessage) -> bool {
        let is_shared = |host| self.map.shares_state(host);
        self.map.state.model != ProxyModel::OfServer
            || !(is_shared(self.host) && is_shared(request.top().host))
    }

    fn cancel(&mut self, invite: &Sent) -> (Sent, TransactionKey) {
        let cancel = invite.sibling(Method::Cancel, None);
        let key = cancel.message.client_key();
        (cancel, key)
    }
}

impl proxy::Router<Typed> for &mut Router {
    fn next_hop(&mut self, request: &mut ModelMessage, attempt: Attempt) -> Result<HostId, ProxyRefusal> {
        if attempt.alternate == 0 {
            return Ok(request.hop);
        }
        match self.candidates(request) {
            Candidates::One(host) => Ok(host),
            Candidates::Any(hosts) => {
                let count = hosts.len() as u16;
                let first = request.hop.0 - hosts.start;
                Ok(HostId(hosts.start + (first + u16::from(attempt.alternate)) % count))
            }
        }
    }

    fn has_alternate(&self, request: &ModelMessage, attempt: Attempt) -> bool {
        if !self.retry {
            return false;
        }
        let count = match self.candidates(request) {
            Candidates::One(_) => 1,
            Candidates::Any(hosts) => hosts.len(),
        };
        usize::from(attempt.alternate) + 1 < count
    }

    fn settled(&mut self, request: &mut ModelMessage, attempt: Attempt, event: ProxyEvent, last: bool) {
        if request.is_initial_invite()
            && let Ok(hop) = self.next_hop(request, attempt)
        {
            let (from, to) = (request.top().host.server(), hop.server());
            let status = if let ProxyEvent::Response(status) = event { Some(status) } else { None };
            self.settled.push(Settled { from, to, outcome: RequestOutcome::of(status), is_last: last });
        }
    }
}
