//! Lifetime of calls whose start or end is only partly seen: branches of a call forked upstream, late responses, and
//! dialogs known only from a token.

use crate::common::*;
use balance::policy::Cjsq;
use balance::*;
use wire::Method;

const SLOT: Slot = Slot(0);
const HALF_AN_HOUR: u64 = 1_800;

fn one_node() -> Balancer {
    balancer(Box::new(Cjsq::new(0)), &[1.0])
}

/// Calls and transactions in progress.
fn load(balancer: &Balancer) -> (u32, u32) {
    assert_eq!(balancer.audit(), Ok(()));
    let load = balancer.load(SLOT).own;
    (load.calls, load.transactions)
}

fn expire(balancer: &mut Balancer, at: u64) {
    while balancer.expire(seconds(at)) > 0 {}
}

/// One branch of a forked call.
fn branch(branch: u32) -> RequestFacts<'static> {
    RequestFacts { branch, ..request(1, Method::Invite, 1) }
}

/// Response to it, from the callee with this number as tag.
fn answer(branch: u32, status: u16) -> Response {
    Response { branch, tags: tags(branch), ..response(1, Method::Invite, 1, status) }
}

fn forked() -> Balancer {
    let mut balancer = one_node();
    for n in [1, 2, 1, 2] {
        balancer.request(seconds(0), &branch(n));
    }
    assert_eq!(load(&balancer), (1, 2), "two transactions, each sent twice");
    balancer
}

fn bye(balancer: &mut Balancer, cseq: u32) {
    bye_in(balancer, DIALOG, cseq);
}

fn bye_in(balancer: &mut Balancer, dialog: u32, cseq: u32) {
    balancer.request(seconds(9), &RequestFacts { tags: tags(dialog), ..in_dialog(1, Method::Bye, cseq) });
    balancer.response(seconds(9), &response(1, Method::Bye, cseq, 200));
}

#[test]
fn a_forked_call_lasts_as_long_as_one_of_its_branches() {
    let mut balancer = forked();
    balancer.response(seconds(1), &answer(1, 486));
    assert_eq!(load(&balancer), (1, 1));
    balancer.response(seconds(2), &answer(2, 200));
    assert_eq!(load(&balancer), (1, 0));
    bye_in(&mut balancer, 2, 2);
    assert_eq!(load(&balancer), (0, 0));

    let mut balancer = forked();
    for n in [1, 2] {
        balancer.response(seconds(1), &answer(n, 486));
    }
    assert_eq!(load(&balancer), (0, 0));

    let mut balancer = forked();
    balancer.response(seconds(1), &answer(1, 486));
    expire(&mut balancer, 33);
    assert_eq!(load(&balancer), (0, 0), "the other branch was never answered");
}

#[test]
fn a_cancel_affects_only_its_branch() {
    let mut balancer = forked();
    balancer.response(seconds(0), &answer(1, 180));
    balancer.response(seconds(0), &answer(2, 180));
    balancer.request(seconds(1), &RequestFacts { method: Method::Cancel, ..branch(1) });
    expire(&mut balancer, 40);
    assert_eq!(load(&balancer), (1, 1), "the 487 of one branch was lost; the other branch still rings");
}

#[test]
fn a_forked_call_that_is_answered_twice_ends_with_the_second_bye() {
    let mut balancer = forked();
    balancer.response(seconds(1), &answer(1, 200));
    balancer.response(seconds(1), &answer(2, 200));
    assert_eq!(load(&balancer), (1, 0));
    balancer.request(seconds(2), &in_dialog(1, Method::Bye, 2));
    balancer.request(seconds(2), &RequestFacts { tags: tags(2), ..in_dialog(1, Method::Bye, 3) });
    balancer.response(seconds(2), &response(1, Method::Bye, 2, 200));
    assert_eq!(load(&balancer), (1, 1));
    balancer.response(seconds(2), &response(1, Method::Bye, 3, 200));
    assert_eq!(load(&balancer), (0, 0));

    // One callee hangs up while the other rings.
    let mut balancer = forked();
    balancer.response(seconds(1), &answer(1, 200));
    bye(&mut balancer, 2);
    assert_eq!(load(&balancer), (1, 1));
    balancer.response(seconds(10), &answer(2, 200));
    assert_eq!(load(&balancer), (1, 0));
    bye_in(&mut balancer, 2, 3);
    assert_eq!(load(&balancer), (0, 0));
}

/// A spiral: the same response passes twice, but the BYE may pass once.
#[test]
fn a_call_that_passes_twice_is_one_dialog() {
    let mut balancer = forked();
    for n in [1, 2] {
        balancer.response(seconds(1), &Response { tags: tags(7), ..answer(n, 200) });
    }
    bye_in(&mut balancer, 7, 2);
    assert_eq!(load(&balancer), (0, 0));
}

