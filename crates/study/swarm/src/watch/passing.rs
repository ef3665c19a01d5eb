//! Requests that a proxy forwards without a transaction, because call state is shared out (RFC 3261 §16.11). Also the
//! marks that say whether another proxy keeps the state of the call (docs/chain.md).

use super::ProcessRule;
use super::transactions::{ClientId, ServerId};
use crate::call::{RequestName, request_of};
use base::Instant;
use core::time::Duration;
use distribute::{Function, Mark};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use wire::{Message, Method};

/// Destination and branch of a forwarded request.
struct Way {
    to: SocketAddr,
    branch: Vec<u8>,
    /// Whether it is within a dialog. The proxy keeps nothing about such a request, so its copies get another branch
    /// after a key change.
    is_within: bool,
}

/// Start of the refusal of a call for which there is no room.
const FULL: &[u8] = b"SIP/2.0 503 Too Many Transactions";
/// Shortest time for which a neighbour's notice counts.
const NOTICE_VALIDITY: Duration = Duration::from_secs(3);

/// Stateless requests of one proxy.
pub(super) struct Passing {
    /// The shared function.
    function: Function,
    /// Addresses of the other proxies that share it.
    neighbours: Vec<IpAddr>,
    /// First copy of each request that was passed on since the process started.
    passed: BTreeMap<ServerId, Way>,
    /// The calls of these requests.
    calls: BTreeSet<RequestName>,
    /// Branches of forwarded requests. A restarted process can still forward responses to these requests.
    sent: BTreeMap<ClientId, Vec<u8>>,
    /// By Call-ID and token in the Record-Route of this proxy: whether requests with this token get a transaction.
    keeps_state: BTreeMap<(Vec<u8>, Vec<u8>), bool>,
    /// When neighbours last reported their utilisation.
    notices: BTreeMap<SocketAddr, Instant>,
    /// Requests refused by this proxy, with the tag of its response. Their ACKs end here, even if copies were
    /// forwarded.
    refused: BTreeSet<(ServerId, Vec<u8>)>,
    /// Call-IDs of forwarded INVITEs without a response.
    unheard: BTreeSet<Vec<u8>>,
}

/// Returns true if the topmost Via says that another proxy performs this function.
fn is_marked(message: &Message<'_>, function: Function) -> bool {
    let mut params = message.top_via().params(message.bytes());
    let mark = params.find(|param| param.name == Mark::PARAMETER.as_bytes());
    mark.and_then(|param| Mark::parse(param.value?)).is_some_and(|mark| mark.has(function))
}

impl Passing {
    pub(super) fn new(function: Function, neighbours: Vec<IpAddr>) -> Self {
        Self {
            function,
            neighbours,
            passed: BTreeMap::new(),
            calls: BTreeSet::new(),
            sent: BTreeMap::new(),
            keeps_state: BTreeMap::new(),
            notices: BTreeMap::new(),
            refused: BTreeSet::new(),
            unheard: BTreeSet::new(),
        }
    }

    pub(super) fn restarted(&mut self) {
        self.passed.clear();
        self.calls.clear();
        self.notices.clear();
        self.unheard.clear();
    }

    /// A new key makes other branches.
    pub(super) fn rekeyed(&mut self) {
        self.passed.retain(|_, way| !way.is_within);
    }

    pub(super) fn has(&self, id: &ServerId) -> bool {
        self.passed.contains_key(id)
    }

    /// This proxy refused a request.
    pub(super) fn refuses(&mut self, id: &ServerId, answer: &Message<'_>) {
        self.refused.insert((id.clone(), answer.to_tag().unwrap_or_default().to_vec()));
    }

    /// Returns true if an ACK belongs to such a refusal of this INVITE.
    pub(super) fn has_refused(&self, invite: &ServerId, ack: &Message<'_>) -> bool {
        self.refused.contains(&(invite.clone(), ack.to_tag().unwrap_or_default().to_vec()))
    }

    /// Returns true if a request within a dialog has a token of this proxy that requires no transaction.
    pub(super) fn is_stateless_by_token(&self, request: &Message<'_>, token: Option<Vec<u8>>) -> bool {
        token.and_then(|token| self.keeps_state.get(&(request.call_id().to_vec(), token))) == Some(&false)
    }

