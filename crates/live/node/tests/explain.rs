//! `explain` says what traffic does, and changes nothing.
mod common;

use balance::{Decision, Slot, Why};
use base::Rate;
use common::proxy::{HOPS, PROXY, ProxyBed, STATELESS, client};
use common::text::{Req, answer};
use common::*;
use elastic::estimate::Settings;
use elastic::queue::QueueSettings;
use node::{CapacitySource, Explanation, QueueSetup, QueueTurn};
use route::{Conditions, Pools, RateSettings, Refusal, Rule, Service, SourceLimit, Target};
use std::sync::Arc;
use std::time::Duration;

fn proxy(mode: Service) -> ProxyBed {
    ProxyBed::new(&[PROXY], &HOPS.map(|hop| (hop, 0))).with_mode(mode)
}

fn to(slot: u16, why: Why) -> Decision {
    Decision::Forward { slot: Slot(slot), why }
}

fn explained(bed: &mut ProxyBed, request: &Req) -> Explanation {
    bed.explain(client(), &request.bytes()).expect("it goes somewhere")
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
            let told = bed.explain(client(), &stranger.bytes()).unwrap_err();
            assert_eq!(told, "refused: 403 Forbidden");
            assert_eq!(bed.receive(0, client(), &stranger.bytes())[0].status(), 403);
        }
    }
}

/// The pool gets another next hop, to which the hash sends the call: copies, CANCEL and ACK stay where the INVITE
/// went.
#[test]
fn what_belongs_to_a_request_without_a_transaction_follows_its_first_copy() {
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
    let told = bed.explain(client(), &options.bytes()).unwrap_err();
    assert_eq!(told, "answered here: it is an OPTIONS about this proxy");
    assert_eq!(bed.one(client(), &options.bytes()).status(), 200);
}

#[test]
fn a_bye_is_taken_while_the_process_stops() {
    let mut bed = Bed::new(Site::plain());
    let call = dialog::Dialog::inbound(&mut bed, "call", client(), 0);
    let stopping = Some(bed.now + Duration::from_secs(20));
    bed.set(|setup| {
        setup.stopping = stopping;
        setup.settings.orphans = node::Orphans::Balance;
    });
    // Of a call that nobody here knows.
    let bye = Req { routes: Vec::new(), call_id: "unknown".to_owned(), ..call.by_caller("BYE", 2) };
    let explained = bed.explain(client(), &bye.bytes()).expect("it goes on");
    let sent = bed.one(0, client(), &bye.bytes());
    assert!(bed.is_node(sent.to), "{sent:?}");
    assert!(matches!(explained.decision, Decision::Forward { .. }), "{explained:?}");
    let invite = Req::new("INVITE", "new", client()).bytes();
    assert!(bed.explain(client(), &invite).unwrap_err().starts_with("refused: 503"));
    assert_eq!(bed.one(0, client(), &invite).status(), 503);
}

/// Whatever the rules say now.
#[test]
fn a_request_of_a_dialog_goes_where_the_other_party_has_named() {
    for mode in [Service::HOPS, STATELESS] {
        let mut bed = proxy(mode);
        let call = bed.call("call");
        let rule = Rule { name: "all".to_owned(), target: Target::Silence, ..Rule::default() };
        bed.set(|setup| setup.settings.routes = testbed::routes(vec![rule], setup));
        let to_callee = explained(&mut bed, &call.by_caller("INFO", 2));
        let hop = bed.shard.topology().nodes().iter().position(|node| node.peer == call.callee.at);
        assert_eq!(to_callee.decision, to(hop.expect("a hop") as u16, Why::Token), "{mode:?}");
        let bye = call.by_callee("BYE", 1).bytes();
        let to_caller = bed.explain(call.callee.at, &bye).expect("it goes to the caller");
        assert_eq!(to_caller.outside.map(|way| way.peer), Some(call.caller.at), "{mode:?}");
        assert_eq!(bed.one(call.callee.at, &bye).to, call.caller.at);
        let elsewhere = Req { uri: "sip:127.0.6.6".to_owned(), ..call.by_caller("INFO", 3) };
        let told = bed.explain(client(), &elsewhere.bytes()).unwrap_err();
        assert_eq!(told, "refused: 403 Target Is Not Of This Dialog");
    }
}

