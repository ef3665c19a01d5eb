//! Late binding: calls that wait in front until a server has room, against calls that are given to a server at once, with servers
//! that pause.

use super::super::{Entry, Options, Progress};
use crate::report::{Axis, Claim, Figure, Plot, PlotSeries, Style};
use core::time::Duration;
use elastic::queue::{Choice, LengthSettings, QueueSettings};
use load::{ArrivalPlan, ArrivalProcess};
use sim::cloud::{
    Announcing, CallTimes, CloudHost, CloudPlan, CloudResults, CloudServers, Front, SERVER, run as simulate,
};
use sim::engine::{Spread, StallConfig};
use sim::stats::sweep;

/// Queue against none.
pub(in super::super) const PAUSES: Entry = Entry {
    name: "queue-pauses",
    title: "Set-up delay with servers that pause: a queue in front and TLWL, against TLWL alone",
    source: "Ours, after the Cloud paper, section IV-A, and the TLWL paper",
    run,
};

const SERVERS: usize = 8;
/// Calls a second of a server that does not pause.
const RATE: f64 = 100.0;
/// Part of the capacity that is left by pauses.
const LOADS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
/// That of the goal.
const GOAL_LOAD: f64 = 0.8;
const GOAL: f64 = 3.0;
/// Length of a pause, and the time between two in the mean.
const LENGTH: Duration = Duration::from_millis(200);
const SPACING: Duration = Duration::from_millis(1_500);
/// A server with this load or more gets no call: only one that has nothing to do does.
const LOAD_MAX: f64 = 1.0;
/// A call that takes longer was held up by a pause.
const HELD_UP: Duration = Duration::from_millis(80);

fn plan(load: f64, spacing: Duration, queued: bool, seconds: u64) -> CloudPlan {
    let settings = QueueSettings {
        choice: Choice::Tlwl,
        load_max: Some(LOAD_MAX),
        length: LengthSettings { delay: Duration::from_secs(10), least: 8, most: 100_000 },
        bound: Duration::from_secs(10),
        ..QueueSettings::default()
    };
    let left = spacing.as_secs_f64() / (spacing + LENGTH).as_secs_f64();
    CloudPlan {
        arrivals: ArrivalPlan::steady(ArrivalProcess::Poisson, load * SERVERS as f64 * RATE * left),
        calls: CallTimes {
            way: Duration::from_millis(20),
            ringing: Duration::from_millis(500),
            talking: Duration::from_secs(5),
        },
        from: Duration::from_secs(seconds / 4),
        to: Duration::from_secs(seconds),
        host: CloudHost {
            rate: RATE,
            work: SERVER,
            spread: Spread::Exponential,
            pauses: Some(StallConfig {
                spacing,
                spacing_spread: Spread::Exponential,
                length: LENGTH,
                length_spread: Spread::Fixed,
            }),
        },
        neighbours: Vec::new(),
        servers: CloudServers::Fixed(SERVERS),
        front: if queued { Front::Queue(Box::new(settings)) } else { Front::Tlwl },
        announcing: Announcing::Fixed(10.0 * RATE),
    }
}

fn spacings() -> [Duration; 5] {
    [1_000, 1_500, 2_000, 3_000, 4_000].map(Duration::from_millis)
}

fn run(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    // The 99th percentile is of few calls: shorter runs show what chance makes of it.
    let seconds = options.scale(800, 400, 8);
    let loads = LOADS.map(|load| (load, SPACING));
    let cases: Vec<(f64, Duration, bool)> = loads
        .into_iter()
        .chain(spacings().map(|spacing| (GOAL_LOAD, spacing)))
        .flat_map(|(load, spacing)| [(load, spacing, false), (load, spacing, true)])
        .collect();
    let done = |done| progress(Progress { done, of: cases.len(), what: "loads and pauses" });
    let one = |index: usize| {
        let (load, spacing, queued) = cases[index];
        simulate(&plan(load, spacing, queued, seconds), options.seed)
    };
    let results = sweep::sweep(cases.len(), options.threads, one, done);
    let (by_load, by_spacing) = results.split_at(2 * LOADS.len());
    let percent = LOADS.map(|load| 100.0 * load);
    let apart = spacings().map(|spacing| spacing.as_secs_f64());
    let plots = vec![
        plot(
            &format!("Pauses of {} ms, {} s apart", LENGTH.as_millis(), SPACING.as_secs_f64()),
            "load (% of what pauses leave)",
            &percent,
            by_load,
        ),
        plot(
            &format!("At {:.0} % load", 100.0 * GOAL_LOAD),
            "time between two pauses (s)",
            &apart,
            by_spacing,
        ),
    ];
    let mut figure = options.figure(&PAUSES, plots);
    figure.claims = claims(by_load, by_spacing);
    figure.assumptions = vec![
        format!(
            "{SERVERS} servers of {RATE:.0} calls/s, whose times are exponential, and which pause every {:.1} s in the mean, each on its own.",
            SPACING.as_secs_f64()
        ),
        format!(
            "INVITE and BYE are all the work, 1.75 to 1. Load is what TLWL has it, and with the queue a server with a load of {LOAD_MAX} \
             or more gets no call. BYEs go to their server at once in both. There is no time from the server to the front and back, \
             in which a server would have nothing to do."
        ),
        "What a balancer sees of a server is what comes back from it, so that without a queue it takes a pause for a server that has \
         more to do, once calls have piled up there."
            .to_owned(),
    ];
    figure
}

