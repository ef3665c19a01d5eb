//! Nodes at their limit of calls.

use crate::common::*;
use balance::policy::Tlwl;
use balance::*;
use base::Instant;
use std::sync::Arc;
use wire::Method;

/// A node with a limit of one call, and with that call.
fn full(policy: Box<dyn Policy>) -> Balancer {
    let mut cluster = cluster(&[1.0]);
    cluster.set_members(Instant::ZERO, &limited_members(&[1.0], 1));
    let mut balancer = Balancer::new(SessionSettings::default(), policy);
    balancer.set_nodes(cluster.nodes());
    slot_of(balancer.request(Instant::ZERO, &request(0, Method::Invite, 1)));
    balancer
}

/// A registrar at its limit of calls still takes registrations, messages and other requests that start no call.
#[test]
fn a_node_full_of_calls_takes_other_requests() {
    for policy in policies() {
        let mut balancer = full(policy);
        let others =
            Method::ALL.iter().filter(|m| !matches!(m, Method::Invite | Method::Ack | Method::Cancel));
        for (call, &method) in (10..).zip(others) {
            let request = request(call, method, 1);
            let (explained, verdicts) = balancer.explain(Instant::ZERO, &request);
            let decision = balancer.request(Instant::ZERO, &request);
            let wanted = NodeDecision::Forward { slot: Slot(0), why: Why::Policy };
            assert_eq!((decision, explained, verdicts[0].refusal), (wanted, wanted, None), "{method:?}");
        }
        let call = request(1, Method::Invite, 1);
        let (explained, verdicts) = balancer.explain(Instant::ZERO, &call);
        assert_eq!((explained, verdicts[0].refusal), (NodeDecision::NoServer, Some(NodeRefusal::Full)));
        assert_eq!(balancer.request(Instant::ZERO, &call), NodeDecision::NoServer);
    }
}

/// An earlier, ended request to the node gives a call no place there.
#[test]
fn a_new_call_of_an_old_session_is_limited_too() {
    let mut balancer = full(Box::new(Tlwl::new(0)));
    balancer.request(Instant::ZERO, &request(1, Method::Options, 1));
    balancer.response(Instant::ZERO, &response(1, Method::Options, 1, 200));
    assert_eq!(balancer.request(Instant::ZERO, &request(1, Method::Invite, 2)), NodeDecision::NoServer);
    let more = balancer.request(Instant::ZERO, &request(1, Method::Options, 3));
    assert_eq!(more, NodeDecision::Forward { slot: Slot(0), why: Why::Session });
}

/// Count that a monitor beside a node gets from this process: INVITEs of new calls, over all shards, and nothing else.
#[test]
fn new_calls_are_counted_over_all_shards() {
    let sent_calls = Arc::<SentCalls>::default();
    let mut shards = [0, 1].map(|_| balancer(Box::new(Tlwl::new(0)), &[1.0; 2]));
    for shard in &mut shards {
        shard.set_sent_calls(Arc::clone(&sent_calls));
        for request in [
            request(1, Method::Invite, 1),
            request(2, Method::Options, 1),
            request(1, Method::Cancel, 1),
            request(1, Method::Ack, 1),
            in_dialog(1, Method::Invite, 2),
            in_dialog(1, Method::Bye, 3),
        ] {
            shard.count_request(Instant::ZERO, Slot(1), &request);
        }
    }
    assert_eq!([0, 1].map(|slot| sent_calls.of(Slot(slot))), [0, 2]);
}
