//! Sites with several pools of all modes, and the changes that an operator makes while calls go on.

use super::hosts::{Entry, LIMITS};
use super::{Drawer, at};
use crate::{
    Callee, Destination, FilePlan, PlannedAction, PlannedMember, PoolPlan, RoutePlan, Severity, SitePlan,
    SiteRole, When,
};
use balance::PolicyKind;
use core::time::Duration;
use dialog::CallSettings;
use distribute::ShareLaw;
use rand::Rng as _;
use rand::seq::{IndexedRandom, SliceRandom};
use route::{Dialogs, Fork, Forward, Service};

/// Number of users with routes of their own.
const USERS: u16 = 4;
/// More calls than are ever in progress at the same time.
const PLENTY: u32 = 10_000;
/// Longer than any run.
const NEVER: Duration = Duration::from_hours(6);

/// A configuration that is changed step by step.
pub(super) struct Draft {
    plan: FilePlan,
    /// Destinations in no pool.
    spare: Vec<Destination>,
    /// Number of pools ever added. Each has a unique name.
    named: u16,
}

impl Drawer {
    /// Returns the sites and their entries.
    pub(super) fn mixed_sites(
        &mut self,
        answerers: u16,
        (severity, calm): (Severity, u64),
    ) -> (Vec<SitePlan>, Vec<Entry>) {
        let mut sites = Vec::new();
        let mut targets: Vec<_> = (0..answerers).map(Destination::Answerer).collect();
        targets.shuffle(&mut self.rng);
        // Some pools consist of proxies.
        if self.chance(0.3) {
            let behind = targets.split_off(targets.len() - 2);
            targets.extend(self.layer(&mut sites, &behind, 2, severity));
        }
        let number = sites.len() as u16;
        let mut draft = self.draft(targets, severity);
        let role = SiteRole::Mixed(Box::new(draft.plan.clone()));
        let processes = if severity == Severity::Gentle { 1 } else { self.rng.random_range(1..3) };
        sites.push(SitePlan { name: format!("site {number}"), role, processes });
        self.later = self.changes(number, &mut draft, (severity, calm));
        let mut fronts = vec![Destination::Site(number)];
        if self.chance(0.3) {
            fronts = self.layer(&mut sites, &fronts, 1, severity);
        }
        let users = |front: Destination| match front {
            Destination::Site(site) => (0..USERS).map(move |user| (site, Callee::Behind(user))),
            Destination::Answerer(_) => unreachable!("callers know sites"),
        };
        (sites, fronts.into_iter().flat_map(users).collect())
    }

    fn draft(&mut self, mut spare: Vec<Destination>, severity: Severity) -> Draft {
        let is_lasting = severity == Severity::Gentle;
        let lifetime = if is_lasting { NEVER } else { Duration::from_mins(5) };
        let longest = self.chance(0.3).then(|| self.millis(15_000..30_000));
        let usual = CallSettings::default();
        let most = if !is_lasting && self.chance(0.3) { self.rng.random_range(3..30) } else { usual.most };
        let plan = FilePlan {
            shards: self.rng.random_range(1..=3),
            pools: Vec::new(),
            sessions: balance::SessionSettings { call_lifetime: lifetime, ..Default::default() },
            calls: CallSettings {
                longest,
                most,
                silence: if is_lasting { NEVER } else { crate::process::SILENCE },
                ..usual
            },
            law: if self.chance(0.7) { ShareLaw::Level } else { ShareLaw::Paper },
            ..FilePlan::hops(&[], self.proxy_timers(severity), LIMITS)
        };
        // One target is left for a pool that is added later.
        let pools = self.rng.random_range(2..=4);
        let each = (spare.len() - 1) / pools;
        let mut draft = Draft { plan, spare: Vec::new(), named: 0 };
        for _ in 0..pools {
            let members = spare.split_off(spare.len() - each);
            let mut pool = self.pool(&mut draft, &members, severity);
            if let Some(before) = draft.plan.pools.last().filter(|_| self.chance(0.4)) {
                pool.settings.service = before.settings.service;
                self.change_counting(&mut pool, severity);
            }
            draft.plan.pools.push(pool);
        }
        draft.spare = spare;
        let users = (0..USERS - 1).map(Some).chain([None]);
        let mut route = |user: Option<u16>| RoutePlan {
            when: user.map(When::Behind),
            pools: self.way(&draft.plan),
            spreads: self.chance(0.2),
        };
        draft.plan.routes = users.map(&mut route).collect();
        draft
    }

