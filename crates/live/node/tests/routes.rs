//! Several pools and their routes: the rule of a request, its changes, and the next pools.

use crate::common::*;
use balance::NodeDecision;
use elastic::queue::LengthSettings;
use node::QueueTurn;
use route::{Access, Actions, Answer, FailoverCause};

/// Two nodes in each of two pools.
fn site() -> Site {
    let nodes = ["127.0.1.1:5060", "127.0.1.2:5060", "127.0.2.1:5060", "127.0.2.2:5060"];
    Site { nodes: nodes.map(|node| (node, 0)).into(), ..Site::plain() }
}

fn bed(rules: Vec<Rule>) -> Bed {
    let mut bed = Bed::new(site());
    bed.set_pools([[0, 1], [2, 3]].map(|slots| crate::common::pool_of(Service::Balance, slots)));
    set_rules(&mut bed, rules);
    bed
}

fn invite(call_id: &str, user: &str) -> Req {
    Req { uri: format!("sip:{user}@pool.example"), ..Req::new("INVITE", call_id, client()) }
}

/// Returns the pool of a new call to this user.
fn pool_of(bed: &mut Bed, call_id: &str, user: &str) -> usize {
    let sent = bed.one(0, client(), &invite(call_id, user).bytes());
    usize::from(bed.slot(sent.to)) / 2
}

#[test]
fn calls_go_to_the_pool_of_the_first_matching_rule() {
    let mut bed =
        bed(vec![to_pool(1, users("44")), to_pool(0, users("4")), to_pool(1, Conditions::default())]);
    for (call, (user, pool)) in
        [("4420", 1), ("4920", 0), ("bob", 1), ("4421", 1), ("41", 0)].iter().enumerate()
    {
        assert_eq!(pool_of(&mut bed, &format!("c{call}"), user), *pool, "{user}");
    }
}

#[test]
fn a_request_without_a_rule_gets_404() {
    let mut bed = bed(vec![to_pool(1, users("44"))]);
    assert_eq!(bed.one(0, client(), &invite("c", "bob").bytes()).status(), 404);
    let ack = invite("c", "bob").same_branch("ACK", None);
    assert!(bed.receive(0, client(), &ack.bytes()).is_empty());
    bed.assert_idle();
}

fn changing(pool: u16) -> Rule {
    let mut actions = Actions::default();
    actions.strip_prefix("9").expect("a valid action");
    actions.add_prefix("+44").expect("a valid action");
    actions.set_host("carrier.example:5070").expect("a valid action");
    actions.set_header("X-Account", "7").expect("a valid action");
    Rule { actions, ..to_pool(pool, users("9")) }
}

#[test]
fn a_rule_changes_each_request_of_a_transaction_alike() {
    let mut bed = bed(vec![changing(1)]);
    let invite = invite("c", "920").with("X-Account", "forged");
    let sent = bed.one(0, client(), &invite.bytes());
    let text = string(&sent.bytes);
    assert!(text.starts_with("INVITE sip:+4420@carrier.example:5070 SIP/2.0\r\n"), "{text}");
    assert!(text.contains("\r\nX-Account: 7\r\n") && !text.contains("forged"), "{text}");
    assert_eq!(bed.one(0, client(), &invite.bytes()), sent, "a retransmission");
    let cancel = bed.one(0, client(), &invite.same_branch("CANCEL", None).bytes());
    assert_eq!((cancel.to, cancel.branch()), (sent.to, sent.branch()));
    // RFC 3261 §9.1, §17.1.1.3: the same Request-URI.
    assert_eq!(cancel.message().uri(), sent.message().uri());
    let failure = answered(&mut bed, &sent, 487);
    assert_eq!(failure.to, client());
    let ack = bed.one(0, client(), &invite.same_branch("ACK", Some("bob")).bytes());
    assert_eq!((ack.to, ack.branch(), ack.message().uri()), (sent.to, sent.branch(), sent.message().uri()));
    bed.wait(Duration::from_secs(40));
    bed.assert_idle();
}

#[test]
fn within_a_dialog_no_rule_is_asked_for() {
    let mut bed = bed(vec![to_pool(1, Conditions::default())]);
    let call = Dialog::inbound(&mut bed, "c", client(), 0);
    set_rules(&mut bed, vec![to_pool(0, Conditions::default())]);
    call.caller_asks(&mut bed, "ACK", 1);
    call.caller_asks(&mut bed, "INFO", 2);
    call.callee_asks(&mut bed, "BYE", 3);
    bed.assert_idle();
}

