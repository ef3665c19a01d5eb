//! On the balancer.
use crate::data;
use node::ShardCounters;
use proptest::prelude::*;
use std::panic::catch_unwind;
use swarm::Sent;
use swarm::fuzz::{element, run};

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn every_invariant_holds_after_every_operation(data in prop::collection::vec(any::<u8>(), 0..3_000)) {
        element(&data);
    }
}

#[test]
fn the_operations_reach_what_they_should() {
    let mut all = ShardCounters::default();
    for seed in 0..100 {
        all.merge(&run(&data(seed), |_| {}));
    }
    assert!(all.requests_forwarded > 1_000 && all.responses_forwarded > 1_000, "{all:?}");
    assert!(all.decisions.iter().all(|&count| count > 10), "{all:?}");
    assert!(all.tokens_refused > 10, "{all:?}");
    for status in [400, 403, 416, 420, 440, 481, 482, 483, 502, 503] {
        assert!(all.replies.keys().any(|reply| reply.0 == status), "{status}: {all:?}");
    }
    for reason in ["refused_ack", "foreign_response", "no_way_back", "search_miss", "orphan", "bad_response"]
    {
        assert!(all.drops.contains_key(reason), "{reason}: {all:?}");
    }
}

fn is_response(sent: &Sent) -> bool {
    sent.bytes.starts_with(b"SIP/2.0 ")
}

type Fault = fn(&mut Sent);

/// An element that did one of these would be a danger; the watch must not let it pass.
#[test]
fn the_watch_sees_a_broken_element() {
    let faults: [(&str, Fault); 5] = [
        ("a request to a stranger", |sent| {
            if !is_response(sent) {
                sent.to = "203.0.113.9:5060".parse().unwrap();
            }
        }),
        ("a response to another port", |sent| {
            if is_response(sent) {
                sent.to.set_port(sent.to.port() ^ 1);
            }
        }),
        ("by a socket of the other family", |sent| sent.listener = u16::from(sent.to.is_ipv4())),
        ("no SIP", |sent| sent.bytes.clear()),
        ("a line lost", |sent| {
            let line = sent.bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
            let next = line + sent.bytes[line..].iter().position(|&b| b == b'\n').unwrap() + 1;
            sent.bytes.drain(line..next);
        }),
    ];
    for (what, fault) in faults {
        let seen = catch_unwind(|| run(&data(1), |sent| sent.iter_mut().for_each(fault)));
        assert!(seen.is_err(), "not seen: {what}");
    }
    let doubled =
        catch_unwind(|| run(&data(1), |sent| sent.extend(sent.clone().into_iter().filter(is_response))));
    assert!(doubled.is_err(), "not seen: a response sent twice");
    let forgetful = catch_unwind(|| {
        let mut turn = 0;
        run(&data(1), |sent| {
            turn += 1;
            if turn % 2 == 0 {
                sent.clear();
            }
        })
    });
    assert!(forgetful.is_err(), "not seen: a repetition that fares differently");
}
