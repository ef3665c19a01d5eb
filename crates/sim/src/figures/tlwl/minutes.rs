//! Whether calls of six seconds stand for the paper's, which last a minute.

use super::cluster::{Case, Half, MINUTE, Outcome, SERVERS};
use super::response::View;
use super::runs::{self, HIGH, STEADY};
use crate::figures::{Effort, Options, Progress};
use crate::stats::{Interval, sweep};

const POLICIES: [&str; 4] = ["hash", "cjsq", "tjsq", "tlwl-1.75"];

/// Response times with the paper's holding times beside those of the figure; in a full run only.
pub(super) fn note(view: &View<'_>, options: &Options, progress: &dyn Fn(Progress<'_>)) -> Option<String> {
    if options.effort != Effort::Full {
        return None;
    }
    let cases = POLICIES.map(|policy| Case {
        policy,
        servers: STEADY.servers,
        count: SERVERS,
        load: HIGH,
        holding: MINUTE,
        half: Half::None,
        window: runs::window(options, HIGH),
    });
    let done = |done| progress(Progress { done, of: cases.len(), what: "calls of a minute" });
    let outcomes = sweep::replicate(&cases, 1, options.seed, options.threads, Case::run, done);
    let text = |Interval { mean, half_width }: Interval| format!("{mean:.2} ± {half_width:.2} ms");
    let one = |(policy, outcome): (&str, &Outcome)| {
        let (minute, short) = (outcome.response[0].interval(), view.interval(STEADY, policy, HIGH));
        format!("{policy} {} instead of {}", text(minute), text(short))
    };
    let list: Vec<String> = POLICIES.into_iter().zip(outcomes.iter().flatten()).map(one).collect();
    Some(format!(
        "With calls of a minute, as the paper has them, instead of six seconds, an INVITE to steady servers takes at \
         {HIGH:.0} calls/s: {}.",
        list.join(", ")
    ))
}
