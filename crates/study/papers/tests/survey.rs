//! Tests of the summary of a scenario's runs: intervals, their precision, causes of failed calls, and the page.

use base::Instant;
use config::scenario::Scenario;
use load::RandomTime;
use papers::survey::{Intervals, Judged, Survey, figure, survey};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

/// Returns a scenario with a single proxy and `rate` calls a second, each of 2 s. `run` and `more` are further text.
fn scenario(run: &str, rate: u32, more: &str) -> Scenario {
    let text = format!(
        r#"
        run = {{ duration = "120s", warm_up = "20s", bin = "5s", {run} }}
        host.edge = {{ capacity = 160, overload = {{ local = "occupancy" }} }}
        calls.main = {{ path = ["edge"], rate = {rate}, holding = "2s" }}
        {more}
        "#
    );
    config::scenario::parse(&text, "survey.toml").expect("a valid scenario")
}

fn surveyed(scenario: &Scenario) -> Survey {
    survey(scenario, |_| ()).0
}

fn judged(survey: &Survey) -> Vec<Judged> {
    survey.too_wide.iter().map(|wide| wide.figure).collect()
}

#[test]
fn what_is_too_wide_is_named_and_nothing_else() {
    let of = |precision: f64| {
        let run = format!("replications = 3, precision = {precision}");
        surveyed(&scenario(&run, 60, ""))
    };
    let loose = of(0.5);
    assert_eq!((loose.intervals, judged(&loose)), (Intervals::Replications, Vec::new()));
    let stream = &loose.streams[0];
    let relative =
        |mean: papers::survey::Mean| mean.half_width.expect("three runs have an interval") / mean.mean;
    let (goodput, setup) =
        (relative(stream.goodput), relative(stream.setup_seconds.expect("calls were set up")));
    assert!(goodput > 0.0 && setup > 0.0);
    for (figure, relative) in [(Judged::Goodput, goodput), (Judged::SetupSeconds, setup)] {
        let named = |precision| judged(&of(precision)).contains(&figure);
        assert!(named(relative * 0.98) && !named(relative * 1.02), "{figure:?} {relative}");
    }
}

/// Half width of ten batches by Student's t.
fn half_width(batches: &[f64; 10]) -> f64 {
    let mean = batches.iter().sum::<f64>() / 10.0;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / 9.0;
    // Student's t for 9 degrees of freedom is 2.262.
    2.262 * (variance / 10.0).sqrt()
}

#[test]
fn one_run_has_batch_means_of_the_completed_calls_and_the_setup_time() {
    let (one, runs) = survey(&scenario("", 60, ""), |_| ());
    assert_eq!(one.intervals, Intervals::BatchMeans);
    let (stream, run) = (&one.streams[0], &runs[0].streams[0]);
    let half = stream.goodput.half_width.expect("20 bins make 10 batches");
    // Batches of two bins each, the first one from 20 s on.
    let at = |batch: u64| Instant::from_millis(20_000 + 10_000 * batch);
    let batches = core::array::from_fn(|batch| run.completed.rate(at(batch as u64), at(batch as u64 + 1)));
    let expected = half_width(&batches);
    assert!((half - expected).abs() < 1e-3 * expected, "{half} {expected} of {batches:?}");
    assert!((stream.goodput.mean - batches.iter().sum::<f64>() / 10.0).abs() < 1e-9);
    let setup = core::array::from_fn(|batch| {
        let (from, to) = (at(batch as u64), at(batch as u64 + 1));
        run.established[1].rate(from, to) / run.established[0].rate(from, to)
    });
    let found = stream.setup_seconds.and_then(|mean| mean.half_width).expect("each batch has calls");
    let expected = half_width(&setup);
    assert!((found - expected).abs() < 1e-3 * expected, "{found} {expected} of {setup:?}");
    assert_eq!(one.hosts[0].utilisation.half_width, None);
    let judged = |precision| judged(&surveyed(&scenario(&format!("precision = {precision}"), 60, "")));
    let names_goodput = |precision| judged(precision).contains(&Judged::Goodput);
    assert!(!names_goodput(half / 60.0 * 2.0) && names_goodput(half / 60.0 / 2.0));
}

