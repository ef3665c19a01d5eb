//! The queue of one pool at one shard: its members, their capacities, and the waiting calls.

use super::measured::Measured;
use crate::read::progress::Waiter;
use balance::{Balancer, FirstAnswer, NodeId, PoolId, Slot, Weights};
use base::Instant;
use core::time::Duration;
use elastic::estimate::EstimatorSettings;
use elastic::queue::{
    Accrual, Effect, FrontQueue, LengthSettings, MemberView, OfferResult, QueueCounts, QueueSettings,
};
use std::collections::BTreeMap;
use transaction::TransactionKey;

/// Half of T1. A caller without a response soon after this time sends its INVITE again (RFC 3261 §17.1.1.2). A caller
/// that may have to wait longer gets a 100 (§17.2.1: within 200 ms).
const HALF_T1: Duration = Duration::from_millis(250);

/// Capacity that a member has announced.
pub(crate) struct Announced {
    /// The node that was in the slot when the capacity was announced.
    pub(super) id: NodeId,
    pub(super) at: Instant,
    /// Calls per second, for all shards together.
    pub(super) capacity: f64,
}

/// Announcements of members, for all shards together.
#[derive(Default)]
pub(super) struct Announcements {
    pub(super) known: BTreeMap<Slot, Announced>,
    /// Announcements that the queues have not used yet.
    pub(super) news: Vec<(Slot, f64)>,
}

/// Settings of the queue in front of a pool.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSetup {
    /// Settings of waiting, for all shards together.
    pub settings: QueueSettings,
    /// The source of a member's capacity.
    pub source: CapacitySource,
    /// Bounds and initial value of the capacity, and the law that computes it from response times.
    pub capacity: EstimatorSettings,
}

/// The source of a member's capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapacitySource {
    /// The configured maximum.
    Fixed,
    /// A monitor beside the member, by [`ShardInput::Capacity`](crate::ShardInput::Capacity). While the monitor is
    /// silent, the member's response times are used.
    Announced,
    /// The member's response times, measured here.
    Responses,
}

impl QueueSetup {
    /// Returns the share of one of `shards` shards.
    fn share(&self, shards: usize) -> Self {
        let shards = shards.max(1);
        let part = |capacity: f64| capacity / shards as f64;
        let LengthSettings { delay, least, most } = self.settings.length;
        let length = LengthSettings { delay, least, most: most.div_ceil(shards) };
        let validity = match self.source {
            CapacitySource::Announced => self.settings.validity,
            // A configured capacity never expires.
            CapacitySource::Fixed | CapacitySource::Responses => Duration::MAX,
        };
        let capacity = EstimatorSettings {
            maximum: part(self.capacity.maximum),
            minimum: part(self.capacity.minimum),
            ..self.capacity
        };
        // Responses are measured here, whatever the source of the capacity.
        let threshold = Some(self.capacity.threshold);
        let accrual = match self.settings.accrual {
            Accrual::Answers { most } => Accrual::Answers { most: part(most) },
            other => other,
        };
        let settings = QueueSettings { length, validity, accrual, threshold, ..self.settings };
        Self { settings, source: self.source, capacity }
    }

    /// Returns this shard's part of an announced capacity.
    fn part(&self, announced: f64, shards: usize) -> f64 {
        (announced / shards.max(1) as f64).min(self.capacity.maximum)
    }
}

/// The state of a queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QueueReport {
    /// Number of waiting calls.
    pub waiting: usize,
    /// Counts of calls.
    pub counts: QueueCounts,
    /// Members that take calls or have announced a capacity.
    pub members: Vec<QueueMember>,
}

/// State of a member at a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueMember {
    /// Slot of the member.
    pub slot: Slot,
    /// Capacity in new calls per second.
    pub capacity: f64,
    /// Calls from the queue without any response. Counted only if they limit the calls that the member gets.
    pub unanswered: usize,
    /// Number of unanswered calls from which on the member gets no other call.
    pub unanswered_most: f64,
    /// Whether its announcements have stopped.
    pub is_silent: bool,
    /// Whether the member takes calls now, at one shard at least.
    pub is_open: bool,
    /// Whether the capacity was configured, recently announced or measured, at every shard. Otherwise it is the initial
    /// capacity, or the decayed capacity of a silent member.
    pub is_known: bool,
}

