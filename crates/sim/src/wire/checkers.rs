//! Observers of what balancers get and send, and of what they show of themselves.
//!
//! None of them is told what the run is about to do; they derive what must hold from the messages alone.

use super::answered::Answered;
use super::plan::site_address;
use super::site::Site;
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

/// All observers of a run.
pub(super) struct Checkers {
    watch: Watch,
    pub(super) answered: Answered,
    /// By balancer.
    lives: Vec<Life>,
    /// Branches by request and receiver, whichever process sent it.
    branches: BTreeMap<(RequestKey, SocketAddr), Vec<u8>>,
    /// Whether the key of new tokens has changed: a process that starts later makes other branches.
    pub(super) rekeyed: bool,
}

impl Checkers {
    pub(super) fn new(balancers: u16) -> Self {
        Self {
            watch: Watch::new(&[site_address()], &[]),
            answered: Answered::default(),
            lives: (0..balancers).map(|_| Life::default()).collect(),
            branches: BTreeMap::new(),
            rekeyed: false,
        }
    }

    /// A balancer's process has ended: the next one knows nothing.
    pub(super) fn ended(&mut self, balancer: u16) {
        self.lives[usize::from(balancer)] = Life::default();
    }

    /// A balancer got `bytes` from `from` and sent `sent`.
    pub(super) fn element(
        &mut self,
        balancer: u16,
        site: &Site,
        from: SocketAddr,
        bytes: &[u8],
        sent: &[Sent],
    ) -> Result<(), String> {
        self.watch.set_nodes(site.addresses());
        self.watch.check(from, bytes, sent);
        let Ok(request) = wire::scan(bytes) else { return Ok(()) };
        if request.method().is_none() {
            return Ok(());
        }
        for one in sent {
            let Ok(message) = wire::scan(&one.bytes) else { continue };
            if message.method().is_some() {
                self.answered.check(&message, one.to)?;
                self.same_way(balancer, site, &request, &message, one.to)?;
            }
        }
        Ok(())
    }

    /// The same request takes the same way under the same branch, and CANCEL and the ACK to a refusal that of their
    /// INVITE (RFC 3261 §16.11, §9.1, §17.1.1.3).
    fn same_way(
        &mut self,
        balancer: u16,
        site: &Site,
        request: &Message<'_>,
        forwarded: &Message<'_>,
        to: SocketAddr,
    ) -> Result<(), String> {
        let method = request.cseq().method;
        let life = &mut self.lives[usize::from(balancer)];
        let way = Way { to, branch: forwarded.top_via().branch.unwrap_or_default().to_vec() };
        let key = key(request, method);
        life.calls.insert(request.call_id().to_vec());
        let of_invite = matches!(method, Method::Ack | Method::Cancel);
        let first = if of_invite {
            // Once nobody remembers the call, whoever may have the INVITE is asked.
            let call = site.shard.tokens().call_key(request.call_id());
            let known = site.shard.balancer().session(call).is_some();
            life.ways.get(&self::key(request, Method::Invite)).filter(|_| known).cloned()
        } else {
            life.ways.get(&key).cloned()
        };
        let name = || format!("{} of call {}", method.name(), request.call_id().escape_ascii());
        match first {
            Some(first) if first.to != to => {
                // Only what begins something, and only while its node is dead, may move.
                let dead = site.slot_at(first.to).is_some_and(|slot| !site.is_reachable(slot));
                if of_invite || request.to_tag().is_some() || !dead {
                    return Err(format!("{} went to {to}, the first to {}", name(), first.to));
                }
            }
            Some(first) if first.branch != way.branch => {
                return Err(format!("{} went to {to} under another branch than the first", name()));
            }
            None if method == Method::Invite
                && request.to_tag().is_none()
                && !site.slot_at(to).is_some_and(|slot| site.may_take_calls(slot)) =>
            {
                return Err(format!("{} is new and went to {to}, which takes no new calls", name()));
            }
            Some(_) | None => {}
        }
        if method != Method::Ack {
            life.ways.insert(key.clone(), way.clone());
        }
        let before = self.branches.insert((key, to), way.branch.clone());
        if !self.rekeyed && before.is_some_and(|before| before != way.branch) {
            return Err(format!("{} went to {to} under another branch than before a restart", name()));
        }
        Ok(())
    }

    /// What a process shows of its books: loads are the sums of leases, and each is there for a call or request that
    /// came in.
    pub(super) fn books(&self, balancer: u16, site: &Site) -> Result<(), String> {
        let (balancer_of_site, life) = (site.shard.balancer(), &self.lives[usize::from(balancer)]);
        balancer_of_site.audit()?;
        let (mut calls, mut sessions) = (vec![0_u32; balancer_of_site.nodes().len()], 0);
        balancer_of_site.sessions(0, usize::MAX, |session| {
            calls[session.slot.index()] += u32::from(session.is_call);
            sessions += 1;
        });
        for (slot, &calls) in (0..).map(Slot).zip(&calls) {
            let counted = balancer_of_site.load(slot).own.calls;
            if counted != calls {
                return Err(format!("slot {} counts {counted} calls and has {calls} live sessions", slot.0));
            }
        }
        let TableCounts { active, expired } = balancer_of_site.counts();
        if active + expired != sessions || sessions > life.calls.len() {
            let seen = life.calls.len();
            return Err(format!(
                "{active} + {expired} sessions counted, {sessions} there, {seen} calls seen"
            ));
        }
        let (open, seen) = (balancer_of_site.open_transactions(), life.ways.len());
        if open > seen {
            return Err(format!("{open} transactions open, {seen} requests seen"));
        }
        Ok(())
    }

    /// The traffic has ended, and every time-out with it: nothing may be left.
    pub(super) fn nothing_left(site: &Site) -> Result<(), String> {
        let balancer = site.shard.balancer();
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

fn key(request: &Message<'_>, method: Method) -> RequestKey {
    let number = request.cseq().number.to_be_bytes();
    let branch = request.top_via().branch.unwrap_or_default();
    [request.call_id(), b"\n", &number, method.name().as_bytes(), b"\n", branch].concat()
}
