//! Sites and phones of a plan: their roles and stores.

use super::{Destination, FilePlan, ScalePlan};
use base::Instant;
use core::time::Duration;
use proxy::ProxyTimers;
use route::Forward;

/// A balancer or proxy: an address, and the processes that can take it.
#[derive(Clone, Debug)]
pub struct SitePlan {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: SiteRole,
    /// Number of processes. The first one has the address at the start.
    pub processes: u16,
}

impl SitePlan {
    /// A proxy of one process with this file.
    pub(crate) fn proxy(number: u16, file: FilePlan) -> Self {
        Self { name: format!("proxy {number}"), role: SiteRole::Proxy(Box::new(file)), processes: 1 }
    }
}

/// Role of a site.
#[derive(Clone, Debug)]
pub enum SiteRole {
    /// Balances calls over a pool.
    Balancer(Box<FilePlan>),
    /// Forwards calls with transactions.
    Proxy(Box<FilePlan>),
    /// Has several pools, with routes to each.
    Mixed(Box<FilePlan>),
    /// Registrar of a domain. Forwards calls to the registered contacts of its users.
    Home(HomePlan),
}

impl SiteRole {
    /// Returns the configuration file with pools; `None` for a registrar, which has none.
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

    /// Returns the scaling of its servers, if it scales them.
    pub fn scale(&self) -> Option<&ScalePlan> {
        self.file()?.scale.as_deref()
    }

    /// Returns true if it forwards in this way.
    pub fn forwards(&self, forward: Forward) -> bool {
        self.file().is_some_and(|file| file.forwards(forward))
    }

    /// Returns the store of users that it authenticates callers with; `None`: callers need no password.
    pub fn callers_store(&self) -> Option<StorePlan> {
        match self {
            Self::Home(home) => home.authenticates.then_some(home.store),
            Self::Balancer(file) | Self::Proxy(file) | Self::Mixed(file) => file.users,
        }
    }

    /// Returns the store of bindings or users, if it has one.
    pub(crate) fn store(&self) -> Option<StorePlan> {
        match self {
            Self::Home(home) => Some(home.store),
            _ => self.callers_store(),
        }
    }

    /// Returns the destinations of new calls.
    pub fn targets(&self) -> Vec<Destination> {
        self.file().map_or_else(Vec::new, |file| file.members().collect())
    }
}

/// A member in a balancer's configuration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlannedMember {
    /// Its destination.
    pub destination: Destination,
    /// Relative capacity.
    pub capacity: f64,
}

/// Requests that a route applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Requests from another site.
    FromSite,
    /// Requests for callees behind this site ([`Callee::Behind`]).
    Behind(u16),
}

/// Configuration file of a registrar, and the behaviour of its stores.
#[derive(Clone, Debug)]
pub struct HomePlan {
    /// Whether users must authenticate.
    pub authenticates: bool,
    /// Whether bindings survive the process.
    pub is_durable: bool,
    /// Behaviour of its stores.
    pub store: StorePlan,
    /// Transaction timers, and Timer C.
    pub timers: ProxyTimers,
}

/// Response time of a store of bindings or users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorePlan {
    /// Longest response time; `None`: answers at once.
    pub answers_within: Option<Duration>,
    /// Until then, some answers arrive after the question has timed out.
    pub late_until: Instant,
}

/// A phone. It registers, and answers calls as the answerer of its number.
#[derive(Clone, Debug)]
pub struct PhonePlan {
    /// The site where it registers.
    pub site: u16,
    /// The answerer of its calls. Its address is the contact.
    pub answerer: u16,
    /// The user it belongs to.
    pub user: u16,
    /// Whether it knows the user's password.
    pub knows_password: bool,
    /// Its registrations, in order of time.
    pub steps: Vec<(Instant, PhoneStep)>,
}

/// A request of a phone to its registrar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhoneStep {
    /// Registers its contact for this many seconds.
    Register(u32),
    /// Removes its contact.
    Remove,
    /// Removes all contacts of the user.
    RemoveAll,
}

/// State of a store of bindings and users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreState {
    /// Answers.
    Up,
    /// Answers with an error. The change may or may not have been made.
    Failing,
    /// Does not answer. The change may or may not have been made.
    Silent,
}

/// Callee of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// Any answerer that the sites choose.
    Anyone,
    /// An answerer that a route for this number leads to: behind the edge of that number, or in pools of a site.
    Behind(u16),
    /// A user of the home domain.
    User(u16),
}