#[test]
fn a_request_that_would_grow_too_long_is_refused() {
    let mut bed = bed(vec![changing(0)]);
    let longest = |bytes: usize| {
        let mut request = invite("c", "920");
        let padding = bytes - request.clone().with("Subject", "").bytes().len();
        request = request.with("Subject", &"x".repeat(padding));
        request.bytes()
    };
    // 65,507 less the maximum that forwarding adds.
    assert!(bed.one(0, client(), &longest(64_772)).message().status().is_none());
    assert_eq!(bed.one(0, client(), &longest(64_862)).status(), 513);
}

#[test]
fn rules_answer_and_drop() {
    let answers = |status, contacts: &[&str], prefix| Rule {
        name: "answers".to_owned(),
        conditions: users(prefix),
        target: Target::Answer(Answer::new(status, Some("As Told"), contacts).unwrap()),
        ..Rule::default()
    };
    let silent = Rule { conditions: users("3"), target: Target::Silence, ..Rule::default() };
    let mut bed = bed(vec![answers(302, &["sip:carol@127.0.9.9"], "1"), answers(603, &[], "2"), silent]);
    let sent = bed.one(0, client(), &invite("a", "100").bytes());
    let text = string(&sent.bytes);
    assert!(text.starts_with("SIP/2.0 302 As Told\r\n"), "{text}");
    assert!(text.contains("\r\nContact: <sip:carol@127.0.9.9>\r\n"), "{text}");
    assert_eq!(bed.one(0, client(), &invite("b", "200").bytes()).status(), 603);
    bed.dropped(0, client(), &invite("c", "300").bytes(), "silenced");
    assert_eq!(bed.shard.counters().replies.get(&(302, "By Rule")), Some(&1));
    let refused = bed.explain(client(), &invite("d", "200").bytes()).unwrap_err();
    assert_eq!(refused, "refused by the route answers: 603 As Told");
    bed.assert_idle();
}

/// The source of a request may be forged, so a response is longer than the request by at most 100 bytes, whatever a
/// rule says.
#[test]
fn a_redirection_that_is_too_long_for_its_request_loses_its_contacts() {
    let contact = format!("sip:{}@127.0.9.9", "1".repeat(200));
    let rule = Rule {
        name: "away".to_owned(),
        target: Target::Answer(Answer::new(302, None, &[&contact]).unwrap()),
        ..Rule::default()
    };
    let mut bed = bed(vec![rule]);
    let short = "INVITE sip:1@h SIP/2.0\r\nv: SIP/2.0/UDP h;branch=z9hG4bKa\r\nf: <sip:a@h>;tag=1\r\nt: <sip:b@h>\r\n\
                 i: c\r\nCSeq: 1 INVITE\r\nMax-Forwards: 70\r\n\r\n";
    let padded = short.replace("\r\n\r\n", &format!("\r\nX-Long: {}\r\n\r\n", "x".repeat(300)));
    for (request, has_contact) in [(short, false), (&padded, true)] {
        let sent = bed.one(0, client(), request.as_bytes());
        let text = string(&sent.bytes);
        assert!(text.starts_with("SIP/2.0 302 Moved Temporarily\r\n"), "{text}");
        assert_eq!(text.contains(&contact), has_contact, "{text}");
        assert!(sent.bytes.len() <= request.len() + 100, "{} to {}", sent.bytes.len(), request.len());
    }
    bed.assert_idle();
}

/// RFC 3261 §19.1.6: rules change a number in both schemes, and `explain` describes the change.
#[test]
fn a_number_is_rewritten_in_any_scheme() {
    let mut actions = Actions::default();
    actions.strip_prefix("+44").unwrap();
    actions.add_prefix("0").unwrap();
    let mut bed = bed(vec![Rule { actions, ..to_pool(0, users("+44")) }]);
    for (uri, becomes) in [
        ("sip:+4420@pool.example", "sip:020@pool.example"),
        ("tel:+44-20;ext=5", "sip:020;ext=5@127.0.0.1:5060;user=phone"),
    ] {
        let request = Req { uri: uri.to_owned(), ..Req::new("INVITE", uri, client()) };
        let explained = bed.explain(client(), &request.bytes()).expect("a new call");
        let route = explained.route.expect("a route");
        assert_eq!(route.uri.as_deref(), Some(becomes));
        let steps: Vec<_> =
            route.steps.iter().map(|step| (&step.action[..], step.before.as_deref())).collect();
        assert_eq!(steps[0], ("strip_prefix +44", Some(uri)));
        assert_eq!(route.steps[1].after.as_deref(), Some(becomes));
        let sent = string(&bed.one(0, client(), &request.bytes()).bytes);
        assert!(sent.starts_with(&format!("INVITE {becomes} SIP/2.0\r\n")), "{sent}");
    }
}