impl QueueReport {
    /// Adds the report of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.waiting += other.waiting;
        self.counts.offered += other.counts.offered;
        self.counts.delivered += other.counts.delivered;
        self.counts.waited += other.counts.waited;
        self.counts.absorbed += other.counts.absorbed;
        self.counts.refused += other.counts.refused;
        self.counts.expired += other.counts.expired;
        self.counts.removed += other.counts.removed;
        for member in &other.members {
            match self.members.iter_mut().find(|known| known.slot == member.slot) {
                Some(known) => {
                    known.capacity += member.capacity;
                    known.unanswered += member.unanswered;
                    known.unanswered_most += member.unanswered_most;
                    known.is_silent |= member.is_silent;
                    known.is_open |= member.is_open;
                    known.is_known &= member.is_known;
                }
                None => self.members.push(*member),
            }
        }
        self.members.sort_by_key(|member| member.slot);
    }
}

/// Decision of a queue about a new call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueTurn {
    /// This member has room for the call.
    Member(Slot),
    /// No member has room, so the call waits.
    Waits,
    /// The queue is full: the call is refused, or goes to another pool of its route.
    Full,
}

/// Maximum bytes of waiting messages in a queue at a shard. One datagram may be a hundred times as long as a usual
/// INVITE.
const BYTES_MAX: usize = 8 << 20;

/// Actions of a queue for its shard.
pub(super) type Due<T = Box<Waiter>> = Effect<TransactionKey, T, Slot>;

/// The queue of one pool at one shard. `T` is a waiting call.
pub(super) struct PoolQueue<T = Box<Waiter>> {
    /// This shard's share of the settings.
    setup: QueueSetup,
    shards: usize,
    /// Nodes of the members, by slot. After a node has left, another server may take its slot.
    ids: BTreeMap<Slot, NodeId>,
    front: FrontQueue<TransactionKey, T, Slot>,
    measured: Measured,
    /// Capacities of members that this process or another one has measured, in calls per second for all shards
    /// together.
    learned: BTreeMap<NodeId, f64>,
    /// Bytes of the waiting messages.
    bytes: usize,
    /// Actions for the next turn.
    effects: Vec<Due<T>>,
}

impl PoolQueue {
    /// Creates the queue of one of `shards` shards. `learned` are earlier measured capacities.
    pub(super) fn new(setup: &QueueSetup, shards: usize, learned: BTreeMap<NodeId, f64>) -> Self {
        let setup = setup.share(shards);
        let (front, measured) = (FrontQueue::new(setup.settings), Measured::new(setup.capacity));
        let ids = BTreeMap::new();
        Self { setup, shards, ids, front, measured, learned, bytes: 0, effects: Vec::new() }
    }

    /// Returns the measured capacities, for a queue that replaces this one.
    pub(super) fn learned(&self) -> BTreeMap<NodeId, f64> {
        let shown = self.measured.learned();
        let of_all =
            |(slot, capacity): (Slot, f64)| Some((*self.ids.get(&slot)?, capacity * self.shards as f64));
        let mut learned = self.learned.clone();
        learned.extend(shown.filter_map(of_all));
        learned
    }

    /// Records a capacity in calls per second that another process has measured.
    pub(super) fn learn(&mut self, now: Instant, id: NodeId, capacity: f64) {
        self.learned.insert(id, capacity);
        let slot = self.ids.iter().find(|(_, known)| **known == id).map(|(slot, _)| *slot);
        // The member starts again with the new capacity.
        if let Some(slot) = slot.filter(|slot| !self.measured.is_learned(*slot)) {
            self.leave(now, slot);
        }
    }

