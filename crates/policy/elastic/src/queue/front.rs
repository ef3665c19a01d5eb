//! The queue itself: offers, deliveries, absorbed copies and refusals.

use super::members::Members;
use super::waiting::Waiting;
use super::{MemberView, Overflow, QueueSettings};
use base::Instant;
use core::time::Duration;

/// Result of offering a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferResult {
    /// It goes to a member now; see the effects.
    Delivered,
    /// It waits.
    Waiting,
    /// The call waits already; this copy is dropped.
    Absorbed,
    /// The queue is full; the effects contain the response.
    Refused,
}

/// Actions for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<K, T, M> {
    /// Enter the session and send the call.
    Deliver {
        /// Key.
        key: K,
        /// The call that waited.
        item: T,
        /// Member that gets it.
        member: M,
        /// Waiting time.
        waited: Duration,
    },
    /// Answer 503, or do not answer: the queue is full, or the call has waited for the longest time.
    Refuse {
        /// Key.
        key: K,
        /// The call that waited.
        item: T,
        /// Seconds for Retry-After; `None` for no response ([`Overflow::Drop`]).
        retry_after: Option<u32>,
        /// Whether it had waited.
        expired: bool,
    },
}

/// Counts of calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// Calls offered, not counting copies.
    pub offered: u64,
    /// Calls delivered to a member.
    pub delivered: u64,
    /// Total waiting time of the delivered calls.
    pub waited: Duration,
    /// Copies of waiting calls.
    pub absorbed: u64,
    /// Calls refused because the queue was full.
    pub refused: u64,
    /// Calls refused because they had waited too long.
    pub expired: u64,
    /// Calls removed by their callers.
    pub removed: u64,
}

/// A queue from which members pull calls, at the rate given by [`Accrual`](super::Accrual).
///
/// - Calls: [`pull`](Self::pull), [`offer`](Self::offer), [`remove`](Self::remove).
/// - Members: [`announce`](Self::announce), [`estimate`](Self::estimate), [`set_load`](Self::set_load),
///   [`set_loads`](Self::set_loads), [`answers`](Self::answers), [`remove_member`](Self::remove_member).
/// - After a delivery: [`answered`](Self::answered), [`taken_back`](Self::taken_back), [`moved`](Self::moved).
/// - Running: [`tick`](Self::tick) at [`deadline`](Self::deadline), which is O(1). Any operation may have effects,
///   which are appended to the caller's vector in order.
/// - Reading: [`without_items`](Self::without_items), [`counts`](Self::counts), [`len`](Self::len),
///   [`total_capacity`](Self::total_capacity), [`members`](Self::members).
///
/// The time of a step grows linearly with the number of members and logarithmically with the number of waiting calls.
#[derive(Debug)]
pub struct FrontQueue<K, T, M> {
    settings: QueueSettings,
    waiting: Waiting<K, T>,
    members: Members<M>,
    /// Time at which a member has credit for the first waiting call.
    next_credit: Option<Instant>,
    counts: QueueCounts,
}

