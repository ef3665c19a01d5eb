//! Any windows at any times: capacity stays within its bounds, and each law keeps its rules.

use base::Instant;
use core::time::Duration;
use elastic::estimate::{CapacityLaw, Estimator, EstimatorSettings, ServerWindow};
use proptest::prelude::*;

/// [`CapacityLaw::Proven`] does not cut below this part of the carried rate.
const FLOOR: f64 = 0.2;

fn windows() -> impl Strategy<Value = Vec<(u64, ServerWindow)>> {
    let p95 = prop::option::weighted(0.9, 0..5_000_u64);
    let window = (0..40_000_u64, 0..800_u64, p95, 0.0..1.2_f64).prop_map(|(wait, calls, p95, part)| {
        let p95 = p95.map(Duration::from_micros);
        (wait, ServerWindow { calls, p95, goodput: calls as f64 * part, ..ServerWindow::EMPTY })
    });
    prop::collection::vec(window, 1..80)
}

fn law() -> impl Strategy<Value = CapacityLaw> {
    prop_oneof![Just(CapacityLaw::Smace), Just(CapacityLaw::Proven)]
}

proptest! {
    #[test]
    fn capacity_stays_within_its_bounds(law in law(), windows in windows(), maximum in 0.5..900.0_f64) {
        let settings = EstimatorSettings { law, maximum, ..EstimatorSettings::default() };
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, settings);
        for (wait, window) in windows {
            now += Duration::from_millis(wait);
            let capacity = estimator.on_window(now, &window);
            prop_assert!(capacity >= settings.minimum && capacity <= maximum.max(settings.minimum));
        }
    }

    /// The paper's 10 s rule: never two changes closer together, whatever the latency.
    #[test]
    fn smace_changes_every_10_s_at_most(windows in windows()) {
        let settings = EstimatorSettings { law: CapacityLaw::Smace, ..EstimatorSettings::default() };
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, settings);
        let mut changed: Option<Instant> = None;
        for (wait, window) in windows {
            let before = estimator.capacity();
            // No silence, which changes capacity too.
            now += Duration::from_millis(wait % 3_000);
            if (estimator.on_window(now, &window) - before).abs() > 0.0 {
                prop_assert!(changed.is_none_or(|changed| now - changed >= Duration::from_secs(10)));
                changed = Some(now);
            }
        }
    }

    /// Above the threshold capacity never grows, whatever happened before. When a law may cut, `smace` leaves at most
    /// 90 %, and `proven` at most 95 % unless that is below its floor.
    #[test]
    fn above_the_threshold_capacity_falls(law in law(), windows in windows(), beyond in 0.0..20.0_f64) {
        let settings = EstimatorSettings { law, ..EstimatorSettings::default() };
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, settings);
        let mut carried = 0.0_f64;
        for (wait, mut window) in windows {
            let before = estimator.capacity();
            now += Duration::from_millis(wait % 3_000);
            // Some calls bypass the queue.
            window.goodput *= 1.0 + beyond;
            carried = carried.max(window.goodput);
            let after = estimator.on_window(now, &window);
            if window.calls > 0 && window.p95.is_some_and(|p95| p95 > settings.threshold) {
                // A change is always downwards.
                prop_assert!(after <= before, "{before} {after}");
                let floor = (FLOOR * carried.min(settings.maximum)).max(settings.minimum);
                let is_cut = after <= 0.95 * before + 1e-9 || after <= floor + 1e-9;
                prop_assert!(is_cut || (after - before).abs() < 1e-12, "{before} {after} {floor}");
            }
        }
        // Also when it carries far more than its capacity, too slowly.
        let before = estimator.capacity();
        let floor = FLOOR * carried.min(settings.maximum);
        let goodput = before * (1.0 + beyond);
        for _ in 0..12 {
            now += Duration::from_secs(1);
            let p95 = Some(Duration::from_millis(20));
            estimator.on_window(now, &ServerWindow { calls: 1_000, p95, goodput, ..ServerWindow::EMPTY });
        }
        let after = estimator.capacity();
        let most = match law {
            CapacityLaw::Smace => 0.9 * before,
            CapacityLaw::Proven => (0.7 * before).max(floor.min(before)),
        };
        prop_assert!(after <= most.max(settings.minimum) + 1e-9, "{before} {after} {floor}");
    }

    /// The counting process may have been suspended, and find the calls of many seconds in one window. Such a window
    /// raises nothing, and later increases are no larger than without it.
    #[test]
    fn a_late_window_never_raises_capacity(law in law(), windows in windows(), late in prop::collection::vec(any::<bool>(), 80)) {
        let settings = EstimatorSettings { law, ..EstimatorSettings::default() };
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, settings);
        let mut carried = 0.5 * settings.maximum;
        for ((wait, window), is_late) in windows.into_iter().zip(late) {
            now += Duration::from_millis(wait % 3_000);
            let before = estimator.capacity();
            if is_late {
                prop_assert!(estimator.on_late_window(now, &window) <= before);
            } else {
                // From the rate carried in time, the law `proven` may add 5 % a second.
                carried = window.goodput.max(carried);
                let after = estimator.on_window(now, &window);
                prop_assert!(law == CapacityLaw::Smace || after <= before.max(1.3 * carried), "{after} {carried}");
            }
        }
    }

    /// An untried capacity is not announced: without a window that uses it, capacity does not grow beyond the carried
    /// rate.
    #[test]
    fn proven_does_not_grow_on_little_demand(windows in windows()) {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law: CapacityLaw::Proven, ..EstimatorSettings::default() });
        let mut carried = 0.0_f64;
        for (wait, mut window) in windows {
            let before = estimator.capacity();
            window.goodput = window.goodput.min(0.79 * before);
            carried = carried.max(window.goodput);
            now += Duration::from_millis(wait % 3_000);
            prop_assert!(estimator.on_window(now, &window) <= before.max(carried));
        }
    }

    /// With other servers' help a server gets only its share of the calls, and still returns to the rate that it has
    /// carried.
    #[test]
    fn proven_recovers_with_a_share_of_the_calls(share in 0.31..0.8_f64, slow in 2..40_u64) {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law: CapacityLaw::Proven, ..EstimatorSettings::default() });
        let mut step = |micros, share: f64, seconds| {
            for _ in 0..seconds {
                now += Duration::from_secs(1);
                let goodput = estimator.capacity() * share;
                let p95 = Some(Duration::from_micros(micros));
                estimator.on_window(now, &ServerWindow { calls: goodput.ceil() as u64, p95, goodput, ..ServerWindow::EMPTY });
            }
            estimator.capacity()
        };
        let well = step(200, 1.0, 60);
        let contended = step(5_000, share, slow);
        let again = step(200, share, 200);
        prop_assert!(contended <= well && again > 0.85 * well, "{well} {contended} {again}");
    }

    /// A recovered server with any small share of calls, however few, does not keep its capacity under contention for
    /// ever.
    #[test]
    fn proven_recovers_with_few_calls(share in 0.02..0.3_f64, maximum in 20.0..500.0_f64, slow in 2..60_u64) {
        let mut now = Instant::ZERO;
        let settings = EstimatorSettings { law: CapacityLaw::Proven, maximum, ..EstimatorSettings::default() };
        let mut estimator = Estimator::new(now, settings);
        let mut rest = 0.0;
        let mut step = |micros, share: f64, seconds: u64| {
            for _ in 0..seconds {
                now += Duration::from_secs(1);
                rest += estimator.capacity() * share;
                let calls = f64::floor(rest);
                rest -= calls;
                let p95 = (calls > 0.0).then(|| Duration::from_micros(micros));
                estimator.on_window(now, &ServerWindow { calls: calls as u64, p95, goodput: calls, ..ServerWindow::EMPTY });
            }
            estimator.capacity()
        };
        let well = step(200, 1.0, 120);
        step(5_000, 0.5, slow);
        let again = step(200, share, (60.0 / share) as u64);
        prop_assert!(again > 0.8 * well, "{well} {again}");
    }

    /// No dead end: after any history, a healthy server that gets all the calls it asks for recovers.
    #[test]
    fn capacity_recovers(law in law(), windows in windows()) {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law, ..EstimatorSettings::default() });
        for (wait, window) in windows {
            now += Duration::from_millis(wait);
            estimator.on_window(now, &window);
        }
        for _ in 0..400 {
            now += Duration::from_secs(1);
            let goodput = estimator.capacity();
            let p95 = Some(Duration::from_micros(200));
            estimator.on_window(now, &ServerWindow { calls: goodput as u64, p95, goodput, ..ServerWindow::EMPTY });
        }
        prop_assert!(estimator.capacity() > 480.0, "{}", estimator.capacity());
    }

    /// One slow window among good ones changes nothing.
    #[test]
    fn proven_ignores_a_spike(slow in 1_001..1_000_000_u64, goodput in 0.0..400.0_f64) {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law: CapacityLaw::Proven, ..EstimatorSettings::default() });
        let mut second = |micros: u64| {
            now += Duration::from_secs(1);
            let p95 = Some(Duration::from_micros(micros));
            estimator.on_window(now, &ServerWindow { calls: 300, p95, goodput, ..ServerWindow::EMPTY })
        };
        let before = second(500);
        prop_assert!((second(slow) - before).abs() < 1e-9);
        prop_assert!(second(500) >= before);
    }
}

