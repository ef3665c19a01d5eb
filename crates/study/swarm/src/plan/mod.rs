//! A run's hosts, configuration and faults, all fixed before the first event.

mod address;
mod file;
mod role;
mod scale;
mod show;

use base::{Instant, Transport};
use core::time::Duration;
use load::{ArrivalPlan, RandomTime, ServiceModel};
use sim::engine::{FaultRule, HostIndex};

pub(crate) use address::{
    DOMAIN, SITES, caller_address, password, probe_address, user_behind, user_name, user_number,
};
pub use address::{Destination, answerer_address, site_address};
pub use file::{FeedbackPlan, FilePlan, OverloadPlan, PoolPlan, RoutePlan};
pub use role::{
    Callee, HomePlan, PhonePlan, PhoneStep, PlannedMember, SitePlan, SiteRole, StorePlan, StoreState, When,
};
pub use scale::{DriverPlan, ScalePlan};

/// More datagrams than any run needs.
pub(crate) const DATAGRAMS_MAX: u64 = 100_000_000;

/// Requirements on the calls of a run, in addition to the safety rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Messages are lost or any host may be dead: only callers that start after the faults must succeed.
    Harsh,
    /// Losses are short, and at most one host is dead at a time. No call may fail, except calls of a dead answerer, and
    /// calls that were being set up or ended in a stateful proxy that died.
    Gentle,
    /// No requirements: the faults may last to the end.
    Measured,
}

/// Callers of one kind: one agent.
#[derive(Clone, Debug)]
pub struct CallerPlan {
    /// The site that they call through.
    pub site: u16,
    /// The callee.
    pub callee: Callee,
    /// Start of the schedule.
    pub start: Instant,
    /// Arrival of calls, from `start` on.
    pub arrivals: ArrivalPlan,
    /// Duration of answered calls.
    pub holding: RandomTime,
    /// Time without an answer after which a call is given up.
    pub answer_wait: Duration,
    /// Whether they know the password, if challenged.
    pub knows_password: bool,
    /// Whether every call must succeed.
    pub must_succeed: bool,
}

/// An answerer.
#[derive(Clone, Debug)]
pub struct AnswererPlan {
    /// Its name in the Server field. Names are unique, as results are listed by them.
    pub name: String,
    /// Time from 180 to 200.
    pub ring: RandomTime,
    /// Whether it sends 100 (Trying) first.
    pub trying: bool,
    /// Whether it answers OPTIONS.
    pub options: bool,
    /// Calls that it refuses; `None`: none.
    pub refuses: Option<Refuses>,
    /// Its service times.
    pub service: ServiceModel,
}

/// Calls that an answerer refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refuses {
    /// One call in this many.
    pub one_of: u64,
    /// End of the refusals.
    pub until: Instant,
}

/// A fault of a host, or an action on one. Process numbers run over all sites.
#[derive(Clone, PartialEq, Debug)]
pub enum PlannedAction {
    /// The process ends and loses its state.
    Fail(u16),
    /// The process starts with empty tables, if it is not running.
    Start(u16),
    /// The process takes over the address of its site.
    TakeOver(u16),
    /// The process of an answerer ends.
    Die {
        /// Number of the answerer.
        answerer: u16,
        /// Whether its machine then sends ICMP port unreachable.
        refuses: bool,
    },
    /// The answerer restarts, if it is not running.
    Return(u16),
    /// The host handles nothing for this long. Messages for it wait.
    Stall(HostIndex, Duration),
    /// All connections of the host are closed, at both ends.
    Reset(HostIndex),
    /// The host forgets its connections silently. The other ends notice when they send.
    HalfOpen(HostIndex),
    /// Starts or ends the draining of a member at all balancers.
    Drain(Destination, bool),
    /// The processes of this site load this configuration.
    Configure(u16, Box<FilePlan>),
    /// The stores of this site, which is a registrar, enter this state.
    SetStore(u16, StoreState),
    /// All processes load a configuration with the next key.
    Rekey,
}

