//! Observers of a run's balancers and proxies: their messages, and the state that they report.
//!
//! The observers do not see the plan, apart from the configuration. They derive from the messages alone which rules
//! apply.

mod answered;
mod balancer;
mod mixed;
mod overload;
mod records;
mod scaled;
mod shared;
mod verified;
mod waiting;

use super::plan::{FilePlan, Plan, SITES, SiteRole, site_address};
use super::process::{BalancerState, Process, Shown, TOKEN_LIFETIME};
use super::world::SiteProcess;
use super::{RunRule, SitePlan};
use crate::watch::HomeWatch;
use crate::{ProcessInput, ProxyWatch, Sent};
use answered::Answered;
use balancer::BalancerChecker;
use base::Instant;
use control::scale::Order;
use dialog::CallRecord;
use distribute::Function;
use mixed::MixedChecker;
use node::ProxyReport;
use overload::Overload;
use records::Records;
use route::Forward;
use scaled::Scaled;
use shared::Shared;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use verified::Verified;
use waiting::{Waited, Waiting};
use wire::Message;

/// The observers of one site.
enum SiteWatch {
    Balancer(Box<BalancerChecker>),
    Proxy(Box<ProxyWatch>),
    Mixed(Box<MixedChecker>),
    Home(Box<HomeWatch>),
}

/// All observers of a run.
pub(super) struct Checkers {
    answered: Answered,
    shared: Shared,
    /// Set if sites share out dialogs.
    records: Option<Records>,
    /// For sites that share out authentication.
    verified: Verified,
    /// The files of the sites that share out authentication. These files never change.
    sharing_users: BTreeMap<u16, FilePlan>,
    /// Requests that wait at each site that shares out authentication.
    waiting: BTreeMap<u16, Waiting>,
    sites: Vec<SiteWatch>,
    /// By site.
    overload: Vec<Overload>,
    /// Sites that start and stop servers.
    scaled: BTreeMap<u16, Scaled>,
}

impl Checkers {
    pub(super) fn new(plan: &Plan) -> Self {
        let watch = |(number, site): (u16, &SitePlan)| match &site.role {
            // All their pools forward in the same mode.
            SiteRole::Balancer(file) => SiteWatch::Balancer(Box::new(BalancerChecker::new(
                site_address(number),
                site.processes,
                (file.forwards(Forward::Transaction), plan.transport.is_reliable()),
                file.pools[0].settings.queue.as_ref().map(|queue| queue.settings.bound),
            ))),
            SiteRole::Proxy(file) => {
                let mut watch =
                    ProxyWatch::new(&[site_address(number)], file.timers.transaction, TOKEN_LIFETIME);
                if let Some(function) = file.shared_function() {
                    watch = watch.sharing(function, vec![SITES.into()]);
                }
                if file.forks() {
                    watch = watch.forking();
                }
                if file.keeps_dialogs() {
                    watch = watch.keeping_calls(file.calls.silence);
                }
                watch.set_hops(site.role.targets().into_iter().map(super::Destination::address));
                SiteWatch::Proxy(Box::new(watch))
            }
            SiteRole::Mixed(plan) => {
                let address = site_address(number);
                SiteWatch::Mixed(Box::new(MixedChecker::new(address, plan, site.processes)))
            }
            SiteRole::Home(plan) => {
                SiteWatch::Home(Box::new(HomeWatch::new(plan.authenticates, plan.is_durable)))
            }
        };
        let overload = |site: &SitePlan| {
            let feedback = site.role.file().map(|file| file.overload.feedback).unwrap_or_default();
            Overload::new(site.processes, feedback)
        };
        let scaled = |(number, site): (u16, &SitePlan)| {
            let file = site.role.file()?;
            Some((number, Scaled::new(&file.sessions, file.scale.as_deref()?)))
        };
        let with_users = |(number, site): (u16, &SitePlan)| {
            Some((number, site.role.file().filter(|file| file.users.is_some())?.clone()))
        };
        Self {
            answered: Answered::default(),
            shared: Shared::default(),
            records: plan
                .files()
                .any(|file| file.shared_function() == Some(Function::Dialog))
                .then(Records::default),
            verified: Verified::default(),
            sharing_users: (0..).zip(&plan.sites).filter_map(with_users).collect(),
            waiting: BTreeMap::new(),
            sites: (0..).zip(&plan.sites).map(watch).collect(),
            overload: plan.sites.iter().map(overload).collect(),
            scaled: (0..).zip(&plan.sites).filter_map(scaled).collect(),
        }
    }

