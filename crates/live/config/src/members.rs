//! Changes of a pool's members in a running process, and their differences from the file.

use crate::check::pool::{refusals, same_server};
use crate::kind::{Kind, Leaf, MemberAddress, MemberLabel, Ratio};
use crate::typed::{Config, PoolConfig, PoolOrigin};
use control::{Address, MemberSettings};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A change of the members of a pool. Texts are as in a file.
#[derive(Clone, PartialEq, Debug)]
pub enum MemberChange {
    /// Adds a member, with the settings of this server in another pool, or else the limits of the pool.
    Add {
        /// Address or name of the server.
        address: String,
        /// Capacity relative to the other members.
        weight: Option<String>,
        /// Name for display.
        name: Option<String>,
    },
    /// Removes a member.
    Remove {
        /// Its name, or its address in the configuration.
        member: String,
    },
    /// Sets the capacity of a member, in all its pools.
    Weight {
        /// Its name, or its address in the configuration.
        member: String,
        /// Capacity relative to the other members.
        weight: String,
    },
}

/// Why a change is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeError {
    /// There is no such pool or member.
    Unknown(String),
    /// The value is wrong. The text has the remedy.
    Wrong(String),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unknown(text) | Self::Wrong(text)) = self;
        f.write_str(text)
    }
}

impl MemberChange {
    /// Returns the name or address of the member as in a file.
    pub fn member(&self) -> &str {
        match self {
            Self::Add { address: member, .. } | Self::Remove { member } | Self::Weight { member, .. } => {
                member
            }
        }
    }
}

fn wrong(value: &str, remedy: &str) -> ChangeError {
    ChangeError::Wrong(format!("{value}: {remedy}"))
}

fn read<K: Kind>(text: &str, leaf: &Leaf) -> Result<K::Value, ChangeError> {
    K::read(leaf).map_err(|refusal| wrong(text, &refusal.into_remedy()))
}

fn read_weight(text: &str) -> Result<f64, ChangeError> {
    match text.parse::<f64>() {
        Ok(0.0) => Err(wrong(text, "expected a number above 0; to stop new calls, drain the member")),
        parsed => read::<Ratio>(text, &parsed.map_or_else(|_| Leaf::from(text), Leaf::from)),
    }
}

/// Returns the index of a member of the pool.
fn place(pool: &PoolConfig, member: &str) -> Result<usize, ChangeError> {
    let address = MemberAddress::read(&member.into()).ok();
    let is_it = |known: &MemberSettings| {
        known.name.as_deref() == Some(member)
            || address.as_ref().is_some_and(|it| same_server(it, &known.address))
    };
    let unknown = || ChangeError::Unknown(format!("no member {member:?} in the pool {}", pool.settings.name));
    pool.members.iter().position(is_it).ok_or_else(unknown)
}

/// Returns a pool with a member whose name is the name or address of another server, and the remedy.
pub(crate) fn ambiguous_name(pools: &[PoolConfig]) -> Option<(String, String)> {
    let mut known = BTreeMap::new();
    for (pool, member) in pools.iter().flat_map(|pool| pool.members.iter().map(move |member| (pool, member)))
    {
        let address = member.address.to_string();
        for text in member.name.iter().chain([&address]) {
            let other = known.insert(text.clone(), address.clone()).filter(|other| *other != address);
            if let Some(other) = other {
                let remedy = format!("{text} names two servers, {other} and {address}; choose another name");
                return Some((pool.settings.name.clone(), remedy));
            }
        }
    }
    None
}