/// `explain` names the list, entry or limit that refuses a request.
#[test]
fn refusals_are_explained_with_their_cause() {
    let networks = |list: &[&str]| list.iter().map(|network| network.parse().unwrap()).collect::<Vec<_>>();
    let access =
        |allow, deny| Access::new(&networks(allow), &networks(deny), AccessRefusal::Forbidden).unwrap();
    let rules = vec![
        Rule { access: access(&["10.0.0.0/8"], &[]), ..to_pool(0, users("1")) },
        Rule { name: "away".to_owned(), conditions: users("2"), ..Rule::default() },
        Rule { name: "dead".to_owned(), conditions: users("3"), target: Target::Silence, ..Rule::default() },
        to_pool(1, users("4")),
    ];
    let mut bed = bed(rules.clone());
    let explain = |bed: &mut Bed, user: &str| bed.explain(client(), &invite(user, user).bytes()).map(|_| ());
    let explained_refusal = |bed: &mut Bed, user: &str| explain(bed, user).unwrap_err();
    assert_eq!(
        explained_refusal(&mut bed, "1"),
        "refused: 403 Forbidden: 127.0.9.1 is in no network of `allow` of the route to-0"
    );
    let members_only = "refused: 403 Forbidden: the route away sends requests where their Request-URI leads, \
                        and only members of pools may use it";
    assert_eq!(explained_refusal(&mut bed, "2"), members_only);
    assert_eq!(explained_refusal(&mut bed, "3"), "dropped without an answer: by the route dead");
    let each = ["to-0", "away", "dead", "to-1"].map(|name| format!("\n{name}: user: it is \"5\"")).concat();
    let unmatched = format!("refused: 404 No Route: no [[route]] matches it{each}");
    assert_eq!(explained_refusal(&mut bed, "5"), unmatched);
    let table = Table::new(rules, &[addr(PROXY)]);
    let access = vec![access(&[], &["127.0.9.0/24"])];
    bed.set(|setup| setup.settings.routes = Arc::new(Routes { table, access }));
    let by_listener =
        "refused: 403 Forbidden: 127.0.9.1 is in 127.0.9.0/24 of `deny` for the listener 127.0.0.1:5060";
    assert_eq!(explained_refusal(&mut bed, "4"), by_listener);
}

#[test]
fn a_limit_that_is_used_up_is_named() {
    let mut bed = bed(vec![to_pool(0, Conditions::default())]);
    bed.set(|setup| setup.settings.rates = RateSettings { refusal: AccessRefusal::Forbidden, ..rate(1, 1) });
    assert!(bed.explain(client(), &invite("a", "1").bytes()).is_ok());
    assert!(bed.explain(client(), &invite("a", "1").bytes()).is_ok(), "explain does not use up the limit");
    let ringing = bed.one(0, client(), &invite("a", "1").bytes());
    assert_eq!(bed.slot(ringing.to), 0);
    let refused = bed.explain(client(), &invite("b", "1").bytes()).unwrap_err();
    assert_eq!(
        refused,
        "refused: 403 Forbidden: `per_address` of [access.rate]: 127.0.9.1 has reached its limit of new requests"
    );
    assert!(bed.explain(client(), &invite("a", "1").bytes()).is_ok(), "a known call is not new");
}