    fn site(&mut self, place: SiteProcess) -> &mut SiteWatch {
        &mut self.sites[usize::from(place.site)]
    }

    /// The configuration of a site has changed.
    pub(super) fn reloaded(&mut self, now: Instant, site: u16, role: &SiteRole) {
        match (&mut self.sites[usize::from(site)], role) {
            (SiteWatch::Proxy(watch), _) => {
                watch.set_hops(role.targets().into_iter().map(super::Destination::address));
            }
            (SiteWatch::Mixed(watch), SiteRole::Mixed(plan)) => watch.reloaded(now, plan),
            _ => {}
        }
    }

    /// The key of new tokens has changed. Earlier tokens are still valid.
    pub(super) fn rekeyed(&mut self) {
        for site in &mut self.sites {
            match site {
                SiteWatch::Balancer(watch) => watch.rekeyed(),
                SiteWatch::Proxy(watch) => watch.rekeyed(true),
                SiteWatch::Mixed(_) | SiteWatch::Home(_) => {}
            }
        }
    }

    /// A process ended. The next one starts without state, so calls that are not settled are lost.
    pub(super) fn ended(&mut self, now: Instant, place: SiteProcess) {
        if let Some(records) = &mut self.records {
            records.ended(now, place.site);
        }
        if let Some(scaled) = self.scaled.get_mut(&place.site) {
            scaled.ended();
        }
        self.overload[usize::from(place.site)].ended(place.process);
        match &mut self.sites[usize::from(place.site)] {
            SiteWatch::Balancer(watch) => {
                self.answered.lose(watch.unsettled(place.process));
                watch.ended(place.process);
            }
            SiteWatch::Proxy(watch) => {
                self.answered.lose(watch.unsettled());
                watch.restarted();
                self.shared.ended(place.site);
                self.verified.ended(place.site);
                self.waiting.remove(&place.site);
            }
            SiteWatch::Mixed(watch) => {
                self.answered.lose(watch.ended(place.process));
                self.shared.ended(place.site);
            }
            SiteWatch::Home(watch) => watch.ended(),
        }
    }

    /// Another process now gets the messages to this process's site.
    pub(super) fn taken_over(&mut self, place: SiteProcess) {
        match &mut self.sites[usize::from(place.site)] {
            SiteWatch::Balancer(watch) => self.answered.lose(watch.unsettled(place.process)),
            SiteWatch::Mixed(watch) => self.answered.lose(watch.taken_over(place.process)),
            SiteWatch::Proxy(_) | SiteWatch::Home(_) => {}
        }
    }

    /// Records that a process wrote in the step that the next [`datagram`](Self::datagram) or
    /// [`sent_without_datagram`](Self::sent_without_datagram) covers.
    pub(super) fn written(&mut self, place: SiteProcess, records: &[CallRecord]) {
        if let Some(all) = &mut self.records {
            all.written(place.site, records);
        }
        match self.site(place) {
            SiteWatch::Proxy(watch) => watch.written(records),
            SiteWatch::Mixed(watch) => watch.written(place.process, records),
            SiteWatch::Balancer(_) | SiteWatch::Home(_) => {}
        }
    }

