//! The queue itself: calls are offered, delivered, absorbed and refused.

use super::members::Members;
use super::waiting::Waiting;
use super::{MemberView, Overflow, QueueSettings};
use base::Instant;
use core::time::Duration;

/// Outcome of offering a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It goes to a member now; see the effects.
    Delivered,
    /// It waits.
    Waiting,
    /// It waits already; this copy is gone.
    Absorbed,
    /// The queue is full; the effects have the response.
    Refused,
}

/// Actions for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<K, T, M> {
    /// Enter the session and send the call.
    Deliver {
        /// Its key.
        key: K,
        /// The call that waited.
        item: T,
        /// The member that gets it.
        member: M,
        /// How long it has waited.
        waited: Duration,
    },
    /// Answer 503, or nothing: the queue is full, or the call has waited as long as it may.
    Refuse {
        /// Its key.
        key: K,
        /// The call that waited.
        item: T,
        /// Seconds for Retry-After; `None`: no answer ([`Overflow::Drop`]).
        retry_after: Option<u32>,
        /// Whether it had waited.
        expired: bool,
    },
}

/// Counts of calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// Calls offered, copies not counted.
    pub offered: u64,
    /// Given to a member.
    pub delivered: u64,
    /// Total waiting time of the delivered calls.
    pub waited: Duration,
    /// Copies of waiting calls.
    pub absorbed: u64,
    /// Refused because the queue was full.
    pub refused: u64,
    /// Refused because they had waited too long.
    pub expired: u64,
    /// Taken out by their callers.
    pub removed: u64,
}

/// A queue from which members pull, as [`Accrual`](super::Accrual) says.
///
/// - Calls: [`pull`](Self::pull), [`offer`](Self::offer), [`remove`](Self::remove).
/// - Members: [`announce`](Self::announce), [`estimate`](Self::estimate), [`set_load`](Self::set_load),
///   [`set_loads`](Self::set_loads), [`answers`](Self::answers), [`remove_member`](Self::remove_member).
/// - After a delivery: [`answered`](Self::answered), [`taken_back`](Self::taken_back), [`moved`](Self::moved).
/// - Running: [`tick`](Self::tick) at [`deadline`](Self::deadline), which is O(1). Any operation may have effects:
///   they are put into the caller's vector, in order.
/// - Looking on: [`without_items`](Self::without_items), [`counts`](Self::counts), [`len`](Self::len),
///   [`total_capacity`](Self::total_capacity), [`members`](Self::members).
///
/// A step takes time as the number of members and as the logarithm of the number that waits.
#[derive(Debug)]
pub struct FrontQueue<K, T, M> {
    settings: QueueSettings,
    waiting: Waiting<K, T>,
    members: Members<M>,
    /// When a member has credit for the first that waits.
    next_credit: Option<Instant>,
    counts: QueueCounts,
}