#[test]
fn without_ended_calls_there_are_no_shares_and_no_times() {
    let cut = "[[link]]\nbetween = [\"agents\", \"edge\"]\npartition = true";
    let mut scenario = scenario("replications = 2", 10, cut);
    scenario.run.duration /= 4;
    let stream = &surveyed(&scenario).streams[0];
    assert!(stream.ended.is_none() && stream.setup_seconds.is_none() && stream.setup_p99_seconds.is_none());
    assert!(stream.response_seconds.is_none() && stream.response_p99_seconds.is_none());
    assert!(stream.offered.mean > 5.0 && stream.goodput.mean.abs() < 1e-9);
}

#[test]
fn a_short_run_without_a_given_bin_counts_its_calls() {
    let text = r#"
        run = { duration = "8s" }
        host.edge = { capacity = 160 }
        calls.main = { path = ["edge"], rate = 60, holding = "1s" }
    "#;
    let scenario = config::scenario::parse(text, "short.toml").expect("a valid scenario");
    let stream = &surveyed(&scenario).streams[0];
    assert!((stream.offered.mean - 60.0).abs() < 15.0 && (stream.goodput.mean - 60.0).abs() < 15.0);
}

#[test]
fn one_run_that_changes_or_is_short_has_no_interval() {
    let none = |scenario: &Scenario| {
        let survey = surveyed(scenario);
        survey.intervals == Intervals::None && survey.streams[0].goodput.half_width.is_none()
    };
    assert!(none(&scenario("", 60, "[[fault]]\nhost = \"edge\"\nat = \"60s\"\nstall = \"1s\"")));
    let lossy = "[[link]]\nbetween = [\"agents\", \"edge\"]\nloss = 0.01\n";
    assert!(none(&scenario("", 60, &format!("{lossy}until = \"60s\""))));
    // A constant impairment is no change.
    assert!(!none(&scenario("", 60, lossy)));
    let mut short = scenario("", 60, "");
    short.run.bin *= 4;
    assert!(none(&short));
}

