//! A day with morning and evening: calls lost and server hours, by rule.

use super::super::FigureRun;
use super::{RATE, Rule, THRESHOLD, assumptions, p95, plan, plots, table};
use crate::report::{Figure, Statement, StatementVerdict};
use core::time::Duration;
use sim::cloud::{CloudPlan, CloudResults, Neighbours, Resource};
use sim::stats::Interval;

/// The peak needs 6.5 servers, 80 % of 8.1.
const RULES: [Rule; 7] =
    [Rule::Fixed(9), Rule::Fixed(5), Rule::Plain, Rule::Spare, Rule::Trend, Rule::Forecast, Rule::Found];
/// Rules that are also run with neighbours.
const CONTENDED: [Rule; 3] = [Rule::Spare, Rule::Found, Rule::Answers];

/// Number of servers with neighbours: the servers that run all day.
const DISTURBED: usize = 2;
/// Part of the processor that the neighbours take, and the hours of the day in which they are active.
const STOLEN: f64 = 0.6;
const HOURS: [u64; 2] = [9, 12];

/// Rates of a day that starts at `begin`; `hour` is a 24th of the day.
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

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    // In seconds. The forecast has seen one day before.
    let hour = work.scale(1_200, 400, 60);
    let length = 24 * hour;
    let mut points = day(0, hour);
    points.extend(day(length, hour));
    let plans = RULES.map(|rule| plan(rule, 2, &points, length, 2 * length, length));
    let results = work.clouds("rules", &plans);
    let [begin, end] = HOURS.map(|at| Duration::from_secs(length + at * hour));
    let neighbours =
        Neighbours { resource: Resource::Processor, when: vec![(begin, end)], share: STOLEN, steal: None };
    let disturbed = CONTENDED.map(|rule| CloudPlan {
        neighbours: vec![neighbours.clone(); DISTURBED],
        ..plan(rule, 2, &points, length, 2 * length, length)
    });
    let alike = [3, 6].map(|place| plans[place].clone());
    let plans: Vec<_> = alike.into_iter().chain(disturbed).collect();
    let runs = work.replicate("seeds", &plans, work.scale(10, 4, 2), sim::cloud::run);
    let contended: Vec<_> = runs[2..].iter().map(|runs| runs[0].clone()).collect();
    let mut figure = work.figure(plots(&RULES, &results, length));
    let mut servers = plots(&CONTENDED, &contended, length).swap_remove(0);
    servers.title += ", with neighbours";
    servers.mark("neighbours begin", begin.as_secs_f64());
    servers.mark("and end", end.as_secs_f64());
    figure.plots.push(servers);
    figure.tables =
        vec![table("rule", &RULES, &results), table("rule, with neighbours", &CONTENDED, &contended)];
    figure.claims = claims(&results);
    figure.claims.extend(claims_of_capacities(&runs));
    figure.assumptions = assumptions();
    figure.assumptions.push(format!(
        "An hour of the day has {hour} s here; the morning's rise takes {} s. Forecasts have seen one day before, which counts \
         for nothing else.",
        (hour / 2).max(60)
    ));
    figure.assumptions.push(format!(
        "Capacities are estimated by the law `proven` from {limit} ms, {RATE:.0} calls/s at most, and begin with half of \
         that. Neighbours take {:.0} % of the processors of {DISTURBED} servers from {} to {} o'clock. Where servers pull \
         as they answer, {limit} ms bound what they have unanswered.",
        100.0 * STOLEN,
        HOURS[0],
        HOURS[1],
        limit = THRESHOLD.as_millis()
    ));
    figure.notes.push(format!(
        "Tables and curves are of one run; statements about estimated capacities, and about neighbours, are of \
         {}, whose intervals they give.",
        runs[0].len()
    ));
    figure
}

/// A number of a run.
type Value = fn(&CloudResults) -> f64;

/// Claims about runs with a spare server: known and estimated capacities, then the same with neighbours.
fn claims_of_capacities(runs: &[Vec<CloudResults>]) -> Vec<Statement> {
    let of = |place: usize, value: Value| Interval::over(runs[place].iter().map(value));
    // Each run is compared with the run of the same seed.
    let ratio = |one: usize, other: usize, value: Value| {
        Interval::over(runs[one].iter().zip(&runs[other]).map(|(one, other)| value(one) / value(other)))
    };
    let (lost, hours): (Value, Value) = (|of| of.lost as f64, |of| of.server_hours);
    let [known, found, blind, aware, answers] = [0, 1, 2, 3, 4];
    let is_no_more = |one, other, value| StatementVerdict::below(ratio(one, other, value), 1.1);
    claims! {
        "ours", "With equal servers, estimated capacities lose less than a tenth more calls than known ones, for less \
         than a tenth more hours.",
            ["{:.0} lost in {:.1} server hours, {:.0} in {:.1} with known capacities; {:.2} times as many.",
             of(found, lost), of(found, hours), of(known, lost), of(known, hours), ratio(found, known, lost)],
            is_no_more(found, known, lost).and(is_no_more(found, known, hours)), about(1);
        "ours", "With neighbours, estimated capacities lose less than half as many calls as fixed ones, for less than \
         a tenth more hours.",
            ["{:.0} lost in {:.1} server hours, {:.0} in {:.1} with fixed capacities.", of(aware, lost),
             of(aware, hours), of(blind, lost), of(blind, hours)],
            StatementVerdict::below(ratio(aware, blind, lost), 0.5).and(is_no_more(aware, blind, hours)), about(3);
        "ours", "With neighbours, servers that pull calls as they answer lose less than a tenth more calls than \
         without neighbours.",
            ["{:.0} lost, {:.0} without neighbours.", of(answers, lost), of(known, lost)],
            is_no_more(answers, known, lost), about(3);
        "ours", "With neighbours, estimated capacities halve the set-up time of 95 % of the calls, compared with \
         servers that pull as they answer.",
            ["{:.0} ms, {:.0} with servers that pull as they answer.", of(aware, p95), of(answers, p95)],
            StatementVerdict::below(ratio(aware, answers, p95), 0.5), about(3);
    }
}

fn claims(results: &[CloudResults]) -> Vec<Statement> {
    let [peak, mean, plain, spare, trend, forecast] = [0, 1, 2, 3, 4, 5].map(|place| &results[place]);
    let lost = |of: &CloudResults| 100.0 * of.lost_part();
    claims! {
        "section I", "A fixed number of servers for the mean load is not enough for the peak.",
            ["Lost: {:.1} % with 5 servers, {:.2} % with 9.", lost(mean), lost(peak)],
            lost(mean) > 1.0 && lost(peak) < 0.1, about(1);
        "section IV-D", "A spare server, started in advance, offsets the start-up time.",
            ["Lost: {} without, {} with a spare.", plain.lost, spare.lost],
            spare.lost * 2 < plain.lost, about(1);
        "section IV-D", "Turning off idle servers takes fewer hours than a fixed number that loses as few calls.",
            ["{:.1} server hours with spare and trend, {:.1} with 9 servers; lost {:.2} % and {:.2} %.",
             trend.server_hours, peak.server_hours, lost(trend), lost(peak)],
            trend.server_hours < 0.85 * peak.server_hours && lost(trend) < 0.2, about(2);
        "ours", "A forecast from past days loses fewer calls than the 80 % rule, for fewer hours than a spare.",
            ["Lost: {}, by the rule alone {}; {:.1} server hours, {:.1} with the spare.", forecast.lost, plain.lost,
             forecast.server_hours, spare.server_hours],
            forecast.lost * 2 < plain.lost && forecast.server_hours < spare.server_hours, about(1);
    }
}