#[test]
fn an_answer_after_timer_c_makes_the_call_count_again() {
    let mut balancer = one_node();
    balancer.request(seconds(0), &request(1, Method::Invite, 1));
    balancer.response(seconds(0), &response(1, Method::Invite, 1, 180));
    expire(&mut balancer, 182);
    assert_eq!(load(&balancer), (0, 0));
    balancer.response(seconds(190), &response(1, Method::Invite, 1, 200));
    assert_eq!(load(&balancer), (1, 0));
    balancer.request(seconds(190), &in_dialog(1, Method::Ack, 1));
    expire(&mut balancer, 4 * 3_600);
    assert_eq!(load(&balancer), (1, 0), "the call counts as long as any call");
    bye(&mut balancer, 2);
    balancer.response(seconds(200), &response(1, Method::Invite, 1, 200));
    assert_eq!(load(&balancer), (0, 0), "a retransmission after the end starts no call");
}

fn by_token(method: Method, cseq: u32) -> RequestFacts<'static> {
    RequestFacts { pinned: Some(SLOT), by_token: true, ..in_dialog(1, method, cseq) }
}

#[test]
fn an_ack_with_a_token_makes_the_call_count() {
    for (ack, calls) in [(by_token(Method::Ack, 1), 1), (in_dialog(1, Method::Ack, 1), 0)] {
        let mut balancer = one_node();
        balancer.request(seconds(0), &request(1, Method::Invite, 1));
        balancer.response(seconds(0), &response(1, Method::Invite, 1, 180));
        expire(&mut balancer, 182);
        balancer.request(seconds(190), &ack);
        assert_eq!(load(&balancer), (calls, 0));
    }
    let mut balancer = one_node();
    balancer.request(seconds(0), &request(1, Method::Invite, 1));
    balancer.response(seconds(0), &response(1, Method::Invite, 1, 200));
    bye(&mut balancer, 2);
    balancer.request(seconds(10), &by_token(Method::Ack, 1));
    assert_eq!(load(&balancer), (0, 0), "a late ACK after the BYE starts no call");
}

/// After a restart a token finds the node. Only messages of an answered call make the call count.
#[test]
fn after_a_restart_only_messages_of_an_answered_call_make_it_count() {
    let cases = [
        (Method::Ack, (1, 0)),
        (Method::Invite, (1, 1)),
        (Method::Update, (0, 1)),
        (Method::Prack, (0, 1)),
        (Method::Info, (0, 1)),
        (Method::Bye, (0, 1)),
    ];
    for (method, expected) in cases {
        let mut balancer = one_node();
        let decision = balancer.request(seconds(1), &by_token(method, 5));
        assert_eq!(decision, NodeDecision::Forward { slot: SLOT, why: Why::Token });
        assert_eq!(load(&balancer), expected, "{method:?}");
    }
    // ACK to a failed call from a node: no token, only its source.
    let mut balancer = one_node();
    let ack = RequestFacts { by_token: false, direction: Direction::FromPool, ..by_token(Method::Ack, 1) };
    assert_eq!(slot_of(balancer.request(seconds(1), &ack)), SLOT);
    assert_eq!(load(&balancer), (0, 0));
    // An early dialog during a restart is answered in the end.
    let mut balancer = one_node();
    balancer.request(seconds(1), &by_token(Method::Prack, 2));
    balancer.response(seconds(1), &response(1, Method::Prack, 2, 200));
    balancer.response(seconds(5), &response(1, Method::Invite, 1, 200));
    assert_eq!(load(&balancer), (1, 0));
}

/// A late copy of a re-INVITE from before a restart, after the callee has hung up, does not either.
#[test]
fn a_late_re_invite_does_not_restart_an_ended_call() {
    let mut balancer = one_node();
    balancer.request(seconds(1), &by_token(Method::Ack, 1));
    let bye = RequestFacts { direction: Direction::FromPool, ..by_token(Method::Bye, 9) };
    balancer.request(seconds(2), &bye);
    let ok = Response { direction: Direction::FromPool, ..response(1, Method::Bye, 9, 200) };
    balancer.response(seconds(2), &ok);
    balancer.request(seconds(3), &by_token(Method::Invite, 2));
    assert_eq!(load(&balancer), (0, 1), "a transaction without a call");
}