impl<K: Ord + Clone, T, M: Ord + Copy> FrontQueue<K, T, M> {
    /// An empty queue without members.
    pub fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            waiting: Waiting::new(),
            members: Members::new(),
            next_credit: None,
            counts: QueueCounts::default(),
        }
    }

    /// A member for a call that need not be kept, as one has room for it and nobody waits. If none has, it is to be
    /// [offered](Self::offer).
    pub fn pull(&mut self, now: Instant) -> Option<M> {
        if self.waiting.len() > 0 {
            return None;
        }
        let member = self.take(now)?;
        self.counts.offered += 1;
        self.counts.delivered += 1;
        Some(member)
    }

    /// A copy with nothing in place of each call, to find out what this queue would do.
    pub fn without_items(&self) -> FrontQueue<K, (), M> {
        FrontQueue {
            settings: self.settings,
            waiting: self.waiting.without_items(),
            members: self.members.clone(),
            next_credit: self.next_credit,
            counts: self.counts,
        }
    }

    /// Whether as many wait as may.
    pub fn is_full(&self, now: Instant) -> bool {
        self.waiting.len() >= self.settings.length.length(self.total_capacity(now))
    }

    /// Refuses a new call for want of room that the caller knows of; the seconds after which it may come again.
    pub fn refuse(&mut self, random: u64) -> Option<u32> {
        self.counts.offered += 1;
        self.counts.refused += 1;
        self.retry_after(random)
    }

    /// Whether this call waits. If so, the request is a copy of it, which is counted and absorbed.
    pub fn absorbs(&mut self, key: &K) -> bool {
        let waits = self.waiting.contains(key);
        self.counts.absorbed += u64::from(waits);
        waits
    }

    /// A new call, or a copy of one that waits. `random` spreads its Retry-After, should it come to that.
    pub fn offer(
        &mut self,
        now: Instant,
        key: K,
        item: T,
        random: u64,
        out: &mut Vec<Effect<K, T, M>>,
    ) -> Offer {
        self.tick(now, out);
        if self.absorbs(&key) {
            return Offer::Absorbed;
        }
        // First in, first out: while others wait nobody has room for this one.
        if let Some(member) = self.pull(now) {
            out.push(Effect::Deliver { key, item, member, waited: Duration::ZERO });
            return Offer::Delivered;
        }
        if self.is_full(now) {
            let retry_after = self.refuse(random);
            out.push(Effect::Refuse { key, item, retry_after, expired: false });
            return Offer::Refused;
        }
        self.counts.offered += 1;
        self.waiting.push(key, item, now, now + self.settings.bound, random);
        if self.waiting.len() == 1 {
            self.next_credit = self.members.next_credit(now, &self.settings);
        }
        Offer::Waiting
    }

    /// The caller has cancelled the call, which is to be answered 487, or is gone: the call is given back and not
    /// delivered.
    pub fn remove(&mut self, key: &K) -> Option<T> {
        let entry = self.waiting.remove(key)?;
        self.counts.removed += 1;
        Some(entry.item)
    }

    /// An update of a member, calls a second; the first one makes it a member.
    pub fn announce(&mut self, now: Instant, member: M, capacity: f64, out: &mut Vec<Effect<K, T, M>>) {
        self.members.announce(now, member, capacity, &self.settings);
        self.on_change(now, out);
    }

    /// What a member can take by somebody else's estimate, in calls a second: it holds while updates of the member
    /// stay out, if it is more than what is left of the last one.
    pub fn estimate(&mut self, now: Instant, member: M, capacity: f64, out: &mut Vec<Effect<K, T, M>>) {
        self.members.estimate(now, member, capacity, &self.settings);
        self.on_change(now, out);
    }

    /// The work that a member has; a delivered call adds [`INVITE_WORK`](base::INVITE_WORK) until the next one is told.
    pub fn set_load(&mut self, now: Instant, member: M, load: f64, out: &mut Vec<Effect<K, T, M>>) {
        self.members.set_load(member, load);
        self.on_change(now, out);
    }

    /// The loads of all members, `None` for a member that takes no new calls now. [`tick`](Self::tick) is to follow.
    pub fn set_loads(&mut self, now: Instant, load: impl FnMut(M) -> Option<f64>) {
        self.members.set_loads(load);
        self.next_credit = Some(now);
    }

    /// Whether a member has announced anything.
    pub fn has_member(&self, member: M) -> bool {
        self.members.has(member)
    }

    /// Another member has a call as well that this one got at `sent` and has not answered: its load is with that one.
    pub fn moved(&mut self, member: M, sent: Instant) {
        self.members.moved(member, sent);
    }

    /// A member has answered a call for the first time that it got at `sent`. [`tick`](Self::tick) is to follow.
    pub fn answered(&mut self, now: Instant, member: M, sent: Instant) {
        self.members.answered(now, member, sent, &self.settings);
        self.has_changed(now);
    }

    /// A call that a member got at `sent` was never sent, or nobody will hear of its answer. It counts no more as
    /// unanswered; returns whether it did. [`tick`](Self::tick) is to follow.
    pub fn taken_back(&mut self, now: Instant, member: M, sent: Instant) -> bool {
        self.has_changed(now);
        self.members.taken_back(now, member, sent)
    }

    /// A member has answered something: it does not stand still. [`tick`](Self::tick) is to follow.
    pub fn answers(&mut self, now: Instant, member: M) {
        if self.members.answers(member) {
            self.has_changed(now);
        }
    }

    /// The waiting calls, in their order.
    pub fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.items()
    }

    /// Takes all out that waits, in its order.
    pub fn take_all(&mut self) -> Vec<T> {
        core::iter::from_fn(|| self.waiting.pop_first()).map(|entry| entry.item).collect()
    }

    /// A member is dead or drained: it gets no more calls.
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

    /// When to call [`Self::tick`]; `None` if nothing waits.
    pub fn deadline(&self) -> Option<Instant> {
        let expiry = self.waiting.first_deadline()?;
        Some(self.next_credit.map_or(expiry, |next| next.min(expiry)))
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.len() == 0
    }

    /// The effective capacity of all members together, calls a second.
    pub fn total_capacity(&self, now: Instant) -> f64 {
        self.members.total(now, &self.settings)
    }

    /// The members as they are now, in order.
    pub fn members(&self, now: Instant) -> impl Iterator<Item = (M, MemberView)> {
        self.members.views(now, &self.settings)
    }

    /// Counts of calls so far.
    pub fn counts(&self) -> QueueCounts {
        self.counts
    }

    /// A member is another one than it was: it may be the one that the first call waits for.
    fn on_change(&mut self, now: Instant, out: &mut Vec<Effect<K, T, M>>) {
        self.has_changed(now);
        self.tick(now, out);
    }

    fn has_changed(&mut self, now: Instant) {
        self.next_credit = Some(now);
    }

    /// The member that gets a call now.
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