impl Config {
    /// Returns the configuration after a change of the members of the pool with this name.
    ///
    /// # Errors
    /// If there is no such pool or member, or a file with this change would have an error.
    pub fn with_member_change(&self, pool: &str, change: &MemberChange) -> Result<Self, ChangeError> {
        let is_it = |known: &PoolConfig| known.origin == PoolOrigin::Table && known.settings.name == pool;
        let Some(at) = self.pools.iter().position(is_it) else {
            let names: Vec<_> = self.table_pools().map(|known| known.settings.name.as_str()).collect();
            return Err(ChangeError::Unknown(format!("no pool {pool:?}; there are: {}", names.join(", "))));
        };
        let found = &self.pools[at];
        if found.scale.is_some() {
            return Err(wrong(pool, "the servers of a pool with `scale` are those of the file"));
        }
        let mut changed = self.clone();
        match change {
            MemberChange::Add { address, weight, name } => {
                let member = self.further_member(found, address, name.as_deref())?;
                changed.pools[at].members.push(member.clone());
                if let Some(weight) = weight {
                    changed.set_capacity(&member.address, read_weight(weight)?);
                }
            }
            MemberChange::Remove { member } => {
                let place = place(found, member)?;
                if found.members.len() == 1 {
                    let remedy = "the last member of a pool cannot be removed; drain it instead";
                    return Err(wrong(member, remedy));
                }
                changed.pools[at].members.remove(place);
            }
            MemberChange::Weight { member, weight } => {
                let address = &found.members[place(found, member)?].address;
                changed.set_capacity(address, read_weight(weight)?);
            }
        }
        match ambiguous_name(&changed.pools) {
            Some((_, remedy)) => Err(ChangeError::Wrong(remedy)),
            None => Ok(changed),
        }
    }

    /// Returns a member that the pool does not have yet.
    fn further_member(
        &self,
        pool: &PoolConfig,
        text: &str,
        name: Option<&str>,
    ) -> Result<MemberSettings, ChangeError> {
        let address = read::<MemberAddress>(text, &text.into())?;
        if let Some(remedy) = refusals(&address, &pool.members, &self.listen).next() {
            return Err(wrong(text, &remedy));
        }
        let name = name.map(|name| read::<MemberLabel>(name, &name.into())).transpose()?;
        let has_it =
            |other: &PoolConfig| other.members.iter().any(|known| same_server(&known.address, &address));
        if let Some(scaled) = self.table_pools().find(|other| other.scale.is_some() && has_it(other)) {
            let remedy = format!(
                "the pool {} starts and stops this server, so it cannot be in another pool",
                scaled.settings.name
            );
            return Err(wrong(text, &remedy));
        }
        // A server in several pools is one member with one capacity.
        let mut elsewhere = self.table_pools().flat_map(|other| &other.members);
        let [max_calls, max_rate] = pool.limits;
        let fresh = || MemberSettings { max_calls, max_rate, ..MemberSettings::new(address.clone()) };
        let known = elsewhere.find(|known| same_server(&known.address, &address));
        let member = known.cloned().unwrap_or_else(fresh);
        Ok(MemberSettings { name: name.or(member.name), ..member })
    }

    fn set_capacity(&mut self, address: &Address, capacity: f64) {
        let members = self.pools.iter_mut().filter(|pool| pool.origin == PoolOrigin::Table);
        let members = members.flat_map(|pool| &mut pool.members);
        for member in members.filter(|member| same_server(&member.address, address)) {
            member.capacity = capacity;
        }
    }

    /// Returns the differences of the members from those of `file`, which was read earlier, in words.
    pub fn differences(&self, file: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for pool in self.table_pools() {
            let name = &pool.settings.name;
            let before = file.table_pools().find(|known| known.settings.name == *name);
            let before = before.map_or(&[][..], |known| &known.members);
            let in_file: BTreeMap<_, _> = before.iter().map(|member| (&member.address, member)).collect();
            for member in &pool.members {
                let MemberSettings { address, capacity, .. } = member;
                match in_file.get(address) {
                    None => found.push(format!("{name}: {address} added")),
                    Some(known) if known.capacity.to_bits() != capacity.to_bits() => {
                        let other = known.capacity;
                        found.push(format!("{name}: {address} has weight {capacity}, in the file {other}"));
                    }
                    Some(known) if *known != member => {
                        found.push(format!("{name}: {address} has another name or limit than in the file"));
                    }
                    Some(_) => {}
                }
            }
            let now: BTreeSet<_> = pool.members.iter().map(|member| &member.address).collect();
            let removed = before.iter().filter(|member| !now.contains(&member.address));
            found.extend(removed.map(|member| format!("{name}: {} removed", member.address)));
        }
        found
    }
}