/// A complete run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of everything not in the plan: arrivals, holding times, behaviour of the network.
    pub seed: u64,
    /// Requirements on its calls.
    pub severity: Severity,
    /// The callers.
    pub callers: Vec<CallerPlan>,
    /// The balancers and proxies with their first configuration. All share their keys.
    pub sites: Vec<SitePlan>,
    /// The answerers. Some may be members of no pool.
    pub answerers: Vec<AnswererPlan>,
    /// The phones, each on the host of its answerer.
    pub phones: Vec<PhonePlan>,
    /// Retransmission timers of callers and answerers.
    pub timers: load::Timers,
    /// Transport of all messages: UDP or TCP.
    pub transport: Transport,
    /// One-way delay between any two hosts.
    pub delay: Duration,
    /// Faults of the network.
    pub rules: Vec<FaultRule>,
    /// Actions, in order of time.
    pub actions: Vec<(Instant, PlannedAction)>,
    /// When callers are told to end their calls.
    pub end: Instant,
    /// Limit on datagrams. A run that exceeds it has a routing loop.
    pub datagrams_max: u64,
}

impl Plan {
    /// Returns the number of a process's host in [`FaultRule`]s. The hosts of callers come first.
    pub fn process_host(&self, process: u16) -> HostIndex {
        self.callers.len() as HostIndex + HostIndex::from(process)
    }

    /// Returns the number of processes of all sites.
    pub fn processes(&self) -> u16 {
        self.sites.iter().map(|site| site.processes).sum()
    }

    /// Returns the number of an answerer's host.
    pub fn answerer_host(&self, answerer: u16) -> HostIndex {
        self.process_host(self.processes()) + HostIndex::from(answerer)
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> HostIndex {
        self.answerer_host(self.answerers.len() as u16)
    }

    /// Returns the first process of a site, which has the site's address at the start.
    pub fn first_process(&self, site: u16) -> u16 {
        self.sites[..usize::from(site)].iter().map(|site| site.processes).sum()
    }

    /// Returns the site of a process.
    pub fn site_of(&self, process: u16) -> u16 {
        let sites = 0..self.sites.len() as u16;
        sites.rev().find(|&site| self.first_process(site) <= process).unwrap_or_default()
    }

    /// Returns every configuration that a site has at any time.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FilePlan> {
        let later = self.actions.iter().filter_map(|(_, action)| match action {
            PlannedAction::Configure(_, file) => Some(&**file),
            _ => None,
        });
        self.sites.iter().filter_map(|site| site.role.file()).chain(later)
    }

    /// Returns the site that starts and stops this answerer, and the settings of its scaling.
    pub(crate) fn scaled_by(&self, answerer: u16) -> Option<(u16, &ScalePlan)> {
        (0..).zip(&self.sites).find_map(|(number, site)| {
            let scale = site.role.scale()?;
            site.role.targets().contains(&Destination::Answerer(answerer)).then_some((number, scale))
        })
    }

    /// Returns the process on a host, if the host runs one.
    pub(crate) fn process_at(&self, host: HostIndex) -> Option<u16> {
        let process = host.checked_sub(self.process_host(0))? as u16;
        (process < self.processes()).then_some(process)
    }

    /// Returns the name of a host.
    pub(crate) fn host_name(&self, host: HostIndex) -> String {
        if host < self.process_host(0) {
            return format!("caller {host}");
        }
        let Some(process) = self.process_at(host) else {
            return self.answerers[(host - self.answerer_host(0)) as usize].name.clone();
        };
        let site = self.site_of(process);
        let (SitePlan { name, processes, .. }, first) =
            (&self.sites[usize::from(site)], self.first_process(site));
        if *processes > 1 { format!("{name}/{}", process - first) } else { name.clone() }
    }
}
