//! A scenario at several values of a key: each value as if it had been run alone, the verdict on all, table and page.

use config::scenario::{Scenario, Value, parse, parse_with};
use papers::report::{At, Scale};
use papers::survey::{Sweep, survey, vary};
use std::time::Duration;

const TEXT: &str = r#"
    run = { duration = "60s", warm_up = "10s", bin = "5s", replications = 2 }
    host.edge = { count = 2, capacity = 160 }
    host.core = { capacity = 160 }
    calls.main = { path = ["edge", "core"], rate = 60, holding = "2s" }
"#;

fn varied(text: &str, key: &str, values: &[&str]) -> Vec<(Value, Scenario)> {
    let scenario = |value: &&str| {
        let value = Value::read(value).expect("a value");
        let scenario = parse_with(text, "vary.toml", key, &value).expect("a right scenario");
        (value, scenario)
    };
    values.iter().map(scenario).collect()
}

fn swept(text: &str, key: &str, values: &[&str]) -> Sweep {
    vary(key, varied(text, key, values), |_| ())
}

/// Returns a sweep whose values carry the load or not, as in `carried`.
fn judged(key: &str, values: &[&str], carried: &[bool]) -> Sweep {
    let short = TEXT
        .replace("5s", "1s")
        .replace("60s", "5s")
        .replace("10s", "1s")
        .replace("holding = \"2s\"", "holding = \"200ms\"")
        .replace("replications = 2", "replications = 1");
    let mut sweep = swept(&short, key, values);
    for (point, carried) in sweep.points.iter_mut().zip(carried) {
        point.survey.streams[0].ended.as_mut().expect("calls ended").completed.mean =
            if *carried { 0.99 } else { 0.989 };
    }
    sweep
}

