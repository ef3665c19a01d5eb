//! After a restart, and at a peer balancer: the same key, an empty table.

use crate::common::*;

/// Another address, the nodes in another order, the same key.
fn peer() -> Site {
    let mut site = Site { listeners: vec!["127.0.0.9:5060"], ..Site::plain() };
    site.nodes.reverse();
    site
}

#[test]
fn established_calls_go_on() {
    for heir in [Site::plain(), peer()] {
        let mut first = Bed::new(Site::plain());
        let calls: Vec<_> =
            (0..6).map(|n| Dialog::inbound(&mut first, &format!("on-{n}"), client(), 0)).collect();
        let mut bed = Bed::new(heir);
        for call in &calls {
            call.caller_asks(&mut bed, "ACK", 1);
            for (cseq, method) in
                (2..).zip(["INFO", "UPDATE", "PRACK", "REFER", "NOTIFY", "STRANGE", "INVITE"])
            {
                call.caller_asks(&mut bed, method, cseq);
                call.callee_asks(&mut bed, method, cseq);
            }
        }
        assert_eq!(bed.load().calls, 6, "the calls are counted again");
        for (n, call) in calls.iter().enumerate() {
            if n % 2 == 0 {
                call.caller_asks(&mut bed, "BYE", 20);
            } else {
                call.callee_asks(&mut bed, "BYE", 20);
            }
        }
        assert_eq!(bed.shard.counters().tokens_refused, 0);
        bed.assert_forgets();
    }
}

/// The first message of a call after a restart comes from the callee, and then the INVITE is retransmitted.
#[test]
fn a_call_counts_once_whichever_party_is_heard_first() {
    for site in [Site::plain(), peer()] {
        let mut bed = Bed::new(Site::plain());
        let call = Dialog::inbound(&mut bed, "once", client(), 0);
        let mut bed = Bed::new(site);
        call.callee_asks(&mut bed, "INVITE", 1);
        let repeated = bed.one(0, client(), &Req::new("INVITE", "once", client()).bytes());
        assert_eq!((repeated.to, bed.load().calls), (call.callee.at, 1));
        call.caller_asks(&mut bed, "BYE", 2);
        bed.assert_forgets();
    }
}

/// A request in progress when the other party hung up, and answered with 481, does not create the ended call again.
#[test]
fn a_late_request_does_not_count_an_ended_call() {
    for (by_caller, heard_first) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut bed = Bed::new(Site::plain());
        let call = Dialog::inbound(&mut bed, "over", client(), 0);
        let mut bed = bed.restarted();
        let here = addr(PROXY);
        if heard_first {
            call.caller_asks(&mut bed, "ACK", 1);
        }
        call.caller_asks(&mut bed, "BYE", 3);
        assert_eq!(bed.load().calls, 0);
        let (late, from, to) = if by_caller {
            (call.by_caller("INVITE", 2), &call.caller, &call.callee)
        } else {
            (call.by_callee("INVITE", 7), &call.callee, &call.caller)
        };
        let arrived = bed.one(from.listener, from.at, &late.bytes());
        assert_eq!(arrived.to, to.at);
        bed.one(to.listener, to.at, &answer(&arrived.bytes, here, 481, to.at));
        assert_eq!(bed.load().calls, 0, "{by_caller}, {heard_first}");
        // The ACK to a failure has the Route of its INVITE (RFC 3261 §17.1.1.3).
        let ack = late.same_branch("ACK", late.to_tag.as_deref());
        assert_eq!(bed.one(from.listener, from.at, &ack.bytes()).to, to.at);
        assert_eq!(bed.load().calls, 0, "{by_caller}, {heard_first}");
        bed.wait(Duration::from_secs(65));
        bed.assert_idle();
        assert_eq!(bed.shard.balancer().counts(), balance::TableCounts::default());
    }
}

#[test]
fn a_single_late_request_of_each_kind_is_enough() {
    for method in ["ACK", "BYE", "INVITE", "UPDATE", "INFO", "PRACK"] {
        let mut bed = Bed::new(Site::plain());
        let call = Dialog::inbound(&mut bed, "late", client(), 0);
        call.caller_asks(&mut bed.restarted(), method, 2);
        let mut bed = Bed::new(peer());
        call.callee_asks(&mut bed, method, 2);
        bed.assert_forgets();
    }
}

