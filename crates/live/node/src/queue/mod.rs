//! The front-end queue of a pool (Cloud paper, sections IV-C and V-B): a new call waits here until a member has room for it.
//!
//! What belongs to a session never waits. A call that waits is kept as it came in, and is taken up again from the beginning
//! with the member that has pulled it; copies of it go no further, and a CANCEL takes it out.
//!
//! - `pool.rs`: the queue of one pool, its members and their capacities,
//! - `measured.rs`: capacities from the members' response times.

mod measured;
mod pool;

use crate::home::Known;
use crate::reply::{Halt, Own};
use crate::validate::{Refused, refused};
use crate::{Drop, Shard, ShardEvent};
use balance::{Balancer, CallKey, NodeId, PoolId, Slot};
use base::{Flow, Instant, Outbox};
use core::time::Duration;
use elastic::queue::Effect;
pub use pool::{CapacitySource, QueueMember, QueueReport, QueueSetup};
use pool::{Due, PoolQueue};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use transaction::Keys;
use wire::{Message, Method};

/// Half of T1: a caller that is not answered by then will soon send its INVITE again (RFC 3261 §17.1.1.2). Who may wait for
/// longer is told so by 100 (§17.2.1: within 200 ms).
const HALF_T1: Duration = Duration::from_millis(250);

const CALL_WAITS_TOO_LONG: Refused = refused(503, "No Server Has Room");

/// A call that waits, as it came in.
pub(crate) struct Waiter {
    flow: Flow,
    bytes: Box<[u8]>,
    known: Known,
}

/// What a member has announced.
pub(crate) struct Announced {
    /// Who it was.
    id: NodeId,
    at: Instant,
    /// Calls a second, from all shards together.
    capacity: f64,
}

/// The queues of a shard.
pub(crate) struct Queues {
    /// By the number of their pool.
    pools: Vec<Option<PoolQueue>>,
    /// What they were made of.
    wanted: Vec<Option<Arc<QueueSetup>>>,
    keys: Keys,
    /// What members have announced of themselves, over all shards.
    announced: BTreeMap<Slot, Announced>,
    /// Of which the queues have not heard.
    news: Vec<(Slot, f64)>,
    /// What waited in queues that are no more, or are others now.
    released: Vec<Waiter>,
    /// Members have changed, and may take what waits.
    is_stale: bool,
    /// The member of this pool gets a call in this step.
    given: Option<(PoolId, Slot)>,
    shards: usize,
}

/// What a queue would do with a new call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueTurn {
    /// This member has room for it.
    Member(Slot),
    /// Nobody has: it waits.
    Waits,
    /// As many wait as may: it is refused, or another pool of its route gets it.
    Full,
}

/// What has come of a wait in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {
    /// This member has pulled the call.
    Pulled(Slot),
    /// Nobody has, for as long as it may wait; the time after which its caller may try again.
    Expired(Option<u32>),
}

impl Waited {
    pub(crate) fn turn(self) -> Turn {
        match self {
            Self::Pulled(slot) => Turn::Now(slot),
            Self::Expired(retry_after) => Turn::Full(full(retry_after)),
        }
    }
}

/// What a queue says about a new call.
pub(crate) enum Turn {
    /// This member takes it.
    Now(Slot),
    /// It waits.
    Later,
    /// There is no room for it to wait; what its caller is told.
    Full(Halt),
}