#[test]
fn each_value_is_as_if_it_were_run_alone() {
    // Out of order, and with the replications of each file.
    let cases = [
        ("calls.main.rate", ["180", "20", "100"], "rate = 60", "rate = "),
        ("run.replications", ["3", "1", "2"], "replications = 2", "replications = "),
    ];
    for (key, values, old, new) in cases {
        let sweep = swept(TEXT, key, &values);
        assert_eq!(sweep.points.len(), values.len());
        for (point, value) in sweep.points.iter().zip(values) {
            assert_eq!(point.value.to_string(), value);
            let by_hand = TEXT.replace(old, &format!("{new}{value}"));
            let alone = survey(&parse(&by_hand, "vary.toml").expect("a right scenario"), |_| ()).0;
            assert_eq!(point.survey.traces, alone.traces, "{key} = {value}");
            assert_eq!(json(&point.survey), json(&alone), "{key} = {value}");
        }
        assert_eq!(json(&sweep.points), json(&swept(TEXT, key, &values).points));
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it can be written")
}

#[test]
fn all_values_meet_the_same_calls() {
    let sweep = swept(TEXT, "host.core.capacity", &["80", "160", "unlimited"]);
    let offered: Vec<_> = sweep.points.iter().map(|point| point.survey.streams[0].offered.mean).collect();
    assert!(offered[0] > 50.0 && offered.iter().all(|rate| (rate - offered[0]).abs() < 1e-9), "{offered:?}");
    let traces: Vec<_> = sweep.points.iter().map(|point| &point.survey.traces).collect();
    assert!(traces[0] != traces[1] && traces[1] != traces[2]);
}

#[test]
fn all_runs_are_heard_of() {
    let (sender, heard) = std::sync::mpsc::channel();
    let varied = varied(TEXT, "run.replications", &["1", "3"]);
    vary("run.replications", varied, |passed| sender.send(passed).expect("it is received below"));
    assert_eq!(heard.try_iter().sum::<Duration>(), 4 * Duration::from_mins(1));
}

/// Completed calls per second would be far below the offered ones, although neither is a fault.
#[test]
fn where_calls_outlast_the_run_those_set_up_are_drawn() {
    let plot = |text: &str| {
        let sweep = swept(text, "calls.main.rate", &["20", "40"]);
        let calls = sweep.figure("short", "short.toml", "20,40").plots.remove(0);
        (calls.title, calls.series[1].clone(), calls.series[0].clone())
    };
    let (title, done, _) = plot(TEXT);
    assert_eq!((&*title, &*done.name), ("Calls offered and completed", "main completed"));
    let (title, done, offered) = plot(&TEXT.replace("\"2s\"", "\"exp:60s\""));
    assert_eq!((&*title, &*done.name), ("Calls offered and set up", "main set up"));
    for (done, offered) in done.points.iter().zip(&offered.points) {
        assert!((done.y / offered.y - 1.0).abs() < 0.05, "{done:?} of {offered:?}");
    }
}

#[test]
fn a_server_that_is_too_small_does_not_carry() {
    let sweep = swept(TEXT, "host.core.capacity", &["20", "160"]);
    assert_eq!([false, true], [0, 1].map(|at| sweep.points[at].survey.carries()));
    let busiest = |at: usize| &sweep.points[at].survey.busiest().name;
    assert_eq!(busiest(0), "core");
    let free = swept(TEXT, "host.core.capacity", &["unlimited"]);
    assert!(free.points[0].survey.busiest().name.starts_with("edge."));
}

#[test]
fn the_verdict_says_where_the_load_is_carried() {
    let verdict = |key: &str, values: &[&str], carried: &[bool]| {
        let verdict = judged(key, values, carried).verdict();
        let said = verdict.strip_prefix("The load is carried ").expect("it begins so");
        said.strip_suffix(" (carried: at least 99 % of the calls that ended were completed)")
            .expect("it ends so")
            .to_owned()
    };
    let (rate, rates) = ("calls.main.rate", ["10", "20", "30"]);
    assert_eq!(verdict(rate, &rates, &[true; 3]), "at every value");
    assert_eq!(verdict(rate, &rates, &[false; 3]), "at none of these values");
    let up_to = "up to calls.main.rate = 20, and no longer at 30";
    assert_eq!(verdict(rate, &rates, &[true, true, false]), up_to);
    // The order of the values does not matter.
    assert_eq!(verdict(rate, &["30", "10", "20"], &[false, true, true]), up_to);
    let from = verdict("host.edge.count", &["1", "2", "3"], &[false, true, true]);
    assert_eq!(from, "from host.edge.count = 2 on, and not yet at 1");
    assert_eq!(verdict(rate, &rates, &[true, false, true]), "at calls.main.rate = 10, 30; not at 20");
    // Words and quantities of different units have no order.
    let law = "host.core.overload.local";
    assert_eq!(verdict(law, &["none", "delay"], &[false, true]), format!("at {law} = delay; not at none"));
    let t1 = verdict("timers.t1", &["500ms", "1s"], &[true, false]);
    assert_eq!(t1, "at timers.t1 = 500ms; not at 1s");
}

#[test]
fn every_stream_must_be_carried() {
    let two = format!("{TEXT}\ncalls.other = {{ path = [\"core\"], rate = 5, holding = \"2s\" }}");
    let mut sweep = swept(&two, "calls.main.rate", &["20"]);
    assert!(sweep.points[0].survey.carries() && sweep.verdict().ends_with("were completed, of each stream)"));
    sweep.points[0].survey.streams[1].ended.as_mut().expect("calls ended").completed.mean = 0.9;
    assert!(!sweep.points[0].survey.carries());
}

#[test]
fn the_json_is_values_and_surveys() {
    let points = serde_json::to_value(swept(TEXT, "calls.main.rate", &["20", "40"]).points)
        .expect("it can be written");
    assert_eq!((&points[0]["value"], &points[1]["value"]), (&20.into(), &40.into()));
    assert_eq!(points[0]["survey"]["replications"], 2);
    assert_eq!(points[0].as_object().map(serde_json::Map::len), Some(2));
    let words = swept(TEXT, "host.core.overload.local", &["delay"]).points;
    assert_eq!(serde_json::to_value(words).expect("it can be written")[0]["value"], "delay");
}

#[test]
fn the_csv_has_a_row_a_value_and_stream() {
    let two = format!("{TEXT}\ncalls.other = {{ path = [\"core\"], rate = 5, holding = \"normal:2s,1s\" }}");
    let sweep = swept(&two, "calls.other.holding", &["2s", "normal:2s,1s"]);
    let csv = sweep.csv();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 5);
    assert!(rows[..3].iter().all(|row| row.len() == 13), "{csv}");
    assert_eq!((rows[0][4], rows[1][0], rows[1][1], rows[2][1]), ("goodput", "2s", "main", "other"));
    let goodput = sweep.points[0].survey.streams[1].goodput;
    assert_eq!((rows[2][4].parse(), rows[2][5].parse()), (Ok(goodput.mean), Ok(goodput.half_width.unwrap())));
    // Quoted because of the comma.
    assert!(csv.lines().nth(3).is_some_and(|line| line.starts_with("\"normal:2s,1s\",main,")), "{csv}");
}

