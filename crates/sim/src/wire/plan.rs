//! What a run consists of: parties, configuration, faults, all of it fixed before the first event.

use crate::engine::{HostId, Rule};
use balance::HealthSettings;
use base::Instant;
use core::fmt;
use core::time::Duration;
use load::{ArrivalPlan, Holding, ServiceModel};
use node::ProbeSettings;
use std::net::SocketAddr;

/// What is asked of the calls of a run, beyond that no rule of safety is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Care {
    /// Messages are lost or anything may be dead: only the callers that start after the faults must succeed.
    Harsh,
    /// Nothing is lost for long, and never two hosts are dead at a time: no call may fail but those that a dead answerer
    /// had taken.
    Gentle,
    /// Nothing is asked: the faults may last to the end.
    Measured,
}

/// Callers of one kind: one agent.
#[derive(Clone, Debug)]
pub struct CallerPlan {
    /// When its schedule begins.
    pub start: Instant,
    /// Its calls, from `start` on.
    pub arrivals: ArrivalPlan,
    /// How long answered calls last.
    pub holding: Holding,
    /// A call without an answer is given up after this.
    pub answer_wait: Duration,
    /// Whether each of its calls must be completed.
    pub must_succeed: bool,
}

/// An answerer.
#[derive(Clone, Copy, Debug)]
pub struct AnswererPlan {
    /// From 180 to 200.
    pub ring: Holding,
    /// Whether it sends 100 (Trying) first.
    pub trying: bool,
    /// How fast it is.
    pub service: ServiceModel,
}

/// A member in the balancers' configuration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// Number of the answerer.
    pub answerer: u16,
    /// Relative capacity.
    pub capacity: f64,
}

/// What the configuration file of the balancers says at a moment.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// Name of the policy.
    pub policy: &'static str,
    /// The pool.
    pub members: Vec<Member>,
    /// Number of the key that tokens are made with. Those before it and the one after it are accepted: whoever changes
    /// the key of several balancers has to announce it first.
    pub key: u8,
    /// When a member counts as dead and as back.
    pub health: HealthSettings,
    /// When members are asked.
    pub probes: ProbeSettings,
    /// Times of the session table.
    pub books: balance::Settings,
}

/// Something that happens to a host or is done to one.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// This balancer's process ends, and its table with it.
    Fail(u16),
    /// It starts with an empty table, if it is not running.
    Start(u16),
    /// This balancer gets the address that the callers know.
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
    Stall(HostId, Duration),
    /// Starts or ends the draining of a member at all balancers.
    Drain(u16, bool),
    /// All balancers read a configuration with another pool.
    SetMembers(Vec<Member>),
    /// All balancers read a configuration with another policy.
    SetPolicy(&'static str),
    /// All balancers read a configuration with the next key.
    Rekey,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides what is not in the plan: arrivals, holding times, what the network does.
    pub seed: u64,
    /// What is asked of its calls.
    pub care: Care,
    /// The callers.
    pub callers: Vec<CallerPlan>,
    /// How many balancers share address and key; the first one has the address to begin with.
    pub balancers: u16,
    /// The answerers, not all of which need be members.
    pub answerers: Vec<AnswererPlan>,
    /// The configuration to begin with.
    pub config: SiteConfig,
    /// Retransmission timers of callers and answerers.
    pub timers: load::Timers,
    /// Time on the way between any two hosts.
    pub delay: Duration,
    /// What goes wrong on the way.
    pub rules: Vec<Rule>,
    /// What is done, in order of time.
    pub actions: Vec<(Instant, Action)>,
    /// When the callers are told to end what is in progress.
    pub end: Instant,
}

impl Plan {
    /// The number of a caller's host in [`Rule`]s.
    pub fn caller_host(caller: usize) -> HostId {
        caller as HostId
    }

    /// The number of a balancer's host.
    pub fn balancer_host(&self, balancer: u16) -> HostId {
        self.callers.len() as HostId + HostId::from(balancer)
    }

    /// The number of an answerer's host.
    pub fn answerer_host(&self, answerer: u16) -> HostId {
        self.balancer_host(self.balancers) + HostId::from(answerer)
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> HostId {
        self.answerer_host(self.answerers.len() as u16)
    }

    /// What a host is called.
    pub(crate) fn host_name(&self, host: HostId) -> String {
        let (balancers, answerers) = (self.balancer_host(0), self.answerer_host(0));
        if host < balancers {
            format!("caller {host}")
        } else if host < answerers {
            format!("balancer {}", host - balancers)
        } else {
            format!("answerer {}", host - answerers)
        }
    }
}

/// For people: who there is, what goes wrong, what is done, one line each.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, care, balancers, delay, end, config, .. } = self;
        writeln!(
            f,
            "seed {seed}: {care:?}, {balancers} balancers, policy {}, {delay:?} a hop",
            config.policy
        )?;
        for (number, caller) in self.callers.iter().enumerate() {
            let CallerPlan { start, arrivals, holding, answer_wait, must_succeed } = caller;
            let must = if *must_succeed { ", must succeed" } else { "" };
            let for_how_long = arrivals.duration.unwrap_or_default();
            writeln!(
                f,
                "caller {number} ({}): from {start} for {for_how_long:?}, {:.1} calls/s, {holding:?}, waits \
                 {answer_wait:?}{must}",
                caller_address(number),
                arrivals.rate
            )?;
        }
        for (number, answerer) in (0..).zip(&self.answerers) {
            let AnswererPlan { ring, trying, service } = answerer;
            let work = service.service_per_work;
            let address = answerer_address(number);
            writeln!(f, "answerer {number} ({address}): {ring:?}, trying {trying}, {work:?} a BYE")?;
        }
        writeln!(f, "members: {}", pool(&config.members))?;
        for Rule { from, to, when, what } in &self.rules {
            let name = |host: Option<HostId>| host.map_or("anyone".to_owned(), |host| self.host_name(host));
            writeln!(f, "{} to {}: {what:?} from {} to {}", when.start, when.end, name(*from), name(*to))?;
        }
        for (at, action) in &self.actions {
            match action {
                Action::SetMembers(members) => writeln!(f, "{at}: members {}", pool(members))?,
                Action::Stall(host, time) => {
                    writeln!(f, "{at}: {} stalls for {time:?}", self.host_name(*host))?;
                }
                action => writeln!(f, "{at}: {action:?}")?,
            }
        }
        write!(f, "{end}: callers stop")
    }
}

fn pool(members: &[Member]) -> String {
    let one = |member: &Member| format!("{} (capacity {:.2})", member.answerer, member.capacity);
    members.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The address that callers know, whichever balancer has it. All addresses are those of RFC 5737, for documentation.
pub(crate) fn site_address() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 5060))
}

/// The address that a balancer probes from.
pub(crate) fn probe_address(balancer: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 11], 5100 + balancer))
}

/// The address of a caller.
pub(crate) fn caller_address(caller: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 5060 + caller as u16))
}

/// The address of an answerer.
pub fn answerer_address(answerer: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 1], 5060 + answerer))
}
