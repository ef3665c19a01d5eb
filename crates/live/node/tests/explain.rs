//! `explain` agrees with traffic, and changes nothing.

use crate::common::*;
use balance::{NodeDecision, Why};
use node::{Explanation, QueueTurn};

fn proxy(mode: Service) -> ProxyBed {
    ProxyBed::two_hops().with_mode(mode)
}

fn to(slot: u16, why: Why) -> NodeDecision {
    NodeDecision::Forward { slot: Slot(slot), why }
}

fn explained(bed: &mut ProxyBed, request: &Req) -> Explanation {
    bed.explain(client(), &request.bytes()).expect("the request is forwarded")
}

#[test]
fn a_route_that_names_a_next_hop_decides() {
    for mode in [STATELESS, Service::HOPS] {
        for (slot, hop) in (0..).zip(HOPS) {
            let mut bed = proxy(mode);
            let invite = Req::new("INVITE", "call", client()).with("Route", &format!("<sip:{hop};lr>"));
            assert_eq!(explained(&mut bed, &invite).decision, to(slot, Why::Token), "{mode:?}");
            assert_eq!(bed.invite(&invite).to, addr(hop));
            let stranger = Req::new("INVITE", "other", client()).with("Route", "<sip:127.0.6.6;lr>");
            let refusal = bed.explain(client(), &stranger.bytes()).unwrap_err();
            assert_eq!(refusal, "refused: 403 Forbidden");
            assert_eq!(bed.receive(0, client(), &stranger.bytes())[0].status(), 403);
        }
    }
}

/// The pool gets another next hop, to which the hash sends the call. Copies, CANCEL and ACK still follow the INVITE.
#[test]
fn copies_of_a_stateless_request_follow_the_first() {
    for call in 0..8 {
        let mut bed = proxy(STATELESS);
        bed.set_pools([pool_of(STATELESS, [0])]);
        let invite = Req::new("INVITE", &format!("call-{call}"), client());
        let at_hop = bed.invite(&invite);
        assert_eq!(at_hop.to, addr(HOPS[0]));
        bed.set_pools([pool_of(STATELESS, [1])]);
        for request in [invite.clone(), invite.same_branch("CANCEL", None)] {
            assert_eq!(explained(&mut bed, &request).decision, to(0, Why::Session), "{}", request.method);
            assert_eq!(bed.one(client(), &request.bytes()).to, at_hop.to);
        }
        // The pool has become one of members.
        bed.set_pools([pool_of(Service::Balance, [1])]);
        assert_eq!(explained(&mut bed, &invite).decision, to(0, Why::Session));
        assert_eq!(bed.one(client(), &invite.bytes()).to, at_hop.to);
    }
}

#[test]
fn options_about_the_proxy_are_answered_here() {
    let mut bed = proxy(Service::HOPS);
    let options = Req { uri: format!("sip:{PROXY}"), ..Req::new("OPTIONS", "o", client()) };
    let refusal = bed.explain(client(), &options.bytes()).unwrap_err();
    assert_eq!(refusal, "answered here: it is an OPTIONS about this proxy");
    assert_eq!(bed.one(client(), &options.bytes()).status(), 200);
}

#[test]
fn a_bye_is_accepted_while_the_process_stops() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "call", client(), 0);
    stop(&mut bed);
    bed.set(|setup| setup.settings.forwards_orphans = true);
    // Of an unknown call.
    let bye = Req { routes: Vec::new(), call_id: "unknown".to_owned(), ..call.by_caller("BYE", 2) };
    let explained = bed.explain(client(), &bye.bytes()).expect("the BYE is forwarded");
    let sent = bed.one(0, client(), &bye.bytes());
    assert!(bed.is_node(sent.to), "{sent:?}");
    assert!(matches!(explained.decision, NodeDecision::Forward { .. }), "{explained:?}");
    let invite = Req::new("INVITE", "new", client()).bytes();
    assert!(bed.explain(client(), &invite).unwrap_err().starts_with("refused: 503"));
    assert_eq!(bed.one(0, client(), &invite).status(), 503);
}

