//! The queues of a shard's pools.

use super::pool::{Announced, Announcements, PoolQueue, QueueReport, QueueSetup, QueueTurn};
use crate::outcome::counters::Drop;
use crate::outcome::rejection::{Refused, Rejection, refused};
use crate::read::arrival::Inbound;
use crate::read::progress::{Progress, Waited, Waiter};
use crate::site::Site;
use balance::{Balancer, NodeId, PoolId, Slot};
use base::{Flow, Instant};
use elastic::queue::Effect;
use std::sync::Arc;
use transaction::TransactionKey;

pub(crate) const CALL_WAITS_TOO_LONG: Refused = refused(503, "No Server Has Room");

pub(crate) struct Queues {
    /// Queues by the number of their pool.
    pools: Vec<Option<PoolQueue>>,
    /// Settings of these queues.
    wanted: Vec<Option<Arc<QueueSetup>>>,
    /// Announcements of members, for all shards together.
    announced: Announcements,
    /// Calls that waited in queues that were removed or replaced.
    released: Vec<Waiter>,
    /// Whether members have changed and may take waiting calls.
    is_stale: bool,
    /// The member of this pool that gets a call in this step.
    given: Option<(PoolId, Slot)>,
    shards: usize,
}

/// Decision of a queue about a new call.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    /// This member takes the call.
    Now(Slot),
    /// The call waits.
    Later,
    /// The queue is full, with the response to the caller.
    Full(Rejection),
}

impl From<Waited> for Turn {
    fn from(waited: Waited) -> Self {
        match waited {
            Waited::Pulled(slot) => Self::Now(slot),
            Waited::Expired(rejection) => Self::Full(rejection),
        }
    }
}

/// Calls that leave the queues in one step.
pub(crate) struct Served {
    /// Calls for which a member has room, and calls that have waited too long, each with its pool.
    pub(crate) due: Vec<(PoolId, Waited, Waiter)>,
    /// Calls that waited in queues that were removed or replaced.
    pub(crate) released: Vec<Waiter>,
}

impl Queues {
    pub(crate) fn new() -> Self {
        Self {
            pools: Vec::new(),
            wanted: Vec::new(),
            announced: Announcements::default(),
            released: Vec::new(),
            is_stale: false,
            given: None,
            shards: 1,
        }
    }

    pub(crate) fn has(&self, pool: PoolId) -> bool {
        self.pools.get(pool.index()).is_some_and(Option::is_some)
    }