#[test]
fn if_a_pool_takes_no_calls_the_next_one_does() {
    let mut bed = bed(vec![both(Failover::default())]);
    assert_eq!(pool_of(&mut bed, "a", "bob"), 0);
    bed.port_closed(0);
    bed.port_closed(1);
    assert_eq!(pool_of(&mut bed, "b", "bob"), 1);
    let explained = bed.explain(client(), &invite("c", "bob").bytes()).unwrap();
    let route = explained.route.expect("the request has a route");
    assert_eq!((route.index, &route.name[..], explained.pool), (0, "both", PoolId(1)));
    assert!(matches!(explained.decision, NodeDecision::Forward { slot: Slot(2 | 3), .. }));
    assert_eq!(explained.verdicts.len(), 2, "the members of that pool");
    let [over] = explained.passed_over.as_slice() else { panic!("one pool: {:?}", explained.passed_over) };
    assert_eq!((over.pool, over.outcome, over.verdicts.len()), (PoolId(0), FailoverCause::NoneAlive, 2));
    assert!(over.verdicts.iter().all(|verdict| verdict.refusal.is_some()), "{over:?}");
    // Only if no member is alive.
    set_rules(&mut bed, vec![both(Failover::on(&[FailoverCause::Full]))]);
    assert_eq!(bed.one(0, client(), &invite("d", "bob").bytes()).status(), 503);
    set_rules(&mut bed, vec![both(Failover::on(&[FailoverCause::NoneAlive]))]);
    assert_eq!(pool_of(&mut bed, "e", "bob"), 1);
}

/// Each pool counts the calls that it had no member for, even if another pool takes them. Calls refused for other
/// reasons do not count.
#[test]
fn each_pool_counts_calls_without_a_member() {
    let mut bed = bed(vec![both(Failover::default())]);
    let counted = |bed: &Bed| {
        let counted = bed.shard.counters().without_takers;
        [0, 1].map(|pool| counted.get(&PoolId(pool)).copied().unwrap_or_default())
    };
    assert_eq!(pool_of(&mut bed, "a", "bob"), 0);
    assert_eq!(counted(&bed), [0, 0]);
    (0..2).for_each(|slot| bed.port_closed(slot));
    assert_eq!(pool_of(&mut bed, "b", "bob"), 1);
    assert_eq!(counted(&bed), [1, 0], "the second pool had a member");
    (2..4).for_each(|slot| bed.port_closed(slot));
    assert_eq!(bed.one(0, client(), &invite("c", "bob").bytes()).status(), 503);
    assert_eq!(counted(&bed), [2, 1]);
    set_rules(&mut bed, vec![to_pool(0, users("1"))]);
    let refused = bed.one(0, client(), &invite("d", "bob").bytes()).status();
    assert!((400..600).contains(&refused), "no route: {refused}");
    assert_eq!(counted(&bed), [2, 1]);
}

/// Silent members may be alive, but members known to be alive get the calls, except for occasional trials.
#[test]
fn if_a_pool_is_silent_the_next_one_takes_calls() {
    let mut bed = bed(vec![both(Failover::default())]);
    (0..2).for_each(|slot| drop(bed.probed(slot, false)));
    let calls: Vec<_> = (0..20).map(|n| pool_of(&mut bed, &format!("call{n}"), "1")).collect();
    let away = calls.iter().filter(|pool| **pool == 1).count();
    assert!(away >= 18, "{calls:?}");
    (2..4).for_each(|slot| drop(bed.probed(slot, false)));
    let calls: Vec<_> = (20..40).map(|n| pool_of(&mut bed, &format!("call{n}"), "1")).collect();
    assert!(calls.contains(&0), "no member is known to be alive, so the first pool may get calls: {calls:?}");
}

/// A pool of silent members gets a call as a trial of a member that may not support probes. A member that answers
/// probes is no subject of the trial.
#[test]
fn a_trial_in_a_silent_pool_goes_to_the_due_member() {
    let mut bed = bed(vec![both(Failover::default())]);
    bed.probed(0, true);
    (0..2).for_each(|slot| drop(bed.probed(slot, false)));
    let slots: Vec<_> = (0..20)
        .map(|call| {
            let sent = bed.one(0, client(), &invite(&format!("call{call}"), "1").bytes());
            bed.slot(sent.to)
        })
        .collect();
    assert!(slots.contains(&1) && !slots.contains(&0), "{slots:?}");
}

#[test]
fn if_a_pool_is_full_the_next_one_takes_calls() {
    let mut bed = bed(vec![both(Failover::on(&[FailoverCause::Full]))]);
    bed.limit_members(&[0, 1, 2, 3], 1);
    let pools: Vec<_> = (0..4).map(|call| pool_of(&mut bed, &format!("c{call}"), "bob")).collect();
    assert_eq!(pools, [0, 0, 1, 1]);
    assert_eq!(bed.one(0, client(), &invite("d", "bob").bytes()).status(), 503);
    set_rules(&mut bed, vec![both(Failover::on(&[FailoverCause::NoneAlive]))]);
    let options = Req { method: "OPTIONS".to_owned(), ..invite("e", "bob") };
    let sent = bed.one(0, client(), &options.bytes());
    assert!(bed.slot(sent.to) < 2, "the limit counts calls");
}

