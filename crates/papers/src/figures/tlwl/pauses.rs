//! How much longer pauses have to be for an order of magnitude: the assumption that the rest hangs on, varied.

use super::cluster::{self, Case, Half, POLICIES, SERVERS, Servers};
use crate::figures::{Effort, Options, Progress};
use crate::report::{Axis, Claim, Plot, PlotSeries, Style};
use core::time::Duration;
use sim::stats::sweep;

/// Half of the capacity: a moderate load.
const LOAD: f64 = 1_200.0;
/// What the others are measured by.
const BASE: &str = "tlwl-1.75";
/// The others; fnv-hash is as hash.
const VARIED: [&str; 4] = ["round-robin", "hash", "cjsq", "rwma"];
/// "An order of magnitude".
const MAGNITUDE: f64 = 10.0;

/// A plot and what goes with it.
pub(super) struct Varied {
    pub(super) plot: Plot,
    pub(super) claims: Vec<Claim>,
    pub(super) note: String,
}

fn lengths(options: &Options) -> Vec<Duration> {
    let ms: &[u64] = match options.effort {
        Effort::Full => &[100, 200, 500, 1_000, 2_000],
        Effort::Quick => &[200, 500, 1_000],
        Effort::Least => &[500],
    };
    ms.iter().map(|ms| Duration::from_millis(*ms)).collect()
}

fn case(options: &Options, policy: &'static str, length: Duration) -> Case {
    Case {
        policy,
        servers: Servers::Pausing(length),
        count: SERVERS,
        load: LOAD,
        holding: cluster::holding(options),
        half: Half::None,
        window: Duration::from_secs(options.scale(40, 25, 3)),
    }
}

/// How many times as long as TLWL each other policy takes for an INVITE, by the mean length of a pause.
pub(super) fn vary(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Varied {
    let lengths = lengths(options);
    let of = |policy| lengths.iter().map(move |length| case(options, policy, *length));
    let cases: Vec<Case> = core::iter::once(BASE).chain(VARIED).flat_map(of).collect();
    let done = |done| progress(Progress { done, of: cases.len(), what: "lengths of pauses" });
    let outcomes = sweep::replicate(&cases, 1, options.seed, options.threads, Case::run, done);
    let means: Vec<f64> =
        outcomes.iter().flatten().map(|outcome| outcome.response[0].interval().mean).collect();
    let (base, others) = means.split_at(lengths.len());
    let x = Axis::log("mean length of a pause (s)");
    let y = Axis::log(format!("times the INVITE response time of {BASE}"));
    let mut plot = Plot::new(format!("Pausing servers, {LOAD:.0} calls/s, pauses of other lengths"), x, y);
    let mut listed = Vec::new();
    let mut all = true;
    for (policy, means) in VARIED.into_iter().zip(others.chunks(lengths.len())) {
        let times = means.iter().zip(base).map(|(mean, base)| mean / base);
        let points: Vec<(f64, f64)> = lengths.iter().map(Duration::as_secs_f64).zip(times).collect();
        let from = points.iter().find(|point| point.1 >= MAGNITUDE);
        all &= from.is_some();
        listed.push(match from {
            Some((length, times)) => format!("{policy} from {length:.1} s on ({times:.1} times)"),
            None => format!("{policy} not up to {:.1} s", points.last().map_or(0.0, |point| point.0)),
        });
        let colour = POLICIES.iter().position(|of| *of == policy).unwrap_or(0);
        plot.series(PlotSeries::new(policy, Style::Line, points).colour(colour));
    }
    plot.level("an order of magnitude", MAGNITUDE);
    let claims = vec![Claim::check(
        "section I",
        "For moderate workloads TLWL's response time is an order of magnitude below that of any other approach: with \
         longer pauses?",
        format!(
            "At {LOAD:.0} calls/s {}. {BASE} takes {:.2} to {:.2} ms.",
            listed.join(", "),
            base[0],
            base[base.len() - 1]
        ),
        all,
    )];
    let note = "How long servers pause, and how often, decides by how much policies differ: a policy that does not see \
                the pause makes a call wait for half of it, plus what has piled up. The last plot varies the length \
                and leaves the rest alone. A scenario sets both with `stalls`."
        .to_owned();
    Varied { plot, claims, note }
}