    /// A Record-Route with this token was added. `is_kept`: its requests get a transaction.
    pub(super) fn recorded(&mut self, call_id: &[u8], token: Vec<u8>, is_kept: bool) {
        self.keeps_state.insert((call_id.to_vec(), token), is_kept);
    }

    /// A response replaces one token by another.
    pub(super) fn handed_over(&mut self, call_id: &[u8], before: Vec<u8>, after: Vec<u8>) {
        if let Some(&is_kept) = self.keeps_state.get(&(call_id.to_vec(), before)) {
            self.keeps_state.insert((call_id.to_vec(), after), is_kept);
        }
    }

    /// A request was forwarded. Its copies, its CANCEL and the ACK to its failure must have the same target and branch.
    pub(super) fn went(&mut self, id: &ServerId, message: &Message<'_>, to: SocketAddr) {
        let branch = message.top_via().branch.unwrap_or_default().to_vec();
        let method = message.cseq().method_name.of(message.bytes()).to_vec();
        if method != b"ACK" {
            self.sent.insert((branch.to_ascii_lowercase(), method), message.call_id().to_vec());
        }
        if message.method() == Some(Method::Invite) && !self.has(id) {
            self.unheard.insert(message.call_id().to_vec());
        }
        if message.to_tag().is_none() {
            self.calls.insert(request_of(message));
        }
        let is_within = message.to_tag().is_some();
        let way = || Way { to, branch: branch.clone(), is_within };
        let first = self.passed.entry(id.clone()).or_insert_with(way);
        let name = message.cseq().method.name();
        ProcessRule::StatelessTarget
            .holds(first.to == to, format_args!("{name} to {to}, first {}", first.to));
        ProcessRule::StatelessBranch.holds(first.branch == branch, format_args!("{name} to {to}"));
    }

    /// Returns true if this response belongs to a request that was passed on.
    pub(super) fn answers(&mut self, id: &ClientId) -> bool {
        let call = self.sent.get(id);
        if let Some(call) = call {
            self.unheard.remove(call);
        }
        call.is_some()
    }

    pub(super) fn unheard(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.unheard.iter().cloned()
    }

    /// A neighbour sent a response, perhaps with a notice.
    pub(super) fn heard(&mut self, now: Instant, response: &Message<'_>, from: SocketAddr) {
        let mut params = response.top_via().params(response.bytes());
        if params.any(|param| param.name == self.function.notice_parameter().as_bytes()) {
            self.notices.insert(from, now);
        }
    }

    /// Checks the refusal of a new call for lack of room: wrong if all its possible next hops would have kept the
    /// state.
    pub(super) fn check_room(&self, now: Instant, hops: &[SocketAddr], answer: &[u8]) {
        let knows = |hop: &SocketAddr| self.notices.get(hop).is_some_and(|at| now < *at + NOTICE_VALIDITY);
        let is_refused = answer.starts_with(FULL) && !hops.is_empty() && hops.iter().all(knows);
        ProcessRule::RefusedDespiteRoom.holds(!is_refused, format_args!("next hops {hops:?}"));
    }

    /// Checks the marks of a request outside dialogs, and that one proxy at most keeps its call. `is_kept`: this proxy
    /// keeps it. Copies follow the first request.
    pub(super) fn check_marks(
        &self,
        (request, from): (&Message<'_>, SocketAddr),
        (forwarded, to): (&Message<'_>, SocketAddr),
        is_kept: bool,
    ) {
        let is_neighbour = |at: SocketAddr| self.neighbours.contains(&at.ip());
        let came_kept = is_neighbour(from) && is_marked(request, self.function);
        let call = request.call_id().escape_ascii();
        ProcessRule::StateKeptTwice.holds(!(came_kept && is_kept), format_args!("call {call} of {from}"));
        let has_keeper = came_kept || is_kept;
        if is_neighbour(to) {
            let is_marked_kept = is_marked(forwarded, self.function);
            ProcessRule::WrongMark.holds(
                is_marked_kept == has_keeper,
                format_args!("call {call} to {to}: {is_marked_kept}, not {has_keeper}"),
            );
        } else {
            let is_copy = self.calls.contains(&request_of(request));
            ProcessRule::StateNotKept.holds(has_keeper || is_copy, format_args!("call {call} to {to}"));
        }
    }
}