/// The queue of the first pool is full, or gives up a waiting call: the next pool has room for both.
#[test]
fn calls_beyond_a_full_queue_go_to_the_next_pool() {
    for goes_on in [true, false] {
        let on = if goes_on { FailoverCause::Full } else { FailoverCause::NoneAlive };
        let mut bed = bed(vec![both(Failover::on(&[on]))]);
        let length = LengthSettings { delay: Duration::ZERO, least: 3, most: 3 };
        let mut queue = queue(1.0);
        queue.settings.length = length;
        bed.set_queues([Some(queue), None]);
        let sent: Vec<_> = (0..8)
            .flat_map(|call| bed.receive(0, client(), &invite(&format!("c{call}"), "bob").bytes()))
            .collect();
        let given = |sent: &[Sent]| -> Vec<_> {
            sent.iter().map(|sent| if sent.to == client() { 503 } else { bed.slot(sent.to) / 2 }).collect()
        };
        // Two members take one call each, three calls wait.
        let expected: [u16; 3] = if goes_on { [1; 3] } else { [503; 3] };
        assert_eq!(given(&sent), [&[0, 0][..], &expected[..]].concat());
        let late = bed.wait(Duration::from_millis(260));
        let given: Vec<_> =
            late.iter().map(|sent| if sent.to == client() { 503 } else { bed.slot(sent.to) / 2 }).collect();
        assert_eq!(given, expected);
        let explained = bed.explain(client(), &invite("other", "bob").bytes()).expect("a call");
        assert!(matches!(explained.queue, Some(QueueTurn::Waits)), "{explained:?}");
    }
}

#[test]
fn a_call_that_moves_may_move_to_the_next_pool() {
    let mut bed = bed(vec![both(Failover::default())]);
    let first = bed.one(0, client(), &invite("c", "bob").bytes());
    bed.port_closed(0);
    bed.port_closed(1);
    let again = bed.one(0, client(), &invite("c", "bob").bytes());
    assert!(bed.slot(first.to) < 2 && bed.slot(again.to) >= 2);
    assert_eq!(bed.load(), Load { calls: 1, ..bed.shard.balancer().load(Slot(bed.slot(again.to))).own });
}

#[test]
fn members_call_out_unless_a_rule_applies() {
    let members = Conditions { origin: Origin::Members, ..users("5") };
    let mut bed = bed(vec![to_pool(1, members), to_pool(0, Conditions::default())]);
    Dialog::outbound(&mut bed, "out", 0, addr("127.0.9.9:5060"));
    // A call from a member of one pool to the other pool.
    let node = addr(bed.site.nodes[0].0);
    let invite = Req { uri: "sip:500@pool.example".to_owned(), ..Req::new("INVITE", "c", node) };
    let arrived = bed.one(0, node, &invite.bytes());
    assert!(bed.slot(arrived.to) >= 2);
    let called = usize::from(bed.slot(arrived.to));
    assert_eq!(bed.shard.balancer().load(Slot(called as u16)).own.calls, 1);
    let ok = answered(&mut bed, &arrived, 200);
    assert_eq!(ok.to, node);
    let call = Dialog::of(&arrived, &ok);
    call.caller_asks(&mut bed, "ACK", 1);
    call.caller_asks(&mut bed, "INFO", 2);
    call.callee_asks(&mut bed, "INVITE", 3);
    call.callee_asks(&mut bed, "ACK", 3);
    call.callee_asks(&mut bed, "BYE", 4);
    assert_eq!(bed.shard.balancer().load(Slot(called as u16)).own, Load::default());
    // A rule for members does not make a stranger a member.
    assert_eq!(pool_of(&mut bed, "d", "500"), 0);
}

