//! Observers of one balancer: its messages, and the state that it reports.

use crate::RunRule;
use crate::process::{BalancerState, Process};
use crate::watch::Hop;
use crate::{BalancerWatch, Sent};
use balance::{Load, TableCounts};
use base::Instant;
use core::time::Duration;
use node::ProxyReport;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Key of a request, equal in all its copies: Call-ID, CSeq number, method, sent-by and branch of the client.
pub(super) type RequestKey = Vec<u8>;

/// Destination and branch of a forwarded request.
#[derive(Clone)]
struct Way {
    to: SocketAddr,
    branch: Vec<u8>,
}

/// Observations of one process since it started.
#[derive(Default)]
struct Life {
    calls: BTreeSet<Vec<u8>>,
    /// Received requests, where requests are forwarded with a transaction.
    received: BTreeSet<RequestKey>,
    /// Call-IDs of its INVITEs without a final response.
    unsettled: BTreeSet<Vec<u8>>,
    /// Call-IDs of INVITEs neither forwarded nor answered yet, with the latest time for that.
    waiting: BTreeMap<Vec<u8>, Instant>,
    ways: BTreeMap<RequestKey, Way>,
}

/// Observers of the processes that share an address.
pub(super) struct BalancerChecker {
    watch: BalancerWatch,
    hop: Hop,
    /// Whether new requests are forwarded with a transaction: the balancer then retransmits them and tries other
    /// members.
    has_transactions: bool,
    /// Longest time that a call may wait for a node with room.
    wait: Option<Duration>,
    /// Whether branches contain the request's connection, for its response. A copy that comes by another connection
    /// then gets another branch.
    names_connections: bool,
    /// By process, counted from the site's first.
    lives: Vec<Life>,
    /// Branches by request and receiver, from any process.
    branches: BTreeMap<(RequestKey, SocketAddr), Vec<u8>>,
    /// Node of each dialog, by its To tag.
    dialogs: BTreeMap<Vec<u8>, SocketAddr>,
    /// Whether the key of new tokens has changed: a process that starts later makes other branches.
    rekeyed: bool,
}

impl BalancerChecker {
    pub(super) fn new(
        address: SocketAddr,
        processes: u16,
        (has_transactions, names_connections): (bool, bool),
        wait: Option<Duration>,
    ) -> Self {
        Self {
            watch: BalancerWatch::new(&[address], &[]),
            // An INVITE that a member leaves unanswered also goes to another one, as in a fork.
            hop: Hop::new(&[address], has_transactions),
            has_transactions,
            wait,
            names_connections,
            lives: (0..processes).map(|_| Life::default()).collect(),
            branches: BTreeMap::new(),
            dialogs: BTreeMap::new(),
            rekeyed: false,
        }
    }

    /// Forwarded requests did not arrive, and `sent` was sent in response to that.
    pub(super) fn lost(&self, sent: &[Sent]) {
        if !self.has_transactions {
            self.watch.lost(sent);
        }
    }

    pub(super) fn has_transactions(&self) -> bool {
        self.has_transactions
    }

    pub(super) fn rekeyed(&mut self) {
        self.rekeyed = true;
    }

    /// A process ended. The next one starts without state.
    pub(super) fn ended(&mut self, process: u16) {
        self.lives[usize::from(process)] = Life::default();
    }

    /// Returns the calls that are lost because their INVITE had a transaction in this process, which has ended or gets
    /// no more responses.
    pub(super) fn unsettled(&mut self, process: u16) -> BTreeSet<Vec<u8>> {
        core::mem::take(&mut self.lives[usize::from(process)].unsettled)
    }