    /// Returns a pool of these members with an unused name.
    fn pool(&mut self, draft: &mut Draft, members: &[Destination], severity: Severity) -> PoolPlan {
        let number = draft.named;
        draft.named += 1;
        let mut pool = self.members_pool(&format!("pool-{number}"), members);
        self.change_mode(&mut pool, severity);
        // Like the next hops of `[proxy]`.
        if pool.settings.service.has_hops() && self.chance(0.5) {
            pool.settings.health.regular = false;
            pool.settings.probes.periodic = false;
        }
        pool
    }

    /// Draws a mode and the settings that depend on it.
    fn change_mode(&mut self, pool: &mut PoolPlan, severity: Severity) {
        let ways = [Forward::Stateless, Forward::Transaction, Forward::Dialog, Forward::Distributed];
        let forward = *ways.choose(&mut self.rng).expect("there are ways");
        let is_kept = forward.has_transactions();
        let only_hops = matches!(forward, Forward::Dialog | Forward::Distributed);
        let dialogs = if only_hops || self.chance(0.5) { Dialogs::Route } else { Dialogs::Member };
        let is_hop = dialogs == Dialogs::Route;
        let fork = match self.rng.random_range(0..6) {
            0 if is_hop && is_kept => Fork::Parallel,
            1 if is_hop && is_kept => Fork::Sequential,
            _ => Fork::None,
        };
        let ring_time = if fork == Fork::None { Duration::ZERO } else { self.millis(2_000..8_000) };
        let record_route = !is_hop || forward == Forward::Dialog || self.chance(0.85);
        let service = Service::of((forward, dialogs), (fork, ring_time), record_route);
        pool.settings.service = service.expect("a configuration may have these");
        self.change_counting(pool, severity);
    }

    /// Draws how calls are counted, as far as the mode allows.
    fn change_counting(&mut self, pool: &mut PoolPlan, severity: Severity) {
        let (is_kept, record_route) =
            (pool.settings.service.has_transactions(), pool.settings.service.records_route());
        let may_count = is_kept || !pool.settings.service.has_hops();
        let (fork, _) = pool.settings.service.fork();
        let may_be = |policy: &PolicyKind| match policy {
            PolicyKind::Hash | PolicyKind::FnvHash => true,
            // This policy counts the calls of members, whose end is seen only with Record-Route.
            PolicyKind::Cjsq => may_count && record_route,
            _ => may_count,
        };
        let policies: Vec<_> = PolicyKind::ALL.into_iter().filter(may_be).collect();
        pool.settings.policy = *policies.choose(&mut self.rng).expect("there are policies");
        let has_limit = may_count && record_route && fork == Fork::None && self.chance(0.3);
        let most =
            if severity == Severity::Harsh { [PLENTY, 5][self.rng.random_range(0..2)] } else { PLENTY };
        pool.max_calls = if has_limit { most } else { 0 };
        let number = self.rng.random_range(0..1_000);
        let has_one = is_kept && fork == Fork::None;
        pool.settings.queue = if has_one { self.queue(number) } else { None };
        pool.settings.invite_timeout = self.invite_timeout(number, has_one);
    }

    /// Draws the pools of a route: one pool, and often others with the same mode, which a route requires.
    fn way(&mut self, plan: &FilePlan) -> Vec<String> {
        let first = plan.pools.choose(&mut self.rng).expect("there are pools");
        let others = plan.pools.iter().filter(|pool| {
            pool.settings.service == first.settings.service && pool.settings.name != first.settings.name
        });
        let mut names: Vec<_> = others.map(|pool| pool.settings.name.clone()).collect();
        names.truncate(self.rng.random_range(0..=2));
        names.insert(0, first.settings.name.clone());
        names
    }

