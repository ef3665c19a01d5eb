//! A sequence of disturbances in a few hours, as a table of decisions; and tests of single rules.

use super::cloud::{CAPACITY, Cloud, Fault, STEP, Weather};
use base::Instant;
use core::fmt::Write as _;
use core::time::Duration;
use elastic::scale::{
    ForecastSettings, FrontTraffic, ScaleSettings, Scaler, ScalingDecision, ServerId, ServerLoad, ServerState,
};

fn settings() -> ScaleSettings {
    ScaleSettings { capacity: CAPACITY, ..ScaleSettings::default() }
}

/// Runs this many minutes; returns each decision with its time.
fn run(cloud: &mut Cloud, minutes: u64, weather: Weather) -> Vec<(u64, ScalingDecision)> {
    let mut all = Vec::new();
    for _ in 0..minutes * 60 / STEP {
        let decisions = cloud.step(weather);
        let now = cloud.now.as_nanos() / 1_000_000_000;
        all.extend(decisions.into_iter().map(|decision| (now, decision)));
    }
    all
}

fn states(cloud: &Cloud) -> String {
    let states = [
        ServerState::Starting,
        ServerState::Ready,
        ServerState::Draining,
        ServerState::Stopping,
        ServerState::Gone,
    ];
    let count = |state| cloud.scaler.rows().filter(|row| row.state == state).count();
    let named: Vec<_> = states
        .iter()
        .map(|state| (count(*state), state.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    named.join(", ")
}

#[test]
fn the_story_of_a_cluster() {
    let mut cloud = Cloud::new(settings(), Fault::None);
    let chapters = [
        ("50 calls/s from a cold start", 20, Weather::default()),
        ("400 calls/s at once", 20, Weather { rate: 400.0, ..Weather::default() }),
        ("starts fail, 600 calls/s", 10, Weather { rate: 600.0, fails: true, ..Weather::default() }),
        ("starts take 8 min", 20, Weather { rate: 600.0, start: 480, ..Weather::default() }),
        ("starts work again", 20, Weather { rate: 600.0, ..Weather::default() }),
        ("all servers at half speed", 20, Weather { rate: 600.0, speed: 0.5, ..Weather::default() }),
        ("at night", 60, Weather { rate: 80.0, ..Weather::default() }),
        ("stops are forgotten", 20, Weather { rate: 10.0, forgets: true, ..Weather::default() }),
        ("2000 calls/s", 10, Weather { rate: 2_000.0, ..Weather::default() }),
    ];
    let mut table = String::new();
    for (name, minutes, weather) in chapters {
        writeln!(table, "{name}").expect("a String takes all");
        for (at, decision) in run(&mut cloud, minutes, weather) {
            writeln!(table, "  {:3}:{:02} {decision:?}", at / 60, at % 60).expect("a String takes all");
        }
        writeln!(table, "  then: {}\n", states(&cloud)).expect("a String takes all");
    }
    insta::assert_snapshot!("story", table);
}

/// A database that is slow for all servers causes no start, however long it lasts.
#[test]
fn latency_of_all_servers_starts_no_server() {
    let mut cloud = Cloud::new(settings(), Fault::None);
    let weather = Weather { rate: 300.0, ..Weather::default() };
    run(&mut cloud, 30, weather);
    let (ready, starts) = (cloud.ready(), cloud.starts);
    let slow = run(&mut cloud, 600, Weather { speed: 0.3, ..weather });
    assert_eq!((cloud.ready(), cloud.starts), (ready, starts));
    assert!(matches!(slow[..], [(_, ScalingDecision::ClusterLatency(true))]), "{slow:?}");
    let well = run(&mut cloud, 10, weather);
    assert!(matches!(well[..], [(_, ScalingDecision::ClusterLatency(false))]), "{well:?}");
}

/// Drained servers carry as much as before, and others take their place.
#[test]
fn servers_drained_by_an_operator_do_not_count_as_cluster_latency() {
    let mut scaler = Scaler::new(Instant::ZERO, ScaleSettings { spare: 0, ..settings() });
    (0..4).for_each(|id| scaler.adopt(Instant::ZERO, ServerId(id)));
    let mut decisions = Vec::new();
    for step in 1..40 {
        let taken = |id| (step < 20 || id < 2).then_some(CAPACITY);
        let load = |id| ServerLoad { id: ServerId(id), capacity: taken(id), is_announced: true, calls: 0 };
        let seen = FrontTraffic { rate: 300.0, servers: &[0, 1, 2, 3].map(load) };
        scaler.step(Instant::ZERO + Duration::from_secs(step * STEP), &seen, &mut decisions);
    }
    assert_eq!(decisions, [4, 5].map(|id| ScalingDecision::Start(ServerId(id))));
}

/// Failed starts are repeated at growing intervals.
#[test]
fn failing_starts_are_tried_again_with_back_off() {
    let mut cloud = Cloud::new(ScaleSettings { spare: 0, ..settings() }, Fault::None);
    let failing = run(&mut cloud, 120, Weather { fails: true, start: 5, ..Weather::default() });
    let starts: Vec<u64> = failing
        .iter()
        .filter(|(_, decision)| matches!(decision, ScalingDecision::Start(_)))
        .map(|(at, _)| *at)
        .collect();
    let gaps: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps[..5], [15, 25, 45, 85, 165]);
    assert!(gaps[6..].iter().all(|gap| *gap == 305), "{gaps:?}");
    run(&mut cloud, 10, Weather::default());
    assert_eq!(cloud.ready(), 1);
}

/// With a learned start-up time, servers are ready in time for a rise.
#[test]
fn a_rise_is_met_with_spare_servers_and_extrapolation() {
    let lost = |spare, trend_most| {
        let mut cloud = Cloud::new(ScaleSettings { spare, trend_most, ..settings() }, Fault::None);
        run(&mut cloud, 20, Weather::default());
        let before = cloud.lost;
        for minute in 0..20 {
            run(&mut cloud, 1, Weather { rate: 50.0 + 35.0 * f64::from(minute), ..Weather::default() });
        }
        cloud.lost - before
    };
    let (plain, trend, spare) = (lost(0, 1.0), lost(0, 1.3), lost(1, 1.3));
    assert!(plain > 100.0 && trend < plain / 2.0, "{plain} {trend}");
    assert!(spare < 1.0, "{spare}");
}

/// Servers are ready for the morning peak of past days.
#[test]
fn a_forecast_peak_is_met() {
    let lost = |forecast| {
        let settings = ScaleSettings { spare: 0, trend_most: 1.0, forecast, ..settings() };
        let mut cloud = Cloud::new(settings, Fault::None);
        let mut lost = 0.0;
        for day in 0..3 {
            run(&mut cloud, 9 * 60, Weather { rate: 40.0, ..Weather::default() });
            let before = cloud.lost;
            run(&mut cloud, 60, Weather { rate: 600.0, ..Weather::default() });
            lost = if day > 0 { lost + cloud.lost - before } else { lost };
            run(&mut cloud, 14 * 60, Weather { rate: 40.0, ..Weather::default() });
        }
        (lost, cloud.server_seconds / 3600.0)
    };
    let (plain, hours) = lost(None);
    let (forecast, more_hours) = lost(Some(ForecastSettings::default()));
    assert!(plain > 10_000.0 && forecast < 1.0, "{plain} {forecast}");
    assert!(more_hours < hours * 1.2, "{hours} {more_hours}");
}

/// Low numbers are used first, and the last server is drained first.
#[test]
fn the_last_server_is_drained_and_the_first_free_number_is_used() {
    let mut cloud = Cloud::new(ScaleSettings { spare: 0, ..settings() }, Fault::None);
    run(&mut cloud, 20, Weather { rate: 250.0, ..Weather::default() });
    let ids = |cloud: &Cloud| -> Vec<u32> {
        cloud.scaler.rows().filter(|row| row.state == ServerState::Ready).map(|row| row.id.0).collect()
    };
    assert_eq!(ids(&cloud), [0, 1, 2, 3]);
    cloud.lose(1);
    run(&mut cloud, 10, Weather { rate: 250.0, ..Weather::default() });
    assert_eq!(ids(&cloud), [0, 1, 2, 3]);
    let quiet = run(&mut cloud, 30, Weather { rate: 60.0, ..Weather::default() });
    let drained: Vec<u32> = quiet
        .iter()
        .filter_map(|(_, decision)| if let ScalingDecision::Drain(id) = decision { Some(id.0) } else { None })
        .collect();
    assert_eq!(drained, [3, 2, 1]);
    // Before each stop: a minute until its calls end, and 3 min without calls.
    let stops = quiet.iter().filter(|(_, decision)| matches!(decision, ScalingDecision::Stop(_))).count();
    assert_eq!((stops, cloud.there()), (3, 1));
}

/// A queue starts with half of the capacity that the operator expects, and a dead monitor reports no more about its
/// server.
#[test]
fn an_expected_capacity_is_not_usual_and_silence_is_not_a_fall() {
    let mut scaler = Scaler::new(Instant::ZERO, ScaleSettings { spare: 0, ..settings() });
    (0..3).for_each(|id| scaler.adopt(Instant::ZERO, ServerId(id)));
    let mut decisions = Vec::new();
    let mut run = |steps: core::ops::Range<u64>, capacity: f64, is_announced, rate| {
        for step in steps {
            let load = |id| ServerLoad { id: ServerId(id), capacity: Some(capacity), is_announced, calls: 0 };
            let seen = FrontTraffic { rate, servers: &[0, 1, 2].map(load) };
            scaler.step(Instant::ZERO + Duration::from_secs(step * STEP), &seen, &mut decisions);
        }
        core::mem::take(&mut decisions)
    };
    assert_eq!(run(1..5, CAPACITY, false, 10.0), []);
    assert_eq!(run(5..10, CAPACITY / 2.0, true, 10.0), [], "less than the expected capacity is not a fall");
    assert_eq!(run(10..20, CAPACITY, true, 10.0), []);
    assert_eq!(run(20..30, CAPACITY / 2.0, false, 10.0), [], "silence is not a fall either");
    let more = run(30..60, CAPACITY / 2.0, false, 1.5 * CAPACITY);
    assert!(matches!(more[..], [ScalingDecision::Start(ServerId(3)), ..]), "{more:?}");
    let fallen = run(60..61, CAPACITY / 2.0, true, 10.0);
    assert!(matches!(fallen[..], [ScalingDecision::ClusterLatency(true), ..]), "{fallen:?}");
}

#[test]
fn after_a_failed_start_other_servers_are_tried_first() {
    let choices = ScaleSettings { spare: 0, most: 1, choices: Some(3), ..settings() };
    let mut scaler = Scaler::new(Instant::ZERO, choices);
    let mut started = Vec::new();
    for step in 1..2_000 {
        let (now, mut decisions) = (Instant::ZERO + Duration::from_secs(step * STEP), Vec::new());
        scaler.step(now, &FrontTraffic { rate: 1.0, servers: &[] }, &mut decisions);
        for decision in decisions {
            match decision {
                ScalingDecision::Start(id) => started.push(id.0),
                ScalingDecision::GiveUp(id) | ScalingDecision::Stop(id) => scaler.on_stopped(now, id),
                _ => {}
            }
        }
    }
    assert!(started.len() > 6, "{started:?}");
    assert!(started.iter().zip([0, 1, 2].iter().cycle()).all(|(id, next)| id == next), "{started:?}");
}
