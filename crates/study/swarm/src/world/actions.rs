//! Execution of a plan's actions on hosts.

use super::host::Role;
use super::streams::CutOff;
use super::{PlannedAction, World, Wrapper};
use crate::plan::{Destination, answerer_address};
use crate::process::Process;
use base::Instant;

impl<W: Wrapper> World<W> {
    pub(super) fn act(&mut self, action: &PlannedAction) {
        let now = self.queue.now();
        match action {
            PlannedAction::Fail(process) => {
                let host = self.plan.process_host(*process);
                if let Role::Process(Some(_)) = self.hosts[host as usize].role {
                    self.hosts[host as usize].role = Role::Process(None);
                    if let Some(stores) = &mut self.hosts[host as usize].stores {
                        stores.process_ended();
                    }
                    self.checkers.ended(now, self.place(*process));
                    self.close_all(host, CutOff::Announced);
                }
            }
            PlannedAction::Start(process) => self.start_process(now, *process),
            PlannedAction::TakeOver(process) => {
                let place = self.place(*process);
                let before = std::mem::replace(&mut self.active[usize::from(place.site)], *process);
                if before != *process {
                    self.checkers.taken_over(self.place(before));
                    // Connections stay with the address, and the process that has it now does not know them.
                    self.close_all(self.plan.process_host(before), CutOff::Unnoticed);
                }
            }
            PlannedAction::Die { answerer, refuses } => {
                let host = self.plan.answerer_host(*answerer);
                if let Role::Answerer { agent, refuses: now, .. } = &mut self.hosts[host as usize].role {
                    (*agent, *now) = (None, *refuses);
                }
                // A silent machine is gone with its process.
                self.close_all(host, if *refuses { CutOff::Announced } else { CutOff::Unnoticed });
                self.checkers.died(answerer_address(*answerer));
            }
            PlannedAction::Return(answerer) => self.return_answerer(*answerer),
            PlannedAction::Stall(host, time) => {
                let it = &mut self.hosts[*host as usize];
                it.stalled_until = it.stalled_until.max(now + *time);
            }
            PlannedAction::Reset(host) => self.close_all(*host, CutOff::Announced),
            PlannedAction::HalfOpen(host) => self.close_all(*host, CutOff::Unnoticed),
            PlannedAction::Drain(destination, draining) => self.drain(*destination, *draining),
            PlannedAction::Configure(site, plan) => {
                if let Some(file) = self.sites[usize::from(*site)].role.file_mut() {
                    file.clone_from(plan);
                }
                self.reload(now);
            }
            PlannedAction::SetStore(site, state) => {
                let first = self.plan.process_host(self.plan.first_process(*site)) as usize;
                if let Some(stores) = &mut self.hosts[first].stores {
                    stores.state = *state;
                }
            }
            PlannedAction::Rekey => {
                self.key = self.key.wrapping_add(1);
                self.checkers.rekeyed();
                self.reload(now);
            }
        }
    }

    fn start_process(&mut self, now: Instant, number: u16) {
        let host = self.plan.process_host(number);
        let site = self.plan.site_of(number);
        let it = &mut self.hosts[host as usize];
        if let Role::Process(None) = it.role {
            it.lives += 1;
            let id = (number, it.lives);
            let plan = &self.sites[usize::from(site)];
            let process = Process::start(now, plan, site, (self.key, self.plan.transport), id);
            it.role = Role::Process(Some(Box::new(process)));
            self.arm(host);
        }
    }

    /// Restarts an answerer, unless its driver has stopped it meanwhile.
    fn return_answerer(&mut self, answerer: u16) {
        let driver = self.plan.scaled_by(answerer).and_then(|(site, _)| self.drivers.get(&site));
        if driver.is_none_or(|driver| driver.is_on(answerer)) {
            self.start_answerer(answerer);
        }
    }

    /// Starts or ends an operator's drain of a member at all running balancers.
    fn drain(&mut self, member: Destination, draining: bool) {
        let mut sites = Vec::new();
        self.each_process(|site, process| {
            if process.drain(member.address(), draining) {
                sites.push(site);
            }
        });
        for site in sites {
            self.checkers.operator_drains(site, member.address(), draining);
        }
    }

    pub(super) fn start_answerer(&mut self, answerer: u16) {
        let host = self.plan.answerer_host(answerer);
        if let Role::Answerer { agent: None, .. } = self.hosts[host as usize].role {
            let life = self.hosts[host as usize].lives;
            let agent = Some(Box::new(self.new_answerer(answerer, life)));
            let it = &mut self.hosts[host as usize];
            it.lives += 1;
            if let Role::Answerer { agent: before, refuses, .. } = &mut it.role {
                (*before, *refuses) = (agent, false);
            }
            self.arm(host);
        }
    }

    fn reload(&mut self, now: Instant) {
        let (sites, key) = (self.sites.clone(), self.key);
        for (site, plan) in (0..).zip(&sites) {
            self.checkers.reloaded(now, site, &plan.role);
        }
        self.each_process(|site, process| process.reload(now, &sites[usize::from(site)].role, site, key));
    }

    fn each_process(&mut self, mut change: impl FnMut(u16, &mut Process)) {
        for number in 0..self.plan.processes() {
            let host = self.plan.process_host(number);
            let site = self.plan.site_of(number);
            if let Role::Process(Some(process)) = &mut self.hosts[host as usize].role {
                change(site, process);
                self.arm(host);
            }
        }
    }
}