    /// Draws the operator's changes. The last one raises all limits on calls, so that none refuses any.
    fn changes(
        &mut self,
        site: u16,
        draft: &mut Draft,
        (severity, calm): (Severity, u64),
    ) -> Vec<(base::Instant, PlannedAction)> {
        let mut times: Vec<_> =
            (0..self.rng.random_range(1..8)).map(|_| self.rng.random_range(5_000..calm)).collect();
        times.sort_unstable();
        let mut later = Vec::new();
        let mut configure = |time: u64, plan: &FilePlan| {
            later.push((at(time), PlannedAction::Configure(site, Box::new(plan.clone()))));
        };
        for time in times {
            for _ in 0..self.rng.random_range(1..3) {
                self.change(draft, severity);
            }
            configure(time, &draft.plan);
        }
        for pool in draft.plan.pools.iter_mut().filter(|pool| pool.max_calls > 0) {
            pool.max_calls = PLENTY;
        }
        draft.plan.calls.most = CallSettings::default().most;
        configure(calm, &draft.plan);
        later
    }

    fn change(&mut self, draft: &mut Draft, severity: Severity) {
        let which = self.rng.random_range(0..draft.plan.pools.len());
        match self.rng.random_range(0..8) {
            0 => draft.plan.pools.shuffle(&mut self.rng),
            1 if !draft.spare.is_empty() => self.add_pool(draft, severity),
            2 if draft.plan.pools.len() > 1 => Self::remove_pool(draft, which),
            3 | 4 => self.change_mode(&mut draft.plan.pools[which], severity),
            5 => self.change_counting(&mut draft.plan.pools[which], severity),
            6 => {
                let route = self.rng.random_range(0..draft.plan.routes.len());
                draft.plan.routes[route].pools = self.way(&draft.plan);
            }
            _ => self.change_members(draft, which),
        }
        for route in 0..draft.plan.routes.len() {
            let mode_of = |name: &String| draft.plan.pool(name).map(|(_, pool)| pool.settings.service);
            let pools = &draft.plan.routes[route].pools;
            let mode = pools.first().and_then(mode_of);
            let alike: Vec<_> = pools.iter().filter(|name| mode_of(name) == mode).cloned().collect();
            draft.plan.routes[route].pools = if mode.is_some() { alike } else { self.way(&draft.plan) };
        }
    }

    /// Adds a pool at a random place.
    fn add_pool(&mut self, draft: &mut Draft, severity: Severity) {
        let members = core::mem::take(&mut draft.spare);
        let pool = self.pool(draft, &members, severity);
        let place = self.rng.random_range(0..=draft.plan.pools.len());
        let route = self.rng.random_range(0..draft.plan.routes.len());
        draft.plan.routes[route].pools.insert(0, pool.settings.name.clone());
        draft.plan.pools.insert(place, pool);
    }

    fn remove_pool(draft: &mut Draft, which: usize) {
        let gone = draft.plan.pools.remove(which);
        draft.spare.extend(gone.members.iter().map(|member| member.destination));
        for route in &mut draft.plan.routes {
            route.pools.retain(|name| *name != gone.settings.name);
        }
    }

    /// Removes a member, or adds all spare ones.
    fn change_members(&mut self, draft: &mut Draft, which: usize) {
        let members = &mut draft.plan.pools[which].members;
        if members.len() > 1 && (draft.spare.is_empty() || self.rng.random_bool(0.5)) {
            let gone = members.remove(self.rng.random_range(0..members.len()));
            draft.spare.push(gone.destination);
        } else {
            let come = draft.spare.drain(..).map(|destination| PlannedMember { destination, capacity: 1.0 });
            members.extend(come);
        }
    }
}