/// A restart has lost a call that two callees have answered. The first message may come from either side of either
/// dialog. In each case the call belongs to its initiator, and counts once.
#[test]
fn a_call_known_only_from_tokens_counts_once_in_any_order_of_messages() {
    let [caller, one, other] = [1, 2, 3].map(tag);
    let of_call = |from, to, method| RequestFacts { tags: Tags { from, to }, ..by_token(method, 1) };
    let by_callee = RequestFacts {
        started_by_peer: true,
        direction: Direction::FromPool,
        ..of_call(one, caller, Method::Invite)
    };
    let by_caller = of_call(caller, other, Method::Ack);
    for requests in [[by_callee, by_caller], [by_caller, by_callee]] {
        let mut balancer = one_node();
        for request in requests {
            balancer.request(seconds(1), &request);
        }
        assert_eq!((load(&balancer).0, balancer.counts().active), (1, 1));
        let again = RequestFacts { tags: Tags { from: caller, to: 0 }, ..request(1, Method::Invite, 1) };
        balancer.request(seconds(2), &again);
        assert_eq!(load(&balancer).0, 1, "a retransmission of its INVITE");
    }
}

#[test]
fn a_call_known_only_from_a_token_counts_for_half_an_hour_unless_confirmed() {
    let mut balancer = one_node();
    balancer.request(seconds(0), &by_token(Method::Ack, 1));
    balancer.request(seconds(1_000), &by_token(Method::Ack, 1));
    expire(&mut balancer, HALF_AN_HOUR - 1);
    assert_eq!(load(&balancer), (1, 0));
    expire(&mut balancer, HALF_AN_HOUR + 1);
    assert_eq!(load(&balancer), (0, 0), "a replay does not prolong the call");

    let mut balancer = one_node();
    balancer.request(seconds(0), &by_token(Method::Ack, 1));
    balancer.request(seconds(10), &by_token(Method::Update, 2));
    balancer.response(seconds(10), &response(1, Method::Update, 2, 200));
    expire(&mut balancer, 4 * 3_600);
    assert_eq!(load(&balancer), (1, 0), "an answer confirms the call");
    bye(&mut balancer, 3);
    assert_eq!(load(&balancer), (0, 0));

    let mut balancer = one_node();
    balancer.request(seconds(0), &by_token(Method::Ack, 1));
    balancer.request(seconds(10), &by_token(Method::Invite, 2));
    balancer.response(seconds(10), &response(1, Method::Invite, 2, 481));
    assert_eq!(load(&balancer), (0, 0), "the call was over");
}

#[test]
fn the_end_of_a_branch_elsewhere_does_not_move_the_call() {
    // Before a restart the INVITE also went to slot 1, and was answered there.
    let mut balancer = balancer(Box::new(Cjsq::new(0)), &[1.0, 1.0]);
    let invite = request(1, Method::Invite, 1);
    assert_eq!(slot_of(balancer.request(seconds(0), &invite)), SLOT);
    let elsewhere = RequestFacts { pinned: Some(Slot(1)), by_token: true, ..in_dialog(1, Method::Bye, 2) };
    assert_eq!(slot_of(balancer.request(seconds(1), &elsewhere)), Slot(1));
    assert_eq!(balancer.session(key(1)).map(|session| (session.slot, session.is_call)), Some((SLOT, true)));
    balancer.response(seconds(1), &response(1, Method::Bye, 2, 200));
    assert_eq!(slot_of(balancer.request(seconds(2), &request(1, Method::Cancel, 1))), SLOT);
    assert_eq!(loads(&balancer).iter().map(|load| load.calls).collect::<Vec<_>>(), [1, 0]);
}

/// A call comes in two branches, the second after the first one's node seems dead. Each CANCEL follows its INVITE.
#[test]
fn a_cancel_follows_its_branch() {
    let mut cluster = cluster(&[1.0, 1.0]);
    let mut balancer = balancer(Box::new(Cjsq::new(0)), &[1.0, 1.0]);
    let first = slot_of(balancer.request(seconds(0), &branch(1)));
    cluster.unreachable(seconds(1), first);
    balancer.set_nodes(cluster.nodes());
    let second = slot_of(balancer.request(seconds(1), &branch(2)));
    assert_ne!(first, second);
    cluster.probed(seconds(2), first, true);
    balancer.set_nodes(cluster.nodes());
    for (number, slot) in [(1, first), (2, second), (1, first)] {
        let cancel = RequestFacts { branch: number, ..request(1, Method::Cancel, 1) };
        assert_eq!(slot_of(balancer.request(seconds(3), &cancel)), slot, "branch {number}");
        assert_eq!(slot_of(balancer.request(seconds(3), &branch(number))), slot, "branch {number} again");
    }
    assert_eq!(balancer.audit(), Ok(()));
}

