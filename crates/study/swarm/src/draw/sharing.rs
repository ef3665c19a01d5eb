//! Proxies that share out the state of calls: in layers, or as edges around a core.

use super::hosts::{Entry, LIMITS, entries};
use super::{Drawer, at};
use crate::{Callee, Destination, FilePlan, Plan, PoolPlan, RoutePlan, Severity, SitePlan, StorePlan, When};
use base::{Instant, Rng};
use core::time::Duration;
use distribute::ShareLaw;
use node::ProxyLimits;
use rand::Rng as _;
use route::Service;

impl Drawer {
    /// Returns the sites and their entries.
    pub(super) fn sharing_sites(
        &mut self,
        answerers: u16,
        (severity, calm): (Severity, u64),
    ) -> (Vec<SitePlan>, Vec<Entry>) {
        let law = if self.chance(0.7) { ShareLaw::Level } else { ShareLaw::Paper };
        let answerers: Vec<_> = (0..answerers).map(Destination::Answerer).collect();
        if self.chance(0.3) {
            return self.edges_and_core(&answerers, law, (severity, calm));
        }
        let (mut sites, mut targets) = (Vec::new(), answerers);
        for _ in 0..self.rng.random_range(2..5) {
            // A series, a fork, a join, or both.
            let count = if self.chance(0.6) { 1 } else { self.rng.random_range(2..4) };
            let layer: Vec<_> =
                (0..count).map(|_| self.sharing(&mut sites, &targets, law, (severity, calm))).collect();
            targets = layer;
        }
        let entries = entries(&targets);
        (sites, entries)
    }

    /// Adds a proxy that shares out state and sends to these targets.
    fn sharing(
        &mut self,
        sites: &mut Vec<SitePlan>,
        targets: &[Destination],
        law: ShareLaw,
        (severity, calm): (Severity, u64),
    ) -> Destination {
        let timers = self.proxy_timers(severity);
        // Enough for the calls of the phase without faults, but sometimes too few for those before.
        let is_small = severity == Severity::Harsh && self.chance(0.3);
        let transactions = if is_small { self.rng.random_range(1_400..2_400) } else { LIMITS.transactions };
        let limits = ProxyLimits { transactions, ..LIMITS };
        let mut file = FilePlan {
            law,
            shares_dialogs: self.plan_shares("shares dialogs"),
            users: self.users(sites.len(), (severity, calm)),
            ..FilePlan::hops(&self.hops(targets, severity), timers, limits)
        };
        file.pools[0].settings.service = Service::Distribute { record_route: true };
        file.routes.push(route(None, "hops"));
        let number = sites.len() as u16;
        sites.push(SitePlan::proxy(number, file));
        Destination::Site(number)
    }

    /// Draws whether all proxies of the plan share this function. Uses a fork of the seed, so that the other draws of
    /// the plan stay the same.
    fn plan_shares(&self, function: &str) -> bool {
        Rng::from_seed(self.seed).fork(function).random_bool(0.5)
    }

    /// Draws the store of users of this proxy, if authentication is shared out. Uses a fork of the seed too.
    fn users(&self, number: usize, (severity, calm): (Severity, u64)) -> Option<StorePlan> {
        let mut rng = Rng::from_seed(self.seed).fork(&format!("users {number}"));
        let within = Duration::from_millis(rng.random_range(1..500));
        let answers_within = rng.random_bool(0.5).then_some(within);
        let late_until = if severity == Severity::Gentle { Instant::ZERO } else { at(calm) };
        self.plan_shares("shares authentication").then_some(StorePlan { answers_within, late_until })
    }

    /// Lets some callers of a harsh plan have a wrong password.
    pub(super) fn strangers(&self, plan: &mut Plan) {
        let mut rng = Rng::from_seed(self.seed).fork("strangers");
        let callers = plan.callers.iter_mut().filter(|caller| !caller.must_succeed);
        for caller in callers.filter(|_| plan.severity == Severity::Harsh) {
            caller.knows_password = rng.random_bool(0.8);
        }
    }

    /// Two or three edges that call each other through a core, so that no edge is always first.
    fn edges_and_core(
        &mut self,
        answerers: &[Destination],
        law: ShareLaw,
        (severity, calm): (Severity, u64),
    ) -> (Vec<SitePlan>, Vec<Entry>) {
        let edges = self.rng.random_range(2..4_u16);
        let core = [Destination::Site(edges)];
        let mut sites = Vec::new();
        for _ in 0..edges {
            self.sharing(&mut sites, &core, law, (severity, calm));
            let ways = [(When::FromSite, answerers.to_vec())];
            sites.last_mut().into_iter().for_each(|edge| lead(edge, &ways));
        }
        self.sharing(&mut sites, &[], law, (severity, calm));
        let way = |edge: u16| (When::Behind(edge), vec![Destination::Site(edge)]);
        let ways: Vec<_> = (0..edges).map(way).collect();
        sites.last_mut().into_iter().for_each(|core| lead(core, &ways));
        let pairs = (0..edges).flat_map(|from| (0..edges).map(move |to| (from, to)));
        let entries = pairs.filter(|(from, to)| from != to).map(|(from, to)| (from, Callee::Behind(to)));
        (sites, entries.collect())
    }
}

/// Adds routes for some requests to other next hops.
fn lead(site: &mut SitePlan, ways: &[(When, Vec<Destination>)]) {
    let Some(file) = site.role.file_mut() else { return };
    let service = file.pools[0].settings.service;
    for (number, (when, hops)) in ways.iter().enumerate() {
        let name = format!("hops-{number}");
        file.routes.insert(number, route(Some(*when), &name));
        let mut pool = PoolPlan::hops(&name, hops);
        pool.settings.service = service;
        file.pools.push(pool);
    }
}

fn route(when: Option<When>, pool: &str) -> RoutePlan {
    RoutePlan { when, pools: vec![pool.to_owned()], spreads: false }
}
