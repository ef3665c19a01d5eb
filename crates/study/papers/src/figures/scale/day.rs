//! A day with its morning and evening: calls lost and hours paid, by rule.

use super::super::{Entry, Work};
use super::{Rule, assumptions, plan, plots, table};
use crate::report::{Claim, Figure};
use sim::cloud::CloudResults;

/// A day.
pub(in super::super) const DAY: Entry = Entry {
    name: "scale-day",
    title: "A day of calls: lost ones and server hours, by scaling rule",
    source: "Ours, after the Cloud paper, section IV-D",
    run,
};

/// The peak takes 6.5 servers, 80 % of 8.1.
const RULES: [Rule; 6] =
    [Rule::Fixed(9), Rule::Fixed(5), Rule::Plain, Rule::Spare, Rule::Trend, Rule::Forecast];

/// Rates of a day that begins at a time; `hour` is a 24th of it.
fn day(begin: u64, hour: u64) -> Vec<(u64, f64)> {
    let rise = (hour / 2).max(60);
    let points = [
        (0, 20.0),
        (8 * hour, 20.0),
        (8 * hour + rise, 130.0),
        (11 * hour, 130.0),
        (13 * hour, 80.0),
        (16 * hour, 100.0),
        (19 * hour, 60.0),
        (22 * hour, 20.0),
    ];
    points.map(|(at, rate)| (begin + at, rate)).to_vec()
}

fn run(work: &Work<'_>) -> Figure {
    // Seconds; the forecast has seen one day before.
    let hour = work.scale(1_200, 400, 60);
    let length = 24 * hour;
    let mut points = day(0, hour);
    points.extend(day(length, hour));
    let plans = RULES.map(|rule| plan(rule, 2, &points, length, 2 * length, length));
    let results = work.clouds("rules", &plans);
    let mut figure = work.figure(&DAY, plots(&RULES, &results, length));
    figure.tables = vec![table(&RULES, &results)];
    figure.claims = claims(&results);
    figure.assumptions = assumptions();
    figure.assumptions.push(format!(
        "An hour of the day has {hour} s here; the morning's rise takes {} s. Forecasts have seen one day before, which counts \
         for nothing else.",
        (hour / 2).max(60)
    ));
    figure
}

fn claims(results: &[CloudResults]) -> Vec<Claim> {
    let [peak, mean, plain, spare, trend, forecast] = [0, 1, 2, 3, 4, 5].map(|place| &results[place]);
    let lost = |of: &CloudResults| 100.0 * of.lost_part();
    claims! {
        "section I", "A fixed number of servers that is enough for the mean is not for the peak.",
            ["Lost: {:.1} % with 5 servers, {:.2} % with 9.", lost(mean), lost(peak)],
            lost(mean) > 1.0 && lost(peak) < 0.1, about(1);
        "section IV-D", "To offset the starting time a spare server can be powered on in advance.",
            ["Lost: {} without, {} with it.", plain.lost, spare.lost],
            spare.lost * 2 < plain.lost, about(1);
        "section IV-D", "Servers that idle are turned off: fewer hours than those of a fixed number that loses as \
         few calls.",
            ["{:.1} server hours with the spare and the trend, {:.1} with 9 servers; lost {:.2} % and {:.2} %.",
             trend.server_hours, peak.server_hours, lost(trend), lost(peak)],
            trend.server_hours < 0.85 * peak.server_hours && lost(trend) < 0.2, about(2);
        "ours", "Past days let servers be ready in time: fewer calls are lost than by the 80 % rule, for fewer hours \
         than a spare takes.",
            ["Lost: {}, {} by the rule alone; {:.1} server hours, {:.1} with the spare.", forecast.lost, plain.lost,
             forecast.server_hours, spare.server_hours],
            forecast.lost * 2 < plain.lost && forecast.server_hours < spare.server_hours, about(1);
    }
}