/// The INVITE moved off a node that only seemed dead, and both nodes answered. Then the second node seems dead. The BYE
/// of the first node's dialog does not redirect a late CANCEL to the first node.
#[test]
fn a_bye_of_another_branch_does_not_move_the_call() {
    let mut cluster = cluster(&[1.0, 1.0]);
    let mut balancer = balancer(Box::new(Cjsq::new(0)), &[1.0, 1.0]);
    let first = slot_of(balancer.request(seconds(0), &branch(1)));
    cluster.unreachable(seconds(1), first);
    balancer.set_nodes(cluster.nodes());
    let second = slot_of(balancer.request(seconds(1), &branch(1)));
    assert_ne!(first, second, "no node had answered");
    balancer.response(seconds(2), &answer(1, 200));
    cluster.probed(seconds(2), first, true);
    cluster.unreachable(seconds(3), second);
    balancer.set_nodes(cluster.nodes());
    let bye = RequestFacts { pinned: Some(first), by_token: true, ..in_dialog(1, Method::Bye, 2) };
    assert_eq!(slot_of(balancer.request(seconds(4), &bye)), first);
    let cancel = RequestFacts { branch: 1, ..request(1, Method::Cancel, 1) };
    assert_eq!(slot_of(balancer.request(seconds(5), &cancel)), second);
    assert_eq!(balancer.audit(), Ok(()));
}

const INVENTED: u32 = 77;

fn answered() -> Balancer {
    let mut balancer = one_node();
    balancer.request(seconds(0), &request(1, Method::Invite, 1));
    balancer.response(seconds(1), &response(1, Method::Invite, 1, 200));
    balancer.request(seconds(1), &in_dialog(1, Method::Ack, 1));
    balancer
}

fn with_invented_tags(method: Method, cseq: u32) -> RequestFacts<'static> {
    RequestFacts { tags: tags(INVENTED), ..in_dialog(1, method, cseq) }
}

/// A stranger who has seen the Call-ID: the node answers 481, and the call continues.
#[test]
fn requests_with_other_tags_end_no_call() {
    for method in [Method::Bye, Method::Info, Method::Update, Method::Invite, Method::Options] {
        for status in [Some(481), Some(200), Some(404), None] {
            let mut balancer = answered();
            balancer.request(seconds(2), &with_invented_tags(method, 1_000_000));
            match status {
                Some(status) => balancer.response(seconds(2), &response(1, method, 1_000_000, status)),
                None => expire(&mut balancer, 40),
            }
            assert_eq!(load(&balancer), (1, 0), "{method:?} {status:?}");
            assert_eq!(balancer.session(key(1)).map(|session| session.state), Some(SessionState::Confirmed));
            bye(&mut balancer, 2);
            assert_eq!(
                load(&balancer),
                (0, 0),
                "the BYE of the dialog ends the call, although it has a lower CSeq"
            );
        }
    }
}

#[test]
fn a_bye_ends_its_call_with_any_number_of_other_requests_open() {
    let mut balancer = answered();
    for cseq in 2..200 {
        balancer.request(seconds(2), &with_invented_tags(Method::Info, cseq));
        balancer.request(seconds(2), &with_invented_tags(Method::Bye, cseq));
    }
    bye(&mut balancer, 2);
    assert_eq!(load(&balancer).0, 0);
}

#[test]
fn a_call_known_from_a_token_ends_by_the_tags_of_the_token() {
    for proof in [Method::Ack, Method::Invite] {
        let mut balancer = one_node();
        balancer.request(seconds(0), &by_token(proof, 1));
        let calls = |balancer: &Balancer| load(balancer).0;
        for method in [Method::Bye, Method::Info] {
            balancer.request(seconds(1), &with_invented_tags(method, 5));
            balancer.response(seconds(1), &response(1, method, 5, 481));
        }
        assert_eq!(calls(&balancer), 1, "{proof:?}");
        balancer.request(seconds(2), &by_token(Method::Info, 6));
        balancer.response(seconds(2), &response(1, Method::Info, 6, 481));
        assert_eq!(calls(&balancer), 0, "{proof:?}");
    }
}

#[test]
fn an_early_dialog_ended_by_bye_ends_with_its_invite() {
    let mut balancer = one_node();
    balancer.request(seconds(0), &request(1, Method::Invite, 1));
    balancer.response(seconds(0), &response(1, Method::Invite, 1, 180));
    bye(&mut balancer, 2);
    assert_eq!(load(&balancer), (1, 1), "its INVITE is still unanswered");
    balancer.response(seconds(9), &response(1, Method::Invite, 1, 487));
    assert_eq!(load(&balancer), (0, 0));
}