/// The figures of sections IV-B and VI-C, one by one.
#[test]
fn smace_follows_the_paper() {
    let mut now = Instant::ZERO;
    let settings = EstimatorSettings {
        law: CapacityLaw::Smace,
        maximum: 500.0,
        start: 0.6,
        ..EstimatorSettings::default()
    };
    let mut estimator = Estimator::new(now, settings);
    let mut window = |seconds: u64, micros: u64, goodput: f64| {
        now += Duration::from_secs(seconds);
        let p95 = Some(Duration::from_micros(micros));
        estimator.on_window(now, &ServerWindow { calls: 300, p95, goodput, ..ServerWindow::EMPTY })
    };
    let is = |capacity: f64, expected: f64| {
        assert!((capacity - expected).abs() < 1e-6, "{capacity}, not {expected}");
    };
    is(window(5, 5_000, 200.0), 300.0);
    // 10 s after the start: 90 % of the carried rate.
    is(window(5, 5_000, 200.0), 180.0);
    // Then sqrt(1 + (1000 - 500) / 1000).
    is(window(10, 500, 180.0), 180.0 * 1.5_f64.sqrt());
    // Above the threshold twice in a row: the conservative mode, 10 calls/s a minute.
    is(window(10, 1_500, 200.0), 180.0);
    is(window(10, 1_500, 180.0), 162.0);
    is(window(10, 500, 162.0), 162.0 + 10.0 / 6.0);
    // A calm minute ends it.
    for _ in 0..4 {
        window(10, 500, 162.0);
    }
    is(window(10, 0, 162.0), (162.0 + 50.0 / 6.0) * 2.0_f64.sqrt());
    // The maximum holds.
    for _ in 0..20 {
        window(10, 100, 162.0);
    }
    is(window(10, 100, 162.0), 500.0);
}