    /// A process got `bytes` from `from` and sent `sent`.
    pub(super) fn datagram(
        &mut self,
        now: Instant,
        place: SiteProcess,
        process: &Process,
        (from, bytes): (SocketAddr, &[u8]),
        sent: &[Sent],
    ) -> Result<(), String> {
        self.answered.request_received(bytes);
        for one in sent {
            self.answered.check(&one.bytes, one.to)?;
        }
        self.see_scaled(now, place, Some((from, bytes)), sent);
        self.see_records(now, place, sent);
        if let Some(file) = self.sharing_users.get(&place.site) {
            self.waiting.entry(place.site).or_default().datagram(from, bytes, sent);
            self.verified.datagram((now, place.site), file, (from, bytes), sent)?;
        }
        self.verified_sent(place, sent)?;
        let overload = &mut self.overload[usize::from(place.site)];
        overload.sent(sent)?;
        let is_up = |hop| process.slot_at(hop).is_some_and(|slot| process.is_up(slot));
        overload.datagram(place.process, bytes, sent, is_up)?;
        match self.site(place) {
            SiteWatch::Balancer(watch) => {
                watch.datagram((now, place.process), process, (from, bytes), sent)?;
                watch.settle((now, place.process), sent)
            }
            SiteWatch::Proxy(watch) => {
                watch.check(now, ProcessInput::Datagram { from, bytes }, sent);
                if watch.shares() {
                    self.shared.datagram(place.site, bytes, sent)?;
                    self.shared.sent(place.site, sent);
                }
                Ok(())
            }
            SiteWatch::Mixed(watch) => {
                watch.step((now, place.process), (Some((from, bytes)), process.owner(bytes)), sent)
            }
            SiteWatch::Home(watch) => {
                watch.check(now, ProcessInput::Datagram { from, bytes }, sent);
                Ok(())
            }
        }
    }

    /// A process sent `sent` without an incoming datagram. A request that waited for a store is checked as if it had
    /// come now.
    pub(super) fn sent_without_datagram(
        &mut self,
        now: Instant,
        place: SiteProcess,
        process: &Process,
        cause: ProcessInput<'_>,
        sent: &[Sent],
    ) -> Result<(), String> {
        let waiting = self.waiting.get_mut(&place.site);
        let (waited, others) = waiting.map_or((Vec::new(), Vec::new()), |waiting| waiting.over(sent));
        let sent = if waited.is_empty() { sent } else { &others };
        for Waited { from, bytes, sent } in waited {
            self.datagram(now, place, process, (from, &bytes), &sent)?;
        }
        self.verified_sent(place, sent)?;
        for one in sent {
            self.answered.check(&one.bytes, one.to)?;
        }
        self.see_scaled(now, place, None, sent);
        self.see_records(now, place, sent);
        self.overload[usize::from(place.site)].sent(sent)?;
        match self.site(place) {
            SiteWatch::Balancer(watch) if matches!(cause, ProcessInput::Unreachable) => {
                watch.lost(sent);
                watch.settle((now, place.process), sent)
            }
            SiteWatch::Balancer(watch) if sent.is_empty() || watch.has_transactions() => {
                watch.settle((now, place.process), sent)
            }
            SiteWatch::Balancer(_) => Err(RunRule::SentWithoutInput.broken(format_args!("{sent:?}"))),
            SiteWatch::Proxy(watch) => {
                watch.check(now, cause, sent);
                self.shared.sent(place.site, sent);
                Ok(())
            }
            SiteWatch::Mixed(watch) => watch.step((now, place.process), (None, None), sent),
            SiteWatch::Home(watch) => {
                watch.check(now, cause, sent);
                Ok(())
            }
        }
    }

    /// An answerer sent a response.
    pub(super) fn response_sent(&mut self, from: SocketAddr, response: &Message<'_>) -> Result<(), String> {
        self.scaled.values_mut().for_each(|scaled| scaled.server_sent(from, response));
        self.answered.response_sent(from, response)
    }

    /// A process sent `sent`.
    fn verified_sent(&mut self, place: SiteProcess, sent: &[Sent]) -> Result<(), String> {
        if self.sharing_users.contains_key(&place.site) {
            self.verified.sent(place.site, sent)
        } else {
            Ok(())
        }
    }

    fn see_records(&mut self, now: Instant, place: SiteProcess, sent: &[Sent]) {
        if let Some(records) = &mut self.records {
            records.sent(now, place.site, sent);
        }
    }

    /// A process that starts and stops servers got a datagram, and sent `sent`.
    fn see_scaled(
        &mut self,
        now: Instant,
        place: SiteProcess,
        got: Option<(SocketAddr, &[u8])>,
        sent: &[Sent],
    ) {
        let Some(scaled) = self.scaled.get_mut(&place.site) else { return };
        if let Some((from, Ok(message))) = got.map(|(from, bytes)| (from, wire::scan(bytes))) {
            scaled.heard(now, from, &message);
        }
        for one in sent {
            if let Ok(message) = wire::scan(&one.bytes) {
                scaled.sent(now, one.to, &message);
            }
        }
    }