#[test]
fn responses_find_their_way_by_the_branch() {
    for site in [Site::plain(), Site::two_sided(), Site::mixed()] {
        let mut bed = Bed::new(site.clone());
        let invite = bed.one(0, client(), &Req::new("INVITE", "response", client()).bytes());
        let ours = addr(site.listeners[invite.listener as usize]);
        let mut bed = bed.restarted();
        for status in [180, 200] {
            let sent = bed.one(invite.listener, invite.to, &answer(&invite.bytes, ours, status, invite.to));
            assert_eq!((sent.to, sent.listener, sent.status()), (client(), 0, status));
        }
        bed.assert_idle();
    }
    // Also a response whose request came in by a listener that no longer exists.
    let mut bed = Bed::new(Site { listeners: vec![PROXY, "127.0.0.2:5060"], ..Site::plain() });
    let invite = bed.one(1, client(), &Req::new("INVITE", "response", client()).bytes());
    let sent = Bed::new(Site::plain()).one(0, invite.to, &answer(&invite.bytes, addr(PROXY), 200, invite.to));
    assert_eq!((sent.to, sent.listener), (client(), 0));
}

/// After a restart without its node, the retransmitted INVITE gets another node. Requests of the first dialog must not
/// go to the second node.
#[test]
fn a_dialog_of_a_removed_node_goes_to_no_other_branch() {
    let mut bed = Bed::new(Site::plain());
    let gone = Dialog::inbound(&mut bed, "forked", client(), 0);
    let mut site = Site::plain();
    site.nodes.retain(|&(node, _)| addr(node) != gone.callee.at);
    let mut bed = Bed::new(site);
    let other = Dialog::inbound(&mut bed, "forked", client(), 0);
    bed.dropped(0, client(), &gone.by_caller("ACK", 1).bytes(), "refused_ack");
    for method in ["BYE", "INFO", "CANCEL"] {
        let request = gone.by_caller(method, 2).bytes();
        assert_eq!(bed.one(0, client(), &request).status(), 481, "{method}");
        let explained = bed.explain(client(), &request).expect("the request is well-formed");
        assert_eq!(explained.decision, balance::NodeDecision::Orphan, "{method}");
    }
    other.caller_asks(&mut bed, "ACK", 1);
    other.caller_asks(&mut bed, "BYE", 2);
    bed.assert_idle();
    // The node has moved to another address, as a member. It may still hang up.
    let hang_up = gone.by_callee("BYE", 3).bytes();
    assert_eq!(bed.one(0, other.callee.at, &hang_up).to, client());
}

/// A CANCEL and the ACK to a failure carry no token. The node with their INVITE recognises the branch.
#[test]
fn cancel_and_ack_to_a_failure_are_searched_for() {
    let mut bed = Bed::new(Site::plain());
    let request = Req::new("INVITE", "search", client());
    let invite = bed.one(0, client(), &request.bytes());
    let mut bed = bed.restarted();
    for (method, to_tag) in [("CANCEL", None), ("ACK", Some("bob"))] {
        let sent = bed.receive(0, client(), &request.same_branch(method, to_tag).bytes());
        let to: Vec<_> = sent.iter().map(|sent| sent.to).collect();
        assert_eq!(to, bed.site.nodes.iter().map(|&(node, _)| addr(node)).collect::<Vec<_>>());
        let known: Vec<_> = sent.iter().filter(|sent| sent.branch() == invite.branch()).collect();
        assert_eq!(
            known.iter().map(|sent| sent.to).collect::<Vec<_>>(),
            [invite.to],
            "the CANCEL follows its INVITE"
        );
        let via = invite.message().top_via().host;
        assert!(
            sent.iter().all(|sent| sent.message().top_via().host == via),
            "RFC 3261 §17.2.3: the sent-by too"
        );
        if method == "CANCEL" {
            for sent in &sent {
                let node = sent.to;
                if node == invite.to {
                    let ok = bed.one(0, node, &answer(&sent.bytes, addr(PROXY), 200, node));
                    assert_eq!((ok.to, ok.status()), (client(), 200));
                } else {
                    bed.dropped(0, node, &answer(&sent.bytes, addr(PROXY), 481, node), "search_miss");
                }
            }
        }
        bed.assert_idle();
    }
    let back = answered(&mut bed, &invite, 487);
    assert_eq!((back.to, back.status()), (client(), 487));
}

