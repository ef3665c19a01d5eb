//! Response times: their definition, their starting point, and their reproducibility.
use crate::net::{Net, Stall, answerer_config, caller_config};
use base::Instant;
use load::{AnswererConfig, ArrivalPlan, ArrivalProcess, CallerConfig, RandomTime, ServiceModel};
use std::time::Duration;

#[test]
fn times_are_round_trips_plus_service() {
    let service = ServiceModel { service_per_work: Duration::from_millis(4), ..ServiceModel::default() };
    let mut net =
        Net::new(caller_config(1.0, 200), vec![AnswererConfig { service, ..answerer_config(0) }], 1);
    net.run();
    let results = net.caller.results();
    // Twice 1 ms on the network, and 1.75 or 1 units of 4 ms at the answerer, which is hardly ever busy.
    assert!(results.invite_response.percentile_us(50.0).abs_diff(9_000) <= 9);
    assert!(results.bye_response.percentile_us(50.0).abs_diff(6_000) <= 6);
}

/// 100 calls a second for 10 s, with a stall of caller or answerer from 2 s to 4 s.
fn stalled(caller_stall: Option<Stall>, answerer_stall: Option<Stall>) -> Net {
    let plan = caller_config(100.0, 1_000);
    let arrivals = ArrivalPlan { process: ArrivalProcess::Constant, ..plan.arrivals };
    let mut net = Net::new(
        CallerConfig { arrivals, holding: RandomTime::Fixed(Duration::from_secs(20)), ..plan },
        vec![answerer_config(0)],
        2,
    );
    (net.caller_stall, net.answerer_stall) = (caller_stall, answerer_stall);
    net.run();
    assert_eq!(net.caller.results().calls_completed, 1_000);
    net
}

/// A fifth of the calls should have started in the stall, evenly: a tenth of all waits over 1 s, 5 % over 1.5 s.
fn shows_the_stall(net: &Net) {
    let times = &net.caller.results().invite_response;
    for (percent, expected_ms) in [(50.0, 2_u64), (90.0, 1_000), (95.0, 1_500), (99.0, 1_900)] {
        let measured_ms = times.percentile_us(percent) / 1_000;
        assert!(measured_ms.abs_diff(expected_ms) <= 25, "p{percent}: {measured_ms} ms");
    }
}

const STALL: Stall = Stall { from: Instant::from_millis(2_000), until: Instant::from_millis(4_000) };

#[test]
fn a_stalled_answerer_shows_in_the_percentiles() {
    let net = stalled(None, Some(STALL));
    shows_the_stall(&net);
    assert_eq!(net.caller.results().start_lag_max_us, 0, "the caller kept its schedule");
}

#[test]
fn a_stalled_caller_does_not_flatter_its_percentiles() {
    let net = stalled(Some(STALL), None);
    // Measured from the actual sending, all calls of this run would have taken 2 ms.
    shows_the_stall(&net);
    let lag_ms = net.caller.results().start_lag_max_us / 1_000;
    assert!(lag_ms.abs_diff(2_000) <= 10, "{lag_ms}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let config = CallerConfig {
            holding: RandomTime::Exponential(Duration::from_secs(4)),
            ..caller_config(50.0, 500)
        };
        let service = ServiceModel {
            service_per_work: Duration::from_millis(2),
            exponential: true,
            ..ServiceModel::default()
        };
        let ring = RandomTime::Exponential(Duration::from_secs(1));
        let mut net = Net::new(config, vec![AnswererConfig { ring, service, ..answerer_config(0) }], seed);
        net.loss = 0.05;
        net.run();
        (net.trace, net.events)
    };
    let first = run(7);
    assert!(first.0.len() > 3_000);
    assert!(first == run(7));
    assert!(first != run(8));
}