/// Ten minutes at twenty times the threshold, with more calls than the capacity, from another sender: the capacity
/// falls, and does not stay or rise.
#[test]
fn calls_that_bypass_the_queue_do_not_keep_capacity_high() {
    for (law, most) in [(CapacityLaw::Proven, 60.0), (CapacityLaw::Smace, 10.0)] {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law, ..EstimatorSettings::default() });
        for _ in 0..600 {
            now += Duration::from_secs(1);
            let p95 = Some(Duration::from_millis(20));
            estimator
                .on_window(now, &ServerWindow { calls: 300, p95, goodput: 300.0, ..ServerWindow::EMPTY });
        }
        assert!(estimator.capacity() < most, "{law:?}: {}", estimator.capacity());
    }
}

/// Without windows for a while, earlier measurements are dropped.
#[test]
fn after_silence_capacity_is_the_initial_one() {
    for law in [CapacityLaw::Smace, CapacityLaw::Proven] {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law, ..EstimatorSettings::default() });
        let good = |goodput| ServerWindow {
            calls: 400,
            p95: Some(Duration::from_micros(100)),
            goodput,
            ..ServerWindow::EMPTY
        };
        for _ in 0..60 {
            now += Duration::from_secs(1);
            estimator.on_window(now, &good(estimator.capacity()));
        }
        assert!(estimator.capacity() > 450.0, "{law:?}");
        now += Duration::from_secs(31);
        let capacity = estimator.on_window(now, &good(100.0));
        assert!((capacity - 250.0).abs() < 1e-9, "{law:?}: {capacity}");
    }
}

/// A stopped server gets only single calls, which wait, so it does not count as idle.
#[test]
fn a_single_waiting_call_cuts_a_stopped_server() {
    for (law, most) in [(CapacityLaw::Proven, 0.3), (CapacityLaw::Smace, 0.7)] {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law, ..EstimatorSettings::default() });
        for _ in 0..60 {
            now += Duration::from_secs(1);
            let (p95, goodput) = (Some(Duration::from_micros(100)), estimator.capacity());
            estimator.on_window(now, &ServerWindow { calls: 400, p95, goodput, ..ServerWindow::EMPTY });
        }
        let before = estimator.capacity();
        for second in 0..40 {
            now += Duration::from_secs(1);
            let oldest = Some(Duration::from_secs(second % 4) + Duration::from_millis(500));
            estimator.on_window(
                now,
                &ServerWindow { calls: u64::from(second % 4 == 0), oldest, ..ServerWindow::EMPTY },
            );
        }
        assert!(estimator.capacity() < most * before, "{law:?}: {before} {}", estimator.capacity());
    }
}

/// Without calls the capacity does not change.
#[test]
fn windows_without_calls_change_nothing() {
    for law in [CapacityLaw::Smace, CapacityLaw::Proven] {
        let mut now = Instant::ZERO;
        let mut estimator = Estimator::new(now, EstimatorSettings { law, ..EstimatorSettings::default() });
        let before = estimator.capacity();
        for _ in 0..100 {
            now += Duration::from_secs(1);
            let capacity = estimator.on_window(now, &ServerWindow::EMPTY);
            assert!((capacity - before).abs() < 1e-9, "{law:?}");
        }
    }
}

/// A capacity of a few calls a second can grow again, although so few calls are hardly conclusive.
#[test]
fn a_capacity_of_few_calls_can_grow() {
    let mut now = Instant::ZERO;
    let mut estimator =
        Estimator::new(now, EstimatorSettings { law: CapacityLaw::Proven, ..EstimatorSettings::default() });
    let mut second = |micros: u64| {
        now += Duration::from_secs(1);
        let goodput = estimator.capacity();
        let p95 = Some(Duration::from_micros(micros));
        estimator.on_window(now, &ServerWindow { calls: goodput as u64, p95, goodput, ..ServerWindow::EMPTY })
    };
    let least = (0..120).map(|_| second(50_000)).fold(f64::INFINITY, f64::min);
    assert!(least < 5.0, "{least}");
    let most = (0..200).map(|_| second(200)).fold(0.0, f64::max);
    assert!(most > 400.0, "{most}");
}