#[test]
fn only_members_choose_their_target() {
    let rule = Rule {
        conditions: Conditions { origin: Origin::Anyone, ..Conditions::default() },
        target: Target::RequestUri,
        ..Rule::default()
    };
    let mut bed = bed(vec![rule.clone()]);
    let outside = Req { uri: "sip:carol@127.0.9.9:5060".to_owned(), ..invite("a", "bob") };
    assert_eq!(bed.one(0, client(), &outside.bytes()).status(), 403);
    Dialog::outbound(&mut bed, "out", 0, addr("127.0.9.9:5060"));
    // No request leaves the listed networks by any means, or comes back to this proxy.
    set_rules(&mut bed, vec![relay()]);
    let call_of = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let at = |uri: &str| Req { uri: uri.to_owned(), ..Req::new("INVITE", &call_of(uri), client()) };
    let near = "sip:carol@127.0.9.9";
    let maddr = |to: &str| at(&format!("{near};maddr={to}"));
    let route = |to: &str| {
        let request = Req { uri: near.to_owned(), ..Req::new("INVITE", &call_of(to), client()) };
        request.with("Route", &format!("<sip:{to}>"))
    };
    for (request, status) in [
        (at("sip:carol@192.0.2.9"), 404),
        (at("sip:carol@host.example"), 404),
        (at("tel:+44"), 404),
        (at("sip:127.0.0.1:5060"), 404),
        (maddr("192.0.2.9"), 403),
        (maddr("host.example"), 403),
        (maddr("127.0.0.1"), 403),
        (route("192.0.2.9;lr"), 403),
        (route("host.example"), 403),
        (route("[::ffff:192.0.2.9];lr"), 403),
        (at("sip:carol@127.0.9.9;transport=tcp"), 502),
        (at("sips:carol@127.0.9.9"), 416),
    ] {
        let answers = bed.receive(0, client(), &request.bytes());
        assert!(matches!(&answers[..], [one] if one.status() == status), "{}: {answers:#?}", request.uri);
        assert!(bed.explain(client(), &request.bytes()).is_err());
    }
    let routed = bed.explain(client(), &route("192.0.2.9;lr").bytes()).map(|_| ()).unwrap_err();
    assert!(
        routed.ends_with("and this Request-URI leads to no foreign address in its `host_network`"),
        "{routed}"
    );
    let stranger = addr("127.0.8.1:5060");
    let asked = Req { uri: near.to_owned(), ..Req::new("INVITE", "stranger", stranger) };
    assert_eq!(bed.one(0, stranger, &asked.bytes()).status(), 404);
    // An invented To tag, and a CANCEL or ACK without INVITE, lead no further.
    let tagged = Req { to_tag: Some("made-up".to_owned()), ..at("sip:carol@192.0.2.9") };
    for request in [tagged, at("sip:carol@192.0.2.9").same_branch("CANCEL", None)] {
        let sent = bed.receive(0, client(), &request.bytes());
        assert!(sent.iter().all(|one| one.to == client()), "{sent:#?}");
    }
    assert!(
        bed.receive(0, client(), &at("sip:carol@192.0.2.9").same_branch("ACK", Some("x")).bytes()).is_empty()
    );
}

/// Requests from 127.0.9.0/24 go to addresses of that network; 127.0.0.1 is the proxy's own.
fn relay() -> Rule {
    let network = |text: &str| text.parse().expect("a network");
    let (sources, hosts) =
        (vec![network("127.0.9.0/24")], vec![network("127.0.9.0/24"), network("127.0.0.0/24")]);
    Rule {
        conditions: Conditions { sources, hosts, ..Conditions::default() },
        target: Target::RequestUri,
        ..Rule::default()
    }
}

/// A reload sends calls past the pool. Messages of earlier calls still go to the pool.
#[test]
fn calls_end_at_the_pool_where_they_began() {
    let mut bed = bed(vec![to_pool(0, Conditions::default())]);
    let call = Req { uri: "sip:a@127.0.9.9:5070".to_owned(), ..invite("ringing", "a") };
    let member = bed.one(0, client(), &call.bytes()).to;
    set_rules(&mut bed, [relay()]);
    assert_eq!(bed.one(0, client(), &call.bytes()).to, member);
    assert_eq!(bed.one(0, client(), &call.same_branch("CANCEL", None).bytes()).to, member);
}