    pub(super) fn sends_trying(&self) -> bool {
        self.setup.settings.bound > HALF_T1
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiter> {
        self.front.waiting().map(|waiter| &**waiter).chain(self.effects.iter().map(item))
    }

    pub(super) fn into_waiting(mut self) -> impl Iterator<Item = Waiter> {
        let due = core::mem::take(&mut self.effects).into_iter().map(|due| match due {
            Effect::Deliver { item, .. } | Effect::Refuse { item, .. } => item,
        });
        due.chain(self.front.take_all()).map(|waiter| *waiter)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if !self.effects.is_empty() {
            return Some(Instant::ZERO);
        }
        Instant::earliest(self.front.deadline(), self.measured.deadline())
    }

    /// Returns whether the queue has work to do now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.front.is_empty() || self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Records a member's first response to a call.
    pub(super) fn answered(&mut self, now: Instant, FirstAnswer { slot, sent, took }: FirstAnswer) {
        self.front.answered(now, slot, sent);
        self.measured.answered(now, slot, took);
    }

    /// Records that another member also has a call, which this member got at `sent` and has not answered.
    pub(super) fn moved(&mut self, member: Slot, sent: Instant) {
        self.front.moved(member, sent);
    }

    /// Stops counting a call that a member got at `sent` as unanswered.
    pub(super) fn taken_back(&mut self, now: Instant, slot: Slot, sent: Instant) {
        if self.front.taken_back(now, slot, sent) {
            self.measured.taken_back(slot);
        }
    }

    pub(super) fn answers(&mut self, now: Instant, slot: Slot) {
        self.front.answers(now, slot);
    }

    /// Returns a member with room for a call, which then needs no place in the queue.
    pub(super) fn pull(&mut self, now: Instant) -> Option<Slot> {
        let slot = self.front.pull(now)?;
        self.measured.delivered(now, slot);
        Some(slot)
    }

    /// Returns the decision about a new call of `length` bytes, computed on a copy of the queue.
    pub(super) fn turn(
        &self,
        now: Instant,
        pool: PoolId,
        key: TransactionKey,
        length: usize,
        balancer: &Balancer,
        announced: &Announcements,
    ) -> QueueTurn {
        let Self { setup, shards, ids, front, measured, learned, bytes, effects: _ } = self;
        let mut copy = PoolQueue {
            setup: setup.clone(),
            shards: *shards,
            ids: ids.clone(),
            front: front.without_items(),
            measured: measured.clone(),
            learned: learned.clone(),
            bytes: *bytes,
            effects: Vec::new(),
        };
        copy.look(now, pool, balancer, true, &announced.known);
        for &(slot, capacity) in &announced.news {
            copy.announce(now, slot, capacity);
        }
        copy.front.tick(now, &mut copy.effects);
        if let Some(slot) = copy.front.pull(now) {
            return QueueTurn::Member(slot);
        }
        let has_bytes = bytes + length <= BYTES_MAX;
        match copy.front.offer(now, key, (), 0, &mut copy.effects) {
            OfferResult::Waiting if has_bytes => QueueTurn::Waits,
            OfferResult::Waiting | OfferResult::Refused => QueueTurn::Full,
            // These results cannot occur: a member with room has already pulled the call above, and a copy of a waiting
            // call was found before.
            OfferResult::Delivered | OfferResult::Absorbed => QueueTurn::Waits,
        }
    }

    /// Queues a call that no member has pulled. If there is no room, returns it with the Retry-After for its caller.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        key: TransactionKey,
        waiter: Box<Waiter>,
    ) -> Result<(), (Option<u32>, Box<Waiter>)> {
        // The random number may be any number that callers cannot choose.
        let random = key.0 as u64;
        let length = waiter.bytes.len();
        if self.bytes + length > BYTES_MAX {
            return Err((self.front.refuse(random), waiter));
        }
        self.bytes += length;
        match self.front.offer(now, key, waiter, random, &mut self.effects) {
            // The refusal of this call is the last effect.
            OfferResult::Refused => match self.effects.pop() {
                Some(Effect::Refuse { item, retry_after, .. }) => {
                    self.bytes -= length;
                    Err((retry_after, item))
                }
                _ => unreachable!("a refused call is returned at once"),
            },
            OfferResult::Absorbed => {
                self.bytes -= length;
                Ok(())
            }
            OfferResult::Delivered | OfferResult::Waiting => Ok(()),
        }
    }

    /// Returns whether a request is a copy of a waiting call.
    pub(super) fn absorbs(&mut self, key: &TransactionKey) -> bool {
        self.front.absorbs(key)
    }

    pub(super) fn remove(&mut self, key: &TransactionKey) -> Option<Box<Waiter>> {
        let waiter = self.front.remove(key)?;
        self.bytes -= waiter.bytes.len();
        Some(waiter)
    }

    pub(super) fn effects(&mut self, now: Instant) -> Vec<Due> {
        self.front.tick(now, &mut self.effects);
        for effect in &self.effects {
            self.bytes -= item(effect).bytes.len();
            if let Effect::Deliver { member, .. } = effect {
                self.measured.delivered(now, *member);
            }
        }
        core::mem::take(&mut self.effects)
    }

