//! A registrar, its users' phones, and their callers.

use super::hosts::Entry;
use super::{Drawer, at};
use crate::{
    Callee, HomePlan, PhonePlan, PhoneStep, Plan, PlannedAction, Severity, SitePlan, SiteRole, StorePlan,
    StoreState,
};
use base::Instant;
use rand::Rng as _;
use rand::seq::IndexedRandom;

/// Delay after which the phones of the user who is called in the phase without faults are registered.
const REGISTERED_MS: u64 = 10_000;
/// Longer than a plan, in seconds.
const ALWAYS: u32 = 3_600;

impl Drawer {
    /// Returns the site and the callees.
    pub(super) fn home_sites(&mut self, phones: u16, calm: u64) -> (Vec<SitePlan>, Vec<Entry>) {
        let plan = HomePlan {
            authenticates: self.chance(0.6),
            is_durable: self.chance(0.6),
            store: StorePlan {
                answers_within: if self.chance(0.3) { None } else { Some(self.millis(1..2_000)) },
                late_until: at(calm),
            },
            timers: self.proxy_timers(Severity::Harsh),
        };
        let role = SiteRole::Home(plan);
        let sites = vec![SitePlan { name: "registrar".to_owned(), role, processes: 1 }];
        // One user has no phone.
        let users = (0..=users(phones)).map(|user| (0, Callee::User(user)));
        (sites, users.collect())
    }

    /// Adds the phones: two for each user, as far as they suffice.
    pub(super) fn phones(&mut self, plan: &mut Plan, calm: u64) {
        let count = plan.answerers.len() as u16;
        for answerer in 0..count {
            let user = answerer % users(count);
            let steps = self.phone_steps(calm, user == 0);
            // The phones of the user who must be reached know the password.
            let knows_password = user == 0 || self.chance(0.8);
            plan.phones.push(PhonePlan { site: 0, answerer, user, knows_password, steps });
        }
        for caller in &mut plan.callers {
            if caller.must_succeed {
                caller.callee = Callee::User(0);
            } else {
                caller.knows_password = self.chance(0.8);
            }
        }
    }

    /// Draws the registrations of a phone during the faults. With `stays`, it is registered afterwards.
    fn phone_steps(&mut self, calm: u64, stays: bool) -> Vec<(Instant, PhoneStep)> {
        let mut steps = Vec::new();
        let mut time = self.rng.random_range(0..5_000);
        while time < calm {
            let step = match self.rng.random_range(0..10) {
                0..7 => PhoneStep::Register(self.rng.random_range(1..60)),
                7..9 => PhoneStep::Remove,
                _ => PhoneStep::RemoveAll,
            };
            steps.push((at(time), step));
            time += self.rng.random_range(500..30_000);
        }
        if stays {
            steps.push((at(calm + REGISTERED_MS), PhoneStep::Register(ALWAYS)));
        }
        steps
    }

    /// Lets a store fail or fall silent for a while. Not in gentle plans.
    pub(super) fn store_fault(&mut self, plan: &mut Plan, start: Instant, over: Instant) -> bool {
        let with_store = (0..).zip(&plan.sites).filter(|(_, site)| site.role.store().is_some());
        let with_store: Vec<u16> = with_store.map(|(number, _)| number).collect();
        let number = with_store.choose(&mut self.rng).filter(|_| plan.severity != Severity::Gentle);
        let Some(&site) = number else { return false };
        let state = if self.chance(0.5) { StoreState::Failing } else { StoreState::Silent };
        plan.actions.push((start, PlannedAction::SetStore(site, state)));
        plan.actions.push((over, PlannedAction::SetStore(site, StoreState::Up)));
        true
    }
}

/// Returns the number of users that share these phones.
fn users(phones: u16) -> u16 {
    phones.div_ceil(2)
}
