//! Proxies that send a call to several next hops, and answerers that refuse some calls.

use super::hosts::{Entry, LIMITS, entries};
use super::{Drawer, at};
use crate::{Destination, FilePlan, Plan, Refuses, Severity, SitePlan};
use rand::Rng as _;
use route::{Dialogs, Fork, Forward, Service};

impl Drawer {
    /// Returns the sites, and the entries for callers. No answerer is reachable by two ways, since such a call would be
    /// a merged request (RFC 3261 §8.2.2.2).
    pub(super) fn forking_sites(&mut self, answerers: u16) -> (Vec<SitePlan>, Vec<Entry>) {
        let mut sites = Vec::new();
        let mut targets: Vec<_> = (0..answerers).map(Destination::Answerer).collect();
        if self.chance(0.4) {
            for target in &mut targets {
                *target = self.layer(&mut sites, &[*target], 1, Severity::Harsh)[0];
            }
        }
        let mut layer = Vec::new();
        for _ in 0..self.rng.random_range(1..3) {
            let fork = if self.chance(0.6) { Fork::Parallel } else { Fork::Sequential };
            // Some answerers ring as long as this.
            let ring_time = self.millis(2_000..8_000);
            let timers = self.proxy_timers(Severity::Harsh);
            let number = sites.len() as u16;
            let mut file = FilePlan::hops(&targets, timers, LIMITS);
            let forward = if self.keeps_calls(number) { Forward::Dialog } else { Forward::Transaction };
            let service = Service::of((forward, Dialogs::Route), (fork, ring_time), true);
            file.pools[0].settings.service = service.expect("next hops fork");
            sites.push(SitePlan::proxy(number, file));
            layer.push(Destination::Site(number));
        }
        let entries = entries(&layer);
        (sites, entries)
    }

    /// Lets some answerers refuse calls until the faults end.
    pub(super) fn refusals(&mut self, plan: &mut Plan, calm: u64) {
        for answerer in &mut plan.answerers {
            if self.chance(0.7) {
                let one_of = self.rng.random_range(1..5);
                answerer.refuses = Some(Refuses { one_of, until: at(calm) });
            }
        }
    }
}
