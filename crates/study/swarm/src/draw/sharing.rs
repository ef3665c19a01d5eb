//! Proxies that share out the state of calls: in layers, or as edges around a core.

use super::Drawer;
use super::hosts::{Entry, LIMITS, entries};
use crate::{Callee, Care, Destination, FilePlan, PoolPlan, RoutePlan, SitePlan, When};
use base::Rng;
use distribute::Law;
use node::ProxyLimits;
use rand::Rng as _;
use route::Service;

impl Drawer {
    /// The sites, and those that callers know.
    pub(super) fn sharing_sites(&mut self, answerers: u16, care: Care) -> (Vec<SitePlan>, Vec<Entry>) {
        let law = if self.chance(0.7) { Law::Level } else { Law::Paper };
        let answerers: Vec<_> = (0..answerers).map(Destination::Answerer).collect();
        if self.chance(0.3) {
            return self.edges_and_core(&answerers, law, care);
        }
        let (mut sites, mut targets) = (Vec::new(), answerers);
        for _ in 0..self.rng.random_range(2..5) {
            // A series, a fork, a join, or both.
            let count = if self.chance(0.6) { 1 } else { self.rng.random_range(2..4) };
            let layer: Vec<_> = (0..count).map(|_| self.sharing(&mut sites, &targets, law, care)).collect();
            targets = layer;
        }
        let entries = entries(&targets);
        (sites, entries)
    }

    /// A proxy that shares out, and sends to these.
    fn sharing(
        &mut self,
        sites: &mut Vec<SitePlan>,
        targets: &[Destination],
        law: Law,
        care: Care,
    ) -> Destination {
        let timers = self.proxy_timers(care);
        // Enough for the calls of the phase without faults, and not always for those before.
        let is_small = care == Care::Harsh && self.chance(0.3);
        let transactions = if is_small { self.rng.random_range(1_400..2_400) } else { LIMITS.transactions };
        let limits = ProxyLimits { transactions, ..LIMITS };
        // All of a plan or none. Of a fork of the seed, so that the rest of the plan does not depend on it.
        let shares_dialogs = Rng::from_seed(self.seed).fork("shares dialogs").random_bool(0.5);
        let mut file =
            FilePlan { law, shares_dialogs, ..FilePlan::hops(&self.hops(targets, care), timers, limits) };
        file.pools[0].service = Service::Distribute { record_route: true };
        let number = sites.len() as u16;
        sites.push(SitePlan::proxy(number, file));
        Destination::Site(number)
    }

    /// Two or three edges that call each other through a core: there is no order among them.
    fn edges_and_core(
        &mut self,
        answerers: &[Destination],
        law: Law,
        care: Care,
    ) -> (Vec<SitePlan>, Vec<Entry>) {
        let edges = self.rng.random_range(2..4_u16);
        let core = [Destination::Site(edges)];
        let mut sites = Vec::new();
        for _ in 0..edges {
            self.sharing(&mut sites, &core, law, care);
            let ways = [(When::FromSite, answerers.to_vec())];
            sites.last_mut().into_iter().for_each(|edge| lead(edge, &ways));
        }
        self.sharing(&mut sites, &[], law, care);
        let way = |edge: u16| (When::Behind(edge), vec![Destination::Site(edge)]);
        let ways: Vec<_> = (0..edges).map(way).collect();
        sites.last_mut().into_iter().for_each(|core| lead(core, &ways));
        let pairs = (0..edges).flat_map(|from| (0..edges).map(move |to| (from, to)));
        let entries = pairs.filter(|(from, to)| from != to).map(|(from, to)| (from, Callee::Behind(to)));
        (sites, entries.collect())
    }
}

/// Leads some requests elsewhere than to the next hops of all others.
fn lead(site: &mut SitePlan, ways: &[(When, Vec<Destination>)]) {
    let Some(file) = site.role.file_mut() else { return };
    let service = file.pools[0].service;
    let route =
        |when: Option<When>, pool: &str| RoutePlan { when, pools: vec![pool.to_owned()], spreads: false };
    for (number, (when, hops)) in ways.iter().enumerate() {
        let name = format!("hops-{number}");
        file.routes.push(route(Some(*when), &name));
        file.pools.push(PoolPlan { service, ..PoolPlan::hops(&name, hops) });
    }
    file.routes.push(route(None, "hops"));
}
