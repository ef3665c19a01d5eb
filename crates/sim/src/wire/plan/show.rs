//! A plan for people: who there is, what goes wrong, what is done, one line each.

use super::{
    Action, AnswererPlan, BalancerPlan, CallerPlan, Member, Party, Plan, Role, SitePlan, answerer_address,
    caller_address,
};
use crate::engine::{HostId, Rule};
use core::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, care, delay, end, .. } = self;
        writeln!(f, "seed {seed}: {care:?}, {delay:?} a hop")?;
        self.parties(f)?;
        for Rule { from, to, when, what } in &self.rules {
            let name = |host: Option<HostId>| host.map_or("anyone".to_owned(), |host| self.host_name(host));
            writeln!(f, "{} to {}: {what:?} from {} to {}", when.start, when.end, name(*from), name(*to))?;
        }
        for (at, action) in &self.actions {
            write!(f, "{at}: ")?;
            self.action(f, action)?;
        }
        write!(f, "{end}: callers stop")
    }
}

impl Plan {
    fn parties(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, caller) in self.callers.iter().enumerate() {
            let CallerPlan { site, start, arrivals, holding, answer_wait, must_succeed } = caller;
            let must = if *must_succeed { ", must succeed" } else { "" };
            let for_how_long = arrivals.duration.unwrap_or_default();
            let rates: Vec<_> = arrivals.steps.iter().map(|step| format!("{:.1}", step.rate)).collect();
            writeln!(
                f,
                "caller {number} ({}): calls {} from {start} for {for_how_long:?}, {} calls/s, {holding:?}, waits \
                 {answer_wait:?}{must}",
                caller_address(number),
                self.sites[usize::from(*site)].name,
                rates.join(", then ")
            )?;
        }
        for (number, SitePlan { name, role, processes }) in (0..).zip(&self.sites) {
            write!(f, "{name} ({}): {processes} processes, ", Party::Site(number).address())?;
            match role {
                Role::Balancer(plan) => {
                    let BalancerPlan { shards, policy, members, .. } = plan;
                    writeln!(f, "{shards} shards, policy {policy}, members {}", self.pool(members))?;
                }
                Role::Proxy(plan) => {
                    writeln!(f, "Timer C {:?}, next hops {}", plan.core.timer_c, self.hops(&plan.hops))?;
                }
            }
        }
        for (number, answerer) in (0..).zip(&self.answerers) {
            let AnswererPlan { name, ring, trying, options, service } = answerer;
            let deaf = if *options { "" } else { ", no OPTIONS" };
            let work = service.service_per_work;
            let address = answerer_address(number);
            writeln!(f, "{name} ({address}): {ring:?}, trying {trying}, {work:?} a BYE{deaf}")?;
        }
        Ok(())
    }

    fn action(&self, f: &mut fmt::Formatter<'_>, action: &Action) -> fmt::Result {
        let site = |site: u16| &self.sites[usize::from(site)].name;
        let process = |process: u16| self.host_name(self.process_host(process));
        match action {
            Action::Fail(which) => writeln!(f, "Fail {}", process(*which)),
            Action::Start(which) => writeln!(f, "Start {}", process(*which)),
            Action::TakeOver(which) => writeln!(f, "TakeOver by {}", process(*which)),
            Action::SetMembers(at, members) => {
                writeln!(f, "SetMembers of {}: {}", site(*at), self.pool(members))
            }
            Action::SetHops(at, hops) => writeln!(f, "SetHops of {}: {}", site(*at), self.hops(hops)),
            Action::SetPolicy(at, policy) => writeln!(f, "SetPolicy of {}: {policy}", site(*at)),
            Action::Stall(host, time) => writeln!(f, "{} stalls for {time:?}", self.host_name(*host)),
            Action::Drain(party, draining) => writeln!(f, "Drain {}: {draining}", self.party(*party)),
            Action::Die { .. } | Action::Return(_) | Action::Rekey => writeln!(f, "{action:?}"),
        }
    }

    fn party(&self, party: Party) -> String {
        match party {
            Party::Site(site) => self.sites[usize::from(site)].name.clone(),
            Party::Answerer(answerer) => self.answerers[usize::from(answerer)].name.clone(),
        }
    }

    fn pool(&self, members: &[Member]) -> String {
        let one = |member: &Member| format!("{} (capacity {:.2})", self.party(member.party), member.capacity);
        members.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn hops(&self, hops: &[Party]) -> String {
        hops.iter().map(|&hop| self.party(hop)).collect::<Vec<_>>().join(", ")
    }
}
