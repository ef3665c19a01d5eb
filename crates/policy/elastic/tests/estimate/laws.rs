//! Comparison of the laws: share of the possible calls that is carried, frequency of latency above the threshold,
//! recovery after contention, and changes of capacity without a reason.

use super::model::{Outcome, Second, Server};
use core::fmt::Write as _;
use elastic::estimate::{CapacityLaw, EstimatorSettings};

const LAWS: [(CapacityLaw, &str); 2] = [(CapacityLaw::Smace, "smace"), (CapacityLaw::Proven, "proven")];
const SECONDS: usize = 900;
/// Seconds until a law has left its initial state.
const WARM_UP: usize = 120;

struct Case {
    name: &'static str,
    noise: f64,
    at: fn(usize) -> Second,
    /// End of the disturbance from which to recover, if any.
    over: Option<usize>,
}

fn at_rest(_: usize) -> Second {
    Second::default()
}

fn low_then_jump(second: usize) -> Second {
    Second { demand: if second < 600 { 60.0 } else { 1_000.0 }, ..Second::default() }
}

fn contention(second: usize) -> Second {
    Second { speed: if (300..400).contains(&second) { 0.55 } else { 1.0 }, ..Second::default() }
}

fn hard_contention(second: usize) -> Second {
    Second { speed: if (300..400).contains(&second) { 0.25 } else { 1.0 }, ..Second::default() }
}

fn bursts(second: usize) -> Second {
    Second { speed: if second % 60 < 8 { 0.5 } else { 1.0 }, ..Second::default() }
}

fn one_spike(second: usize) -> Second {
    // In a window in which the paper's law may make a change.
    let demand = if second < 312 { 30.0 } else { 400.0 };
    Second { demand, spike: second == 309, ..Second::default() }
}

fn spikes(second: usize) -> Second {
    Second { spike: second.is_multiple_of(20), ..Second::default() }
}

fn stalls(second: usize) -> Second {
    Second { stalls: second % 120 == 60, ..Second::default() }
}

fn database(second: usize) -> Second {
    Second { elsewhere: if (300..600).contains(&second) { 4.0 } else { 1.0 }, ..Second::default() }
}

fn cases() -> Vec<Case> {
    let case = |name, noise, at, over| Case { name, noise, at, over };
    vec![
        case("more calls than it can take", 0.0, at_rest, None),
        case("the same with noise", 0.3, at_rest, None),
        case("60 calls/s, then all", 0.1, low_then_jump, Some(600)),
        case("neighbours take 45 % for 100 s", 0.1, contention, Some(400)),
        case("neighbours take 75 % for 100 s", 0.1, hard_contention, Some(400)),
        case("neighbours take 50 % for 8 s a minute", 0.1, bursts, None),
        case("30 calls/s and one slow second, then 400", 0.1, one_spike, Some(312)),
        case("a slow second in 20", 0.1, spikes, None),
        case("a stall of 1 s in 120", 0.1, stalls, None),
        case("a slow database for 300 s", 0.1, database, Some(600)),
    ]
}

struct Score {
    /// Part of the calls that an ideal estimator would carry.
    carried: f64,
    /// Part of the seconds with latency above the threshold.
    high: f64,
    /// Seconds after the end of the disturbance until 90 % of the best is carried.
    recovery: Option<usize>,
    /// Smallest and largest capacity.
    least: f64,
    most: f64,
}

fn settings(law: CapacityLaw) -> EstimatorSettings {
    EstimatorSettings { law, maximum: 700.0, ..EstimatorSettings::default() }
}

fn run(case: &Case, law: CapacityLaw) -> Score {
    let mut server = Server::new(settings(law), case.noise, 7);
    let outcomes: Vec<Outcome> = (0..SECONDS).map(|second| server.second((case.at)(second))).collect();
    let best = |second: usize| (case.at)(second).best(1e-3).min((case.at)(second).demand);
    let settled = || outcomes.iter().enumerate().skip(WARM_UP);
    let carried: f64 = settled().map(|(_, outcome)| outcome.carried).sum();
    let possible: f64 = settled().map(|(second, _)| best(second)).sum();
    let high = settled().filter(|(_, outcome)| outcome.high).count() as f64;
    let recovery = case
        .over
        .and_then(|over| (over..SECONDS).position(|second| outcomes[second].carried >= 0.9 * best(second)));
    Score {
        carried: carried / possible,
        high: high / (SECONDS - WARM_UP) as f64,
        recovery,
        least: settled().map(|(_, outcome)| outcome.announced).fold(f64::INFINITY, f64::min),
        most: settled().map(|(_, outcome)| outcome.announced).fold(0.0, f64::max),
    }
}

/// The three aims of this project's law, against the paper's.
#[test]
fn proven_recovers_faster_and_does_not_collapse_on_a_spike() {
    let both = |name: &str| {
        let cases = cases();
        let case = cases.iter().find(|case| case.name == name).expect("the case is listed");
        (run(case, CapacityLaw::Smace), run(case, CapacityLaw::Proven))
    };
    for contention in ["neighbours take 45 % for 100 s", "neighbours take 75 % for 100 s"] {
        let (smace, proven) = both(contention);
        let seconds = |score: &Score| score.recovery.expect("the capacity recovers");
        assert!(2 * seconds(&proven) <= seconds(&smace), "{contention}");
        assert!(proven.high < smace.high, "{contention}");
    }
    let (smace, proven) = both("30 calls/s and one slow second, then 400");
    assert!(smace.least < 30.0 && proven.least > 300.0, "a spike");
    let (smace, proven) = both("60 calls/s, then all");
    assert!(smace.most >= 700.0 && proven.most < 550.0, "smace announces an untried capacity");
}

#[test]
fn the_table_of_laws() {
    let mut table = String::from(
        "carried of the possible, seconds above the threshold, back after, least and largest capacity\n",
    );
    for case in cases() {
        writeln!(table, "\n{}", case.name).expect("a String takes all");
        for (law, name) in LAWS {
            let Score { carried, high, recovery, least, most } = run(&case, law);
            let recovery = match (case.over, recovery) {
                (None, _) => "-".to_owned(),
                (Some(_), None) => "never".to_owned(),
                (Some(_), Some(seconds)) => format!("{seconds} s"),
            };
            let (carried, high) = (carried * 100.0, high * 100.0);
            writeln!(
                table,
                "  {name:6} | {carried:5.1} % | {high:4.1} % | {recovery:>5} | {least:3.0} {most:3.0}"
            )
            .expect("a String takes all");
        }
    }
    insta::assert_snapshot!("laws", table);
}
