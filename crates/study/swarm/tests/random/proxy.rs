//! On the stateful proxy.
use crate::data;
use node::ShardCounters;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use swarm::Sent;
use swarm::fuzz::{proxy, run_proxy};

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn every_invariant_holds_after_every_operation(data in prop::collection::vec(any::<u8>(), 0..3_000)) {
        proxy(&data);
    }
}

/// What random operations have found, made small: a fault of the proxy, or a rule of the watch that was wrong.
#[test]
fn what_was_found_is_mended() {
    let found: [(&str, &[u8]); 5] = [
        // The proxy was right: a stateless one passes back whatever has its branch (RFC 3261 §16.11).
        ("CANCEL", include_bytes!("found/response-to-a-cancel-of-another-method")),
        ("ACK", include_bytes!("found/response-to-an-ack-of-another-method")),
        // The proxy was right: the CANCEL was answered before, for a request of another method, and its transaction
        // answers the copy that comes after the INVITE.
        ("alternate", include_bytes!("found/cancel-repeated-after-its-invite")),
        // The proxy sent a response where whoever answered said.
        ("another Via", include_bytes!("found/response-with-another-via")),
        // The proxy answered in place of the next hop, without its header fields.
        ("nowhere", include_bytes!("found/response-to-a-via-that-leads-nowhere")),
    ];
    for (name, data) in found {
        assert!(catch_unwind(|| proxy(data)).is_ok(), "{name}");
    }
}

#[test]
fn the_operations_reach_what_they_should() {
    let (mut all, mut sent) = (ShardCounters::default(), Vec::new());
    for seed in 0..150 {
        all.merge(&run_proxy(&data(seed), |out| sent.extend(out.iter().cloned())));
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

fn has_status(sent: &Sent, status: u16) -> bool {
    sent.bytes.starts_with(format!("SIP/2.0 {status}").as_bytes())
}

fn is_request(sent: &Sent) -> bool {
    !sent.bytes.starts_with(b"SIP/2.0 ")
}

/// Of the proxy's own: CANCEL, and ACK to a refusal.
fn is_own(sent: &Sent, method: &[u8]) -> bool {
    sent.bytes.starts_with(method) && wire::scan(&sent.bytes).is_ok_and(|message| !message.has_lower_vias())
}

/// Another last character of the topmost branch.
fn rebranch(sent: &mut Sent) {
    let message = wire::scan(&sent.bytes).expect("the proxy sends SIP");
    let branch = message.top_via().branch.expect("with a branch");
    let end = branch.as_ptr() as usize + branch.len() - sent.bytes.as_ptr() as usize;
    sent.bytes[end - 1] = if sent.bytes[end - 1] == b'a' { b'b' } else { b'a' };
}

type Fault = fn(&mut Vec<Sent>);

/// A proxy that did one of these would be broken; the watch must not let it pass.
#[test]
fn the_watch_sees_a_broken_proxy() {
    let faults: [(&str, Fault); 9] = [
        ("a request to a stranger", |sent| {
            for one in sent.iter_mut().filter(|one| is_request(one)) {
                one.to = "203.0.113.9:5060".parse().unwrap();
            }
        }),
        ("a response to another port", |sent| {
            for one in sent.iter_mut().filter(|one| !is_request(one)) {
                one.to.set_port(one.to.port() ^ 1);
            }
        }),
        ("a CANCEL under a branch of its own", |sent| {
            sent.iter_mut().filter(|one| is_own(one, b"CANCEL ")).for_each(rebranch);
        }),
        ("an ACK under a branch of its own", |sent| {
            sent.iter_mut().filter(|one| is_own(one, b"ACK ")).for_each(rebranch);
        }),
        ("a CANCEL to another hop", |sent| {
            for one in sent.iter_mut().filter(|one| is_own(one, b"CANCEL ")) {
                one.to.set_port(one.to.port() ^ 1);
            }
        }),
        ("503 in place of 500", |sent| {
            for one in sent.iter_mut().filter(|one| has_status(one, 500)) {
                one.bytes[8..11].copy_from_slice(b"503");
            }
        }),
        ("another final answer after the first", |sent| {
            let refused = sent.iter().find(|one| has_status(one, 487)).cloned();
            sent.extend(refused.map(|mut one| {
                one.bytes[8..11].copy_from_slice(b"486");
                one
            }));
        }),
        ("a provisional answer after the final one", |sent| {
            let ringing = sent.iter().find(|one| has_status(one, 408)).cloned();
            sent.extend(ringing.map(|mut one| {
                one.bytes[8..11].copy_from_slice(b"180");
                one
            }));
        }),
        ("a line lost", |sent| {
            for one in sent {
                let line = one.bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
                let next = line + one.bytes[line..].iter().position(|&b| b == b'\n').unwrap() + 1;
                one.bytes.drain(line..next);
            }
        }),
    ];
    for (what, fault) in faults {
        let seen = (0..60).any(|seed| catch_unwind(|| run_proxy(&data(seed), fault)).is_err());
        assert!(seen, "not seen: {what}");
    }
}

#[test]
fn the_watch_sees_a_retransmission_that_differs() {
    let seen = (0..20).any(|seed| {
        let mut sent_before = BTreeSet::new();
        let rebranched = |sent: &mut Vec<Sent>| {
            for one in sent.iter_mut().filter(|one| one.bytes.starts_with(b"INVITE ")) {
                if !sent_before.insert(one.bytes.clone()) {
                    rebranch(one);
                }
            }
        };
        catch_unwind(AssertUnwindSafe(|| run_proxy(&data(seed), rebranched))).is_err()
    });
    assert!(seen);
}

/// The hand-written inputs of the fuzz target do what their names say.
#[test]
fn the_seeds_of_the_fuzz_target_reach_their_subjects() {
    let seed = |name: &str| {
        let path = format!("{}/../../../fuzz/seeds/proxy/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).expect("the seed is there")
    };
    let sent = |name: &str| {
        let mut all = Vec::new();
        run_proxy(&seed(name), |sent| all.extend(sent.iter().cloned()));
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
