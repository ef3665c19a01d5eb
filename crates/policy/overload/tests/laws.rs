//! Promises of each law, on the server of the harness.

use crate::harness::*;
use core::time::Duration;
use overload::T1;

const MANY: f64 = 10.0;

/// 40 s at 140 calls/s, 40 s at `times` the capacity, 40 s at 140 again.
fn storm(local: &str, feedback: &str, times: f64) -> Vec<Second> {
    run(plan(local, feedback, &[(0.0, 140.0), (40.0, CAPACITY * times), (80.0, 140.0)], 120.0), 1)
}

fn rejected(seconds: &[Second]) -> u32 {
    seconds.iter().map(|second| second.rejected).sum()
}

#[test]
fn without_control_the_buffer_fills_and_almost_no_call_ends() {
    let seconds = storm("none", "none", MANY);
    assert!(goodput(&seconds[60..80]) < 0.05 * CAPACITY);
    assert!(wait_max(&seconds[60..80]) > T1);
}

#[test]
fn with_rate_or_window_feedback_goodput_is_95_percent_of_capacity_at_any_overload() {
    for feedback in ["rate", "window"] {
        for local in ["none", "delay"] {
            for times in [2.0, 10.0, 20.0] {
                let seconds = storm(local, feedback, times);
                let (good, wait) = (goodput(&seconds[60..80]), wait_max(&seconds[40..80]));
                assert!(good >= 0.95 * CAPACITY, "{local} {feedback} {times}: {good}");
                // Also in the second of the step no message waits long enough to be retransmitted. Without a local law, a
                // rate needs a period to follow a large step.
                let is_bare = feedback == "rate" && local == "none" && times > 2.0;
                assert!(wait < T1 / 2 || is_bare, "{local} {feedback} {times}: {wait:?}");
                assert!(dropped(&seconds) == 0 || is_bare);
            }
        }
    }
}

#[test]
fn delay_rate_and_window_follow_a_step_of_load_at_once_and_occupancy_does_not() {
    let step = |local, feedback| run(plan(local, feedback, &[(0.0, 140.0), (40.0, 400.0)], 80.0), 2);
    for (local, feedback) in [("delay", "none"), ("delay", "rate"), ("none", "window")] {
        let seconds = step(local, feedback);
        assert!(wait_max(&seconds[40..80]) < T1 / 4, "{local} {feedback}");
        assert_eq!(dropped(&seconds), 0);
    }
    assert!(wait_max(&step("occupancy", "none")[40..50]) > T1);
}

#[test]
fn occupancy_falls_by_the_target_ratio_an_epoch_while_utilisation_saturates() {
    let seconds = storm("occupancy", "none", 5.0);
    let after = &seconds[41..48];
    assert!(after.iter().all(|second| second.utilisation > 0.999), "saturated");
    for pair in after.windows(2) {
        let ratio = pair[1].acceptance / pair[0].acceptance;
        assert!((ratio - 0.9).abs() < 1e-3, "{ratio}");
    }
}

#[test]
fn occupancy_converges_to_its_target() {
    let seconds = run(plan("occupancy", "none", &[(0.0, CAPACITY * 1.5)], 160.0), 3);
    let tail = &seconds[60..160];
    let mean = |value: fn(&Second) -> f64| tail.iter().map(value).sum::<f64>() / tail.len() as f64;
    let utilisation = mean(|second| second.utilisation);
    assert!((utilisation - 0.9).abs() < 0.015, "{utilisation}");
    // At the fixed point the work adds up: 6 ms per accepted call and 1/6 ms per rejected call make 90 % of a second.
    let fraction = mean(|second| second.acceptance);
    let offered = CAPACITY * 1.5;
    let work = offered * (fraction * 0.006 + (1.0 - fraction) * REJECT.as_secs_f64());
    assert!((work - 0.9).abs() < 0.03, "f = {fraction}: {work}");
    assert!(tail.iter().all(|second| second.acceptance < 1.0));
}

#[test]
fn bang_bang_swings_between_its_watermarks() {
    let seconds = storm("bang-bang", "none", 2.0);
    let steady = &seconds[50..80];
    assert_eq!(dropped(steady), 0);
    assert!(steady.windows(5).all(|some| some.iter().any(|second| second.queue_max > 800)));
    assert!(steady.iter().all(|second| second.queue_max < 900));
    // There are 200 messages between the marks: whole seconds pass on one side, then on the other.
    let taken = steady.iter().filter(|second| second.rejected == 0).count();
    let refused = steady.iter().filter(|second| second.accepted < 40).count();
    assert!(taken >= 4 && refused >= 4, "{taken} seconds of taking, {refused} of refusing");
    // The queue is never far below 600, so every message waits longer than T1: over UDP it would be retransmitted.
    assert!(steady.iter().all(|second| second.wait_max > T1));
}