fn p99(results: &CloudResults) -> f64 {
    results.set_up.percentile(99.0).as_secs_f64() * 1e3
}

fn plot(title: &str, x: &str, places: &[f64], results: &[CloudResults]) -> Plot {
    let mut plot = Plot::new(
        format!("Set-up delay with servers that pause. {title}"),
        Axis::linear(x),
        Axis::log("99th percentile of set-up delay (ms)"),
    );
    for (name, skip) in [("TLWL alone", 0), ("queue and TLWL", 1)] {
        let points = places.iter().copied().zip(results.iter().skip(skip).step_by(2).map(p99));
        plot.series(PlotSeries::new(name, Style::Line, points));
    }
    plot
}

/// Part of the calls that a pause has held up, in percent.
fn held_up(results: &CloudResults) -> f64 {
    100.0 * (1.0 - results.set_up.part_within(HELD_UP))
}

fn claims(by_load: &[CloudResults], by_spacing: &[CloudResults]) -> Vec<Claim> {
    let times = |pair: &[CloudResults]| p99(&pair[0]) / p99(&pair[1]);
    let goal = LOADS.iter().position(|load| *load >= GOAL_LOAD).unwrap_or(0);
    let pair = &by_load[2 * goal..2 * goal + 2];
    let listed = |pairs: &[CloudResults]| {
        pairs.chunks(2).map(|pair| format!("{:.1}", times(pair))).collect::<Vec<_>>().join(", ")
    };
    let lost: u64 = by_load.iter().chain(by_spacing).map(|results| results.lost).sum();
    vec![
        Claim::check(
            "goal",
            "At 80 % load the 99th percentile of set-up delay is three times lower with the queue.",
            format!("{:.0} ms in place of {:.0}, {:.1} times lower.", p99(&pair[1]), p99(&pair[0]), times(pair)),
            times(pair) >= GOAL,
        )
        .differs_by(
            "TLWL sees a pause, too: the load of a server that answers nothing does not fall, so it gets one or two calls more and \
             then none. The queue saves these and what waits behind the one in work, no more: the call in work is held up either way, \
             and so is the first one for a server that had nothing to do.",
        ),
        Claim::check(
            "ours",
            "Fewer calls are held up by pauses with the queue.",
            format!(
                "At 80 % load {:.2} % of them take longer than {} ms, without it {:.2} %.",
                held_up(&pair[1]),
                HELD_UP.as_millis(),
                held_up(&pair[0])
            ),
            held_up(&pair[1]) < held_up(&pair[0]),
        ),
        Claim::check(
            "section IV-A",
            "Centralizing the queueing delay in front is no loss, of more than a tenth, at any load.",
            format!("Times lower at loads of 50 to 90 %: {}. {lost} calls lost.", listed(by_load)),
            by_load.chunks(2).all(|pair| times(pair) >= 0.9) && lost == 0,
        )
        .differs_by(
            "With little load a pause is seldom known in either way, and about 1 % of the calls are held up, so that chance \
             decides on which side of the 99th percentile they are.",
        ),
        Claim::check(
            "ours",
            "How much it is worth depends on how often servers pause: most where pauses hold up one to two calls of a hundred.",
            format!("Times lower with 1 to 4 s between two: {}.", listed(by_spacing)),
            times(&by_spacing[2..4]) > times(&by_spacing[8..10]),
        )
        .about(1),
    ]
}