    /// Returns whether the capacity of a member is known, and not only an initial value.
    fn is_known(&self, slot: Slot, announced: &BTreeMap<Slot, Announced>) -> bool {
        match self.setup.source {
            CapacitySource::Fixed => true,
            CapacitySource::Announced => {
                announced.get(&slot).is_some_and(|known| self.ids.get(&slot) == Some(&known.id))
            }
            CapacitySource::Responses => self.measured.is_learned(slot),
        }
    }

    pub(super) fn report(&self, now: Instant, announced: &BTreeMap<Slot, Announced>) -> QueueReport {
        let member = |(slot, view): (Slot, MemberView)| QueueMember {
            slot,
            capacity: view.capacity,
            unanswered: view.unanswered,
            unanswered_most: view.unanswered_most,
            is_silent: view.silent,
            is_open: view.open,
            is_known: !view.silent && self.is_known(slot, announced),
        };
        QueueReport {
            waiting: self.front.len(),
            counts: self.front.counts(),
            members: self.front.members(now).map(member).collect(),
        }
    }
}

impl<T> PoolQueue<T> {
    /// Updates the members that take calls now, with their loads, announcements and measurements. `trials`: includes
    /// half-open members.
    pub(super) fn look(
        &mut self,
        now: Instant,
        pool: PoolId,
        balancer: &Balancer,
        trials: bool,
        announced: &BTreeMap<Slot, Announced>,
    ) {
        let takers: BTreeMap<_, _> =
            balancer.takers(now, pool, trials).into_iter().map(|taker| (taker.slot, taker)).collect();
        // Usually all known members take calls, so the cheaper condition comes first.
        let is_gone =
            |slot: &Slot| !takers.contains_key(slot) && !balancer.members(pool).any(|member| member == *slot);
        let gone: Vec<_> = self.ids.keys().copied().filter(is_gone).collect();
        for slot in gone {
            if let Some(id) = self.ids.remove(&slot) {
                self.learned.remove(&id);
            }
            self.leave(now, slot);
        }
        for (&slot, taker) in &takers {
            if self.ids.insert(slot, taker.id).is_some_and(|before| before != taker.id) {
                self.leave(now, slot);
            }
        }
        // This comes before any call is delivered.
        self.front
            .set_loads(now, |slot| Some(takers.get(&slot)?.load.work as f64 / f64::from(Weights::UNIT)));
        for (&slot, taker) in &takers {
            if !self.front.has_member(slot) {
                self.enter(now, slot, announced.get(&slot).filter(|known| known.id == taker.id));
            }
        }
        for (slot, capacity) in self.measured.capacities(now) {
            match self.setup.source {
                CapacitySource::Announced => self.front.estimate(now, slot, capacity, &mut self.effects),
                CapacitySource::Fixed | CapacitySource::Responses => {
                    self.front.announce(now, slot, capacity, &mut self.effects);
                }
            }
        }
    }

    /// Adds a member to the queue. It may have announced a capacity before.
    fn enter(&mut self, now: Instant, slot: Slot, known: Option<&Announced>) {
        let of_all = self.ids.get(&slot).and_then(|id| self.learned.get(id)).copied();
        let learned = of_all.map(|capacity| self.setup.part(capacity, self.shards));
        let effects = &mut self.effects;
        match self.setup.source {
            CapacitySource::Fixed => self.front.announce(now, slot, self.setup.capacity.maximum, effects),
            CapacitySource::Responses => {
                self.front.announce(now, slot, self.measured.enter(now, slot, learned), effects);
            }
            CapacitySource::Announced => {
                let estimated = self.measured.enter(now, slot, learned);
                let part = |known: &Announced| (known.at, self.setup.part(known.capacity, self.shards));
                let (at, capacity) = known.map_or((now, estimated), part);
                self.front.announce(at, slot, capacity, effects);
                self.front.estimate(now, slot, estimated, effects);
            }
        }
    }

    /// Uses the capacity that a member has announced, in calls per second for all shards together.
    pub(super) fn announce(&mut self, now: Instant, slot: Slot, capacity: f64) {
        if self.setup.source == CapacitySource::Announced && self.front.has_member(slot) {
            let capacity = self.setup.part(capacity, self.shards);
            self.front.announce(now, slot, capacity, &mut self.effects);
        }
    }

    fn leave(&mut self, now: Instant, slot: Slot) {
        self.front.remove_member(now, slot, &mut self.effects);
        self.measured.remove(slot);
    }
}

fn item(due: &Due) -> &Waiter {
    match due {
        Effect::Deliver { item, .. } | Effect::Refuse { item, .. } => item,
    }
}
