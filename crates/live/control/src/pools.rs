//! Permanent numbers of pools. A number belongs to one pool for the lifetime of the process. The configuration counts
//! pools by place, which changes when pools are added or removed. Waiting and ringing calls refer to their pool by its
//! number.

use crate::{Address, ControlSettings, MemberSettings};
use balance::PoolId;
use std::sync::Arc;

/// A present or former pool.
#[derive(Debug)]
struct Known {
    name: String,
    members: Vec<Address>,
}

/// The numbers of all pools.
#[derive(Debug, Default)]
pub(crate) struct PoolNumbers {
    /// Pools by number, former pools included.
    known: Vec<Known>,
    /// Numbers of the present pools in the order of the configuration.
    live: Vec<PoolId>,
}

impl PoolNumbers {
    /// Replaces the places of pools in the settings with their numbers. A pool gets the number of a former pool with
    /// the same name if they share a member, or if one of them has no members. The name alone is not enough: the name
    /// of a route's next hops may only be the place of the route in the file.
    pub(crate) fn give(&mut self, settings: &mut ControlSettings) {
        let before = core::mem::take(&mut self.live);
        for (place, pool) in (0..).map(PoolId).zip(&settings.pools) {
            let of_it = |member: &&MemberSettings| member.pool == place;
            let members: Vec<_> =
                settings.members.iter().filter(of_it).map(|member| member.address.clone()).collect();
            let is_same = |id: &&PoolId| {
                let known = &self.known[id.index()];
                let is_empty = members.is_empty() || known.members.is_empty();
                known.name == pool.name
                    && (is_empty || known.members.iter().any(|member| members.contains(member)))
            };
            let kept = before.iter().find(is_same).copied();
            let known = Known { name: pool.name.clone(), members };
            let id = kept.unwrap_or_else(|| self.next(&before));
            match self.known.get_mut(id.index()) {
                Some(place) => *place = known,
                None => self.known.push(known),
            }
            self.live.push(id);
        }
        let number = |place: PoolId| self.live.get(place.index()).copied().unwrap_or(place);
        for member in &mut settings.members {
            member.pool = number(member.pool);
        }
        if (0..).map(PoolId).zip(&self.live).any(|(place, id)| place != *id) {
            Arc::make_mut(&mut settings.shards.routes).table.number_pools(|place| number(PoolId(place)).0);
        }
        if let Some(dialogs) = &mut settings.shards.dialogs {
            Arc::make_mut(dialogs).pools = self.known.iter().map(|known| known.name.clone()).collect();
        }
    }

    /// Returns a number that no pool has had. After 65,536 pools it is the first free number.
    fn next(&self, before: &[PoolId]) -> PoolId {
        let is_free = |id: &PoolId| !self.live.contains(id) && !before.contains(id);
        let never_given = u16::try_from(self.known.len()).ok().map(PoolId);
        never_given.or_else(|| (0..=u16::MAX).map(PoolId).find(is_free)).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the numbers of the present pools in the order of the configuration.
    pub(crate) fn live(&self) -> &[PoolId] {
        &self.live
    }
}