    /// Returns the messages of the waiting calls.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &[u8]> {
        let queues = self.pools.iter().flatten().flat_map(PoolQueue::waiting);
        queues.chain(&self.released).map(|waiter| &*waiter.bytes)
    }

    /// Returns the number of waiting calls with a ticket.
    pub(crate) fn tickets(&self) -> usize {
        let queues = self.pools.iter().flatten().flat_map(PoolQueue::waiting);
        queues.chain(&self.released).filter(|waiter| waiter.progress.holds_ticket()).count()
    }

    /// Returns whether waiting calls can proceed before the next input. Then their copies find them at their new place.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale || !self.released.is_empty()
    }

    /// Records that another member also has a call, which this member got at `sent` and has not answered.
    pub(crate) fn moved(&mut self, pool: PoolId, member: Slot, sent: Instant) {
        if let Some(queue) = self.of(pool) {
            queue.moved(member, sent);
        }
    }

    /// Records that a call that was given to a member at `sent` could not be sent, or is over.
    pub(crate) fn taken_back(&mut self, now: Instant, pool: PoolId, member: Slot, sent: Instant) {
        if let Some(queue) = self.of(pool) {
            queue.taken_back(now, member, sent);
        }
    }

    /// Handles an ICMP error for a datagram to this address that began with `quoted`. If it was the 100 of a waiting
    /// call, the caller is unreachable, and the call is dropped.
    pub(crate) fn gone(&mut self, site: &Site, to: Flow, quoted: &[u8]) {
        let Site { topology, seen, tokens, .. } = site;
        let Some(call_id) = wire::peek_call_id(quoted).filter(|_| quoted.starts_with(b"SIP/2.0 100 ")) else {
            return;
        };
        let is_of_call = |waiter: &&Waiter| wire::peek_call_id(&waiter.bytes) == Some(call_id);
        // The 100 went where every response to the INVITE goes (RFC 3261 §18.2.2).
        let is_quoted = |waiter: &Waiter| {
            let invite = wire::scan(&waiter.bytes).ok()?;
            let back = topology.ports.way_back(invite.top_via(), waiter.flow)?;
            back.meets(to).then(|| seen.key(tokens, &invite, None, waiter.flow.peer))
        };
        for queue in self.pools.iter_mut().flatten() {
            let key = queue.waiting().filter(is_of_call).find_map(is_quoted);
            if let Some(key) = key {
                queue.remove(&key);
            }
        }
    }

    fn of(&mut self, pool: PoolId) -> Option<&mut PoolQueue> {
        self.pools.get_mut(pool.index())?.as_mut()
    }

    /// Records any response of a member. It shows that the member has not stopped.
    pub(crate) fn answers(&mut self, now: Instant, slot: Slot) {
        self.pools.iter_mut().flatten().for_each(|queue| queue.answers(now, slot));
    }

    /// Ends the step of a call that was given to a member. The call no longer counts as unanswered, unless `has_it`
    /// says that the member has it and the balancer waits for the response.
    pub(crate) fn settle(&mut self, now: Instant, has_it: impl FnOnce(Slot) -> bool) {
        if let Some((pool, slot)) = self.given.take()
            && !has_it(slot)
        {
            self.taken_back(now, pool, slot, now);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.is_stale() {
            return Some(Instant::ZERO);
        }
        self.pools.iter().flatten().filter_map(PoolQueue::deadline).min()
    }

    /// Returns the decision of a pool's queue about a new call, if the pool has a queue.
    pub(crate) fn turn(
        &self,
        now: Instant,
        pool: PoolId,
        key: TransactionKey,
        length: usize,
        balancer: &Balancer,
    ) -> Option<QueueTurn> {
        let queue = self.pools.get(pool.index())?.as_ref()?;
        Some(queue.turn(now, pool, key, length, balancer, &self.announced))
    }

    pub(crate) fn offer(
        &mut self,
        now: Instant,
        pool: PoolId,
        key: TransactionKey,
        inbound: Inbound<'_>,
        progress: &mut Progress,
        balancer: &Balancer,
    ) -> Turn {
        let Some(Some(queue)) = self.pools.get_mut(pool.index()) else { return Turn::Full(full(None)) };
        queue.look(now, pool, balancer, true, &self.announced.known);
        if let Some(slot) = queue.pull(now) {
            self.given = Some((pool, slot));
            return Turn::Now(slot);
        }
        let Inbound { flow, message } = inbound;
        let sends_trying = queue.sends_trying();
        let progress_made = core::mem::take(progress);
        let mut waiter = Box::new(Waiter { flow, bytes: message.bytes().into(), progress: progress_made });
        waiter.progress.got_trying |= sends_trying;
        match queue.offer(now, key, waiter) {
            Ok(()) => Turn::Later,
            Err((retry_after, waiter)) => {
                *progress = waiter.progress;
                Turn::Full(full(retry_after))
            }
        }
    }

    /// Returns whether callers that wait for this pool get a 100.
    pub(crate) fn sends_trying(&self, pool: PoolId) -> bool {
        self.pools.get(pool.index()).and_then(Option::as_ref).is_some_and(PoolQueue::sends_trying)
    }

    /// Returns whether an INVITE is a copy of a waiting call; `Some(true)` if its caller gets a 100.
    pub(crate) fn absorbs(&mut self, key: TransactionKey) -> Option<bool> {
        let absorbs = |queue: &mut PoolQueue| queue.absorbs(&key).then(|| queue.sends_trying());
        self.pools.iter_mut().flatten().find_map(absorbs)
    }

    /// Removes the call that this CANCEL is for.
    pub(crate) fn cancel(&mut self, key: TransactionKey) -> Option<Waiter> {
        self.pools.iter_mut().flatten().find_map(|queue| queue.remove(&key)).map(|waiter| *waiter)
    }

    /// Sets which pools have queues, by number of the pool, at one of `shards` shards. Calls that waited in replaced
    /// queues are processed again. Returns whether any pool has a queue, or calls still wait.
    pub(crate) fn configure(&mut self, wanted: Vec<Option<Arc<QueueSetup>>>, shards: usize) -> bool {
        let mut before = core::mem::take(&mut self.pools);
        if (&self.wanted, self.shards) == (&wanted, shards) {
            self.pools = before;
        } else {
            before.resize_with(wanted.len().max(before.len()), || None);
            let same_shards = self.shards == shards;
            let make =
                |(pool, (setup, before)): (usize, (&Option<Arc<QueueSetup>>, &mut Option<PoolQueue>))| {
                    if same_shards && self.wanted.get(pool) == Some(setup) {
                        return before.take();
                    }
                    // Learned capacities are kept by node.
                    let learned = before.as_ref().map(PoolQueue::learned).unwrap_or_default();
                    Some(PoolQueue::new(setup.as_ref()?, shards, learned))
                };
            self.pools = wanted.iter().zip(&mut before).enumerate().map(make).collect();
            self.released.extend(before.into_iter().flatten().flat_map(PoolQueue::into_waiting));
            (self.shards, self.wanted) = (shards, wanted);
        }
        self.is_stale = true;
        self.has_any() || !self.released.is_empty()
    }

    pub(crate) fn has_any(&self) -> bool {
        self.pools.iter().flatten().next().is_some()
    }

    /// Records a capacity that a member has announced, in calls per second for all shards together.
    pub(crate) fn announce(&mut self, now: Instant, slot: Slot, id: NodeId, capacity: f64) {
        self.announced.known.insert(slot, Announced { id, at: now, capacity });
        self.announced.news.push((slot, capacity));
        self.is_stale = true;
    }

    /// Records a capacity that another process has measured, in calls per second for all shards together.
    pub(crate) fn learn(&mut self, now: Instant, pool: PoolId, id: NodeId, capacity: f64) {
        if let Some(queue) = self.of(pool) {
            queue.learn(now, id, capacity);
            self.is_stale = true;
        }
    }

    /// Removes the calls for which members have room, and the calls that have waited too long.
    pub(crate) fn serve(&mut self, now: Instant, balancer: &mut Balancer) -> Served {
        for answer in balancer.first_answers() {
            self.pools.iter_mut().flatten().for_each(|queue| queue.answered(now, answer));
        }
        let released = core::mem::take(&mut self.released);
        let (is_stale, news) =
            (core::mem::take(&mut self.is_stale), core::mem::take(&mut self.announced.news));
        let mut due = Vec::new();
        for (pool, queue) in (0..).map(PoolId).zip(&mut self.pools) {
            if let Some(queue) = queue.as_mut().filter(|queue| is_stale || queue.is_due(now)) {
                queue.look(now, pool, balancer, true, &self.announced.known);
                for &(slot, capacity) in &news {
                    queue.announce(now, slot, capacity);
                }
                due.extend(queue.effects(now).into_iter().map(|effect| match effect {
                    Effect::Deliver { item, member, .. } => (pool, Waited::Pulled(member), *item),
                    // Another pool of its route may have room.
                    Effect::Refuse { item, retry_after, .. } => {
                        (pool, Waited::Expired(full(retry_after)), *item)
                    }
                }));
            }
        }
        Served { due, released }
    }

    /// Records that the member of this pool gets a call in this step.
    pub(crate) fn gives(&mut self, pool: PoolId, member: Slot) {
        self.given = Some((pool, member));
    }

    /// Returns the states of the queues, by the number of their pool.
    pub(crate) fn reports(&self, now: Instant) -> Vec<Option<QueueReport>> {
        let report = |queue: &PoolQueue| queue.report(now, &self.announced.known);
        self.pools.iter().map(|queue| queue.as_ref().map(report)).collect()
    }
}

/// Returns the response to a caller for which no member has room: 503, or none without Retry-After.
fn full(retry_after: Option<u32>) -> Rejection {
    match retry_after {
        Some(seconds) => Refused { retry_after: Some(u64::from(seconds)), ..CALL_WAITS_TOO_LONG }.into(),
        None => Rejection::Dropped(Drop::QueueFull),
    }
}
