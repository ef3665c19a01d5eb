//! A flash crowd: an unannounced increase to three times the calls within a minute.

use super::super::FigureRun;
use super::{Rule, START, assumptions, plan, plots, table};
use crate::report::{Figure, Statement};
use sim::cloud::CloudResults;

const RULES: [Rule; 6] = [Rule::Fixed(9), Rule::Plain, Rule::Spare, Rule::Trend, Rule::Forecast, Rule::Found];

const BEFORE: f64 = 40.0;
const CROWD: f64 = 130.0;

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    // Length of a period in seconds. The crowd comes in the second period; the first had none.
    let unit = work.scale(1_200, 600, 60);
    let begin = 2 * unit;
    let points = [
        (0, BEFORE),
        (begin + unit, BEFORE),
        (begin + unit + 20, CROWD),
        (begin + 2 * unit, CROWD),
        (begin + 2 * unit + 20, BEFORE),
    ];
    let plans = RULES.map(|rule| plan(rule, 3, &points, begin, begin + 4 * unit, begin));
    let results = work.clouds("rules", &plans);
    let mut figure = work.figure(plots(&RULES, &results, begin));
    for plot in &mut figure.plots[..1] {
        plot.mark("crowd comes", (begin + unit) as f64);
    }
    figure.tables = vec![table("rule", &RULES, &results)];
    figure.claims = claims(&results, begin + unit);
    figure.assumptions = assumptions();
    figure.assumptions.push(format!(
        "{BEFORE:.0} calls/s become {CROWD:.0} within 20 s, and stay so for {unit} s. The forecast has seen a period without."
    ));
    figure
}

fn claims(results: &[CloudResults], comes: u64) -> Vec<Statement> {
    let [fixed, plain, spare, trend, forecast, found] = [0, 1, 2, 3, 4, 5].map(|place| &results[place]);
    // Time from which servers are ready that were started after the full rate was visible.
    let late = comes + 20 + 2 * START.as_secs();
    let lost_late = |of: &CloudResults| -> u64 {
        of.seconds.iter().filter(|second| second.at > late as f64).map(|second| second.lost).sum()
    };
    claims! {
        "section I", "A fixed number of servers must be bought in advance for event-based traffic.",
            ["9 servers lose {} calls, for {:.1} server hours; the 80 % rule takes {:.1}.", fixed.lost,
             fixed.server_hours, plain.server_hours],
            fixed.lost_part() < 1e-3 && plain.server_hours < fixed.server_hours, about(2);
        "section IV-D", "The bigger problem is the start-up time: calls are lost until servers are up.",
            ["The 80 % rule loses {:.1} % of all calls.", 100.0 * plain.lost_part()],
            plain.lost_part() > 0.01, about(1);
        "section IV-D", "A spare server offsets the start-up time.",
            ["{} calls lost instead of {}.", spare.lost, plain.lost],
            spare.lost < plain.lost, about(1);
        "ours", "From two start-up times after the crowd's arrival no rule loses calls.",
            ["Lost after that: {}, {}, {}, {}, {}.", lost_late(plain), lost_late(spare), lost_late(trend),
             lost_late(forecast), lost_late(found)],
            [plain, spare, trend, forecast, found].iter().all(|of| lost_late(of) <= of.offered / 10_000), about(0);
        "ours", "A forecast from past days neither helps nor harms with an unforeseen crowd.",
            ["Forecast: {} lost, the 80 % rule {}.", forecast.lost, plain.lost],
            forecast.lost.abs_diff(plain.lost) * 20 <= plain.lost, about(1);
        "ours", "In a crowd, estimated capacities lose less than a tenth more calls than known ones, for less than a \
         tenth more hours.",
            ["{} lost in {:.1} server hours, {} in {:.1} with known capacities and a spare.", found.lost,
             found.server_hours, spare.lost, spare.server_hours],
            found.lost * 10 < spare.lost * 11 && found.server_hours < 1.1 * spare.server_hours, about(1);
    }
}
