//! Random operations on a balancer.
use super::{data, to_a_stranger};
use node::ShardCounters;
use proptest::prelude::*;
use std::panic::catch_unwind;
use swarm::fuzz::element;

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn every_invariant_holds_after_every_operation(data in prop::collection::vec(any::<u8>(), 0..3_000)) {
        element(&data, |_| {});
    }
}

#[test]
fn the_operations_reach_all_responses_and_drops() {
    let mut all = ShardCounters::default();
    for seed in 0..100 {
        all.merge(&element(&data(seed), |_| {}));
    }
    assert!(all.requests_forwarded > 1_000 && all.responses_forwarded > 1_000, "{all:?}");
    assert!(all.decisions.iter().all(|&count| count > 10), "{all:?}");
    assert!(all.tokens_refused > 10, "{all:?}");
    for status in [400, 403, 416, 420, 440, 481, 482, 483, 502, 503] {
        assert!(all.replies.keys().any(|reply| reply.0 == status), "{status}: {all:?}");
    }
    for reason in ["refused_ack", "foreign_response", "no_way_back", "search_miss", "bad_response"] {
        assert!(all.drops.contains_key(reason), "{reason}: {all:?}");
    }
}

#[test]
fn a_broken_balancer_is_noticed() {
    assert!(
        catch_unwind(|| element(&data(1), |sent| to_a_stranger(sent))).is_err(),
        "a request to a stranger"
    );
    let mut turn = 0;
    let forgets = catch_unwind(move || {
        element(&data(1), |sent| {
            turn += 1;
            if turn % 2 == 0 {
                sent.clear();
            }
        })
    });
    assert!(forgets.is_err(), "a repetition that fares differently");
}