    /// The scaler of this site gave an order. The number is the generation of the scaling.
    pub(super) fn ordered(&mut self, at: (Instant, u64), site: u16, order: &Order) -> Result<(), String> {
        self.scaled.get_mut(&site).map_or(Ok(()), |scaled| scaled.ordered(at, order))
    }

    /// The scaler of this site ran, and takes these servers to be ready.
    pub(super) fn looked(
        &mut self,
        site: u16,
        ready: &[SocketAddr],
        state: &BalancerState,
    ) -> Result<(), String> {
        self.scaled.get(&site).map_or(Ok(()), |scaled| scaled.looked(ready, state))
    }

    /// An operator drains a member of this site, or ends the drain.
    pub(super) fn operator_drains(&mut self, site: u16, member: SocketAddr, draining: bool) {
        if let Some(scaled) = self.scaled.get_mut(&site) {
            scaled.operator_drains(member, draining);
        }
    }

    /// The traffic ended long ago: scalers may give no more orders.
    pub(super) fn rest(&mut self) {
        self.scaled.values_mut().for_each(Scaled::rest);
    }

    /// A server of this site was stopped by order of its scaler. `goes_on`: the process that ordered it still runs.
    /// Calls of the server that this process does not know are lost.
    pub(super) fn stopped(
        &mut self,
        now: Instant,
        site: u16,
        server: SocketAddr,
        goes_on: bool,
    ) -> Result<(), String> {
        self.answered.died(server);
        self.scaled.get_mut(&site).map_or(Ok(()), |scaled| scaled.stopped(now, server, goes_on))
    }

    /// An answerer died.
    pub(super) fn died(&mut self, answerer: SocketAddr) {
        self.answered.died(answerer);
        self.scaled.values_mut().for_each(|scaled| scaled.died(answerer));
    }

    /// Returns the number of calls lost with a process or answerer.
    pub(super) fn lost(&self) -> u64 {
        self.answered.lost()
    }

    /// Returns the number of other calls that were cancelled before any answerer responded.
    pub(super) fn given_up(&self) -> u64 {
        self.answered.given_up()
    }

    /// Returns the number of INVITEs refused because a process, or every destination behind it, was overloaded.
    pub(super) fn turned_away(&self) -> u64 {
        self.overload.iter().map(Overload::turned_away).sum()
    }

    /// Checks the state that a process reports.
    pub(super) fn audit(&mut self, now: Instant, place: SiteProcess, shown: &Shown) -> Result<(), String> {
        match (self.site(place), shown) {
            (SiteWatch::Balancer(watch), Shown::Balancer(state)) => watch.state(place.process, state),
            (SiteWatch::Mixed(_), Shown::Balancer(state)) => BalancerChecker::sums(state),
            (SiteWatch::Proxy(watch), Shown::Proxy { report, .. }) => {
                watch.audit(now, report);
                Ok(())
            }
            (SiteWatch::Home(watch), Shown::Proxy { .. }) => {
                watch.audit(now);
                Ok(())
            }
            _ => unreachable!("a site keeps its role"),
        }
    }

    /// Checks that no state is left after the traffic and all timeouts.
    pub(super) fn nothing_left(shown: &Shown) -> Result<(), String> {
        match shown {
            Shown::Balancer(state) => {
                BalancerChecker::nothing_left(state)?;
                no_calls_left(&state.report)
            }
            Shown::Proxy { report, deadline } => {
                no_calls_left(report)?;
                match (report.transactions, report.unanswered, report.memory, deadline) {
                    (0, 0, 0, None) => Ok(()),
                    left => Err(RunRule::ProxyLeft.broken(format_args!("{left:?}"))),
                }
            }
        }
    }

    /// Checks that each answered call has a record.
    pub(super) fn all_written(&self) -> Result<(), String> {
        if let Some(records) = &self.records {
            records.all_written()?;
        }
        self.sites.iter().try_for_each(|site| match site {
            SiteWatch::Mixed(watch) => watch.all_written(),
            SiteWatch::Balancer(_) | SiteWatch::Proxy(_) | SiteWatch::Home(_) => Ok(()),
        })
    }
}

fn no_calls_left(report: &ProxyReport) -> Result<(), String> {
    match &report.calls {
        Some(left) if left.ringing + left.answered + left.memory > 0 => {
            Err(RunRule::CallsLeft.broken(format_args!("{left:?}")))
        }
        _ => Ok(()),
    }
}
