//! Any sequence of rates, failures and late starts; and a canary for each rule of the observer.

use super::cloud::{Cloud, Fault, STEP, Weather};
use elastic::scale::ScaleSettings;
use proptest::prelude::*;

fn weather() -> impl Strategy<Value = (Weather, u64, Option<usize>)> {
    let rate = prop_oneof![Just(0.0), 0.0..200.0_f64, 0.0..2_000.0_f64];
    let start = prop_oneof![4 => 5..150_u64, 1 => 150..1_000_u64];
    let speed = prop_oneof![3 => Just(1.0), 1 => 0.0..1.0_f64];
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let rest = (1..40_u64, prop::option::weighted(0.2, 0..4_usize));
    (rate, start, speed, flags, rest).prop_map(|(rate, start, speed, (fails, forgets), (minutes, lost))| {
        (Weather { rate, start, fails, forgets, speed }, minutes, lost)
    })
}

fn settings() -> impl Strategy<Value = ScaleSettings> {
    (0..3_usize, 1..12_usize, 0..3_usize, 1..5_usize, any::<bool>()).prop_map(
        |(least, most, spare, changes_most, forecasts)| ScaleSettings {
            least,
            most,
            spare,
            changes_most,
            capacity: 100.0,
            forecast: forecasts.then(Default::default),
            ..ScaleSettings::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_scaler_keeps_its_rules(settings in settings(), weathers in prop::collection::vec(weather(), 1..12)) {
        // A forecast repeats the past, even if it was random, so the scaler need not settle.
        let settles = settings.forecast.is_none();
        let mut cloud = Cloud::new(settings, Fault::None);
        for (weather, minutes, lost) in &weathers {
            if let Some(number) = lost {
                cloud.lose(*number);
            }
            for _ in 0..minutes * 60 / STEP {
                cloud.step(*weather);
            }
        }
        if settles {
            cloud.settle(weathers[weathers.len() - 1].0);
        }
    }
}

fn run(fault: Fault) {
    let settings =
        ScaleSettings { most: 8, capacity: 100.0, changes_most: 2, spare: 0, ..ScaleSettings::default() };
    let mut cloud = Cloud::new(settings, fault);
    for (rate, minutes) in [(50.0, 10), (900.0, 30), (50.0, 40), (300.0, 10)] {
        let weather = Weather { rate, ..Weather::default() };
        for _ in 0..minutes * 60 / STEP {
            cloud.step(weather);
        }
    }
    cloud.settle(Weather { rate: 300.0, ..Weather::default() });
}

#[test]
fn a_run_without_faults_passes() {
    run(Fault::None);
}

macro_rules! canaries {
    ($($name:ident: $fault:ident, $message:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $message)]
        fn $name() {
            run(Fault::$fault);
        }
    )*};
}

canaries! {
    too_many_servers_are_noticed: Limit, "more servers than allowed";
    too_many_changes_are_noticed: Changes, "too many changes";
    a_stop_with_calls_is_noticed: NoCalls, "with calls was stopped";
    a_doubled_decision_is_noticed: Double, "a running server was started";
    lost_starts_are_noticed: LostStarts, "only a known server is stopped";
    flapping_is_noticed: Swing, "does not settle";
}