impl<K: Ord + Clone, T, M: Ord + Copy> FrontQueue<K, T, M> {
    /// Creates an empty queue without members.
    pub fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            waiting: Waiting::new(),
            members: Members::new(),
            next_credit: None,
            counts: QueueCounts::default(),
        }
    }

    /// Member for a call that can go at once: one has room and no call waits. `None`: [offer](Self::offer) the call.
    pub fn pull(&mut self, now: Instant) -> Option<M> {
        if self.waiting.len() > 0 {
            return None;
        }
        let member = self.take(now)?;
        self.counts.offered += 1;
        self.counts.delivered += 1;
        Some(member)
    }

    /// Copy without the calls' items, to find out the decisions of this queue without changing it.
    pub fn without_items(&self) -> FrontQueue<K, (), M> {
        FrontQueue {
            settings: self.settings,
            waiting: self.waiting.without_items(),
            members: self.members.clone(),
            next_credit: self.next_credit,
            counts: self.counts,
        }
    }

    /// Whether the most calls wait.
    pub fn is_full(&self, now: Instant) -> bool {
        self.waiting.len() >= self.settings.length.length(self.total_capacity(now))
    }

    /// Counts a new call that the caller refuses for lack of room. Returns the seconds for Retry-After.
    pub fn refuse(&mut self, random: u64) -> Option<u32> {
        self.counts.offered += 1;
        self.counts.refused += 1;
        self.retry_after(random)
    }

    /// Whether this call waits. If so, the request is a copy, which is counted and absorbed.
    pub fn absorbs(&mut self, key: &K) -> bool {
        let waits = self.waiting.contains(key);
        self.counts.absorbed += u64::from(waits);
        waits
    }

    /// Offers a new call, or a copy of a waiting one. `random` spreads the Retry-After of a refusal.
    pub fn offer(
        &mut self,
        now: Instant,
        key: K,
        item: T,
        random: u64,
        out: &mut Vec<Effect<K, T, M>>,
    ) -> OfferResult {
        self.tick(now, out);
        if self.absorbs(&key) {
            return OfferResult::Absorbed;
        }
        // First in, first out: while others wait, no member has room for this call.
        if let Some(member) = self.pull(now) {
            out.push(Effect::Deliver { key, item, member, waited: Duration::ZERO });
            return OfferResult::Delivered;
        }
        if self.is_full(now) {
            let retry_after = self.refuse(random);
            out.push(Effect::Refuse { key, item, retry_after, expired: false });
            return OfferResult::Refused;
        }
        self.counts.offered += 1;
        self.waiting.push(key, item, now, now + self.settings.bound, random);
        if self.waiting.len() == 1 {
            self.next_credit = self.members.next_credit(now, &self.settings);
        }
        OfferResult::Waiting
    }

    /// Removes a call that its caller has cancelled, to be answered 487, or whose caller is gone. Returns its item; it
    /// is not delivered.
    pub fn remove(&mut self, key: &K) -> Option<T> {
        let entry = self.waiting.remove(key)?;
        self.counts.removed += 1;
        Some(entry.item)
    }

    /// Sets the announced capacity of a member in calls a second. The first announcement makes it a member.
    pub fn announce(&mut self, now: Instant, member: M, capacity: f64, out: &mut Vec<Effect<K, T, M>>) {
        self.members.announce(now, member, capacity, &self.settings);
        self.on_change(now, out);
    }

    /// Sets another estimate of a member's capacity, in calls a second. It is used while the member's updates are
    /// missing, if it is more than the decayed capacity.
    pub fn estimate(&mut self, now: Instant, member: M, capacity: f64, out: &mut Vec<Effect<K, T, M>>) {
        self.members.estimate(now, member, capacity, &self.settings);
        self.on_change(now, out);
    }

    /// Sets the load of a member. Each delivered call adds [`INVITE_WORK`](base::INVITE_WORK) until the next value.
    pub fn set_load(&mut self, now: Instant, member: M, load: f64, out: &mut Vec<Effect<K, T, M>>) {
        self.members.set_load(member, load);
        self.on_change(now, out);
    }

    /// Sets the loads of all members; `None` for a member that takes no new calls now. Call [`tick`](Self::tick)
    /// afterwards.
    pub fn set_loads(&mut self, now: Instant, load: impl FnMut(M) -> Option<f64>) {
        self.members.set_loads(load);
        self.next_credit = Some(now);
    }

    /// Whether a member has announced a capacity.
    pub fn has_member(&self, member: M) -> bool {
        self.members.has(member)
    }

    /// Records that another member got an unanswered call as well, which `member` got at `sent`. The other member now
    /// has its load.
    pub fn moved(&mut self, member: M, sent: Instant) {
        self.members.moved(member, sent);
    }

    /// Records a member's first response to a call that it got at `sent`. Call [`tick`](Self::tick) afterwards.
    pub fn answered(&mut self, now: Instant, member: M, sent: Instant) {
        self.members.answered(now, member, sent, &self.settings);
        self.has_changed(now);
    }

    /// Records that a call that a member got at `sent` was never sent, or that its response will not be reported. The
    /// call no longer counts as unanswered; returns whether it did. Call [`tick`](Self::tick) afterwards.
    pub fn taken_back(&mut self, now: Instant, member: M, sent: Instant) -> bool {
        self.has_changed(now);
        self.members.taken_back(now, member, sent)
    }

    /// Records that a member has answered any request, so it has not stopped. Call [`tick`](Self::tick) afterwards.
    pub fn answers(&mut self, now: Instant, member: M) {
        if self.members.answers(member) {
            self.has_changed(now);
        }
    }

    /// Waiting calls in order.
    pub fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.items()
    }

    /// Removes all waiting calls; returns them in order.
    pub fn take_all(&mut self) -> Vec<T> {
        core::iter::from_fn(|| self.waiting.pop_first()).map(|entry| entry.item).collect()
    }

    /// Removes a member that is dead or drained: it gets no more calls.
    pub fn remove_member(&mut self, now: Instant, member: M, out: &mut Vec<Effect<K, T, M>>) {
        self.members.remove(member);
        self.on_change(now, out);
    }

    /// Refuses calls that have waited too long, and delivers calls as far as there is credit.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<Effect<K, T, M>>) {
        while let Some(entry) = self.waiting.pop_expired(now) {
            self.counts.expired += 1;
            let retry_after = self.retry_after(entry.random);
            out.push(Effect::Refuse { key: entry.key, item: entry.item, retry_after, expired: true });
        }
        if self.next_credit.is_none_or(|next| next > now) {
            return;
        }
        while self.waiting.len() > 0 {
            let Some(member) = self.take(now) else { break };
            let Some(entry) = self.waiting.pop_first() else { break };
            self.counts.delivered += 1;
            let waited = now - entry.since;
            self.counts.waited += waited;
            out.push(Effect::Deliver { key: entry.key, item: entry.item, member, waited });
        }
        self.look_ahead(now);
    }

    /// Time of the next [`Self::tick`]; `None` if no call waits.
    pub fn deadline(&self) -> Option<Instant> {
        let expiry = self.waiting.first_deadline()?;
        Some(self.next_credit.map_or(expiry, |next| next.min(expiry)))
    }

    /// Number of waiting calls.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no call waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.len() == 0
    }

    /// Total effective capacity of all members, in calls a second.
    pub fn total_capacity(&self, now: Instant) -> f64 {
        self.members.total(now, &self.settings)
    }

    /// Present state of the members, in order.
    pub fn members(&self, now: Instant) -> impl Iterator<Item = (M, MemberView)> {
        self.members.views(now, &self.settings)
    }

    /// Counts of calls so far.
    pub fn counts(&self) -> QueueCounts {
        self.counts
    }

    /// A changed member may have room for the first waiting call.
    fn on_change(&mut self, now: Instant, out: &mut Vec<Effect<K, T, M>>) {
        self.has_changed(now);
        self.tick(now, out);
    }

    fn has_changed(&mut self, now: Instant) {
        self.next_credit = Some(now);
    }

    /// Member that gets a call now.
    fn take(&mut self, now: Instant) -> Option<M> {
        self.members.accrue(now, &self.settings);
        let member = self.members.choose(now, &self.settings)?;
        self.members.charge(now, member, &self.settings);
        Some(member)
    }

    fn look_ahead(&mut self, now: Instant) {
        let waits = self.waiting.len() > 0;
        self.next_credit = if waits { self.members.next_credit(now, &self.settings) } else { None };
    }

    fn retry_after(&self, random: u64) -> Option<u32> {
        match self.settings.overflow {
            Overflow::Refuse { least, most } => {
                let places = u64::from(most.saturating_sub(least)) + 1;
                Some(least + (random % places) as u32)
            }
            Overflow::Drop => None,
        }
    }
}
