//! The nodes of all pools, their membership and slots.

mod ejection;
mod health;
mod news;
mod watch;

pub use news::{HealthCause, HealthEffect, HealthNews, Outlier};

use crate::{Node, NodeId, PoolId, Slot};
use base::Instant;
use core::time::Duration;
use std::collections::BTreeSet;
use watch::Watch;

/// A member as the configuration and the DNS name it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClusterMember {
    /// Identity.
    pub id: NodeId,
    /// Relative capacity, above 0.
    pub capacity: f64,
    /// Most simultaneous calls; 0 for no limit.
    pub max_calls: u32,
    /// Most new calls a second; 0 for no limit.
    pub max_rate: u32,
    /// First pool that contains the member. The settings of this pool apply to the member's health, and the member is
    /// compared with the other members of this pool.
    pub pool: PoolId,
}

/// Rules for when a node of a pool counts as dead and as back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HealthSettings {
    /// Whether members are probed at an interval. If not, they are probed only on suspicion, until they answer.
    pub regular: bool,
    /// Number of successive failed probes that make a member unreachable.
    pub fall: u32,
    /// Length of the slow start of a node that joins or comes back.
    pub slow_start: Duration,
    /// The longest pause after a 503, whatever Retry-After says.
    pub max_rest: Duration,
    /// Whether outliers are ejected.
    pub ejects: bool,
}

impl Default for HealthSettings {
    /// Returns the values that apply if the configuration sets none.
    fn default() -> Self {
        Self {
            regular: true,
            fall: 2,
            slow_start: Duration::from_secs(30),
            max_rest: Duration::from_mins(1),
            ejects: true,
        }
    }
}

/// Health state of a pool as a whole.
#[derive(Debug)]
struct PoolHealth {
    settings: HealthSettings,
    /// Whether no member is alive.
    none_alive: bool,
    /// Start of the interval in which outcomes are counted.
    interval_since: Instant,
}

impl PoolHealth {
    fn new(settings: HealthSettings) -> Self {
        Self { settings, none_alive: false, interval_since: Instant::ZERO }
    }
}

/// The nodes of all pools with their health. Only the cluster decides whether a node is reachable, paused or draining.
/// The shards get copies of [`Self::nodes`].
#[derive(Debug)]
pub struct Cluster {
    /// Health of the pools, at least one.
    pools: Vec<PoolHealth>,
    nodes: Vec<Node>,
    /// State of the nodes that only the cluster needs, by slot.
    watches: Vec<Watch>,
    /// Slots to which nothing refers. The next nodes get these slots.
    vacant: BTreeSet<Slot>,
    version: u64,
    /// Effects to be carried out.
    effects: Vec<HealthEffect>,
}

impl Cluster {
    /// Creates a cluster with one empty pool.
    pub fn new(settings: HealthSettings) -> Self {
        Self {
            pools: vec![PoolHealth::new(settings)],
            nodes: Vec::new(),
            watches: Vec::new(),
            vacant: BTreeSet::new(),
            version: 0,
            effects: Vec::new(),
        }
    }

    /// Nodes by slot, including removed ones, whose calls continue.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Increases with every change of [`Self::nodes`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Slot of a present or former member, unless it has been [released](Self::release).
    pub fn slot(&self, id: NodeId) -> Option<Slot> {
        let mut all = self.slots().zip(&self.nodes);
        all.find(|(slot, node)| node.id == id && !self.vacant.contains(slot)).map(|(slot, _)| slot)
    }

    fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.nodes.len()).map(|index| Slot(index as u16))
    }

    /// Frees the slot of a former member for the next node that joins. No session may use the slot any more, and no
    /// token may name it. A present member keeps its slot.
    pub fn release(&mut self, slot: Slot) {
        if !self.nodes[slot.index()].member {
            self.vacant.insert(slot);
        }
    }

    /// Changes the health settings of a cluster with one pool.
    pub fn set_settings(&mut self, settings: HealthSettings) {
        self.set_pools(&[settings]);
    }

    /// Changes the health settings of each pool, at least one. Set the members afterwards.
    pub fn set_pools(&mut self, settings: &[HealthSettings]) {
        assert!(!settings.is_empty(), "a cluster has a pool");
        self.pools.truncate(settings.len());
        for (pool, settings) in self.pools.iter_mut().zip(settings) {
            pool.settings = *settings;
        }
        let more = settings.iter().skip(self.pools.len()).map(|settings| PoolHealth::new(*settings));
        self.pools.extend(more.collect::<Vec<_>>());
    }

    /// Settings that apply to a node.
    fn settings(&self, slot: Slot) -> HealthSettings {
        let pool = self.nodes[slot.index()].pool.index();
        // The pool of a removed node may no longer exist.
        self.pools.get(pool).unwrap_or(&self.pools[0]).settings
    }

    /// Members whose health follows the settings of a pool.
    fn members_of(&self, pool: PoolId) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.member && node.pool == pool)
    }

    /// Sets the members: new members join, missing members leave, and known members get their new values. A node that
    /// joins after the first call of this method starts slowly. A member for which no slot up to 65,535 is left is
    /// ignored.
    pub fn set_members(&mut self, now: Instant, members: &[ClusterMember]) {
        let first = self.nodes.is_empty();
        let before = self.nodes.clone();
        for node in &mut self.nodes {
            node.member = false;
        }
        for member in members {
            let Some(slot) = self.slot(member.id).or_else(|| self.join(member.id)) else { continue };
            let joins = before.get(slot.index()).is_none_or(|old| !old.member || old.id != member.id);
            let node = &mut self.nodes[slot.index()];
            node.member = true;
            (node.max_calls, node.max_rate) = (member.max_calls, member.max_rate);
            node.pool = member.pool;
            node.capacity = member.capacity;
            if joins && !first {
                let ramp = self.settings(slot).slow_start;
                let node = &mut self.nodes[slot.index()];
                (node.joined, node.ramp) = (now, ramp);
            }
        }
        if before != self.nodes {
            self.version += 1;
        }
        self.suspect_the_dead(now);
        self.look_for_life(now);
    }

    fn join(&mut self, id: NodeId) -> Option<Slot> {
        let node = Node::new(id);
        if let Some(slot) = self.vacant.pop_first() {
            // Ends all leases of the last node in this slot, if there are any.
            let deaths = self.nodes[slot.index()].deaths.wrapping_add(1);
            self.nodes[slot.index()] = Node { deaths, lost: deaths, ..node };
            self.watches[slot.index()] = Watch::default();
            return Some(slot);
        }
        let slot = u16::try_from(self.nodes.len()).ok().filter(|&slot| slot < u16::MAX)?;
        self.nodes.push(node);
        self.watches.push(Watch::default());
        Some(Slot(slot))
    }

    /// Pauses a node until `until` after a 503 to a call. `asked`: the node named the time (Retry-After). Late
    /// responses of dead nodes are ignored.
    pub fn pause(&mut self, now: Instant, slot: Slot, until: Instant, asked: bool) {
        if self.nodes[slot.index()].is_up() {
            self.rest(now, slot, until, asked);
        }
    }

    fn rest(&mut self, now: Instant, slot: Slot, until: Instant, asked: bool) {
        let until = until.min(now + self.settings(slot).max_rest);
        if asked && until > now {
            self.begin_rest(now, slot);
        }
        self.version += u64::from(self.nodes[slot.index()].pause(now, until, asked));
    }

    /// Starts or ends the draining of a node.
    pub fn drain(&mut self, slot: Slot, draining: bool) {
        let node = &mut self.nodes[slot.index()];
        if node.draining != draining {
            node.draining = draining;
            self.version += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u32) -> ClusterMember {
        ClusterMember { id: NodeId(id), capacity: 1.0, max_calls: 0, max_rate: 0, pool: PoolId::default() }
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new(HealthSettings::default());
        cluster.set_members(Instant::ZERO, &[1, 2].map(member));
        cluster
    }

    #[test]
    fn two_failures_in_a_row_mean_death_and_one_answer_ends_it() {
        let (mut cluster, now, slot) = (cluster(), Instant::from_millis(5_000), Slot(0));
        for alive in [false, true, false] {
            cluster.probed(now, slot, alive);
            assert!(cluster.nodes()[0].is_up());
        }
        cluster.probed(now, slot, false);
        assert_eq!((cluster.nodes()[0].is_up(), cluster.nodes()[0].deaths), (false, 1));
        cluster.probed(now, slot, true);
        assert!(cluster.nodes()[0].is_up());
        assert!(cluster.nodes()[0].capacity_at(now) < 0.2, "it starts slowly");
        assert!((cluster.nodes()[1].capacity_at(now) - 1.0).abs() < 1e-9, "the other node was never away");
    }

    #[test]
    fn a_member_that_leaves_and_returns_keeps_its_slot() {
        let mut cluster = cluster();
        let second = ClusterMember { capacity: 3.0, max_calls: 9, ..member(2) };
        cluster.set_members(Instant::ZERO, &[second]);
        assert!(!cluster.nodes()[0].member && cluster.nodes()[1].capacity > 2.9);
        cluster.set_members(Instant::from_millis(1), &[member(1), second]);
        assert_eq!(cluster.slot(NodeId(1)), Some(Slot(0)));
        assert_eq!(cluster.nodes().len(), 2);
        let version = cluster.version();
        cluster.set_members(Instant::from_millis(2), &[member(1), second]);
        assert_eq!(cluster.version(), version, "nothing changed");
    }

    #[test]
    fn a_released_slot_goes_to_the_next_node_without_its_history() {
        let mut cluster = cluster();
        cluster.release(Slot(1));
        assert_eq!(cluster.slot(NodeId(2)), Some(Slot(1)), "a member keeps its slot");
        cluster.drain(Slot(0), true);
        cluster.unreachable(Instant::ZERO, Slot(0));
        cluster.set_members(Instant::ZERO, &[member(2)]);
        cluster.release(Slot(0));
        assert_eq!(cluster.slot(NodeId(1)), None);
        let now = Instant::from_millis(1);
        cluster.set_members(now, &[member(2), member(3), member(1)]);
        let slots = [1, 2, 3].map(|id| cluster.slot(NodeId(id)));
        assert_eq!(slots, [Some(Slot(2)), Some(Slot(1)), Some(Slot(0))]);
        let third = &cluster.nodes()[0];
        assert_eq!((third.is_up(), third.draining, third.joined, third.deaths), (true, false, now, 2));
    }
}