fn queue() -> QueueSetup {
    let capacity = Settings { maximum: 10.0, ..Settings::default() };
    QueueSetup { settings: QueueSettings::default(), source: CapacitySource::Fixed, capacity }
}

/// Calls wait, and members have room for them by now: whether somebody asks before the timer makes no difference.
#[test]
fn calls_wait_on_as_if_nobody_had_asked() {
    let invite = |number: usize| Req::new("INVITE", &format!("call{number}"), client()).bytes();
    let run = |asks: bool| {
        let mut bed = Bed::new(Site::plain());
        bed.set_queues([Some(queue())]);
        let mut sent: Vec<_> = (0..8).flat_map(|number| bed.receive(0, client(), &invite(number))).collect();
        let mut states = Vec::new();
        for _ in 0..5 {
            bed.now += Duration::from_millis(110);
            if asks {
                bed.explain(client(), &invite(99)).expect("a new call");
            }
            states.push((bed.shard.queue_reports(), bed.shard.deadline()));
            sent.extend(bed.input(node::ShardInput::Timer));
        }
        (sent, states)
    };
    let (asked, unasked) = (run(true), run(false));
    assert_eq!(asked.1, unasked.1);
    assert_eq!(asked.0, unasked.0);
}

/// The queue of the first pool is full, and the rule has the call go on to the next one.
#[test]
fn a_full_queue_is_passed_over() {
    let nodes = vec![("127.0.1.1:5060", 0), ("127.0.1.2:5060", 0)];
    let mut bed = Bed::new(Site { nodes, ..Site::plain() });
    bed.set_pools([[0], [1]].map(|slots| pool_of(Service::Balance, slots)));
    let mut narrow = queue();
    (narrow.settings.length.least, narrow.settings.length.most) = (1, 1);
    bed.set_queues([Some(narrow), None]);
    let choice = |pool| route::Choice { pool, priority: pool, weight: 1.0 };
    let pools = Pools { choices: vec![choice(0), choice(1)], ..Pools::default() };
    let rule = Rule { name: "both".to_owned(), target: Target::Pools(pools), ..Rule::default() };
    bed.set(|setup| setup.settings.routes = testbed::routes(vec![rule], setup));
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
}

/// Who is over the limit of its source is told so of new calls, and of none that is under way.
#[test]
fn asking_uses_up_nothing_and_begins_nothing() {
    let mut bed = ProxyBed::plain();
    let rate = Rate { per_second: 1, burst: 1 };
    let address = Some(SourceLimit { v4: 32, v6: 64, rate });
    let rates = RateSettings { address, refusal: Refusal::Unavailable, ..RateSettings::default() };
    bed.set(|setup| setup.settings.rates = rates);
    let conditions = Conditions::default();
    let rule =
        Rule { name: "all".to_owned(), conditions, target: Target::Pools(Pools::one(0)), ..Rule::default() };
    let routes = testbed::routes(vec![rule], &bed.setup);
    bed.set(|setup| setup.settings.routes = Arc::clone(&routes));
    let (first, second) = (Req::new("INVITE", "1", client()), Req::new("INVITE", "2", client()));
    for _ in 0..3 {
        explained(&mut bed, &first);
    }
    let at_hop = bed.invite(&first);
    assert!(bed.explain(client(), &second.bytes()).is_err());
    bed.receive(0, at_hop.to, &answer(&at_hop.bytes, addr(PROXY), 180, at_hop.to));
    explained(&mut bed, &first);
}