/// RFC 3261 §9.2: a CANCEL that matches nothing gets 481, once no node can answer otherwise.
#[test]
fn the_last_481_to_a_cancel_goes_back() {
    let mut bed = Bed::new(Site::plain());
    let cancel = Req::new("CANCEL", "unknown", client()).bytes();
    let missed = |bed: &mut Bed, sent: &Sent| assert_eq!(respond(bed, sent, 481), []);
    let sent = bed.receive(0, client(), &cancel);
    missed(&mut bed, &sent[1]);
    missed(&mut bed, &sent[1]);
    missed(&mut bed, &sent[0]);
    // The last response is lost, and comes with the retransmitted CANCEL.
    assert_eq!(bed.receive(0, client(), &cancel), sent);
    missed(&mut bed, &sent[0]);
    let answered_copies = |bed: &mut Bed| {
        let answered_copies = respond(bed, &sent[2], 481);
        assert_eq!(
            answered_copies
                .iter()
                .map(|answered_copies| (answered_copies.to, answered_copies.status()))
                .collect::<Vec<_>>(),
            [(client(), 481)]
        );
    };
    answered_copies(&mut bed);
    // The client did not get it, so one node sends it again.
    assert_eq!(bed.receive(0, client(), &cancel), sent);
    missed(&mut bed, &sent[1]);
    answered_copies(&mut bed);
    missed(&mut bed, &sent[0]);
    // One node has the INVITE after all, so no more responses of the others.
    assert_eq!(answered(&mut bed, &sent[0], 200).status(), 200);
    missed(&mut bed, &sent[2]);
    bed.assert_idle();
}

#[test]
fn a_cancel_that_cannot_be_searched_for_is_answered() {
    let mut bed = Bed::new(Site::plain());
    bed.set_members(&[]);
    let cancel = Req::new("CANCEL", "nobody", client());
    assert_eq!(bed.one(0, client(), &cancel.bytes()).status(), 481);
    bed.dropped(0, client(), &cancel.same_branch("ACK", Some("bob")).bytes(), "refused_ack");
}

#[test]
fn only_members_are_searched() {
    let mut bed = Bed::new(Site::plain());
    bed.set_members(&[0, 2]);
    let sent = bed.receive(0, client(), &Req::new("CANCEL", "members", client()).bytes());
    assert_eq!(sent.iter().map(|sent| bed.slot(sent.to)).collect::<Vec<_>>(), [0, 2]);
}

/// RFC 3261 §16.10: an unknown CANCEL is forwarded, also to members without an answer to probes, where its INVITE may
/// ring.
#[test]
fn a_member_believed_dead_is_searched_too() {
    for status in [200, 481] {
        let mut bed = Bed::new(Site::plain());
        let request = Req::new("INVITE", "believed-dead", client());
        let invite = bed.one(0, client(), &request.bytes());
        let mut bed = bed.restarted();
        bed.probed(bed.slot(invite.to), false);
        let sent = bed.receive(0, client(), &request.same_branch("CANCEL", None).bytes());
        let (there, others): (Vec<_>, Vec<_>) = sent.iter().partition(|sent| sent.to == invite.to);
        assert_eq!(others.len(), 2);
        for other in others {
            bed.dropped(0, other.to, &answer(&other.bytes, addr(PROXY), 481, other.to), "search_miss");
        }
        let [cancel] = there[..] else { panic!("{sent:?}") };
        assert_eq!(cancel.branch(), invite.branch());
        let answered_copies = answered(&mut bed, cancel, status);
        assert_eq!((answered_copies.to, answered_copies.status()), (client(), status));
    }
}

#[test]
fn the_failure_of_an_unsearched_cancel_goes_back() {
    let mut bed = Bed::new(Site::plain());
    let request = Req::new("INVITE", "known", client());
    bed.one(0, client(), &request.bytes());
    let back = asked(&mut bed, client(), &request.same_branch("CANCEL", None), 481);
    assert_eq!((back.to, back.status()), (client(), 481));
}

