//! Feedback along the whole path of a request, for each target (Overload paper, VII-A).

use crate::hop::Neighbour;
use crate::{Class, Mix, Scope, Verdict};
use base::{Instant, Rng};
use core::time::Duration;
use std::collections::BTreeMap;

/// A server one hop away from the called user, as the hosts of a network number them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target(pub u32);

/// What a server reports upstream for one target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// The target that it speaks of.
    pub target: Target,
    /// The acceptance probability of the path from the reporter to the target, 0 to 1.
    pub acceptance: f64,
    /// Of two reports of one neighbour for one target the greater is the later.
    pub sequence: u64,
}

/// How long a report counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Time until a report that is not renewed is forgotten. A path that is held down hears little.
    pub validity: Duration,
}

impl Default for Settings {
    /// 5 s: five epochs of the occupancy algorithm.
    fn default() -> Self {
        Self { validity: Duration::from_secs(5) }
    }
}

/// What a server knows of each target: the f of each downstream neighbour through which it is reached.
#[derive(Clone, Debug)]
pub struct Targets {
    settings: Settings,
    known: BTreeMap<(Target, Neighbour), Known>,
    mix: Mix,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    acceptance: f64,
    until: Instant,
    sequence: u64,
}

impl Targets {
    /// Nothing is known: everything is accepted.
    pub const fn new(settings: Settings) -> Self {
        Self { settings, known: BTreeMap::new(), mix: Mix::new(Scope::NewRequests), sequence: 0 }
    }

    /// A response from a downstream neighbour brought a report. An older one than the last is ignored.
    pub fn on_report(&mut self, now: Instant, from: Neighbour, report: &Report) {
        let key = (report.target, from);
        match self.known.get(&key) {
            Some(known) if known.until > now && known.sequence >= report.sequence => return,
            Some(_) => {}
            // Room is made when something new comes, so that targets that are gone do not pile up.
            None => self.known.retain(|_, known| known.until > now),
        }
        let known = Known {
            acceptance: report.acceptance.clamp(0.0, 1.0),
            until: now + self.settings.validity,
            sequence: report.sequence,
        };
        self.known.insert(key, known);
    }

    /// The f of the path to a target: `min{f^j1(d), ..., f^jL(d), f^i}`, where `own` is `f^i`, that of
    /// this server (1 if it has no controller).
    pub fn acceptance(&self, now: Instant, target: Target, own: f64) -> f64 {
        self.known
            .range((target, Neighbour(0))..=(target, Neighbour(u32::MAX)))
            .filter(|(_, known)| known.until > now)
            .fold(own, |least, (_, known)| least.min(known.acceptance))
    }

    /// What to report upstream for a target, in a response now.
    pub fn report(&mut self, now: Instant, target: Target, own: f64) -> Report {
        self.sequence = (self.sequence + 1).max(now.as_nanos());
        Report { target, acceptance: self.acceptance(now, target, own), sequence: self.sequence }
    }

    /// An ingress server's decision on a request for a target. Servers further in accept what reaches them.
    pub fn judge(&mut self, now: Instant, target: Target, class: Class, own: f64, rng: &mut Rng) -> Verdict {
        let acceptance = self.acceptance(now, target, own);
        Verdict::accept_if(self.mix.draw(now, class, acceptance, rng))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are passed on, not computed")]
mod tests {
    use super::*;

    const NEAR: Target = Target(1);
    const FAR: Target = Target(2);

    #[test]
    fn the_least_f_of_a_path_travels_to_the_ingress_and_only_for_its_target() {
        let now = Instant::from_millis(1_000);
        let mut servers = [0; 3].map(|_| Targets::new(Settings::default()));
        // The core learns of the targets' own f, adds its own, and the ingress learns from the core.
        for (target, own) in [(NEAR, 1.0), (FAR, 0.4)] {
            let [edge, core, ingress] = &mut servers;
            core.on_report(now, Neighbour(7), &edge.report(now, target, own));
            ingress.on_report(now, Neighbour(8), &core.report(now, target, 0.8));
            ingress.on_report(now, Neighbour(9), &Report { target, acceptance: 0.9, sequence: 1 });
        }
        let ingress = &servers[2];
        let f = |target, own| ingress.acceptance(now, target, own);
        assert_eq!([f(NEAR, 1.0), f(FAR, 1.0), f(FAR, 0.3), f(Target(3), 0.7)], [0.8, 0.4, 0.3, 0.7]);
    }

    #[test]
    fn the_latest_report_counts_until_it_expires() {
        let mut targets = Targets::new(Settings::default());
        let report = |acceptance, sequence| Report { target: NEAR, acceptance, sequence };
        let at = Instant::from_millis;
        targets.on_report(at(0), Neighbour(1), &report(0.5, 10));
        targets.on_report(at(1), Neighbour(1), &report(0.2, 9));
        assert_eq!(targets.acceptance(at(1), NEAR, 1.0), 0.5);
        assert_eq!(targets.acceptance(at(4_999), NEAR, 1.0), 0.5);
        assert_eq!(targets.acceptance(at(5_000), NEAR, 1.0), 1.0);
        // A neighbour that starts anew counts from the beginning.
        targets.on_report(at(5_000), Neighbour(1), &report(0.3, 1));
        assert_eq!(targets.acceptance(at(5_001), NEAR, 1.0), 0.3);
    }

    #[test]
    fn the_ingress_accepts_the_fraction() {
        let mut targets = Targets::new(Settings::default());
        targets.on_report(
            Instant::ZERO,
            Neighbour(1),
            &Report { target: NEAR, acceptance: 0.25, sequence: 1 },
        );
        let mut rng = Rng::from_seed(2);
        let mut accepted = |target| {
            (0..10_000)
                .filter(|_| targets.judge(Instant::ZERO, target, Class::NewInvite, 1.0, &mut rng).is_accept())
                .count()
        };
        assert!(accepted(NEAR).abs_diff(2_500) < 150);
        assert_eq!(accepted(FAR), 10_000);
    }
}
