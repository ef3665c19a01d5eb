//! Observers of one balancer: what it gets and sends, and what it shows of its books.

use super::super::process::BalancerProcess;
use balance::{Load, Slot, TableCounts};
use node::fuzz::{Sent, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Call-ID, CSeq number, method and the client's branch, in one: what makes two datagrams the same request.
type RequestKey = Vec<u8>;

/// Where a request went, and under which branch.
#[derive(Clone)]
struct Way {
    to: SocketAddr,
    branch: Vec<u8>,
}

/// What one process has done since it started.
#[derive(Default)]
struct Life {
    calls: BTreeSet<Vec<u8>>,
    ways: BTreeMap<RequestKey, Way>,
}

/// The observers of the processes that share an address.
pub(super) struct BalancerWatch {
    watch: Watch,
    /// By process, counted from the site's first.
    lives: Vec<Life>,
    /// Branches by request and receiver, whichever process sent it.
    branches: BTreeMap<(RequestKey, SocketAddr), Vec<u8>>,
    /// The node that a dialog was begun by, by its To tag.
    dialogs: BTreeMap<Vec<u8>, SocketAddr>,
    /// Whether the key of new tokens has changed: a process that starts later makes other branches.
    rekeyed: bool,
}

impl BalancerWatch {
    pub(super) fn new(address: SocketAddr, processes: u16) -> Self {
        Self {
            watch: Watch::new(&[address], &[]),
            lives: (0..processes).map(|_| Life::default()).collect(),
            branches: BTreeMap::new(),
            dialogs: BTreeMap::new(),
            rekeyed: false,
        }
    }

    pub(super) fn rekeyed(&mut self) {
        self.rekeyed = true;
    }

    /// A process has ended: the next one knows nothing.
    pub(super) fn ended(&mut self, process: u16) {
        self.lives[usize::from(process)] = Life::default();
    }

    /// A process got `bytes` from `from` and sent `sent`.
    pub(super) fn datagram(
        &mut self,
        number: u16,
        process: &BalancerProcess,
        (from, bytes): (SocketAddr, &[u8]),
        sent: &[Sent],
    ) -> Result<(), String> {
        self.watch.set_nodes(process.addresses());
        self.watch.check(from, bytes, sent);
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        if request.method().is_none() {
            self.began(from, &request);
            return Ok(());
        }
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            if message.method().is_some() {
                self.same_way(number, process, &request, &message, one.to)?;
            }
        }
        Ok(())
    }

    /// A node answered an INVITE with 2xx: the dialog is its own.
    fn began(&mut self, node: SocketAddr, response: &Message<'_>) {
        if let (Some(200..=299), Method::Invite, Some(tag)) =
            (response.status(), response.cseq().method, response.to_tag())
        {
            self.dialogs.insert(tag.to_vec(), node);
        }
    }

    /// The same request takes the same way under the same branch, and CANCEL and the ACK to a refusal that of their
    /// INVITE (RFC 3261 §16.11, §9.1, §17.1.1.3).
    fn same_way(
        &mut self,
        number: u16,
        process: &BalancerProcess,
        request: &Message<'_>,
        forwarded: &Message<'_>,
        to: SocketAddr,
    ) -> Result<(), String> {
        let method = request.cseq().method;
        let node = request.to_tag().and_then(|tag| self.dialogs.get(tag));
        if let Some(node) = node.filter(|&&node| node != to) {
            let call = request.call_id().escape_ascii();
            return Err(format!("{} of call {call} went to {to}, but {node} has the call", method.name()));
        }
        let life = &mut self.lives[usize::from(number)];
        let way = Way { to, branch: forwarded.top_via().branch.unwrap_or_default().to_vec() };
        let key = key(request, method);
        let new_call = life.calls.insert(request.call_id().to_vec());
        let of_invite = matches!(method, Method::Ack | Method::Cancel);
        let first = if of_invite {
            // Once nobody remembers the call, whoever may have the INVITE is asked.
            let call = process.shard.tokens().call_key(request.call_id());
            let known = process.shard.balancer().session(call).is_some();
            life.ways.get(&self::key(request, Method::Invite)).filter(|_| known).cloned()
        } else {
            life.ways.get(&key).cloned()
        };
        let name = || format!("{} of call {}", method.name(), request.call_id().escape_ascii());
        match first {
            Some(first) if first.to != to => {
                // Only what begins something, and only while its node is dead, may move.
                let dead = process.slot_at(first.to).is_some_and(|slot| !process.is_reachable(slot));
                if of_invite || request.to_tag().is_some() || !dead {
                    return Err(format!("{} went to {to}, the first to {}", name(), first.to));
                }
            }
            Some(first) if first.branch != way.branch => {
                return Err(format!("{} went to {to} under another branch than the first", name()));
            }
            None if new_call
                && method == Method::Invite
                && request.to_tag().is_none()
                && !process.slot_at(to).is_some_and(|slot| process.may_take_calls(slot)) =>
            {
                return Err(format!("{} is new and went to {to}, which takes no new calls", name()));
            }
            Some(_) | None => {}
        }
        if method != Method::Ack {
            life.ways.insert(key.clone(), way.clone());
        }
        let before = self.branches.insert((key, to), way.branch.clone());
        if let Some(before) = before.filter(|before| !self.rekeyed && *before != way.branch) {
            let (before, now) = (before.escape_ascii(), way.branch.escape_ascii());
            return Err(format!("{} went to {to} as {now}, before a restart as {before}", name()));
        }
        Ok(())
    }

    /// What a process shows of its books: loads are the sums of leases, and each is there for a call or request that
    /// came in.
    pub(super) fn books(&self, number: u16, process: &BalancerProcess) -> Result<(), String> {
        let (balancer, life) = (process.shard.balancer(), &self.lives[usize::from(number)]);
        balancer.audit()?;
        let (mut calls, mut sessions) = (vec![0_u32; balancer.nodes().len()], 0);
        balancer.sessions(0, usize::MAX, |session| {
            calls[session.slot.index()] += u32::from(session.is_call);
            sessions += 1;
        });
        for (slot, &calls) in (0..).map(Slot).zip(&calls) {
            let counted = balancer.load(slot).own.calls;
            if counted != calls {
                return Err(format!("slot {} counts {counted} calls and has {calls} live sessions", slot.0));
            }
        }
        let TableCounts { active, expired } = balancer.counts();
        if active + expired != sessions || sessions > life.calls.len() {
            let seen = life.calls.len();
            return Err(format!(
                "{active} + {expired} sessions counted, {sessions} there, {seen} calls seen"
            ));
        }
        let (open, seen) = (balancer.open_transactions(), life.ways.len());
        if open > seen {
            return Err(format!("{open} transactions open, {seen} requests seen"));
        }
        Ok(())
    }

    /// The traffic has ended, and every time-out with it: nothing may be left.
    pub(super) fn nothing_left(process: &BalancerProcess) -> Result<(), String> {
        let balancer = process.shard.balancer();
        for slot in (0..balancer.nodes().len() as u16).map(Slot) {
            let left = balancer.load(slot).own;
            if left != Load::default() {
                return Err(format!("long after the last call, slot {} has {left:?}", slot.0));
            }
        }
        let left = (balancer.counts(), balancer.open_transactions());
        if left != (TableCounts::default(), 0) {
            return Err(format!("long after the last call, {left:?} are left"));
        }
        Ok(())
    }
}

/// RFC 3261 §17.2.3: two hosts may use the same branch, as proxies that share a key do for what they forward without a
/// transaction.
fn key(request: &Message<'_>, method: Method) -> RequestKey {
    let number = request.cseq().number.to_be_bytes();
    let via = request.top_via();
    let sent_by = format!("{:?} {:?}", via.host, via.port);
    let branch = via.branch.unwrap_or_default();
    [request.call_id(), b"\n", &number, method.name().as_bytes(), b"\n", sent_by.as_bytes(), b"\n", branch]
        .concat()
}
