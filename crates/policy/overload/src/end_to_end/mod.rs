//! Feedback along the whole path of a request, for each target (Overload paper, VII-A).

use crate::{AdmissionVerdict, MessageClass, Mix, Scope};
use base::{Instant, Rng};
use core::time::Duration;
use std::collections::BTreeMap;

/// A server that is one hop from the callee. The hosts of a network number these servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TargetServer(pub u32);

/// Remaining path of a request, from a server on.
///
/// A server may be on a path more than once: at the edge it is both entry and exit. Two servers may also be on several
/// paths to one target, in either order. A server then gets reports from servers to which it sends reports. Reports are
/// distinguished by `hops`, so that no report depends on itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DownstreamPath {
    /// End of the path.
    pub target: TargetServer,
    /// Number of servers after this one; 0 at the target itself.
    pub hops: u8,
}

/// Report of a server to its upstream neighbours about one target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TargetReport {
    /// Path from the reporter on.
    pub path: DownstreamPath,
    /// Acceptance probability of the path from the reporter to the target, 0 to 1.
    pub acceptance: f64,
    /// Sequence number. Of two reports of one neighbour for one path, the report with the greater number is later.
    pub sequence: u64,
}

/// Lifetime of a report that is not renewed: five epochs of the occupancy algorithm. A path with little traffic gets
/// few reports.
const VALIDITY: Duration = Duration::from_secs(5);

/// A value for a path of `k` hops is computed from reports for `k - 1` hops and the server's own f. A value for no hops
/// is the own f. So every value comes from the servers' own measurements, at most `k` reports ago. In no topology can a
/// value depend on itself.
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
    /// Without reports, everything is accepted.
    fn default() -> Self {
        Self { known: BTreeMap::new(), mix: Mix::new(Scope::NewRequests), sequence: 0 }
    }
}

impl<N: Ord + Copy> Targets<N> {
    /// Handles a report in a response of a downstream neighbour. A report older than the last one is ignored.
    pub fn on_report(&mut self, now: Instant, from: N, report: &TargetReport) {
        match self.known.get(&report.path).and_then(|known| known.get(&from)) {
            Some(known) if known.until > now && known.sequence >= report.sequence => return,
            Some(_) => {}
            // Expired entries are removed when a new one comes, so that entries of former targets do not accumulate.
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

    /// The f of a path: `min{f^j1(d), ..., f^jL(d), f^i}`. `own` is `f^i` of this server, 1 without a controller. The
    /// neighbours j are one hop nearer to the target d.
    pub fn acceptance(&self, now: Instant, path: DownstreamPath, own: f64) -> f64 {
        let Some(hops) = path.hops.checked_sub(1) else { return own };
        let nearer = DownstreamPath { hops, ..path };
        let known = self.known.get(&nearer).into_iter().flat_map(BTreeMap::values);
        known.filter(|known| known.until > now).fold(own, |least, known| least.min(known.acceptance))
    }

    /// Report to send upstream for a path, in a response now.
    pub fn report(&mut self, now: Instant, path: DownstreamPath, own: f64) -> TargetReport {
        self.sequence = (self.sequence + 1).max(now.as_nanos());
        TargetReport { path, acceptance: self.acceptance(now, path, own), sequence: self.sequence }
    }

    /// Decision of an ingress server on a request for a target. Inner servers accept every request that reaches them.
    pub fn judge(
        &mut self,
        now: Instant,
        path: DownstreamPath,
        class: MessageClass,
        own: f64,
        rng: &mut Rng,
    ) -> AdmissionVerdict {
        let acceptance = self.acceptance(now, path, own);
        AdmissionVerdict::accept_if(self.mix.draw(now, class, acceptance, rng))
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
    fn the_least_f_of_a_path_reaches_the_ingress_for_its_target_only() {
        let now = Instant::from_millis(1_000);
        let mut servers = [0; 3].map(|_| Targets::default());
        // The core learns the own f of the targets and combines it with its own. The ingress learns from the core.
        for (target, own) in [(NEAR, 1.0), (FAR, 0.4)] {
            let [edge, core, ingress] = &mut servers;
            core.on_report(now, 7, &edge.report(now, path(target, 0), own));
            ingress.on_report(now, 8, &core.report(now, path(target, 1), 0.8));
            let other = TargetReport { path: path(target, 1), acceptance: 0.9, sequence: 1 };
            ingress.on_report(now, 9, &other);
        }
        let ingress = &servers[2];
        let f = |target, own| ingress.acceptance(now, path(target, 2), own);
        assert_eq!([f(NEAR, 1.0), f(FAR, 1.0), f(FAR, 0.3), f(TargetServer(3), 0.7)], [0.8, 0.4, 0.3, 0.7]);
    }

    #[test]
    fn reports_about_a_server_do_not_enter_its_own_report() {
        let at = Instant::from_millis;
        // An edge server where calls enter and leave: the core reports to it about the target that it is itself.
        let [mut edge, mut core] = [0; 2].map(|_| Targets::default());
        let mut heard = |now, own| {
            core.on_report(now, 1, &edge.report(now, path(NEAR, 0), own));
            edge.on_report(now, 2, &core.report(now, path(NEAR, 1), 1.0));
            [edge.acceptance(now, path(NEAR, 2), own), core.acceptance(now, path(NEAR, 1), 1.0)]
        };
        assert_eq!(heard(at(1), 0.02), [0.02; 2]);
        assert_eq!(heard(at(2), 1.0), [1.0; 2]);
        // Two servers in the middle, in either order: each precedes the other on a path to the same target.
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
        let report = |acceptance, sequence| TargetReport { path: path(NEAR, 0), acceptance, sequence };
        let at = Instant::from_millis;
        let f = |targets: &Targets<u32>, ms| targets.acceptance(at(ms), path(NEAR, 1), 1.0);
        targets.on_report(at(0), 1, &report(0.5, 10));
        targets.on_report(at(1), 1, &report(0.2, 9));
        assert_eq!(f(&targets, 1), 0.5);
        assert_eq!(f(&targets, 4_999), 0.5);
        assert_eq!(f(&targets, 5_000), 1.0);
        // A restarted neighbour starts its sequence numbers again.
        targets.on_report(at(5_000), 1, &report(0.3, 1));
        assert_eq!(f(&targets, 5_001), 0.3);
    }

    #[test]
    fn the_ingress_accepts_the_fraction() {
        let mut targets = Targets::default();
        let report = TargetReport { path: path(NEAR, 0), acceptance: 0.25, sequence: 1 };
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
