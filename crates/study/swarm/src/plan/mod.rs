//! What a run consists of: parties, configuration, faults, all of it fixed before the first event.

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

/// Enough for any run.
pub(crate) const DATAGRAMS_MAX: u64 = 100_000_000;

/// What is asked of the calls of a run, beyond that no rule of safety is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Messages are lost or anything may be dead: only the callers that start after the faults must succeed.
    Harsh,
    /// Nothing is lost for long, and never two hosts are dead at a time: no call may fail but those that a dead
    /// answerer had taken, or that were being set up or ended in a stateful proxy that died.
    Gentle,
    /// Nothing is asked: the faults may last to the end.
    Measured,
}

/// Callers of one kind: one agent.
#[derive(Clone, Debug)]
pub struct CallerPlan {
    /// The site that it sends to.
    pub site: u16,
    /// Whom it calls.
    pub callee: Callee,
    /// When its schedule begins.
    pub start: Instant,
    /// Its calls, from `start` on.
    pub arrivals: ArrivalPlan,
    /// How long answered calls last.
    pub holding: RandomTime,
    /// A call without an answer is given up after this.
    pub answer_wait: Duration,
    /// Whether it has a password, where it is asked for one.
    pub knows_password: bool,
    /// Whether each of its calls must be completed.
    pub must_succeed: bool,
}

/// An answerer.
#[derive(Clone, Debug)]
pub struct AnswererPlan {
    /// What it calls itself in the field Server, no two alike: results are by this name.
    pub name: String,
    /// From 180 to 200.
    pub ring: RandomTime,
    /// Whether it sends 100 (Trying) first.
    pub trying: bool,
    /// Whether it answers OPTIONS.
    pub options: bool,
    /// Which calls it refuses.
    pub refuses: Option<Refuses>,
    /// How fast it is.
    pub service: ServiceModel,
}

/// Which calls an answerer refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refuses {
    /// One of so many.
    pub one_of: u64,
    /// Until then.
    pub until: Instant,
}

/// Something that happens to a host or is done to one. Processes are counted over all sites.
#[derive(Clone, PartialEq, Debug)]
pub enum PlannedAction {
    /// This process ends, and all that it knew with it.
    Fail(u16),
    /// It starts with empty tables, if it is not running.
    Start(u16),
    /// This process gets the address of its site.
    TakeOver(u16),
    /// This answerer's process ends.
    Die {
        /// Which.
        answerer: u16,
        /// Whether its machine says that nobody listens there (ICMP).
        refuses: bool,
    },
    /// It starts anew, if it is not running.
    Return(u16),
    /// This host reads and does nothing for so long; what comes in waits.
    Stall(HostIndex, Duration),
    /// All connections of this host are cut off, at both ends.
    Reset(HostIndex),
    /// This host forgets its connections and tells nobody: the other ends find out when they send something.
    HalfOpen(HostIndex),
    /// Starts or ends the draining of a member at all balancers.
    Drain(Destination, bool),
    /// The processes of this site read this configuration.
    Configure(u16, Box<FilePlan>),
    /// The stores of this site, a registrar, get into this state.
    SetStore(u16, StoreState),
    /// All processes read a configuration with the next key.
    Rekey,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides what is not in the plan: arrivals, holding times, what the network does.
    pub seed: u64,
    /// What is asked of its calls.
    pub care: Severity,
    /// The callers.
    pub callers: Vec<CallerPlan>,
    /// The balancers and proxies, with the configuration to begin with. All share their keys.
    pub sites: Vec<SitePlan>,
    /// The answerers, not all of which need be members of anything.
    pub answerers: Vec<AnswererPlan>,
    /// The phones, each beside its answerer.
    pub phones: Vec<PhonePlan>,
    /// Retransmission timers of callers and answerers.
    pub timers: load::Timers,
    /// What carries all messages: UDP or TCP.
    pub transport: Transport,
    /// Time on the way between any two hosts.
    pub delay: Duration,
    /// What goes wrong on the way.
    pub rules: Vec<FaultRule>,
    /// What is done, in order of time.
    pub actions: Vec<(Instant, PlannedAction)>,
    /// When the callers are told to end what is in progress.
    pub end: Instant,
    /// More datagrams than a run can need: something goes round in circles.
    pub datagrams_max: u64,
}

impl Plan {
    /// The number of a process's host in [`FaultRule`]s; those of the callers come before.
    pub fn process_host(&self, process: u16) -> HostIndex {
        self.callers.len() as HostIndex + HostIndex::from(process)
    }

    /// How many processes all sites have.
    pub fn processes(&self) -> u16 {
        self.sites.iter().map(|site| site.processes).sum()
    }

    /// The number of an answerer's host.
    pub fn answerer_host(&self, answerer: u16) -> HostIndex {
        self.process_host(self.processes()) + HostIndex::from(answerer)
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> HostIndex {
        self.answerer_host(self.answerers.len() as u16)
    }

    /// The first process of a site: it has the site's address to begin with.
    pub fn first_process(&self, site: u16) -> u16 {
        self.sites[..usize::from(site)].iter().map(|site| site.processes).sum()
    }

    /// Whose process this is.
    pub fn site_of(&self, process: u16) -> u16 {
        let sites = 0..self.sites.len() as u16;
        sites.rev().find(|&site| self.first_process(site) <= process).unwrap_or_default()
    }

    /// What the configuration files of all sites say at any time.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FilePlan> {
        let later = self.actions.iter().filter_map(|(_, action)| match action {
            PlannedAction::Configure(_, file) => Some(&**file),
            _ => None,
        });
        self.sites.iter().filter_map(|site| site.role.file()).chain(later)
    }

    /// The site that starts and stops this answerer, and how it does.
    pub(crate) fn scaled_by(&self, answerer: u16) -> Option<(u16, &ScalePlan)> {
        (0..).zip(&self.sites).find_map(|(number, site)| {
            let scale = site.role.scale()?;
            site.role.targets().contains(&Destination::Answerer(answerer)).then_some((number, scale))
        })
    }

    /// The process on a host, if one is there.
    pub(crate) fn process_at(&self, host: HostIndex) -> Option<u16> {
        let process = host.checked_sub(self.process_host(0))? as u16;
        (process < self.processes()).then_some(process)
    }

    /// What a host is called.
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
