//! Runs for the response times and the occupancies, made once for all figures that use them.

use super::cluster::{Case, Outcome, POLICIES, Servers, Workload};
use crate::figures::{FigureOptions, FigureRun};
use core::time::Duration;

/// Load at which policies are compared under "high load": 92 % of the capacity of steady servers, 94 % of pausing ones.
pub(super) const HIGH: f64 = 2_200.0;
/// Policies that are also run without holding times.
pub(super) const WITHOUT: [&str; 5] = ["round-robin", "hash", "cjsq", "tjsq", "tlwl-1.75"];

/// Setting of a plot: the servers, and whether calls have a holding time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Setting {
    pub(super) servers: Servers,
    pub(super) held: bool,
}

pub(super) const STEADY: Setting = Setting { servers: Servers::Steady, held: true };
pub(super) const PAUSING: Setting = Setting { servers: Servers::PAUSING, held: true };
/// Settings in the order of the plots.
pub(super) const SETTINGS: [Setting; 4] =
    [STEADY, PAUSING, Setting { held: false, ..STEADY }, Setting { held: false, ..PAUSING }];

impl Setting {
    pub(super) fn name(self) -> String {
        let calls = if self.held { "with holding times" } else { "without holding times" };
        format!("{}, {calls}", self.servers.name())
    }

    /// Index of its plot.
    pub(super) fn plot(self) -> usize {
        SETTINGS.iter().position(|setting| *setting == self).expect("all settings are there")
    }

    pub(super) fn policies(self) -> &'static [&'static str] {
        if self.held { &POLICIES } else { &WITHOUT }
    }

    fn loads(self, options: &FigureOptions) -> &'static [f64] {
        const HELD: &[f64] = &[600.0, 1_200.0, 1_800.0, HIGH];
        const LEAST: &[f64] = &[1_800.0, HIGH];
        if self.held {
            options.scale(HELD, HELD, LEAST)
        } else {
            options.scale(&[600.0, 1_200.0, 1_800.0, HIGH, 2_300.0], &[1_200.0, HIGH], LEAST)
        }
    }
}

/// Counted time of a run: the paper's 3 minutes. A short run near the capacity gets more time than others, because few
/// pauses decide its mean.
pub(super) fn window(options: &FigureOptions, load: f64) -> Duration {
    Duration::from_secs(if load < HIGH { options.scale(180, 25, 3) } else { options.scale(180, 50, 3) })
}

fn cases(options: &FigureOptions) -> Vec<Case> {
    let mut cases = Vec::new();
    for setting in SETTINGS {
        for &load in setting.loads(options) {
            let workload = if setting.held { Workload::of(options) } else { Workload::WITHOUT_HOLDING };
            cases.extend(setting.policies().iter().map(|policy| Case {
                load,
                workload,
                window: window(options, if setting.held { load } else { 0.0 }),
                ..Case::of(options, policy, setting.servers)
            }));
        }
    }
    cases
}

/// Runs for figures 2 and 3 and the occupancies.
#[derive(Debug)]
pub(in crate::figures) struct Runs(Vec<(Case, Outcome)>);

/// Whether two loads are the same.
pub(super) fn is(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq()
}

impl Runs {
    /// Makes the runs, or returns the runs of another figure.
    pub(super) fn of<'a>(work: &FigureRun<'a>) -> &'a Self {
        work.shared.tlwl.get_or_init(|| {
            let cases = cases(work);
            let outcomes = work.each("response times", &cases, Case::run);
            Self(cases.into_iter().zip(outcomes).collect())
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Case, Outcome)> {
        self.0.iter()
    }

    /// Returns one policy's runs in one setting, by load.
    pub(super) fn all(&self, setting: Setting, policy: &str) -> impl Iterator<Item = (f64, &Outcome)> {
        self.0
            .iter()
            .filter(move |(case, _)| {
                case.policy == policy
                    && case.servers == setting.servers
                    && case.workload.holding.is_zero() != setting.held
            })
            .map(|(case, outcome)| (case.load, outcome))
    }

    pub(super) fn at(&self, setting: Setting, policy: &str, load: f64) -> &Outcome {
        let mut all = self.all(setting, policy);
        let found = all.find(|(of, _)| is(*of, load));
        found.expect("a statement is about a policy and a load that were run").1
    }

    /// Loads of a setting, in order.
    pub(super) fn loads(&self, setting: Setting) -> Vec<f64> {
        self.all(setting, "tlwl-1.75").map(|(load, _)| load).collect()
    }
}
