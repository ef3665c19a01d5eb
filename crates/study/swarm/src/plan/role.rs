//! What a site is.

use super::{Destination, FilePlan, ScalePlan};
use base::Instant;
use core::time::Duration;
use proxy::ProxyTimers;
use route::Forward;

/// A balancer or a proxy: an address, and the processes that may have it.
#[derive(Clone, Debug)]
pub struct SitePlan {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub role: SiteRole,
    /// How many processes there are; the first one has the address to begin with.
    pub processes: u16,
}

impl SitePlan {
    /// A proxy of one process, with this file.
    pub(crate) fn proxy(number: u16, file: FilePlan) -> Self {
        Self { name: format!("proxy {number}"), role: SiteRole::Proxy(Box::new(file)), processes: 1 }
    }
}

/// What a site does.
#[derive(Clone, Debug)]
pub enum SiteRole {
    /// Balances calls over a pool.
    Balancer(Box<FilePlan>),
    /// Passes calls on, keeping transactions.
    Proxy(Box<FilePlan>),
    /// Has several pools, with routes to each.
    Mixed(Box<FilePlan>),
    /// Is the registrar of a domain, and passes calls on to where its users have registered.
    Home(HomePlan),
}

impl SiteRole {
    /// What its configuration file says of pools; a registrar's says nothing of any.
    pub fn file(&self) -> Option<&FilePlan> {
        match self {
            Self::Balancer(file) | Self::Proxy(file) | Self::Mixed(file) => Some(file),
            Self::Home(_) => None,
        }
    }

    pub(crate) fn file_mut(&mut self) -> Option<&mut FilePlan> {
        match self {
            Self::Balancer(file) | Self::Proxy(file) | Self::Mixed(file) => Some(file),
            Self::Home(_) => None,
        }
    }

    /// How its servers are started and stopped, if they are.
    pub fn scale(&self) -> Option<&ScalePlan> {
        self.file()?.scale.as_deref()
    }

    /// Whether it forwards in this way.
    pub fn forwards(&self, forward: Forward) -> bool {
        self.file().is_some_and(|file| file.forwards(forward))
    }

    /// The store that it asks about users who call, if it asks them for passwords.
    pub fn callers_store(&self) -> Option<StorePlan> {
        match self {
            Self::Home(home) => home.authenticates.then_some(home.store),
            Self::Balancer(file) | Self::Proxy(file) | Self::Mixed(file) => file.users,
        }
    }

    /// The store that it asks, if it asks one.
    pub(crate) fn store(&self) -> Option<StorePlan> {
        match self {
            Self::Home(home) => Some(home.store),
            _ => self.callers_store(),
        }
    }

    /// Whom it sends new calls to.
    pub fn targets(&self) -> Vec<Destination> {
        self.file().map_or_else(Vec::new, |file| file.members().collect())
    }
}

/// A member in a balancer's configuration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlannedMember {
    /// Who.
    pub destination: Destination,
    /// Relative capacity.
    pub capacity: f64,
}

/// Which requests go another way than to the next hops of all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// What comes from another site.
    FromSite,
    /// What is for callees behind this site ([`Callee::Behind`]).
    Behind(u16),
}

/// What the configuration file of a registrar says, and what its stores are like.
#[derive(Clone, Debug)]
pub struct HomePlan {
    /// Whether users prove who they are.
    pub authenticates: bool,
    /// Whether bindings outlive the process.
    pub is_durable: bool,
    /// What its stores are like.
    pub store: StorePlan,
    /// Timers of its transactions, and Timer C.
    pub timers: ProxyTimers,
}

/// How soon a store of bindings or users answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorePlan {
    /// Within this time; `None`: at once.
    pub answers_within: Option<Duration>,
    /// Until then some answers come when nobody waits any more.
    pub late_until: Instant,
}

/// A phone: it registers, and answers calls as the answerer of its number.
#[derive(Clone, Debug)]
pub struct PhonePlan {
    /// Where it registers.
    pub site: u16,
    /// The answerer that takes its calls, whose address is its contact.
    pub answerer: u16,
    /// Whose phone it is.
    pub user: u16,
    /// Whether it knows the user's password.
    pub knows_password: bool,
    /// What it registers, in order of time.
    pub steps: Vec<(Instant, PhoneStep)>,
}

/// What a phone asks its registrar for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhoneStep {
    /// To be reached for so many seconds.
    Register(u32),
    /// Not to be reached any more.
    Remove,
    /// That no phone of the user is.
    RemoveAll,
}

/// How a store of bindings and users is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreState {
    /// It answers.
    Up,
    /// It says that it cannot; what was to be changed may be changed or not.
    Failing,
    /// It says nothing; the same.
    Silent,
}

/// Whom a caller calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// Whoever the sites lead to.
    Anyone,
    /// Whoever has this number, whom a route leads to: behind an edge of that number, or in pools of a site.
    Behind(u16),
    /// A user of the home domain.
    User(u16),
}
