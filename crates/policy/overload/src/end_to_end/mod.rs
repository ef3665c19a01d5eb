//! Feedback along the whole path of a request, for each target (Overload paper, VII-A).

use crate::{MessageClass, Mix, Scope, Verdict};
use base::{Instant, Rng};
use core::time::Duration;
use std::collections::BTreeMap;

/// A server one hop away from the called user, as the hosts of a network number them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TargetServer(pub u32);

/// The rest of the way of a request, from a server on.
///
/// A server may stand on a way more than once, or on several ways to one target: at the edge as entry and as exit, or
/// with another server in either order. It is then told of the target by servers that it tells of it itself. Reports
/// are kept apart by `hops`, so that none ever comes back into what it was made from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DownstreamPath {
    /// Where it ends.
    pub target: TargetServer,
    /// Servers that come after this one; 0 at the target itself.
    pub hops: u8,
}

/// What a server reports upstream for one target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// The way from the reporter on.
    pub path: DownstreamPath,
    /// The acceptance probability of the path from the reporter to the target, 0 to 1.
    pub acceptance: f64,
    /// Of two reports of one neighbour for one path the greater is the later.
    pub sequence: u64,
}

/// Time until a report that is not renewed is forgotten: five epochs of the occupancy algorithm. A path that is held down
/// hears little.
const VALIDITY: Duration = Duration::from_secs(5);

/// What a server knows of each target: the f of each downstream neighbour through which it is reached, by what it
/// knows that neighbour by.
///
/// A value for a path of `k` hops is made from reports for `k - 1` hops and from the server's own f, one for no hops
/// from the own f alone. So every value comes from what servers measured of themselves, at most `k` reports ago: it
/// can neither hold itself up nor hold itself down, whatever the topology.
#[derive(Clone, Debug)]
pub struct Targets<N> {
    known: BTreeMap<DownstreamPath, BTreeMap<N, ReportedTarget>>,
    mix: Mix,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct ReportedTarget {
    acceptance: f64,
    until: Instant,
    sequence: u64,
}

impl<N> Default for Targets<N> {
    /// Nothing is known: everything is accepted.
    fn default() -> Self {
        Self { known: BTreeMap::new(), mix: Mix::new(Scope::NewRequests), sequence: 0 }
    }
}

impl<N: Ord + Copy> Targets<N> {
    /// A response from a downstream neighbour brought a report. An older one than the last is ignored.
    pub fn on_report(&mut self, now: Instant, from: N, report: &Report) {
        match self.known.get(&report.path).and_then(|known| known.get(&from)) {
            Some(known) if known.until > now && known.sequence >= report.sequence => return,
            Some(_) => {}
            // Room is made when something new comes, so that targets that are gone do not pile up.
            None => self.known.retain(|_, known| {
                known.retain(|_, known| known.until > now);
                !known.is_empty()
            }),
        }
        let known = ReportedTarget {
            acceptance: report.acceptance.clamp(0.0, 1.0),
            until: now + VALIDITY,
            sequence: report.sequence,
        };
        self.known.entry(report.path).or_default().insert(from, known);
    }

    /// The f of a path: `min{f^j1(d), ..., f^jL(d), f^i}`, where `own` is `f^i`, that of this server (1 if it has no
    /// controller), and the neighbours j are those one hop nearer to the target d.
    pub fn acceptance(&self, now: Instant, path: DownstreamPath, own: f64) -> f64 {
        let Some(hops) = path.hops.checked_sub(1) else { return own };
        let nearer = DownstreamPath { hops, ..path };
        let known = self.known.get(&nearer).into_iter().flat_map(BTreeMap::values);
        known.filter(|known| known.until > now).fold(own, |least, known| least.min(known.acceptance))
    }

    /// What to report upstream for a path, in a response now.
    pub fn report(&mut self, now: Instant, path: DownstreamPath, own: f64) -> Report {
        self.sequence = (self.sequence + 1).max(now.as_nanos());
        Report { path, acceptance: self.acceptance(now, path, own), sequence: self.sequence }
    }

