//! Random operations on a stateful proxy.
use super::{data, to_a_stranger};
use node::ShardCounters;
use proptest::prelude::*;
use std::panic::catch_unwind;
use swarm::Sent;
use swarm::fuzz::proxy;

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn every_invariant_holds_after_every_operation(data in prop::collection::vec(any::<u8>(), 0..3_000)) {
        proxy(&data, |_| {});
    }
}

#[test]
fn the_operations_reach_all_responses_and_drops() {
    let (mut all, mut sent) = (ShardCounters::default(), Vec::new());
    for seed in 0..150 {
        all.merge(&proxy(&data(seed), |out| sent.extend(out.iter().cloned())));
    }
    assert!(all.requests_forwarded > 1_000 && all.responses_forwarded > 500, "{all:?}");
    assert!(all.tokens_refused > 10, "{all:?}");
    for status in [200, 400, 403, 408, 416, 420, 440, 482, 483, 500, 503] {
        assert!(all.replies.keys().any(|reply| reply.0 == status), "{status}: {all:?}");
    }
    assert!(all.replies[&(403, "Target Is Not Of This Dialog")] > 5, "{all:?}");
    for reason in ["refused_ack", "foreign_response"] {
        assert!(all.drops.contains_key(reason), "{reason}: {all:?}");
    }
    let own = |method: &[u8]| {
        let is_own = |one: &&Sent| {
            one.bytes.starts_with(method) && wire::scan(&one.bytes).is_ok_and(|own| !own.has_lower_vias())
        };
        sent.iter().filter(is_own).count()
    };
    assert!(own(b"CANCEL ") > 30 && own(b"ACK ") > 30, "{} and {}", own(b"CANCEL "), own(b"ACK "));
}

#[test]
fn a_broken_proxy_is_noticed() {
    assert!(catch_unwind(|| proxy(&data(1), |sent| to_a_stranger(sent))).is_err(), "a request to a stranger");
}

/// The hand-written inputs of the fuzz target do what their names say.
#[test]
fn the_seeds_of_the_fuzz_target_have_their_named_effects() {
    let seed = |name: &str| {
        let path = format!("{}/../../../fuzz/seeds/proxy/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).expect("the seed is there")
    };
    let sent = |name: &str| {
        let mut all = Vec::new();
        proxy(&seed(name), |sent| all.extend(sent.iter().cloned()));
        all.iter().map(|one| String::from_utf8_lossy(&one.bytes[..11]).into_owned()).collect::<Vec<_>>()
    };
    let count = |name: &str, start: &str| sent(name).iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((count("call", "INVITE"), count("call", "ACK"), count("call", "BYE")), (1, 1, 1));
    assert_eq!((count("call", "SIP/2.0 180"), count("call", "SIP/2.0 200")), (1, 2));
    assert_eq!((count("cancel", "CANCEL"), count("cancel", "SIP/2.0 487")), (1, 1));
    assert_eq!(count("alternates", "INVITE"), 3);
    assert_eq!(count("unreachable", "INVITE"), 3);
    for (name, status) in [("alternates", "500"), ("unreachable", "500"), ("silence", "408")] {
        assert!(count(name, &format!("SIP/2.0 {status}")) > 0, "{name}");
    }
    assert_eq!((count("restart", "INVITE"), count("restart", "SIP/2.0 200")), (2, 1));
    assert!(count("reload", "SIP/2.0 503") > 0, "{:?}", sent("reload"));
    assert!(count("full", "SIP/2.0 503") > 0, "{:?}", sent("full"));
}
