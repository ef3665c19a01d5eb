//! Leases of transactions and calls. The load of a node is the sum over its live leases.

use crate::refusals::Shared;
use crate::{CallLimits, Slot};
use core::ops::{Add, AddAssign};
use std::sync::Arc;

/// Load of a node: the sum over its live leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Calls assigned and not ended.
    pub calls: u32,
    /// Transactions assigned and not answered.
    pub transactions: u32,
    /// Weighted work of these transactions, in thousandths of a BYE.
    pub work: u64,
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.transactions += other.transactions;
        self.work += other.work;
    }
}

impl Add for Load {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// Load of one node as this shard knows it: its own leases, and the last report of the other shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadCell {
    /// Load from the leases of this shard.
    pub own: Load,
    /// Load from the other shards of this process, as of the last exchange.
    pub others: Load,
    /// Value of `own` at the last exchange.
    exchanged: Load,
}

impl LoadCell {
    /// Sum of the loads of all shards.
    pub fn total(&self) -> Load {
        self.own + self.others
    }

    /// Load that policies compare. It assumes that since the last exchange the load of each of the `peers` other shards
    /// has changed as much as the load of this shard. This is likely, since Call-IDs spread calls evenly over shards.
    /// Without this estimate all shards would fill the node that had the least load at the exchange.
    fn expected(&self, peers: u32) -> Load {
        let peers = i64::from(peers);
        let extrapolate = |own: u64, exchanged: u64, others: u64| {
            let (own, change) = (own as i64, own as i64 - exchanged as i64);
            (own + others as i64 + peers * change).max(0) as u64
        };
        let count = |own: u32, exchanged: u32, others: u32| {
            extrapolate(own.into(), exchanged.into(), others.into()) as u32
        };
        let (own, then, others) = (&self.own, &self.exchanged, &self.others);
        Load {
            calls: count(own.calls, then.calls, others.calls),
            transactions: count(own.transactions, then.transactions, others.transactions),
            work: extrapolate(own.work, then.work, others.work),
        }
    }
}

/// A transaction that counts in the load of its node. It cannot be copied and [`Leases::end`] consumes it, so the
/// compiler ensures that no lease ends twice.
#[must_use = "a lease that is dropped leaves its load behind: end it"]
#[derive(Debug)]
pub(crate) struct Lease {
    slot: Slot,
    deaths: u16,
    /// Work in thousandths of a BYE.
    work: u32,
}

/// Lease of a call, ended by [`Leases::end_call`]. The lease stays while its node is silent, since the node may come
/// back with its calls. It ends when the calls are known to be lost.
#[must_use = "a lease that is dropped leaves its load behind: end it"]
#[derive(Debug)]
pub(crate) struct CallLease {
    slot: Slot,
    deaths: u16,
}

impl CallLease {
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }
}

impl Lease {
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }
}

/// Counts that decide which leases of a node are live.
#[derive(Clone, Copy, Default, Debug)]
struct Age {
    /// [`crate::Node::deaths`]: transaction leases taken at another count have ended.
    deaths: u16,
    /// [`crate::Node::lost`]: call leases taken at a smaller count have ended.
    lost: u16,
    /// Live calls taken at an earlier count of deaths than the present one.
    before: u32,
}

/// Whether one count of deaths is equal to or later than another. Counts wrap. The cluster keeps no call over more
/// deaths than half of the range.
fn is_since(count: u16, other: u16) -> bool {
    count.wrapping_sub(other).cast_signed() >= 0
}

/// Loads of all nodes. Nothing else in the process counts load.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    cells: Vec<LoadCell>,
    /// Number of other shards.
    peers: u32,
    ages: Vec<Age>,
    /// Most calls of each node; 0 for no limit.
    limits: Vec<u32>,
    /// Counters that the shards share; `None` for a single shard.
    call_limits: Option<Arc<CallLimits>>,
}

impl Leases {
    /// Makes room for `count` nodes.
    pub(crate) fn grow(&mut self, count: usize) {
        if self.cells.len() < count {
            self.cells.resize(count, LoadCell::default());
            self.ages.resize(count, Age::default());
            self.limits.resize(count, 0);
        }
    }

    pub(crate) fn cell(&self, slot: Slot) -> LoadCell {
        self.cells[slot.index()]
    }

    /// Sets the counters that the shards share for nodes with a limit. Call it while there is no call.
    pub(crate) fn set_call_limits(&mut self, call_limits: Arc<CallLimits>) {
        self.call_limits = Some(call_limits);
    }