#[test]
fn calls_are_told_apart_by_how_they_ended() {
    let ended = |scenario: &Scenario| surveyed(scenario).streams[0].ended.expect("calls ended");
    let shares = ended(&scenario("", 300, ""));
    let set_up = [shares.completed, shares.answered_late, shares.bye_failures];
    let all = set_up.into_iter().chain([shares.refused, shares.abandoned, shares.invite_timeouts]);
    assert!((all.map(|share| share.mean).sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    assert!(shares.completed.mean > 0.1 && shares.refused.mean > 0.1, "{shares:?}");
    let lost = "[[link]]\nbetween = [\"agents\", \"edge\"]\npartition = true\nsince = \"40s\"";
    let lost = ended(&scenario("", 10, lost));
    assert!(lost.invite_timeouts.mean > 0.1 && lost.bye_failures.mean > 0.0, "{lost:?}");
}

#[test]
fn the_response_time_excludes_the_ack() {
    let (survey, runs) = survey(&scenario("", 60, ""), |_| ());
    let (stream, run) = (&survey.streams[0], &runs[0].streams[0]);
    let mean = |mean: Option<papers::survey::Mean>| mean.expect("calls were answered").mean;
    let (response, setup) = (mean(stream.response_seconds), mean(stream.setup_seconds));
    // The proxy takes a millisecond for each of INVITE, 200 and ACK.
    assert!(response >= 2e-3 && setup - response >= 1e-3, "{response} {setup}");
    assert!((response - run.answer_delay.mean().as_secs_f64()).abs() < 1e-9);
    let p99 = mean(stream.response_p99_seconds);
    assert!((response..mean(stream.setup_p99_seconds)).contains(&p99), "{p99}");
}

#[test]
fn progress_is_told_in_simulated_time() {
    let scenario = scenario("replications = 2", 10, "");
    let (sender, told) = mpsc::channel();
    survey(&scenario, |passed| sender.send(passed).expect("it is received below"));
    let told: Vec<Duration> = told.try_iter().collect();
    // One report for each bin of each run.
    assert_eq!(told.len(), 2 * 24);
    assert_eq!(told.iter().sum::<Duration>(), 2 * scenario.run.duration);
}

/// Most calls of two minutes on average cannot end in a run of two minutes. That is no failure.
#[test]
fn calls_too_long_for_the_run_are_remarked_on() {
    let long = "calls.long = { path = [\"edge\"], rate = 10, holding = \"exp:2m\" }";
    let survey = surveyed(&scenario("replications = 2", 10, long));
    let [unfinished] = &survey.unfinished[..] else { panic!("one stream: {:?}", survey.unfinished) };
    assert_eq!((&*unfinished.stream, unfinished.lifetime), ("long", Duration::from_mins(2)));
    let stream = survey.streams.iter().find(|stream| stream.name == "long").expect("it is a stream");
    let missing = 1.0 - stream.goodput.mean / stream.offered.mean;
    assert!((missing - unfinished.share).abs() < 0.1, "{missing} instead of {}", unfinished.share);
    assert!((stream.set_up.mean / stream.offered.mean - 1.0).abs() < 0.05, "they are set up: {stream:?}");
    let remarks = survey.remarks().join("\n");
    assert!(
        remarks.contains("long: calls last 120s in the mean") && !remarks.contains("main: calls"),
        "{remarks}"
    );
}

/// Collects the names of all fields at any depth.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            found.insert(key.clone());
            fields(value, found);
        }),
        Value::Array(list) => list.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn the_json_has_the_documented_fields() {
    let mut found = BTreeSet::new();
    // No figure is precise enough, and calls last longer than the run.
    let mut scenario = scenario("precision = 0.001", 60, "");
    scenario.streams[0].holding = RandomTime::Exponential(Duration::from_mins(3));
    let survey = surveyed(&scenario);
    fields(&serde_json::to_value(&survey).expect("it can be written"), &mut found);
    let page = include_str!("../../../../docs/simulate.md");
    let (_, section) = page.split_once("## Results of a scenario").expect("it is documented");
    let table = section.split_once("`too_wide` covers").expect("the section ends so").0;
    for field in &found {
        assert!(table.contains(&format!("`{field}`")), "`{field}` is not documented");
    }
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        // Words in backquotes are fields, in every column. Only settings are not: they have a dot.
        for name in row.split('`').skip(1).step_by(2).filter(|name| !name.contains('.')) {
            assert!(found.contains(name), "`{name}` is documented and not there");
        }
    }
}

#[test]
fn the_page_has_assumptions_notes_and_marks() {
    let more = r#"
        timers.t1 = "300ms"
        costs.message = "2ms"
        [[fault]]
        host = "edge"
        at = "60s"
        restart = "10s"
        [[link]]
        between = ["agents", "edge"]
        loss = "2%"
        since = "60s"
        until = "80s"
    "#;
    let mut scenario = scenario("replications = 2", 20, more);
    let first = scenario.streams[0].load[0];
    let at = Duration::from_secs(90);
    scenario.streams[0].load.push(load::RateStep { at, rate: 40.0, ..first });
    let (survey, runs) = survey(&scenario, |_| ());
    let figure = figure(&scenario, &survey, &runs[0], "survey", "survey.toml");
    assert_eq!(figure.tables, survey.tables());
    insta::assert_debug_snapshot!((&figure.assumptions, &figure.notes, &figure.plots[0].references));
    for plot in &figure.plots {
        assert_eq!(plot.references, figure.plots[0].references);
    }
    // All bins of the run are present, even if no call came at its end.
    assert!(figure.plots[0].series.iter().all(|series| series.points.len() == 24));
}