#[test]
fn the_page_has_curves_over_numbers() {
    let sweep = judged("calls.main.rate", &["40", "20", "30"], &[false, true, true]);
    let figure = sweep.figure("vary", "vary.toml", "40,20,30");
    assert_eq!(figure.command, "sarabande sim run vary.toml --vary 'calls.main.rate=40,20,30' --out DIR");
    assert_eq!(figure.source, format!("{}. Scenario vary.toml", sweep.verdict()));
    assert_eq!(figure.plots.len(), 3);
    for plot in &figure.plots {
        assert_eq!((&*plot.x.label, &plot.x.scale), ("calls.main.rate", &Scale::Linear));
        let [mark] = &plot.references[..] else { panic!("{:?}", plot.references) };
        assert_eq!((&*mark.label, mark.at), ("carried up to 30", At::X(30.0)));
        for series in &plot.series {
            assert_eq!(series.points.iter().map(|point| point.x).collect::<Vec<_>>(), [20.0, 30.0, 40.0]);
        }
    }
    let names = |at: usize| figure.plots[at].series.iter().map(|series| &*series.name).collect::<Vec<_>>();
    assert_eq!(names(0), ["main offered", "main completed"]);
    assert_eq!(names(1), ["main mean", "main p99"]);
    assert_eq!(names(2), ["edge", "core"]);
    let busiest =
        sweep.points[1].survey.hosts[..2].iter().map(|host| host.utilisation.mean).fold(0.0, f64::max);
    assert!((figure.plots[2].series[0].points[0].y - busiest).abs() < 1e-9);
    let setup = sweep.points[1].survey.streams[0].setup_seconds.expect("calls were set up").mean;
    assert!((figure.plots[1].series[0].points[0].y - 1e3 * setup).abs() < 1e-9);
}

#[test]
fn the_page_has_bars_over_words_and_the_unit_of_quantities() {
    let words = judged("host.core.overload.local", &["none", "delay"], &[false, true]);
    let figure = words.figure("vary", "vary.toml", "none,delay");
    for plot in &figure.plots {
        assert_eq!(plot.x.scale, Scale::Names(vec!["none".into(), "delay".into()]));
        assert_eq!((plot.y.scale.clone(), plot.references.len()), (Scale::Linear, 0));
    }
    // Bars have no dashes, so offered and completed calls cannot share a colour.
    assert!(figure.plots[0].series.iter().all(|series| series.colour.is_none()));
    let times = judged("timers.t1", &["300ms", "500ms"], &[false, true]);
    let figure = times.figure("vary", "vary.toml", "300ms,500ms");
    assert_eq!(figure.plots[0].x.label, "timers.t1 (ms)");
    assert_eq!(figure.plots[0].references[0].label, "carried from 500ms");
    // Assumptions that change with the value are given for the first value.
    let of_timers: Vec<_> = figure.assumptions.iter().filter(|text| text.contains("SIP timers")).collect();
    assert_eq!(of_timers, ["With timers.t1 = 300ms: SIP timers: T1 300ms, T2 4s, T4 5s, Timer C 181s."]);
    let others = figure.assumptions.iter().filter(|text| text.starts_with("With ")).count();
    assert_eq!(others, 1);
}