/// The CANCEL of a re-INVITE has its Route, and so needs no search.
#[test]
fn cancel_of_a_re_invite_follows_its_token() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "re-invite", client(), 0);
    let again = call.by_caller("INVITE", 2);
    let sent = bed.one(0, client(), &again.bytes());
    let mut bed = bed.restarted();
    for method in ["CANCEL", "ACK"] {
        let late = bed.one(0, client(), &again.same_branch(method, Some("bob")).bytes());
        assert_eq!((late.to, late.branch()), (sent.to, sent.branch()));
    }
}

#[test]
fn the_key_changes_in_the_middle_of_a_call() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "rotate", client(), 0);
    let pending = bed.one(0, client(), &call.by_caller("INFO", 2).bytes());
    change_key(&mut bed);
    let back = bed.one(0, call.callee.at, &answer(&pending.bytes, addr(PROXY), 200, call.callee.at));
    assert_eq!(back.to, client(), "made with the previous key");
    call.caller_asks(&mut bed, "ACK", 1);
    call.callee_asks(&mut bed, "UPDATE", 1);
    bed.wait(Duration::from_millis(1));
    let new = Dialog::inbound(&mut bed, "after", client(), 0);
    // Restarted with both keys, both calls are known; with the new one alone, the new call.
    let site = |previous| Site { key: NEW_KEY, previous, ..Site::plain() };
    let mut both = Bed::new(site(vec![KEY]));
    let copy = both.one(0, client(), &call.by_caller("INFO", 2).bytes());
    assert_eq!(copy.branch(), pending.branch(), "a copy has the key of its token");
    call.caller_asks(&mut both, "INFO", 3);
    new.caller_asks(&mut both, "INFO", 3);
    let mut alone = Bed::new(site(Vec::new()));
    assert_eq!(alone.one(0, client(), &call.by_caller("INFO", 4).bytes()).status(), 481);
    new.caller_asks(&mut alone, "INFO", 4);
    // At the first process the table still knows the call.
    call.caller_asks(&mut bed, "BYE", 5);
    new.caller_asks(&mut bed, "BYE", 5);
    bed.assert_idle();
}

/// A node takes an INVITE with another branch for a new one, and refuses it as merged (RFC 3261 §8.2.2.2).
#[test]
fn the_key_changes_between_an_invite_and_its_retransmission() {
    let mut bed = Bed::new(Site::plain());
    let request = Req::new("INVITE", "again", client());
    let sent = bed.one(0, client(), &request.bytes());
    // Reloaded twice, the second time without a change.
    for _ in 0..2 {
        change_key(&mut bed);
    }
    assert_eq!(bed.one(0, client(), &request.bytes()), sent);
    for method in ["CANCEL", "ACK"] {
        let again = bed.one(0, client(), &request.same_branch(method, None).bytes());
        assert_eq!((again.to, again.branch()), (sent.to, sent.branch()), "{method}");
    }
    let back = answered(&mut bed, &sent, 200);
    assert_eq!(back.to, client());
}

#[test]
fn requests_after_a_change_of_the_key_have_the_same_branch_after_a_restart() {
    let mut bed = Bed::new(Site::plain());
    change_key(&mut bed);
    bed.wait(Duration::from_millis(1));
    let call = Dialog::inbound(&mut bed, "rotated", client(), 0);
    let bye = call.by_caller("BYE", 2);
    let request = Req::new("INVITE", "rings", client());
    let [bye_sent, invite] = [&bye, &request].map(|request| bed.one(0, client(), &request.bytes()));
    let mut bed = Bed::new(Site { key: NEW_KEY, previous: vec![KEY], ..Site::plain() });
    let again = bed.one(0, client(), &bye.bytes());
    assert_eq!((again.to, again.branch()), (bye_sent.to, bye_sent.branch()));
    let cancels = bed.receive(0, client(), &request.same_branch("CANCEL", None).bytes());
    assert!(cancels.iter().any(|cancel| (cancel.to, cancel.branch()) == (invite.to, invite.branch())));
}