#[test]
fn delay_loses_only_the_cost_of_rejections() {
    for times in [2.0, 5.0, 10.0] {
        let seconds = storm("delay", "none", times);
        let steady = &seconds[60..80];
        let left = 1.0 - f64::from(rejected(steady)) / 20.0 * REJECT.as_secs_f64();
        let (good, wait) = (goodput(steady), wait_max(&seconds[40..80]));
        assert!(good >= 0.95 * CAPACITY * left, "{times}: {good} of {left}");
        assert!(wait < T1 / 2, "{times}: {wait:?}");
        assert_eq!(dropped(&seconds), 0);
    }
}

#[test]
fn after_an_overload_every_request_is_accepted_again() {
    for (local, feedback) in
        [("delay", "none"), ("none", "rate"), ("none", "window"), ("delay", "rate"), ("delay", "window")]
    {
        let seconds = storm(local, feedback, MANY);
        let calm = &seconds[95..120];
        let accepted = calm.iter().map(|second| f64::from(second.accepted)).sum::<f64>() / 25.0;
        // 25 s of Poisson arrivals at 140/s: the mean lies within 3 standard deviations (7.1).
        assert!((accepted - 140.0).abs() < 7.1, "{local} {feedback}: {accepted}");
        assert!(wait_max(calm) < T1 / 8);
    }
}

#[test]
fn senders_share_fairly() {
    for feedback in ["rate", "window"] {
        let mut plan = plan("none", feedback, &[], 120.0);
        // Two senders offer equal loads, one twice as much, one little. The last gets all of its load, the others equal
        // shares of the rest.
        plan.schedule = vec![(0.0, vec![200.0, 200.0, 400.0, 10.0])];
        let seconds = run(plan, 4);
        let rate = |sender: usize| {
            seconds[60..].iter().map(|second| f64::from(second.ended[sender])).sum::<f64>() / 60.0
        };
        let fair = (CAPACITY - 10.0) / 3.0;
        for sender in 0..3 {
            assert!(
                (rate(sender) / fair - 1.0).abs() < 0.1,
                "{feedback} {sender}: {} of {fair}",
                rate(sender)
            );
        }
        assert!(rate(3) > 8.5, "{feedback}: {}", rate(3));
    }
}

#[test]
fn neighbours_without_feedback_are_limited_by_the_local_law() {
    let mut plan = plan("delay", "rate", &[(0.0, CAPACITY * 2.0)], 80.0);
    plan.supporting = 2;
    let seconds = run(plan, 5);
    let left = 1.0 - f64::from(rejected(&seconds[40..])) / 40.0 * REJECT.as_secs_f64();
    assert!(goodput(&seconds[40..]) > 0.95 * CAPACITY * left);
    assert!(wait_max(&seconds) < T1 / 2);
}

#[test]
fn a_cost_of_acks_makes_local_control_useless_and_feedback_better() {
    let good = |local, feedback, seed| {
        let mut plan = plan(local, feedback, &[(0.0, CAPACITY * MANY)], 80.0);
        plan.ack = Duration::from_millis(1);
        goodput(&run(plan, seed)[40..])
    };
    for seed in 1..=4 {
        assert!(good("delay", "none", seed) < 0.1 * CAPACITY);
        // A server that only refuses recovers.
        for feedback in ["rate", "window"] {
            let good = good("delay", feedback, seed);
            assert!(good > 0.95 * CAPACITY, "{feedback} {seed}: {good}");
        }
    }
}

#[test]
fn a_server_with_many_neighbours_does_not_spend_all_its_time_on_refusals() {
    // A window of one per neighbour exceeds the server's capacity, so it must refuse requests.
    for (feedback, senders, least) in
        [("window", 40, 0.6), ("window", 100, 0.6), ("rate", 40, 0.95), ("rate", 100, 0.95)]
    {
        let mut plan = plan("delay", feedback, &[], 80.0);
        plan.schedule = vec![(0.0, vec![CAPACITY * MANY / senders as f64; senders])];
        plan.supporting = senders;
        plan.ack = Duration::from_millis(1);
        let good = goodput(&run(plan, 6)[40..]);
        assert!(good > least * CAPACITY, "{feedback} {senders}: {good}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || format!("{:?}", storm("delay", "rate", 2.0));
    assert_eq!(run(), run());
}