    /// Shared counters, with this node's slot.
    pub(crate) fn shared(&self, slot: Slot) -> Shared<'_> {
        self.call_limits.as_deref().map(|limits| (limits, slot))
    }

    /// Shared places, if the node has a limit.
    fn call_limits(&self, slot: Slot) -> Option<&CallLimits> {
        self.call_limits.as_deref().filter(|_| self.limits[slot.index()] != 0)
    }

    /// Sets the most calls of a node; 0 for no limit.
    pub(crate) fn set_limit(&mut self, slot: Slot, limit: u32) {
        let calls = self.cells[slot.index()].own.calls;
        let before = core::mem::replace(&mut self.limits[slot.index()], limit);
        match (&self.call_limits, before, limit) {
            (Some(call_limits), 0, 1..) => call_limits.add(slot, calls),
            (Some(call_limits), 1.., 0) => call_limits.give(slot, calls),
            _ => {}
        }
    }

    /// Number of calls that is compared with the limit of a node.
    pub(crate) fn calls(&self, slot: Slot) -> u32 {
        self.call_limits(slot)
            .map_or_else(|| self.cell(slot).total().calls, |call_limits| call_limits.calls(slot))
    }

    /// Takes a call lease, even beyond the limit.
    pub(crate) fn call(&mut self, slot: Slot) -> CallLease {
        if let Some(call_limits) = self.call_limits(slot) {
            call_limits.add(slot, 1);
        }
        self.counted_call(slot)
    }

    /// Takes a call lease within the limit of its node; `None` if another shard took the last place.
    pub(crate) fn new_call(&mut self, slot: Slot) -> Option<CallLease> {
        let taken = self
            .call_limits(slot)
            .is_none_or(|call_limits| call_limits.take(slot, self.limits[slot.index()]));
        taken.then(|| self.counted_call(slot))
    }

    fn counted_call(&mut self, slot: Slot) -> CallLease {
        self.cells[slot.index()].own.calls += 1;
        CallLease { slot, deaths: self.ages[slot.index()].deaths }
    }

    pub(crate) fn transaction(&mut self, slot: Slot, work: u32) -> Lease {
        let own = &mut self.cells[slot.index()].own;
        own.transactions += 1;
        own.work += u64::from(work);
        Lease { slot, deaths: self.ages[slot.index()].deaths, work }
    }

    /// Ends a lease. If its node has died since the lease was taken, the lease has already ended.
    #[expect(clippy::needless_pass_by_value, reason = "taking it is what ends it")]
    pub(crate) fn end(&mut self, lease: Lease) {
        if !self.is_live(&lease) {
            return;
        }
        let own = &mut self.cells[lease.slot.index()].own;
        own.transactions -= 1;
        own.work -= u64::from(lease.work);
    }

    /// Ends a call lease.
    #[expect(clippy::needless_pass_by_value, reason = "taking it is what ends it")]
    pub(crate) fn end_call(&mut self, lease: CallLease) {
        if !self.is_call_live(&lease) {
            return;
        }
        if let Some(call_limits) = self.call_limits(lease.slot) {
            call_limits.give(lease.slot, 1);
        }
        let age = &mut self.ages[lease.slot.index()];
        age.before -= u32::from(lease.deaths != age.deaths);
        self.cells[lease.slot.index()].own.calls -= 1;
    }

    /// Whether the node has not died since the lease was taken.
    pub(crate) fn is_live(&self, lease: &Lease) -> bool {
        lease.deaths == self.ages[lease.slot.index()].deaths
    }

    /// Whether the call is not known to be lost.
    pub(crate) fn is_call_live(&self, lease: &CallLease) -> bool {
        is_since(lease.deaths, self.ages[lease.slot.index()].lost)
    }

    /// Load of this lease; zero if it has ended.
    pub(crate) fn worth(&self, lease: &Lease) -> Load {
        let live = Load { calls: 0, transactions: 1, work: u64::from(lease.work) };
        if self.is_live(lease) { live } else { Load::default() }
    }

    /// Load of this call lease; zero if it has ended.
    pub(crate) fn worth_of_call(&self, lease: &CallLease) -> Load {
        Load { calls: u32::from(self.is_call_live(lease)), ..Load::default() }
    }

    /// Ends every transaction on a node if its count of deaths has changed. Also ends every call from before the count
    /// at which the node last lost its calls. Takes constant time. Returns the load that ended.
    pub(crate) fn set_deaths(&mut self, slot: Slot, deaths: u16, lost: u16) -> Load {
        let (age, own) = (&mut self.ages[slot.index()], &mut self.cells[slot.index()].own);
        let mut ended = Load::default();
        if age.lost != lost {
            // `lost` is a count of deaths. It is not before the last such count that is known here.
            ended.calls = if is_since(age.deaths, lost) { age.before } else { own.calls };
            own.calls -= ended.calls;
            (age.lost, age.before) = (lost, 0);
        }
        if age.deaths != deaths {
            (ended.transactions, own.transactions, own.work) = (own.transactions, 0, 0);
            (age.deaths, age.before) = (deaths, own.calls);
        }
        if let Some(call_limits) = self.call_limits(slot) {
            call_limits.give(slot, ended.calls);
        }
        ended
    }

    pub(crate) fn set_peers(&mut self, peers: u32) {
        self.peers = peers;
    }

    /// Number of shards.
    pub(crate) fn shards(&self) -> u32 {
        self.peers + 1
    }

    pub(crate) fn set_others(&mut self, slot: Slot, load: Load) {
        let cell = &mut self.cells[slot.index()];
        (cell.others, cell.exchanged) = (load, cell.own);
    }

    /// Load of a node that policies compare.
    pub(crate) fn expected(&self, slot: Slot) -> Load {
        self.cells[slot.index()].expected(self.peers)
    }
}