    /// A process sent `sent`. Final responses settle INVITEs. Checks that no call waits longer than its queue allows.
    pub(super) fn settle(&mut self, (now, process): (Instant, u16), sent: &[Sent]) -> Result<(), String> {
        let life = &mut self.lives[usize::from(process)];
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            if message.cseq().method == Method::Invite && message.status().is_none_or(|status| status >= 200)
            {
                life.waiting.remove(message.call_id());
                if message.status().is_some() {
                    life.unsettled.remove(message.call_id());
                }
            }
        }
        match life.waiting.iter().find(|(_, until)| **until < now) {
            Some((call, until)) => {
                Err(RunRule::WaitTooLong.broken(format_args!("call {} until {until}", call.escape_ascii())))
            }
            None => Ok(()),
        }
    }

    /// A process got `bytes` from `from` and sent `sent`.
    pub(super) fn datagram(
        &mut self,
        (now, number): (Instant, u16),
        process: &Process,
        (from, bytes): (SocketAddr, &[u8]),
        sent: &[Sent],
    ) -> Result<(), String> {
        if self.has_transactions {
            self.hop.check(Some((from, bytes)), sent);
        } else {
            self.watch.set_nodes(process.addresses());
            self.watch.check(from, bytes, sent);
        }
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        let owner = process.owner(bytes);
        if let Some(other) = process.shards_with(request.call_id()).find(|&shard| Some(shard) != owner) {
            let call = request.call_id().escape_ascii();
            return Err(RunRule::OtherShard.broken(format_args!("call {call} in {other}, not {owner:?}")));
        }
        if request.method().is_none() {
            self.began(from, &request);
            return Ok(());
        }
        if self.has_transactions {
            let life = &mut self.lives[usize::from(number)];
            life.calls.insert(request.call_id().to_vec());
            life.received.insert(key(&request, request.cseq().method));
            if request.cseq().method != Method::Invite || request.to_tag().is_some() {
                return Ok(());
            }
            let is_first = life.unsettled.insert(request.call_id().to_vec());
            let is_known = process.shards_with(request.call_id()).next().is_some();
            if let Some(wait) = self.wait.filter(|_| is_first && !is_known) {
                life.waiting.insert(request.call_id().to_vec(), now + wait);
            }
            let is_request = |one: &&Sent| wire::scan(&one.bytes).is_ok_and(|sent| sent.method().is_some());
            let is_node = |one: &&Sent| process.slot_at(one.to).is_some();
            return match sent.iter().filter(is_request).find(|one| !is_node(one)) {
                Some(one) => Err(RunRule::ClosedNode.broken(format_args!("INVITE to {}", one.to))),
                None => Ok(()),
            };
        }
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            if message.method().is_some() {
                self.same_way(number, process, &request, &message, one.to)?;
            }
        }
        Ok(())
    }

    /// A node answered an INVITE with 2xx, and owns the dialog.
    fn began(&mut self, node: SocketAddr, response: &Message<'_>) {
        if let (Some(200..=299), Method::Invite, Some(tag)) =
            (response.status(), response.cseq().method, response.to_tag())
        {
            self.dialogs.insert(tag.to_vec(), node);
        }
    }

    /// Checks that copies of a request have the same destination and branch. CANCEL and the ACK to a failure have those
    /// of their INVITE (RFC 3261 §16.11, §9.1, §17.1.1.3).
    fn same_way(
        &mut self,
        number: u16,
        process: &Process,
        request: &Message<'_>,
        forwarded: &Message<'_>,
        to: SocketAddr,
    ) -> Result<(), String> {
        let method = request.cseq().method;
        let node = request.to_tag().and_then(|tag| self.dialogs.get(tag));
        if let Some(node) = node.filter(|&&node| node != to) {
            let call = request.call_id().escape_ascii();
            let name = method.name();
            return Err(RunRule::WrongNode.broken(format_args!("{name} of call {call} to {to}, not {node}")));
        }
        let life = &mut self.lives[usize::from(number)];
        let way = Way { to, branch: forwarded.top_via().branch.unwrap_or_default().to_vec() };
        let key = key(request, method);
        let new_call = life.calls.insert(request.call_id().to_vec());
        let of_invite = matches!(method, Method::Ack | Method::Cancel);
        let first = if of_invite {
            // After the call is forgotten, the request goes to any node that may have the INVITE.
            let known = process.shards_with(request.call_id()).next().is_some();
            life.ways.get(&self::key(request, Method::Invite)).filter(|_| known).cloned()
        } else {
            life.ways.get(&key).cloned()
        };
        let name = || format!("{} of call {}", method.name(), request.call_id().escape_ascii());
        match first {
            Some(first) if first.to != to => {
                // Only a request outside dialogs may go to another node, and only while its node is dead.
                let dead = process.slot_at(first.to).is_some_and(|slot| !process.is_up(slot));
                if of_invite || request.to_tag().is_some() || !dead {
                    return Err(RunRule::NodeChanged.broken(format_args!(
                        "{} to {to}, first {}",
                        name(),
                        first.to
                    )));
                }
            }
            Some(first) if first.branch != way.branch && !self.names_connections => {
                return Err(RunRule::BranchChanged.broken(format_args!("{} to {to}", name())));
            }
            None if new_call
                && method == Method::Invite
                && request.to_tag().is_none()
                && !process.slot_at(to).is_some_and(|slot| process.may_take_calls(slot)) =>
            {
                return Err(RunRule::ClosedNode.broken(format_args!("{} to {to}", name())));
            }
            Some(_) | None => {}
        }
        if method != Method::Ack {
            life.ways.insert(key.clone(), way.clone());
        }
        let may_differ = self.rekeyed || self.names_connections;
        let before = self.branches.insert((key, to), way.branch.clone());
        if let Some(before) = before.filter(|before| !may_differ && *before != way.branch) {
            let (before, now) = (before.escape_ascii(), way.branch.escape_ascii());
            let name = name();
            return Err(
                RunRule::BranchChangedLater.broken(format_args!("{name} to {to} as {now}, not {before}"))
            );
        }
        Ok(())
    }

    /// Checks the reported state: loads are the sums of leases, and each session belongs to a call or request that came
    /// in.
    pub(super) fn state(&self, number: u16, state: &BalancerState) -> Result<(), String> {
        let life = &self.lives[usize::from(number)];
        Self::sums(state)?;
        let (seen, sessions) = (life.calls.len(), state.sessions);
        if sessions > seen {
            return Err(RunRule::TooManySessions.broken(format_args!("{sessions} sessions, {seen} calls")));
        }
        let (open, seen) = (state.transactions, life.ways.len() + life.received.len());
        if open > seen {
            return Err(
                RunRule::TooManyTransactions.broken(format_args!("{open} transactions, {seen} requests"))
            );
        }
        Ok(())
    }

    /// Checks that the counts of a process match its sessions and leases.
    pub(super) fn sums(state: &BalancerState) -> Result<(), String> {
        if let Err(differs) = &state.audit {
            return Err(RunRule::Leases.broken(format_args!("{differs}")));
        }
        for (slot, (load, &calls)) in state.loads.iter().zip(&state.calls).enumerate() {
            if load.calls != calls {
                let counted = load.calls;
                return Err(RunRule::CallsCounted
                    .broken(format_args!("slot {slot} counts {counted} and has {calls}")));
            }
        }
        let (TableCounts { active, expired }, sessions) = (state.counts, state.sessions);
        if active + expired != sessions {
            return Err(RunRule::SessionsCounted
                .broken(format_args!("{active} + {expired} counted, {sessions} in the table")));
        }
        Ok(())
    }

    /// Checks that no state is left after the traffic and all timeouts.
    pub(super) fn nothing_left(state: &BalancerState) -> Result<(), String> {
        for (slot, left) in state.loads.iter().enumerate() {
            if *left != Load::default() {
                return Err(RunRule::LoadLeft.broken(format_args!("slot {slot} has {left:?}")));
            }
        }
        let left = (state.counts, state.transactions);
        if left != (TableCounts::default(), 0) {
            return Err(RunRule::TableLeft.broken(format_args!("{left:?}")));
        }
        if state.limits > 0 {
            return Err(RunRule::LimitLeft.broken(format_args!("{} limits", state.limits)));
        }
        if state.waiting > 0 {
            return Err(RunRule::QueueLeft.broken(format_args!("{}", state.waiting)));
        }
        let ProxyReport { transactions, unanswered, memory, .. } = state.report;
        match (transactions, unanswered, memory) {
            (0, 0, 0) => Ok(()),
            left => Err(RunRule::ProxyLeft.broken(format_args!("{left:?}"))),
        }
    }
}

/// RFC 3261 §17.2.3: two hosts may use the same branch, as proxies with a common key do for requests without a
/// transaction.
pub(super) fn key(request: &Message<'_>, method: Method) -> RequestKey {
    let number = request.cseq().number.to_be_bytes();
    let via = request.top_via();
    let sent_by = format!("{:?} {:?}", via.host, via.port);
    let branch = via.branch.unwrap_or_default();
    [request.call_id(), b"\n", &number, method.name().as_bytes(), b"\n", sent_by.as_bytes(), b"\n", branch]
        .concat()
}
