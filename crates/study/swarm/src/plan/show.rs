//! A plan as text for readers: hosts, faults and actions, one a line.

use super::{
    Destination, FilePlan, OverloadPlan, Plan, PlannedAction, PlannedMember, PoolPlan, RoutePlan, SitePlan,
    SiteRole, answerer_address, caller_address,
};
use base::Transport;
use control::PoolSettings;
use core::fmt;
use route::{Fork, Forward};
use sim::engine::{FaultRule, HostIndex};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, severity, delay, end, transport, .. } = self;
        let over = if *transport == Transport::Udp { "" } else { ", over TCP" };
        writeln!(f, "seed {seed}: {severity:?}, {delay:?} a hop{over}")?;
        self.participants(f)?;
        for FaultRule { from, to, when, effect } in &self.rules {
            let name =
                |host: Option<HostIndex>| host.map_or("anyone".to_owned(), |host| self.host_name(host));
            writeln!(f, "{} to {}: {effect:?} from {} to {}", when.start, when.end, name(*from), name(*to))?;
        }
        for (at, action) in &self.actions {
            write!(f, "{at}: ")?;
            self.action(f, action)?;
        }
        write!(f, "{end}: callers stop")
    }
}

impl Plan {
    fn participants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, caller) in self.callers.iter().enumerate() {
            let site = &self.sites[usize::from(caller.site)].name;
            writeln!(f, "caller {number} ({}) by {site}: {caller:?}", caller_address(number))?;
        }
        for (number, SitePlan { name, role, processes }) in (0..).zip(&self.sites) {
            write!(f, "{name} ({}): {processes} processes, ", Destination::Site(number).address())?;
            match role {
                SiteRole::Home(plan) => writeln!(f, "{plan:?}")?,
                SiteRole::Balancer(file) | SiteRole::Proxy(file) | SiteRole::Mixed(file) => {
                    self.site(f, file)?;
                }
            }
        }
        for phone in &self.phones {
            writeln!(f, "{phone:?}")?;
        }
        for (number, answerer) in (0..).zip(&self.answerers) {
            writeln!(f, "{}: {answerer:?}", answerer_address(number))?;
        }
        Ok(())
    }

    /// Writes the settings of a site's file, then its pools and routes.
    fn site(&self, f: &mut fmt::Formatter<'_>, file: &FilePlan) -> fmt::Result {
        let FilePlan { shards, timers, limits, calls, law, shares_dialogs, users, scale, overload, .. } =
            file;
        let most = limits.transactions;
        write!(f, "{shards} shards, Timer C {:?}, {most} transactions", timers.c)?;
        if file.keeps_dialogs() {
            write!(f, ", keeps calls by {calls:?}")?;
        }
        if file.forwards(Forward::Distributed) {
            let function = if *shares_dialogs { "dialogs" } else { "state" };
            write!(f, ", shares out {function} by the law {law:?}")?;
        }
        if let Some(store) = users {
            write!(f, ", shares out authentication, users in {store:?}")?;
        }
        if *overload != OverloadPlan::default() {
            write!(f, ", {overload:?}")?;
        }
        if let Some(scale) = scale {
            write!(f, ", scaled by {scale:?}")?;
        }
        writeln!(f)?;
        self.file(f, file)
    }

    /// Writes the pools and routes in the order of the file, one a line.
    fn file(&self, f: &mut fmt::Formatter<'_>, file: &FilePlan) -> fmt::Result {
        for pool in &file.pools {
            let PoolPlan { settings, members, max_calls, max_rate } = pool;
            let PoolSettings { name, service, policy, health, queue, member_law, invite_timeout, .. } =
                settings;
            let (forward, dialogs, (fork, ring_time)) =
                (service.forward(), service.dialogs(), service.fork());
            write!(f, "    pool {name}: {forward:?}, dialogs {dialogs:?}, policy {policy}")?;
            if fork != Fork::None {
                write!(f, ", {fork:?} ({ring_time:?})")?;
            }
            if !service.records_route() {
                write!(f, ", no Record-Route")?;
            }
            if *max_calls > 0 {
                write!(f, ", at most {max_calls} calls each")?;
            }
            if *max_rate > 0 {
                write!(f, ", at most {max_rate} calls a second each")?;
            }
            if let Some(law) = member_law {
                write!(f, ", limits by {law}")?;
            }
            if !invite_timeout.is_zero() {
                write!(f, ", {invite_timeout:?} to the first answer")?;
            }
            let probed = if health.regular { "" } else { ", not probed" };
            write!(f, "{probed}, members {}", self.pool(members))?;
            match queue {
                Some(queue) => writeln!(f, ", queue {queue:?}")?,
                None => writeln!(f)?,
            }
        }
        for RoutePlan { when, pools, spreads } in &file.routes {
            let pools = pools.join(if *spreads { " and " } else { ", then " });
            match when {
                Some(when) => writeln!(f, "    route for {when:?}: {pools}")?,
                None => writeln!(f, "    route: {pools}")?,
            }
        }
        Ok(())
    }

    fn action(&self, f: &mut fmt::Formatter<'_>, action: &PlannedAction) -> fmt::Result {
        let site = |site: u16| &self.sites[usize::from(site)].name;
        let process = |process: u16| self.host_name(self.process_host(process));
        match action {
            PlannedAction::Fail(which) => writeln!(f, "Fail {}", process(*which)),
            PlannedAction::Start(which) => writeln!(f, "Start {}", process(*which)),
            PlannedAction::TakeOver(which) => writeln!(f, "TakeOver by {}", process(*which)),
            PlannedAction::Stall(host, time) => writeln!(f, "{} stalls for {time:?}", self.host_name(*host)),
            PlannedAction::Reset(host) => {
                writeln!(f, "connections of {} are reset", self.host_name(*host))
            }
            PlannedAction::HalfOpen(host) => writeln!(f, "{} forgets its connections", self.host_name(*host)),
            PlannedAction::Drain(destination, draining) => {
                writeln!(f, "Drain {}: {draining}", self.destination(*destination))
            }
            PlannedAction::Configure(at, plan) => {
                writeln!(f, "Configure {}", site(*at))?;
                self.file(f, plan)
            }
            PlannedAction::SetStore(at, state) => writeln!(f, "SetStore of {}: {state:?}", site(*at)),
            PlannedAction::Die { .. } | PlannedAction::Return(_) | PlannedAction::Rekey => {
                writeln!(f, "{action:?}")
            }
        }
    }

    fn destination(&self, destination: Destination) -> String {
        match destination {
            Destination::Site(site) => self.sites[usize::from(site)].name.clone(),
            Destination::Answerer(answerer) => self.answerers[usize::from(answerer)].name.clone(),
        }
    }

    fn pool(&self, members: &[PlannedMember]) -> String {
        let one = |member: &PlannedMember| {
            format!("{} (capacity {:.2})", self.destination(member.destination), member.capacity)
        };
        members.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