    /// An ingress server's decision on a request for a target. Servers further in accept what reaches them.
    pub fn judge(
        &mut self,
        now: Instant,
        path: DownstreamPath,
        class: MessageClass,
        own: f64,
        rng: &mut Rng,
    ) -> Verdict {
        let acceptance = self.acceptance(now, path, own);
        Verdict::accept_if(self.mix.draw(now, class, acceptance, rng))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are passed on, not computed")]
mod tests {
    use super::*;

    const NEAR: TargetServer = TargetServer(1);
    const FAR: TargetServer = TargetServer(2);

    fn path(target: TargetServer, hops: u8) -> DownstreamPath {
        DownstreamPath { target, hops }
    }

    #[test]
    fn the_least_f_of_a_path_travels_to_the_ingress_and_only_for_its_target() {
        let now = Instant::from_millis(1_000);
        let mut servers = [0; 3].map(|_| Targets::default());
        // The core learns of the targets' own f, adds its own, and the ingress learns from the core.
        for (target, own) in [(NEAR, 1.0), (FAR, 0.4)] {
            let [edge, core, ingress] = &mut servers;
            core.on_report(now, 7, &edge.report(now, path(target, 0), own));
            ingress.on_report(now, 8, &core.report(now, path(target, 1), 0.8));
            let other = Report { path: path(target, 1), acceptance: 0.9, sequence: 1 };
            ingress.on_report(now, 9, &other);
        }
        let ingress = &servers[2];
        let f = |target, own| ingress.acceptance(now, path(target, 2), own);
        assert_eq!([f(NEAR, 1.0), f(FAR, 1.0), f(FAR, 0.3), f(TargetServer(3), 0.7)], [0.8, 0.4, 0.3, 0.7]);
    }

    #[test]
    fn what_a_server_hears_of_itself_does_not_come_into_its_own_report() {
        let at = Instant::from_millis;
        // An edge through which calls enter and leave: the core tells it of the target that it is itself.
        let [mut edge, mut core] = [0; 2].map(|_| Targets::default());
        let mut heard = |now, own| {
            core.on_report(now, 1, &edge.report(now, path(NEAR, 0), own));
            edge.on_report(now, 2, &core.report(now, path(NEAR, 1), 1.0));
            [edge.acceptance(now, path(NEAR, 2), own), core.acceptance(now, path(NEAR, 1), 1.0)]
        };
        assert_eq!(heard(at(1), 0.02), [0.02; 2]);
        assert_eq!(heard(at(2), 1.0), [1.0; 2]);
        // Two servers in the middle, in either order: each stands before the other on a way to the same target.
        let mut middle = [0; 2].map(|_| Targets::default());
        let mut heard = |now, own: [f64; 2]| {
            for this in [0, 1] {
                let near = middle[this].report(now, path(FAR, 1), own[this]);
                middle[1 - this].on_report(now, this, &near);
                let far = middle[this].report(now, path(FAR, 2), own[this]);
                middle[1 - this].on_report(now, this, &far);
            }
            [0, 1].map(|this| middle[this].acceptance(now, path(FAR, 2), own[this]))
        };
        assert_eq!(heard(at(1), [0.02, 1.0]), [0.02; 2]);
        heard(at(2), [1.0; 2]);
        assert_eq!(heard(at(3), [1.0; 2]), [1.0; 2]);
    }

    #[test]
    fn the_latest_report_counts_until_it_expires() {
        let mut targets = Targets::default();
        let report = |acceptance, sequence| Report { path: path(NEAR, 0), acceptance, sequence };
        let at = Instant::from_millis;
        let f = |targets: &Targets<u32>, ms| targets.acceptance(at(ms), path(NEAR, 1), 1.0);
        targets.on_report(at(0), 1, &report(0.5, 10));
        targets.on_report(at(1), 1, &report(0.2, 9));
        assert_eq!(f(&targets, 1), 0.5);
        assert_eq!(f(&targets, 4_999), 0.5);
        assert_eq!(f(&targets, 5_000), 1.0);
        // A neighbour that starts anew counts from the beginning.
        targets.on_report(at(5_000), 1, &report(0.3, 1));
        assert_eq!(f(&targets, 5_001), 0.3);
    }

    #[test]
    fn the_ingress_accepts_the_fraction() {
        let mut targets = Targets::default();
        let report = Report { path: path(NEAR, 0), acceptance: 0.25, sequence: 1 };
        targets.on_report(Instant::ZERO, 1, &report);
        let mut rng = Rng::from_seed(2);
        let mut accepted = |target| {
            let mut judge =
                || targets.judge(Instant::ZERO, path(target, 1), MessageClass::NewInvite, 1.0, &mut rng);
            (0..10_000).filter(|_| judge().is_accept()).count()
        };
        assert!(accepted(NEAR).abs_diff(2_500) < 150);
        assert_eq!(accepted(FAR), 10_000);
    }
}
