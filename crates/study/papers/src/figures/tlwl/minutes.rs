//! Runs with calls of a minute, as in the paper: for the statement that depends on the duration of calls, and to check
//! whether calls of six seconds are representative for the others.

use super::cluster::{Case, MINUTE, Outcome, Workload};
use super::orders::{COMPARED, NO_CALL_ENDS, surely};
use super::response::{MODERATE, View};
use super::runs::{self, HIGH, PAUSING, STEADY, Setting, is};
use crate::figures::{Effort, FigureRun};
use crate::report::Statement;
use sim::stats::Interval;

/// Policies of the statement: one that counts calls, and one that counts nothing.
const JUDGED: [&str; 2] = ["cjsq", "hash"];
/// Further policies of a full run.
const BESIDE: [&str; 2] = ["tjsq", "tlwl-1.75"];

/// Results of these runs.
pub(super) struct Minutes(Vec<(Case, Outcome)>);

impl Minutes {
    pub(super) fn of(work: &FigureRun<'_>) -> Self {
        let holding = work.scale(MINUTE, MINUTE, MINUTE / 120);
        let case = |setting: Setting, policy, load| Case {
            load,
            workload: Workload { holding, ..Workload::of(work) },
            window: runs::window(work, load),
            ..Case::of(work, policy, setting.servers)
        };
        let mut cases = Vec::new();
        for setting in [STEADY, PAUSING] {
            for load in COMPARED {
                cases.extend(JUDGED.map(|policy| case(setting, policy, load)));
            }
        }
        if work.effort == Effort::Full {
            cases.extend(BESIDE.map(|policy| case(STEADY, policy, HIGH)));
        }
        let outcomes = work.each("calls of a minute", &cases, Case::run);
        Self(cases.into_iter().zip(outcomes).collect())
    }

    fn at(&self, setting: Setting, policy: &str, load: f64) -> Option<&Outcome> {
        let is_it =
            |case: &Case| case.servers == setting.servers && case.policy == policy && is(case.load, load);
        self.0.iter().find(|(case, _)| is_it(case)).map(|(_, outcome)| outcome)
    }

    /// Whether CJSQ is worse than a hash. Calls in progress far outnumber transactions and mask them, the more the
    /// longer calls last.
    pub(super) fn misjudged(&self, setting: Setting) -> Statement {
        let of = |policy, load| &self.at(setting, policy, load).expect("it is always run").response[0];
        let above = COMPARED.map(|load| of("cjsq", load).above(of("hash", load), 1.0));
        let listed = JUDGED.map(|policy| {
            let Interval { mean, half_width } = of(policy, HIGH).interval();
            format!("{policy} {mean:.2} ± {half_width:.2} ms")
        });
        let by = above.map(|Interval { mean, half_width }| format!("{mean:.3} ± {half_width:.3} ms"));
        let measured = format!(
            "Calls of a minute, at {HIGH:.0} calls/s: {}. At {MODERATE:.0} and {HIGH:.0}: cjsq - hash = {}.",
            listed.join(", "),
            by.join(" and ")
        );
        Statement::check(
            "section V-B",
            "With pause times, CJSQ's misjudgements end up worse than a static allocation such as Hash.",
            measured,
            surely(above),
        )
        .differs_by(NO_CALL_ENDS)
    }

    /// Describes these response times beside those of the figure.
    pub(super) fn note(&self, view: &View<'_>) -> String {
        let text = |Interval { mean, half_width }: Interval| format!("{mean:.2} ± {half_width:.2} ms");
        let one = |policy| {
            let minute = self.at(STEADY, policy, HIGH)?.response[0].interval();
            Some(format!(
                "{policy} {} instead of {}",
                text(minute),
                text(view.interval(STEADY, policy, HIGH))
            ))
        };
        let list: Vec<String> = JUDGED.into_iter().chain(BESIDE).filter_map(one).collect();
        format!(
            "With calls of a minute, as the paper has them, instead of six seconds, an INVITE to steady servers takes at \
             {HIGH:.0} calls/s: {}.",
            list.join(", ")
        )
    }
}