#[test]
fn listed_sources_reach_listed_addresses_without_a_look_up_and_without_state() {
    let mut bed = bed(vec![relay(), to_pool(0, Conditions::default())]);
    let callee = addr("127.0.9.9:5070");
    let invite = Req { uri: format!("sip:carol@{callee}"), ..Req::new("INVITE", "c", client()) };
    let explained = bed.explain(client(), &invite.bytes()).unwrap();
    assert_eq!(explained.outside.map(|way| way.remote().address), Some(callee));
    let sent = bed.one(0, client(), &invite.bytes());
    assert_eq!((sent.to, sent.message().uri()), (callee, Some(invite.uri.as_bytes())));
    assert!(!string(&sent.bytes).contains("Record-Route"), "the dialog must not pass this proxy");
    // A request to an address of this proxy goes by the next rule.
    let ours = Req { uri: "sip:carol@127.0.0.1:5060".to_owned(), ..Req::new("OPTIONS", "d", client()) };
    let other = bed.one(0, client(), &ours.bytes());
    assert!(bed.is_node(other.to), "{other:#?}");
    answered(&mut bed, &other, 200);
    // The callee must not ring for a call that is refused here.
    waited(&mut bed, Duration::from_mins(1));
    let late = Req { uri: invite.uri.clone(), ..Req::new("INVITE", "late", client()) };
    assert_eq!(bed.one(0, client(), &late.bytes()).status(), 503);
    assert_eq!(bed.one(0, client(), &invite.bytes()), sent, "a retransmission");
    let cancel = bed.one(0, client(), &invite.same_branch("CANCEL", None).bytes());
    assert_eq!((cancel.to, cancel.branch()), (callee, sent.branch()));
    let failure = bed.one(0, callee, &answer(&sent.bytes, addr(PROXY), 487, callee));
    assert_eq!(failure.to, client());
    let ack = bed.one(0, client(), &invite.same_branch("ACK", Some("carol")).bytes());
    assert_eq!((ack.to, ack.branch()), (callee, sent.branch()));
    bed.assert_idle();
}

/// A rule may change the target of a request before it is forwarded.
#[test]
fn a_members_request_follows_its_rewritten_uri() {
    let mut actions = Actions::default();
    actions.set_host("127.0.9.8:5062").expect("a valid action");
    let conditions = Conditions { origin: Origin::Members, ..Conditions::default() };
    let mut bed = bed(vec![Rule { conditions, actions, target: Target::RequestUri, ..Rule::default() }]);
    let node = addr(bed.site.nodes[0].0);
    let invite = Req { uri: "sip:carol@127.0.9.9:5060".to_owned(), ..Req::new("INVITE", "c", node) };
    let sent = bed.one(0, node, &invite.bytes());
    assert_eq!(
        (sent.to, sent.message().uri()),
        (addr("127.0.9.8:5062"), Some(&b"sip:carol@127.0.9.8:5062"[..]))
    );
}

#[test]
fn access_lists_of_listeners_and_rules_apply() {
    let access = |deny: &str, refusal| Access::new(&[], &[deny.parse().unwrap()], refusal).unwrap();
    let rule =
        Rule { access: access("127.0.9.2", AccessRefusal::Forbidden), ..to_pool(1, Conditions::default()) };
    let mut bed = bed(Vec::new());
    let call = Dialog::inbound(&mut bed, "before", addr("127.0.8.1:5060"), 0);
    let routes = Routes {
        table: Table::new(vec![rule], &[addr(PROXY)]),
        access: vec![access("127.0.8.0/24", AccessRefusal::Silence)],
    };
    bed.set(|setup| setup.settings.routes = Arc::new(routes));
    let from = |bed: &mut Bed, ip: &str| {
        let at = addr(&format!("{ip}:5060"));
        bed.receive(0, at, &Req::new("INVITE", ip, at).bytes())
    };
    assert!(from(&mut bed, "127.0.8.1").is_empty());
    assert_eq!(bed.drops("silenced"), 1);
    // The same for requests that would get 483 or 416.
    let stranger = addr("127.0.8.1:5060");
    let old = Req { max_forwards: Some(0), ..Req::new("OPTIONS", "old", stranger) };
    let other = Req { uri: "http://example.com".to_owned(), ..Req::new("OPTIONS", "other", stranger) };
    for request in [old, other] {
        bed.dropped(0, stranger, &request.bytes(), "silenced");
    }
    assert_eq!(from(&mut bed, "127.0.9.2")[0].status(), 403);
    assert!(from(&mut bed, "127.0.9.3")[0].message().status().is_none());
    call.caller_asks(&mut bed, "ACK", 1);
    call.caller_asks(&mut bed, "BYE", 2);
}