impl Queues {
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self {
            pools: Vec::new(),
            wanted: Vec::new(),
            keys: Keys::new(secret),
            announced: BTreeMap::new(),
            news: Vec::new(),
            released: Vec::new(),
            is_stale: false,
            given: None,
            shards: 1,
        }
    }

    /// Whether a pool has one.
    pub(crate) fn has(&self, pool: PoolId) -> bool {
        self.pools.get(pool.index()).is_some_and(Option::is_some)
    }

    /// The calls that wait, as they came in.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &[u8]> {
        let queues = self.pools.iter().flatten().flat_map(PoolQueue::waiting);
        queues.chain(&self.released).map(|waiter| &*waiter.bytes)
    }

    /// Whether what waits can go on, whatever comes next: copies of it are to find it where it is then.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale || !self.released.is_empty()
    }

    /// How long a member of this pool may leave a call unanswered before another one gets it.
    pub(crate) fn patience(&self, pool: PoolId) -> Option<Duration> {
        self.pools.get(pool.index())?.as_ref()?.patience()
    }

    /// Another member for a call that this one has left unanswered for so long, if one has room now that is known to live.
    pub(crate) fn other(
        &mut self,
        now: Instant,
        pool: PoolId,
        slot: Slot,
        balancer: &Balancer,
    ) -> Option<Slot> {
        let queue = self.pools.get_mut(pool.index())?.as_mut()?;
        queue.look(now, (pool, balancer), false, &self.announced);
        queue.other(now, slot)
    }

    /// A call has moved on from the first member, which got it at that time and was silent since, to that other one.
    pub(crate) fn moved(
        &mut self,
        now: Instant,
        (pool, call): (PoolId, CallKey),
        first: (Slot, Instant),
        other: Slot,
    ) {
        if let Some(queue) = self.of(pool) {
            queue.moved(now, call, first, other);
        }
    }

    /// A call that a member got at that time is with one that was faster, or could not be sent, or nobody will hear of its answer.
    pub(crate) fn taken_back(&mut self, now: Instant, pool: PoolId, member: (Slot, Instant)) {
        if let Some(queue) = self.of(pool) {
            queue.taken_back(now, member);
        }
    }

    /// What was sent to this address, and began with `quoted`, did not arrive. If that was the 100 to a call that waits, its caller is
    /// gone, and the call goes to nobody.
    pub(crate) fn gone(&mut self, to: SocketAddr, quoted: &[u8]) {
        let Some(call_id) = wire::peek_call_id(quoted).filter(|_| quoted.starts_with(b"SIP/2.0 100 ")) else {
            return;
        };
        let is_it =
            |waiter: &&Waiter| waiter.flow.peer == to && wire::peek_call_id(&waiter.bytes) == Some(call_id);
        for queue in self.pools.iter_mut().flatten() {
            let waiter = queue.waiting().find(is_it).and_then(|waiter| wire::scan(&waiter.bytes).ok());
            if let Some(key) = waiter.map(|invite| self.keys.request(&invite).key) {
                queue.remove(&key);
            }
        }
    }

    fn of(&mut self, pool: PoolId) -> Option<&mut PoolQueue> {
        self.pools.get_mut(pool.index())?.as_mut()
    }

    /// A member has answered anything: it does not stand still. `late`: the INVITE of this call, which is another member's, or over.
    pub(crate) fn answers(&mut self, now: Instant, slot: Slot, late: Option<CallKey>) {
        self.pools.iter_mut().flatten().for_each(|queue| queue.answers(now, slot, late));
    }

    /// What has become of the call that was given to a member in this step: unless that has it by now, and the balancer waits for its
    /// answer, it counts no more as one that the member has not answered.
    pub(crate) fn settle(&mut self, now: Instant, has_it: impl FnOnce(Slot) -> bool) {
        if let Some((pool, slot)) = self.given.take()
            && !has_it(slot)
        {
            self.taken_back(now, pool, (slot, now));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.is_stale() {
            return Some(Instant::ZERO);
        }
        self.pools.iter().flatten().filter_map(PoolQueue::deadline).min()
    }

    /// What the queue of a pool would do with a new call now, if it has one.
    pub(crate) fn would_pull(
        &mut self,
        now: Instant,
        pool: PoolId,
        balancer: &Balancer,
    ) -> Option<QueueTurn> {
        let queue = self.pools.get_mut(pool.index())?.as_mut()?;
        queue.look(now, (pool, balancer), true, &self.announced);
        let otherwise = if queue.is_full(now) { QueueTurn::Full } else { QueueTurn::Waits };
        Some(queue.would_pull(now).map_or(otherwise, QueueTurn::Member))
    }

    /// Offers a new call to the queue of its pool.
    pub(crate) fn offer(
        &mut self,
        now: Instant,
        pool: PoolId,
        (flow, message, known): (Flow, &Message<'_>, &mut Known),
        balancer: &Balancer,
    ) -> Turn {
        let Some(Some(queue)) = self.pools.get_mut(pool.index()) else { return Turn::Full(full(None)) };
        queue.look(now, (pool, balancer), true, &self.announced);
        if let Some(slot) = queue.pull(now) {
            self.given = Some((pool, slot));
            return Turn::Now(slot);
        }
        let key = self.keys.request(message).key;
        let tells = queue.tells();
        let mut waiter =
            Box::new(Waiter { flow, bytes: message.bytes().into(), known: core::mem::take(known) });
        waiter.known.is_told |= tells;
        match queue.offer(now, key, waiter) {
            Ok(()) => Turn::Later,
            Err((retry_after, waiter)) => {
                *known = waiter.known;
                Turn::Full(full(retry_after))
            }
        }
    }
}

/// What a caller gets for whom nobody has room: 503, or nothing where there is no time to try again after.
fn full(retry_after: Option<u32>) -> Halt {
    match retry_after {
        Some(seconds) => Refused { retry_after: Some(u64::from(seconds)), ..CALL_WAITS_TOO_LONG }.into(),
        None => Halt::Dropped(Drop::QueueFull),
    }
}

impl Shard {
    /// Takes over which pools have queues, by their number, at one of so many shards. What waits in those that are others now is
    /// taken up again.
    pub(crate) fn set_queues(&mut self, wanted: Vec<Option<Arc<QueueSetup>>>, shards: usize) {
        let has_any = wanted.iter().any(Option::is_some);
        if !has_any && self.queues.is_none() {
            return;
        }
        let secret = self.home_secret;
        let queues = self.queues.get_or_insert_with(|| Box::new(Queues::new(secret)));
        let mut before = core::mem::take(&mut queues.pools);
        if (&queues.wanted, queues.shards) == (&wanted, shards) {
            queues.pools = before;
        } else {
            before.resize_with(wanted.len().max(before.len()), || None);
            // What members have shown is known by who they are.
            let make = |(setup, before): (&Option<Arc<QueueSetup>>, &Option<PoolQueue>)| {
                let learned = before.as_ref().map(PoolQueue::learned).unwrap_or_default();
                Some(PoolQueue::new(setup.as_ref()?, shards, learned))
            };
            queues.pools = wanted.iter().zip(&before).map(make).collect();
            queues.released.extend(before.into_iter().flatten().flat_map(PoolQueue::into_waiting));
            (queues.shards, queues.wanted) = (shards, wanted);
        }
        queues.is_stale = true;
        self.balancer.keep_first_answers(queues.pools.iter().flatten().next().is_some());
        if !has_any && queues.released.is_empty() {
            self.queues = None;
        }
    }

    /// A member has announced how many new calls a second it can take, from all shards together.
    pub(crate) fn announce(&mut self, slot: Slot, capacity: f64) {
        if let Some(queues) = &mut self.queues
            && slot.index() < self.balancer.nodes().len()
        {
            let id = self.balancer.nodes()[slot.index()].id;
            queues.announced.insert(slot, Announced { id, at: self.edge.now, capacity });
            queues.news.push((slot, capacity));
            queues.is_stale = true;
        }
    }

    /// A member of this pool has shown to take so many new calls a second, from all shards together, while another process asked it.
    pub(crate) fn learned(&mut self, pool: PoolId, id: NodeId, capacity: f64) {
        let Some(queues) = &mut self.queues else { return };
        if let Some(queue) = queues.of(pool) {
            queue.learn(self.edge.now, id, capacity);
            queues.is_stale = true;
        }
    }

    /// A copy of a call that waits goes no further; its CANCEL takes it out.
    pub(crate) fn is_queued(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox<ShardEvent>,
    ) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        if message.fault().is_some() {
            return false;
        }
        match message.method() {
            Some(Method::Invite) => {
                let key = queues.keys.request(message).key;
                let absorbs = |queue: &mut PoolQueue| queue.absorbs(&key).then(|| queue.tells());
                let tells = queues.pools.iter_mut().flatten().find_map(absorbs);
                if tells == Some(true) {
                    self.edge.trying(flow, message, out);
                }
                tells.is_some()
            }
            Some(Method::Cancel) => {
                let key = queues.keys.cancelled(message).key;
                let Some(waiter) = queues.pools.iter_mut().flatten().find_map(|queue| queue.remove(&key))
                else {
                    return false;
                };
                self.edge.answer(flow, message, Own::Cancelled, out);
                let terminated = refused(487, "Request Terminated").into();
                self.refuse_waiter((waiter.flow, &waiter.bytes), waiter.known.is_told, terminated, out);
                true
            }
            _ => false,
        }
    }

    /// A call waits from now on: its caller is told, should that take longer than he is patient.
    pub(crate) fn begins_to_wait(
        &mut self,
        pool: PoolId,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox<ShardEvent>,
    ) {
        let queue = self.queues.as_ref().and_then(|queues| queues.pools.get(pool.index())?.as_ref());
        if queue.is_some_and(PoolQueue::tells) {
            self.edge.trying(flow, message, out);
        }
    }

    /// Gives members what they have room for, and gives up what has waited too long.
    pub(crate) fn serve_queues(&mut self, out: &mut Outbox<ShardEvent>) {
        let now = self.edge.now;
        let Some(queues) = &mut self.queues else { return };
        for answer in self.balancer.first_answers() {
            queues.pools.iter_mut().flatten().for_each(|queue| queue.answered(now, answer));
        }
        let released = core::mem::take(&mut queues.released);
        let (is_stale, news) = (core::mem::take(&mut queues.is_stale), core::mem::take(&mut queues.news));
        let mut effects = Vec::new();
        for (pool, queue) in (0..).map(PoolId).zip(&mut queues.pools) {
            if let Some(queue) = queue.as_mut().filter(|queue| is_stale || queue.is_due(now)) {
                queue.look(now, (pool, &self.balancer), true, &queues.announced);
                for &(slot, capacity) in &news {
                    queue.announce(now, slot, capacity);
                }
                effects.extend(queue.effects(now).into_iter().map(|effect| (pool, effect)));
            }
        }
        for (pool, effect) in effects {
            self.carry_out(pool, effect, out);
        }
        for waiter in released {
            self.take_up(waiter, None, out);
        }
    }

    fn carry_out(&mut self, pool: PoolId, effect: Due, out: &mut Outbox<ShardEvent>) {
        match effect {
            Effect::Deliver { item, member, .. } => {
                if let Some(queues) = &mut self.queues {
                    queues.given = Some((pool, member));
                }
                self.take_up(*item, Some((pool, Waited::Pulled(member))), out);
                // It may have been refused before anybody asked for a member.
                if let Some(queues) = &mut self.queues {
                    queues.settle(self.edge.now, |_| false);
                }
            }
            // Another pool of its route may have room.
            Effect::Refuse { item, retry_after, .. } => {
                self.take_up(*item, Some((pool, Waited::Expired(retry_after))), out);
            }
        }
    }

    /// Gives a call that has waited what it gets instead of a member. A caller that `is_told`, by 100, sends no copies, which could be
    /// answered again where the answer is lost (RFC 3261 §17.1.1.2): it gets one in any case, and until it acknowledges that.
    fn refuse_waiter(
        &mut self,
        (flow, bytes): (Flow, &[u8]),
        is_told: bool,
        halt: Halt,
        out: &mut Outbox<ShardEvent>,
    ) {
        let Ok(message) = wire::scan(bytes) else { return };
        let halt = match halt {
            Halt::Dropped(Drop::QueueFull) if is_told => CALL_WAITS_TOO_LONG.into(),
            halt => halt,
        };
        match (halt, self.transactions(out)) {
            (Halt::Answered(own), Some((stateful, mut lent))) if is_told && stateful.has_room(&message) => {
                stateful.answer_waiter(&mut lent, flow, &message, own);
            }
            (halt, _) => self.edge.halt(flow, &message, halt, out),
        }
        self.edge.tell(flow, Some(&message), out);
    }

    /// Takes a call up again that has waited, with what has come of that.
    fn take_up(&mut self, waiter: Waiter, waited: Option<(PoolId, Waited)>, out: &mut Outbox<ShardEvent>) {
        let Waiter { flow, bytes, mut known } = waiter;
        known.waited = waited;
        let is_told = known.is_told;
        let Ok(message) = wire::scan(&bytes) else { return };
        match self.take_request(flow, &message, known, out) {
            Ok(()) => self.edge.tell(flow, Some(&message), out),
            Err(halt) => self.refuse_waiter((flow, &bytes), is_told, halt, out),
        }
    }

    /// How the queues of the pools do, by their number.
    pub fn queue_reports(&self) -> Vec<Option<QueueReport>> {
        let now = self.edge.now;
        let Some(queues) = &self.queues else { return Vec::new() };
        let report = |queue: &PoolQueue| queue.report(now, &queues.announced);
        queues.pools.iter().map(|queue| queue.as_ref().map(report)).collect()
    }
}
