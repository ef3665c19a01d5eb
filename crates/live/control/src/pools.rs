//! The numbers of pools: each is one pool's for as long as the process lives. A configuration counts its pools by
//! their places, which change with every pool that comes or goes, while what waits or rings goes on to name its pool
//! by the number.

use crate::{Address, ControlSettings, MemberSettings};
use balance::PoolId;
use std::sync::Arc;

/// A pool that there is or was.
#[derive(Debug)]
struct Known {
    name: String,
    members: Vec<Address>,
}

/// Which pool has which number.
#[derive(Debug, Default)]
pub(crate) struct PoolNumbers {
    /// By number; those that are gone keep theirs.
    known: Vec<Known>,
    /// Of the pools that there are, in the order of the configuration.
    live: Vec<PoolId>,
}

impl PoolNumbers {
    /// Takes over settings in which pools are counted by their places, and gives each pool its number there. One is
    /// the same as before if it has the same name and any of its members: the name of a route's next hops may only
    /// say which place the route has in the file.
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

    /// A number that no pool has had. After 65,536 pools it is the first that is free.
    fn next(&self, before: &[PoolId]) -> PoolId {
        let is_free = |id: &PoolId| !self.live.contains(id) && !before.contains(id);
        let never_given = u16::try_from(self.known.len()).ok().map(PoolId);
        never_given.or_else(|| (0..=u16::MAX).map(PoolId).find(is_free)).unwrap_or_default()
    }

    /// How many numbers have been given.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Those of the pools that there are, in the order of the configuration.
    pub(crate) fn live(&self) -> &[PoolId] {
        &self.live
    }
}