#[test]
fn new_requests_of_a_source_are_limited() {
    let mut bed = bed(vec![to_pool(0, Conditions::default())]);
    bed.set(|setup| setup.settings.rates = rate(1, 2));
    let first = invite("a", "bob").bytes();
    let sent = bed.one(0, client(), &first);
    bed.one(0, client(), &invite("b", "bob").bytes());
    assert_eq!(bed.one(0, client(), &invite("c", "bob").bytes()).status(), 503);
    for _ in 0..5 {
        assert_eq!(bed.one(0, client(), &first), sent, "a retransmission is no new request");
    }
    let other = addr("127.0.9.2:5060");
    assert!(bed.one(0, other, &Req::new("INVITE", "d", other).bytes()).message().status().is_none());
    bed.now += Duration::from_secs(1);
    bed.one(0, client(), &invite("e", "bob").bytes());
    assert_eq!(bed.load().calls, 4);
}

/// A proxy upstream forks an INVITE in parallel or in sequence. Each branch has its own route, which copies, CANCEL and
/// the ACK to its failure follow (RFC 3261 §16.11, §17.1.1.3).
#[test]
fn each_branch_of_a_call_goes_by_its_own_route() {
    for is_open in [true, false] {
        let mut bed = bed(vec![to_pool(0, users("4")), to_pool(1, users("5"))]);
        let branch = |user: &str, branch: &str| invite("call", user).via(&via(branch));
        let (one, other) = (branch("4", "1"), branch("5", "2"));
        let first = bed.one(0, client(), &one.bytes());
        let fail = |bed: &mut Bed, sent: &Sent| {
            let failure = answered(bed, sent, 486);
            assert_eq!((failure.to, failure.status()), (client(), 486));
        };
        if !is_open {
            fail(&mut bed, &first);
        }
        let second = bed.one(0, client(), &other.bytes());
        assert_eq!([&first, &second].map(|sent| usize::from(bed.slot(sent.to)) / 2), [0, 1]);
        for (request, sent) in [(&one, &first), (&other, &second)] {
            if is_open || request.uri == other.uri {
                assert_eq!(bed.one(0, client(), &request.bytes()), *sent, "a copy");
                let cancel = bed.one(0, client(), &request.same_branch("CANCEL", None).bytes());
                assert_eq!((cancel.to, cancel.branch()), (sent.to, sent.branch()));
                bed.one(0, sent.to, &answer(&cancel.bytes, addr(PROXY), 200, sent.to));
                fail(&mut bed, sent);
            }
        }
        for (request, sent) in [(&other, &second), (&one, &first)] {
            if is_open || request.uri == other.uri {
                let ack = bed.one(0, client(), &request.same_branch("ACK", Some("bob")).bytes());
                assert_eq!((ack.to, ack.branch()), (sent.to, sent.branch()), "{is_open}");
            }
        }
        bed.assert_forgets();
    }
}

/// A member changes the Request-URI and sends the call back by another proxy (RFC 3261 §16.3 step 4). The call goes on
/// to the pool of the new URI, with the credentials that its member asks for. Both members stay on the path of the
/// dialog.
#[test]
fn a_spiral_goes_on_to_the_pool_of_its_route() {
    let mut bed = bed(vec![to_pool(0, users("4")), to_pool(1, users("5"))]);
    let first = bed.one(0, client(), &invite("call", "4").bytes());
    let between = addr("127.0.7.7:5060");
    let back = |cseq: u32| {
        let text = string(&first.bytes).replacen("sip:4@", "sip:5@", 1).replacen(
            "CSeq: 1 ",
            &format!("CSeq: {cseq} "),
            1,
        );
        let via = format!("Via: SIP/2.0/UDP {between};branch=z9hG4bK-between-{cseq};rport\r\nVia: ");
        text.replacen("Via: ", &via, 1).into_bytes()
    };
    let second = bed.one(0, between, &back(1));
    assert_eq!([&first, &second].map(|sent| usize::from(bed.slot(sent.to)) / 2), [0, 1]);
    assert_eq!(bed.one(0, between, &back(1)), second, "a copy");
    answered(&mut bed, &second, 401);
    let with_credentials = bed.one(0, between, &back(2));
    assert_eq!(with_credentials.to, second.to);
    bed.one(0, second.to, &answer(&with_credentials.bytes, addr(PROXY), 486, second.to));
    answered(&mut bed, &first, 486);
    bed.assert_forgets();
}
