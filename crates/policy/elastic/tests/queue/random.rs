//! Random operations under the observer, and a canary for each of its rules.

use super::checker::{Checker, Fault, Operation};
use core::time::Duration;
use elastic::queue::{Accrual, LengthSettings, MemberChoice, Overflow, QueueSettings};
use proptest::prelude::*;

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        8 => (0..24_u8).prop_map(Operation::Offer),
        2 => (0..24_u8).prop_map(Operation::Remove),
        3 => (0..4_u8, prop_oneof![Just(0.0), 0.0..40.0_f64]).prop_map(|(m, c)| Operation::Announce(m, c)),
        2 => (0..4_u8, 0.0..8.0_f64).prop_map(|(member, load)| Operation::Load(member, load)),
        1 => (0..4_u8).prop_map(Operation::Gone),
        1 => (0..4_u8).prop_map(Operation::Answers),
        4 => (0..4_u8, 0..6_usize).prop_map(|(member, place)| Operation::Answer(member, place)),
        1 => (0..4_u8).prop_map(Operation::TakeBack),
        1 => (0..3_000_u64).prop_map(Operation::Pass),
        3 => (0..120_u64).prop_map(Operation::Pass),
        4 => (0..400_u64).prop_map(Operation::Run),
    ];
    prop::collection::vec(operation, 1..120)
}

fn settings() -> impl Strategy<Value = QueueSettings> {
    let choice =
        prop_oneof![Just(MemberChoice::MostRoom), Just(MemberChoice::Tlwl), Just(MemberChoice::IndexPacking)];
    let accrual = prop_oneof![
        3 => Just(Accrual::Smooth),
        1 => Just(Accrual::PerSecond),
        3 => (60.0..500.0_f64).prop_map(|most| Accrual::Answers { most }),
    ];
    let overflow = prop_oneof![Just(Overflow::Drop), Just(Overflow::Refuse { least: 1, most: 5 })];
    let threshold = prop::option::of((1..300_u64).prop_map(Duration::from_millis));
    (choice, accrual, overflow, 1..10_usize, threshold).prop_map(
        |(choice, accrual, overflow, least, threshold)| QueueSettings {
            choice,
            threshold,
            accrual,
            overflow,
            length: LengthSettings { delay: Duration::from_millis(200), least, most: 12 },
            ..QueueSettings::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_call_leaves_once_in_time_and_in_turn(settings in settings(), operations in operations()) {
        let mut checker = Checker::new(settings, Fault::None);
        for operation in &operations {
            checker.step(operation);
        }
        checker.finish();
    }
}

/// A run with all kinds of operations.
fn run(fault: Fault) {
    let settings = QueueSettings {
        choice: MemberChoice::MostRoom,
        threshold: Some(Duration::from_millis(200)),
        ..QueueSettings::default()
    };
    let mut checker = Checker::new(settings, fault);
    checker.step(&Operation::Announce(1, 20.0));
    for round in 0..6 {
        for key in 0..9 {
            checker.step(&Operation::Offer(round * 10 + key));
        }
        checker.step(&Operation::Remove(round * 10 + 8));
        checker.step(&Operation::Announce(1, 20.0));
        checker.step(&Operation::Load(1, 20.0));
        checker.step(&Operation::Announce(2, 30.0));
        checker.step(&Operation::Pass(100));
        for key in 0..12 {
            // Each member gets one in 50 ms, so none is quiet.
            checker.step(&Operation::Offer(100 + round * 24 + key));
            checker.step(&Operation::Offer(112 + round * 24 + key));
            checker.step(&Operation::Run(50));
            // The last call of each member.
            checker.step(&Operation::Answer(1, usize::MAX));
            checker.step(&Operation::Answer(2, usize::MAX));
        }
        checker.step(&Operation::Pass(50));
    }
    checker.finish();
    assert!(checker.delivered > 20, "{}", checker.delivered);
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
    a_lost_call_is_noticed: Lose, "a call was lost or added";
    a_doubled_call_is_noticed: Double, "and only once";
    another_order_is_noticed: Reverse, "first in, first out";
    more_than_the_credit_is_noticed: HalfCapacity, "more than its credit";
    a_late_call_is_noticed: HalfBound, "past its bound";
    a_delivered_call_that_was_removed_is_noticed: NoRemoval, "a call was lost or added";
    a_queue_without_deliveries_is_noticed: Idle, "a call was lost or added";
    more_unanswered_calls_than_the_bound_are_noticed: FalseAnswer, "more unanswered calls than its bound";
}