/// Independent of the present rules.
#[test]
fn a_request_of_a_dialog_goes_to_its_remote_target() {
    for mode in [Service::HOPS, STATELESS] {
        let mut bed = proxy(mode);
        let call = bed.call("call");
        set_rules(&mut bed, [Rule { target: Target::Silence, ..Rule::default() }]);
        let to_callee = explained(&mut bed, &call.by_caller("INFO", 2));
        let hop = bed.shard.topology().nodes().iter().position(|node| node.peer == call.callee.at);
        assert_eq!(to_callee.decision, to(hop.expect("a hop") as u16, Why::Token), "{mode:?}");
        let bye = call.by_callee("BYE", 1).bytes();
        let to_caller = bed.explain(call.callee.at, &bye).expect("the BYE goes to the caller");
        assert_eq!(to_caller.outside.map(|way| way.peer), Some(call.caller.at), "{mode:?}");
        assert_eq!(bed.one(call.callee.at, &bye).to, call.caller.at);
        let elsewhere = Req { uri: "sip:127.0.6.6".to_owned(), ..call.by_caller("INFO", 3) };
        let refusal = bed.explain(client(), &elsewhere.bytes()).unwrap_err();
        assert_eq!(refusal, "refused: 403 Target Is Not Of This Dialog");
    }
}

/// Calls wait while members get room. A question before the timer fires makes no difference.
#[test]
fn explain_does_not_change_waiting_calls() {
    let invite = |number: usize| Req::new("INVITE", &format!("call{number}"), client()).bytes();
    let run = |asks: bool| {
        let mut bed = Bed::new(Site::plain());
        bed.set_queues([Some(queue(10.0))]);
        let mut sent: Vec<_> = (0..8).flat_map(|number| bed.receive(0, client(), &invite(number))).collect();
        let mut states = Vec::new();
        for _ in 0..5 {
            bed.now += Duration::from_millis(110);
            if asks {
                bed.explain(client(), &invite(99)).expect("a new call");
            }
            states.push((bed.shard.queue_reports(), bed.shard.deadline()));
            sent.extend(bed.input(ShardInput::Timer));
        }
        (sent, states)
    };
    let (asked, unasked) = (run(true), run(false));
    assert_eq!(asked.1, unasked.1);
    assert_eq!(asked.0, unasked.0);
}

/// The queue of the first pool is full, and the rule sends the call to the next one.
#[test]
fn a_full_queue_is_passed_over() {
    let nodes = vec![("127.0.1.1:5060", 0), ("127.0.1.2:5060", 0)];
    let mut bed = Bed::new(Site { nodes, ..Site::plain() });
    bed.set_pools([[0], [1]].map(|slots| pool_of(Service::Balance, slots)));
    let mut narrow = queue(10.0);
    (narrow.settings.length.least, narrow.settings.length.most) = (1, 1);
    bed.set_queues([Some(narrow), None]);
    set_rules(&mut bed, [both(Failover::default())]);
    let invite = |number: usize| Req::new("INVITE", &format!("call{number}"), client()).bytes();
    let expected = [
        (Some(QueueTurn::Member(Slot(0))), Some(0)),
        (Some(QueueTurn::Waits), None),
        (None, Some(1)),
        (None, Some(1)),
    ];
    for (number, (queue, node)) in expected.into_iter().enumerate() {
        let explained = bed.explain(client(), &invite(number)).expect("a new call");
        assert_eq!(explained.queue, queue, "{number}");
        let sent = bed.receive(0, client(), &invite(number));
        assert_eq!(sent.first().map(|sent| bed.slot(sent.to)), node, "{number}");
        assert_eq!(explained.passed_over.len(), usize::from(node == Some(1)), "{number}");
    }
    let known = bed.explain(client(), &invite(0)).expect("the copy of a known call");
    assert_eq!((known.queue, known.known), (None, true));
}
