//! A call that its member leaves unanswered, in a pool with a queue: another member that has room gets it, on bytes.
mod common;

use ::dialog::RecordEvent;
use balance::{Load, Slot};
use common::dialog::Dialog;
use common::proxy::{PROXY, client};
use common::text::{Req, Resp, answer, string};
use common::*;
use elastic::estimate::Settings;
use elastic::queue::{Moves, QueueSettings};
use node::{CapacitySource, DialogSettings, PoolSetup, QueueSetup, Routes, ShardEvent};
use proptest::prelude::*;
use route::{BudgetSettings, Choice, Failover, Pools, Rule, Service, Spread, Table, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Method;

const MODE: Service = Service::BalanceTransactions;
const BOUND: Duration = Duration::from_millis(100);
/// Until its timer has fired.
const A_WHILE: Duration = Duration::from_millis(102);

fn setup(capacity: f64, source: CapacitySource) -> QueueSetup {
    let settings = QueueSettings { moves: Some(Moves::after(BOUND)), ..QueueSettings::default() };
    // Some calls of a member may be unanswered at a time.
    let threshold = Duration::from_millis(50);
    QueueSetup {
        settings,
        source,
        capacity: Settings { maximum: capacity, threshold, ..Settings::default() },
    }
}

/// Three members that take so many calls a second each.
fn bed_of(mode: Service, setup: QueueSetup) -> Bed {
    let mut bed = Bed::new(Site::plain());
    bed.set_services([mode]);
    bed.set_queues([Some(setup)]);
    bed
}

fn bed() -> Bed {
    bed_of(MODE, setup(10.0, CapacitySource::Fixed))
}

fn is_request(sent: &Sent, method: Method) -> bool {
    sent.message().method() == Some(method)
}

/// A new call, as its member gets it.
fn call(bed: &mut Bed, call_id: &str) -> Sent {
    let mut sent = bed.receive(0, client(), &Req::new("INVITE", call_id, client()).bytes());
    assert_eq!((sent.len(), sent[0].status()), (2, 100), "{sent:#?}");
    sent.remove(1)
}

/// A call that a member has left unanswered, as that and the next one have it.
fn moved(bed: &mut Bed) -> (Sent, Sent) {
    let first = call(bed, "call");
    let mut sent = bed.wait(A_WHILE);
    assert_eq!(sent.len(), 1, "{sent:#?}");
    let second = sent.remove(0);
    assert!(
        is_request(&second, Method::Invite) && second.to != first.to && second.branch() != first.branch()
    );
    (first, second)
}

/// What comes of the answer of whoever got `request`.
fn answered(bed: &mut Bed, request: &Sent, status: u16) -> Vec<Sent> {
    let response = Resp { tag: tag(bed, request.to), ..Resp::new(status, request.to) };
    bed.receive(0, request.to, &response.bytes_from(&request.bytes, addr(PROXY)))
}

/// Each member has its own: what they answer are different dialogs.
fn tag(bed: &Bed, at: SocketAddr) -> &'static str {
    ["one", "two", "three"][usize::from(bed.slot(at))]
}

/// The dialog of this answer.
fn dialog_of(bed: &Bed, at_member: &Sent, ok: &Sent) -> Dialog {
    let mut dialog = Dialog::of("call", (client(), 0), (at_member.to, 0), at_member, ok);
    dialog.callee.tag = tag(bed, at_member.to);
    dialog
}

/// Statuses to the caller.
fn told(sent: &[Sent]) -> Vec<u16> {
    sent.iter().filter(|sent| sent.to == client()).map(Sent::status).collect()
}

/// Methods to this member.
fn asked(sent: &[Sent], at: SocketAddr) -> Vec<Option<Method>> {
    sent.iter().filter(|sent| sent.to == at).map(|sent| sent.message().method()).collect()
}

fn load_of(bed: &Bed, at: SocketAddr) -> Load {
    bed.shard.balancer().load(Slot(bed.slot(at))).own
}

fn moves(bed: &Bed) -> u64 {
    bed.shard.queue_reports()[0].as_ref().map_or(0, |report| report.counts.moved)
}

/// The caller acknowledges, hangs up, and nothing is left.
fn finish(mut bed: Bed, at_member: &Sent, ok: &Sent) {
    let call = dialog_of(&bed, at_member, ok);
    call.caller_asks(&mut bed, "ACK", 1);
    call.caller_asks(&mut bed, "BYE", 2);
    nothing_is_left(bed);
}

fn nothing_is_left(mut bed: Bed) {
    bed.wait(Duration::from_secs(100));
    let report = bed.shard.proxy_report().expect("it keeps transactions");
    assert_eq!((report.transactions, report.unanswered, report.memory), (0, 0, 0));
    bed.assert_idle();
    bed.assert_forgets();
}

#[test]
fn a_stalled_members_call_is_answered_by_another_one() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    assert_eq!((load_of(&bed, first.to), moves(&bed)), (Load::default(), 1), "the session has left");
    assert_eq!((load_of(&bed, second.to).calls, load_of(&bed, second.to).transactions), (1, 1));
    assert_eq!(told(&answered(&mut bed, &second, 180)), [180]);
    let ok = answered(&mut bed, &second, 200).remove(0);
    assert_eq!((load_of(&bed, second.to).calls, load_of(&bed, second.to).transactions), (1, 0));
    // The first one gets two copies, in case its answer was lost, and what it says now goes nowhere.
    let copies = bed.wait(Duration::from_secs(20));
    assert_eq!(asked(&copies, first.to), [Some(Method::Invite); 2]);
    assert!(copies.iter().all(|sent| sent.to != second.to), "{copies:#?}");
    let late = answered(&mut bed, &first, 180);
    assert_eq!((late.len(), asked(&late, first.to)), (1, vec![Some(Method::Cancel)]));
    let ended = answered(&mut bed, &first, 487);
    assert_eq!(asked(&ended, first.to), [Some(Method::Ack)]);
    assert_eq!((load_of(&bed, second.to).calls, told(&ended)), (1, vec![]));
    finish(bed, &second, &ok);
}

#[test]
fn who_has_said_anything_keeps_the_call() {
    for status in [100, 180, 200, 486] {
        let mut bed = bed();
        let first = call(&mut bed, "call");
        answered(&mut bed, &first, status);
        let later = bed.wait(A_WHILE);
        assert!(later.iter().all(|sent| !is_request(sent, Method::Invite)), "{later:#?}");
        assert_eq!(moves(&bed), 0);
    }
}

#[test]
fn the_first_one_answers_after_all_and_the_call_is_its_own() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    assert_eq!(told(&answered(&mut bed, &first, 180)), [180]);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, second.to)), (1, Load::default()));
    let cancelled = answered(&mut bed, &second, 180);
    assert_eq!(asked(&cancelled, second.to), [Some(Method::Cancel)]);
    answered(&mut bed, &second, 487);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, first.to).transactions), (1, 1));
    let ok = answered(&mut bed, &first, 200).remove(0);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, first.to).transactions), (1, 0));
    finish(bed, &first, &ok);
}

/// RFC 3261 §16.7 step 5, §13.2.2.4: the CANCEL came too late, so the caller has two dialogs and ends one of them.
#[test]
fn two_members_answer_and_each_dialog_is_its_members() {
    for first_wins in [true, false] {
        let mut bed = bed();
        let (first, second) = moved(&mut bed);
        let (winner, loser) = if first_wins { (&first, &second) } else { (&second, &first) };
        let ok = answered(&mut bed, winner, 200).remove(0);
        let other = answered(&mut bed, loser, 200);
        assert_eq!((ok.status(), told(&other)), (200, vec![200]));
        assert_eq!((load_of(&bed, winner.to).calls, load_of(&bed, loser.to).calls), (1, 0));
        let unwanted = dialog_of(&bed, loser, &other[0]);
        unwanted.caller_asks(&mut bed, "ACK", 1);
        unwanted.caller_asks(&mut bed, "BYE", 2);
        assert_eq!((load_of(&bed, winner.to).calls, load_of(&bed, loser.to)), (1, Load::default()));
        finish(bed, winner, &ok);
    }
}

/// The one that was first to say anything is not the one that has accepted the call.
#[test]
fn the_call_counts_with_the_first_2xx() {
    for first_tries in [true, false] {
        let mut bed = bed();
        let (first, second) = moved(&mut bed);
        let (tries, has_it) = if first_tries { (&first, &second) } else { (&second, &first) };
        answered(&mut bed, tries, 100);
        assert_eq!((load_of(&bed, tries.to).calls, load_of(&bed, has_it.to)), (1, Load::default()));
        let sent = answered(&mut bed, has_it, 200);
        assert_eq!((told(&sent), asked(&sent, tries.to)), (vec![200], vec![Some(Method::Cancel)]));
        assert_eq!((load_of(&bed, tries.to), load_of(&bed, has_it.to).calls), (Load::default(), 1));
        answered(&mut bed, tries, 487);
        assert_eq!((load_of(&bed, has_it.to).calls, load_of(&bed, has_it.to).transactions), (1, 0));
        finish(bed, has_it, &sent[0]);
    }
}

/// The second one refuses, nobody else is left, and the first one has it after all.
#[test]
fn the_first_one_is_left_with_it() {
    for statuses in [&[180, 200][..], &[200]] {
        let mut bed = bed();
        bed.set_members(&[0, 1]);
        let (first, second) = moved(&mut bed);
        assert_eq!(told(&answered(&mut bed, &second, 503)), []);
        assert_eq!(bed.load().calls, 0);
        let mut last = Vec::new();
        for &status in statuses {
            last = answered(&mut bed, &first, status);
            assert_eq!((told(&last), load_of(&bed, first.to).calls), (vec![status], 1));
        }
        finish(bed, &first, &last[0]);
    }
}

/// Its limit of calls may have been reached since, by others.
#[test]
fn the_first_one_has_its_place_whatever_its_limit_is() {
    let mut bed = bed_of(MODE, setup(100.0, CapacitySource::Fixed));
    let (first, second) = moved(&mut bed);
    let mut nodes = bed.shard.balancer().nodes().to_vec();
    nodes[usize::from(bed.slot(first.to))].max_calls = 1;
    bed.set(|setup| setup.nodes = nodes.into());
    // It gets calls again after a while.
    bed.wait(Duration::from_secs(2));
    (0..9).for_each(|number| drop(call(&mut bed, &format!("other{number}"))));
    let at_second = load_of(&bed, second.to).calls;
    assert_eq!(load_of(&bed, first.to).calls, 1);
    answered(&mut bed, &first, 180);
    assert_eq!((load_of(&bed, first.to).calls, load_of(&bed, second.to).calls), (2, at_second - 1));
}

#[test]
fn a_2xx_after_the_failure_goes_back_and_counts_nowhere() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    assert_eq!(told(&answered(&mut bed, &second, 486)), [486]);
    let late = answered(&mut bed, &first, 200);
    assert_eq!((told(&late), bed.load()), (vec![200], Load::default()));
    // A caller that wants it no more says so, as of every 2xx (RFC 3261 §13.2.2.4).
    finish(bed, &first, &late[0]);
}

/// What one has failed is no reason to ask a third while the other rings.
#[test]
fn who_has_rung_and_fails_ends_the_call_whatever_the_other_one_said() {
    for other_is_first in [true, false] {
        let mut bed = bed();
        let (first, second) = moved(&mut bed);
        if other_is_first {
            answered(&mut bed, &first, 503);
        }
        answered(&mut bed, &second, 180);
        if !other_is_first {
            answered(&mut bed, &first, 100);
            answered(&mut bed, &first, 503);
        }
        let sent = answered(&mut bed, &second, 503);
        assert_eq!(told(&sent), [500], "RFC 3261 §16.7 step 6: {sent:#?}");
        assert_eq!(bed.load(), Load::default());
        let ack = Req::new("INVITE", "call", client()).same_branch("ACK", Some("x"));
        bed.receive(0, client(), &ack.bytes());
        nothing_is_left(bed);
    }
}

#[test]
fn who_is_on_trial_gets_no_call_that_moves() {
    let mut bed = bed();
    bed.set_members(&[0, 1]);
    bed.probed(1, false);
    call(&mut bed, "call");
    assert_eq!((bed.wait(A_WHILE), moves(&bed)), (Vec::new(), 0));
    nothing_is_left(bed);
}

/// Nobody is asked every few milliseconds for somebody who is not there.
#[test]
fn another_one_is_looked_for_less_and_less_often() {
    let mut bed = bed();
    bed.set_members(&[0]);
    call(&mut bed, "call");
    let (begin, mut looks) = (bed.now, 0);
    while let Some(deadline) = bed.shard.deadline().filter(|&at| at < begin + Duration::from_secs(30)) {
        let time = deadline - bed.now;
        bed.wait(time);
        looks += 1;
    }
    assert!(looks < 40, "15 looks, copies and ticks of wheels, where all the time it would be 300: {looks}");
}

/// A member that answers nothing at all is known by it, though others have its calls.
#[test]
fn who_answers_nothing_at_all_is_noted() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    let ok = answered(&mut bed, &second, 200).remove(0);
    bed.wait(Duration::from_secs(33));
    let at = Slot(bed.slot(first.to));
    let is_it = |event: &&ShardEvent| matches!(event, ShardEvent::Sign(balance::Sign::NoAnswer { slot, silent: true }) if *slot == at);
    assert_eq!(bed.events.iter().filter(is_it).count(), 1, "{:?}", bed.events);
    finish(bed, &second, &ok);
    // Not who has.
    let mut bed = self::bed();
    let (first, second) = moved(&mut bed);
    answered(&mut bed, &first, 180);
    answered(&mut bed, &second, 100);
    bed.wait(Duration::from_secs(33));
    let is_any = |event: &ShardEvent| matches!(event, ShardEvent::Sign(balance::Sign::NoAnswer { .. }));
    assert!(!bed.events.iter().any(is_any), "{:?}", bed.events);
}

/// An arrival is one, whoever has it.
#[test]
fn a_call_that_moves_is_one_arrival() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    answered(&mut bed, &first, 100);
    answered(&mut bed, &second, 200);
    let stats = (0..3).map(|slot| bed.shard.balancer().stats(Slot(slot)));
    assert_eq!(stats.map(|stats| stats.assigned - stats.moved).sum::<u64>(), 1);
}

#[test]
fn a_call_moves_once() {
    let mut bed = bed();
    let (_, second) = moved(&mut bed);
    let later = bed.wait(Duration::from_millis(300));
    assert_eq!((later, moves(&bed)), (Vec::new(), 1), "though the third member has room");
    let ok = answered(&mut bed, &second, 200).remove(0);
    finish(bed, &second, &ok);
}

#[test]
fn what_a_member_has_refused_goes_on_as_ever_and_moves_no_more() {
    let mut bed = bed();
    let first = call(&mut bed, "call");
    let sent = answered(&mut bed, &first, 503);
    let second = sent.iter().find(|sent| is_request(sent, Method::Invite)).expect("another one").clone();
    assert_eq!((bed.wait(Duration::from_millis(300)), moves(&bed)), (Vec::new(), 0));
    let ok = answered(&mut bed, &second, 200).remove(0);
    finish(bed, &second, &ok);
}

#[test]
fn after_a_move_the_one_that_refuses_leaves_it_to_the_other() {
    for first_refuses in [true, false] {
        let mut bed = bed();
        let (first, second) = moved(&mut bed);
        let (refuses, has_it) = if first_refuses { (&first, &second) } else { (&second, &first) };
        // The second one goes on to a third, as any that refuses.
        let sent = answered(&mut bed, refuses, 503);
        assert_eq!((told(&sent), sent.len()), (vec![], if first_refuses { 1 } else { 2 }));
        let ok = answered(&mut bed, has_it, 200).remove(0);
        assert_eq!((ok.status(), load_of(&bed, has_it.to).calls), (200, 1));
        finish(bed, has_it, &ok);
    }
}

#[test]
fn the_one_that_has_it_after_all_may_refuse_it_later() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    answered(&mut bed, &first, 100);
    let sent = answered(&mut bed, &first, 503);
    let third = sent.iter().find(|sent| is_request(sent, Method::Invite)).expect("another one").clone();
    assert!(third.to != first.to && third.to != second.to);
    assert_eq!((load_of(&bed, third.to).calls, load_of(&bed, second.to).calls), (1, 0));
    // Cancelled, it says so when it comes to it.
    answered(&mut bed, &second, 100);
    answered(&mut bed, &second, 487);
    let ok = answered(&mut bed, &third, 200).remove(0);
    assert_eq!((load_of(&bed, third.to).calls, load_of(&bed, third.to).transactions), (1, 0));
    finish(bed, &third, &ok);
}

#[test]
fn a_failure_of_the_call_is_told_at_once_and_leaves_nobody_ringing() {
    let mut bed = bed();
    let (first, second) = moved(&mut bed);
    assert_eq!(told(&answered(&mut bed, &second, 486)), [486]);
    assert_eq!(bed.load(), Load::default());
    assert_eq!(asked(&answered(&mut bed, &first, 180), first.to), [Some(Method::Cancel)]);
    answered(&mut bed, &first, 487);
    let ack = Req::new("INVITE", "call", client()).same_branch("ACK", Some("x"));
    bed.receive(0, client(), &ack.bytes());
    nothing_is_left(bed);
}

#[test]
fn what_the_caller_sends_follows() {
    let mut bed = bed();
    let request = Req::new("INVITE", "call", client());
    let (first, second) = moved(&mut bed);
    assert_eq!(told(&bed.receive(0, client(), &request.bytes())), [100], "a copy is absorbed");
    answered(&mut bed, &second, 180);
    let sent = bed.receive(0, client(), &request.same_branch("CANCEL", None).bytes());
    assert_eq!((told(&sent), asked(&sent, second.to)), (vec![200], vec![Some(Method::Cancel)]));
    assert_eq!(asked(&sent, first.to), [], "RFC 3261 §9.1: it has not answered");
    assert_eq!(told(&answered(&mut bed, &second, 487)), [487]);
    assert_eq!(asked(&answered(&mut bed, &first, 180), first.to), [Some(Method::Cancel)]);
    assert_eq!(bed.load(), Load::default());
    nothing_is_left(bed);
}

/// It was cancelled while both were silent, and is as short-lived with the one that answers.
#[test]
fn what_is_cancelled_stays_so_with_whoever_answers() {
    for first_answers in [true, false] {
        let mut bed = bed();
        let request = Req::new("INVITE", "call", client());
        let (first, second) = moved(&mut bed);
        bed.receive(0, client(), &request.same_branch("CANCEL", None).bytes());
        let answers = if first_answers { &first } else { &second };
        let sent = answered(&mut bed, answers, 180);
        assert_eq!(asked(&sent, answers.to), [Some(Method::Cancel)]);
        assert_eq!(load_of(&bed, answers.to).calls, 1);
        // It never says 487.
        bed.wait(Duration::from_secs(65));
        assert_eq!(bed.load(), Load::default());
        nothing_is_left(bed);
    }
}

/// The second one has refused it before the caller hangs up, or after, and the first one never says 487.
#[test]
fn what_is_cancelled_stays_so_though_the_second_one_has_failed() {
    for fails_first in [true, false] {
        let mut bed = bed();
        bed.set_members(&[0, 1]);
        let cancel = Req::new("INVITE", "call", client()).same_branch("CANCEL", None).bytes();
        let (first, second) = moved(&mut bed);
        if fails_first {
            answered(&mut bed, &second, 503);
        }
        bed.receive(0, client(), &cancel);
        if !fails_first {
            answered(&mut bed, &second, 503);
        }
        assert_eq!(asked(&answered(&mut bed, &first, 180), first.to), [Some(Method::Cancel)]);
        assert_eq!(load_of(&bed, first.to).calls, 1);
        bed.wait(Duration::from_secs(65));
        assert_eq!(bed.load(), Load::default());
        nothing_is_left(bed);
    }
}

/// Its number is another pool's now.
#[test]
fn nothing_moves_into_another_pool() {
    let mut bed = bed();
    let first = call(&mut bed, "call");
    let other: Vec<_> = (0..3).filter(|slot| *slot != usize::from(bed.slot(first.to))).collect();
    let members = balance::Members::of(other.iter().map(|slot| Slot(*slot as u16)));
    bed.set(|setup| setup.pools = [PoolSetup { nodes: members, ..setup.pools[0].clone() }].into());
    assert_eq!((bed.wait(A_WHILE), moves(&bed)), (Vec::new(), 0));
}

#[test]
fn nothing_moves_after_a_cancel() {
    let mut bed = bed();
    let request = Req::new("INVITE", "call", client());
    call(&mut bed, "call");
    bed.receive(0, client(), &request.same_branch("CANCEL", None).bytes());
    assert_eq!((bed.wait(A_WHILE), moves(&bed)), (Vec::new(), 0));
    nothing_is_left(bed);
}

#[test]
fn nothing_moves_where_nobody_has_room() {
    let mut bed = bed_of(MODE, setup(1.0, CapacitySource::Fixed));
    let first = call(&mut bed, "call");
    (0..2).for_each(|number| drop(call(&mut bed, &format!("other{number}"))));
    assert_eq!((bed.wait(A_WHILE), moves(&bed)), (Vec::new(), 0));
    let ok = answered(&mut bed, &first, 200).remove(0);
    assert_eq!(ok.status(), 200);
}

#[test]
fn a_call_moves_once_somebody_has_room() {
    let mut bed = bed_of(MODE, setup(4.0, CapacitySource::Fixed));
    (0..3).for_each(|number| drop(call(&mut bed, &format!("call{number}"))));
    assert_eq!((bed.wait(Duration::from_millis(249)), moves(&bed)), (Vec::new(), 0));
    assert!(bed.wait(BOUND).iter().all(|sent| is_request(sent, Method::Invite)));
    assert!((1..=2).contains(&moves(&bed)), "who has stalled has no room: {}", moves(&bed));
}

/// Retries are for moves and for failover together.
#[test]
fn moves_are_a_part_of_the_retry_budget() {
    let mut bed = bed_of(MODE, setup(100.0, CapacitySource::Fixed));
    let budget = BudgetSettings { ratio: 0.0, least: 2, window: Duration::from_secs(10) };
    let mut failover = Failover::default();
    failover.budget = budget;
    let pools = Pools { choices: vec![Choice { pool: 0, priority: 0, weight: 1.0 }], failover };
    let rule = Rule { name: "calls".to_owned(), target: Target::Pools(pools), ..Rule::default() };
    let listeners: Vec<_> = bed.site.listeners.iter().map(|text| addr(text)).collect();
    let routes = Routes { table: Table::new(vec![rule], &listeners), access: Vec::new() };
    bed.set(|setup| setup.settings.routes = Arc::new(routes));
    let known = call(&mut bed, "first");
    answered(&mut bed, &known, 200);
    bed.wait(BOUND);
    (0..6).for_each(|number| drop(call(&mut bed, &format!("call{number}"))));
    let sent = bed.wait(A_WHILE);
    assert_eq!((sent.len(), moves(&bed)), (2, 2));
}

#[test]
fn who_has_stalled_gets_no_call_until_it_answers() {
    let mut bed = bed_of(MODE, setup(200.0, CapacitySource::Fixed));
    let (first, second) = moved(&mut bed);
    answered(&mut bed, &second, 100);
    // One more, since it may never answer that one call.
    let others: Vec<_> = (0..2).map(|number| call(&mut bed, &format!("more{number}")).to).collect();
    assert!(others.contains(&first.to), "{others:?}");
    bed.wait(A_WHILE);
    answered(&mut bed, &second, 180);
    let others: Vec<_> = (0..6).map(|number| call(&mut bed, &format!("other{number}")).to).collect();
    assert!(others.iter().all(|to| *to != first.to), "{others:?}");
    answered(&mut bed, &first, 100);
    let others: Vec<_> = (6..12).map(|number| call(&mut bed, &format!("other{number}")).to).collect();
    assert!(others.contains(&first.to), "{others:?}");
}

/// A call that moved away was a slow one.
#[test]
fn who_stalls_loses_capacity() {
    let mut bed = bed_of(MODE, setup(100.0, CapacitySource::Responses));
    let (mut stalls, mut late) = (None, Vec::<Sent>::new());
    for number in 0..400 {
        // Of each 400 ms it stands still for 150.
        let stands_still = number % 16 < 6;
        for request in late.extract_if(.., |_| !stands_still) {
            answered(&mut bed, &request, 100);
            answered(&mut bed, &request, 487);
        }
        let request = call(&mut bed, &format!("call{number}"));
        let stalled = *stalls.get_or_insert(request.to);
        if request.to == stalled && stands_still {
            late.push(request);
        } else {
            answered(&mut bed, &request, 200);
        }
        for moved in bed.wait(Duration::from_millis(25)) {
            if is_request(&moved, Method::Invite) && moved.to != stalled {
                answered(&mut bed, &moved, 200);
            }
        }
    }
    let report = bed.shard.queue_reports().remove(0).expect("the pool has a queue");
    let capacity =
        |at| report.members.iter().find(|member| member.slot == Slot(bed.slot(at))).map(|of| of.capacity);
    let stalled = stalls.and_then(capacity).expect("a member");
    assert!(report.counts.moved >= 1 && stalled < 45.0, "{report:?}");
    let others = report.members.iter().filter(|member| member.capacity > stalled);
    assert_eq!(others.count(), 2, "{report:?}");
}

/// A single call that has moved is one that its member swallows, or one that it was slow with: that shows when it answers after all.
#[test]
fn a_call_that_is_answered_after_all_was_a_slow_one() {
    let capacities = [true, false].map(|answers_after_all| {
        let mut bed = bed_of(MODE, setup(100.0, CapacitySource::Responses));
        let (mut slow, mut next) = (None, 0);
        for number in 0..250 {
            let request = call(&mut bed, &format!("call{number}"));
            if *slow.get_or_insert(request.to) == request.to && number >= next {
                next = number + 20;
                let moved = bed.wait(A_WHILE).remove(0);
                answered(&mut bed, &moved, 486);
                if answers_after_all {
                    answered(&mut bed, &request, 100);
                    answered(&mut bed, &request, 487);
                }
            } else {
                answered(&mut bed, &request, 486);
            }
            bed.wait(Duration::from_millis(15));
        }
        let report = bed.shard.queue_reports().remove(0).expect("the pool has a queue");
        let slow = slow.map(|at| Slot(bed.slot(at)));
        report.members.iter().find(|member| Some(member.slot) == slow).map(|member| member.capacity)
    });
    assert!(capacities[0] < capacities[1], "{capacities:?}");
}

/// The record of a call names the member that has answered it.
#[test]
fn the_record_is_of_the_member_that_answered() {
    for first_wins in [true, false] {
        let mut bed = bed_of(Service::Calls(Spread::Counted), setup(10.0, CapacitySource::Fixed));
        bed.set(|setup| {
            setup.settings.dialogs = Some(Arc::new(DialogSettings {
                pools: vec!["calls".to_owned()],
                ..DialogSettings::default()
            }));
        });
        let (first, second) = moved(&mut bed);
        let (winner, loser) = if first_wins { (&first, &second) } else { (&second, &first) };
        answered(&mut bed, winner, 180);
        answered(&mut bed, loser, 180);
        answered(&mut bed, loser, 487);
        let ok = answered(&mut bed, winner, 200).remove(0);
        let call = dialog_of(&bed, winner, &ok);
        call.caller_asks(&mut bed, "ACK", 1);
        call.caller_asks(&mut bed, "BYE", 2);
        let records: Vec<_> = bed
            .events
            .iter()
            .filter_map(|event| if let ShardEvent::Record(record) = event { Some(record) } else { None })
            .collect();
        assert_eq!(records.len(), 1, "{records:#?}");
        let peer = records[0].peer;
        assert_eq!((records[0].event, peer), (RecordEvent::Ended, Some(winner.to)));
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A caller calls, or sends the INVITE again.
    Call(u8),
    Cancel(u8),
    /// Whoever has got one of the INVITEs answers it.
    Answer(usize, u16),
    /// The network says that one of them did not arrive.
    Lost(usize),
    /// How many calls a member may have at a time.
    Limit(u16, u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![
        3 => Just(100),
        3 => Just(180),
        3 => Just(200),
        1 => Just(486),
        3 => Just(503),
        2 => Just(487),
        1 => Just(603),
    ];
    prop_oneof![
        2 => (0..3_u8).prop_map(Step::Call),
        1 => (0..3_u8).prop_map(Step::Cancel),
        8 => (any::<usize>(), status).prop_map(|(which, status)| Step::Answer(which, status)),
        1 => any::<usize>().prop_map(Step::Lost),
        1 => (0..3_u16, prop_oneof![Just(0), 1..3_u32]).prop_map(|(slot, most)| Step::Limit(slot, most)),
        4 => prop_oneof![0..150_u64, 0..2_000_u64, Just(32_000)].prop_map(Step::Wait),
    ]
}

/// What the callers and members of a random run know.
#[derive(Default)]
struct Seen {
    /// INVITEs at members, copies left out, with the final answers that they have had.
    at_members: Vec<(Sent, Option<u16>)>,
    /// The first final answer to each call, with whom it is from if it is a 2xx.
    answers: BTreeMap<String, (u16, Option<SocketAddr>)>,
    /// Dialogs that are up, by call.
    dialogs: BTreeMap<String, Vec<(Dialog, SocketAddr)>>,
}

impl Seen {
    /// How many calls are up with whom.
    fn up(&self) -> BTreeMap<SocketAddr, u32> {
        let mut up = BTreeMap::new();
        for at in self.answers.values().filter_map(|(_, at)| *at) {
            *up.entry(at).or_default() += 1;
        }
        up
    }

    fn note(&mut self, bed: &Bed, sent: Vec<Sent>, by: Option<&Sent>) {
        for sent in sent {
            let message = sent.message();
            let call = string(message.call_id());
            let is_copy = self.at_members.iter().any(|(known, _)| known.branch() == sent.branch());
            match message.status() {
                None if message.method() == Some(Method::Invite) && !is_copy => {
                    self.at_members.push((sent, None));
                }
                Some(status) if status >= 200 && message.cseq().method == Method::Invite => {
                    assert_eq!(sent.to, client());
                    let from = by.filter(|_| status < 300).map(|by| by.to);
                    let (is_up, _) = self.answers.entry(call.clone()).or_insert((status, from));
                    // Who has been told of a failure acknowledges no 2xx.
                    if let (Some(by), Some(at), 200) = (by, from, *is_up) {
                        let known = self.dialogs.entry(call.clone()).or_default();
                        if known.iter().all(|(_, member)| *member != at) {
                            let mut dialog = Dialog::of(&call, (client(), 0), (at, 0), by, &sent);
                            dialog.callee.tag = tag(bed, at);
                            known.push((dialog, at));
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

proptest! {
    /// Whatever is answered, cancelled, lost or late: each caller gets a final answer, a call that is up counts with the member whose
    /// 2xx was the first, one that has failed counts nowhere, and nothing is left when all have hung up.
    #[test]
    fn each_call_counts_where_it_is(steps in prop::collection::vec(step(), 1..60), capacity in 2.0..100.0_f64) {
        let mut bed = bed_of(MODE, setup(capacity, CapacitySource::Responses));
        let (mut seen, mut called) = (Seen::default(), BTreeSet::new());
        for step in steps {
            let (sent, by) = match step {
                // Who has been answered sends no copies.
                Step::Call(number) if !seen.answers.contains_key(&format!("call{number}")) => {
                    called.insert(number);
                    let invite = Req::new("INVITE", &format!("call{number}"), client());
                    (bed.receive(0, client(), &invite.bytes()), None)
                }
                Step::Cancel(number) if called.contains(&number) => {
                    let invite = Req::new("INVITE", &format!("call{number}"), client());
                    (bed.receive(0, client(), &invite.same_branch("CANCEL", None).bytes()), None)
                }
                Step::Answer(which, status) if !seen.at_members.is_empty() => {
                    let at = which % seen.at_members.len();
                    let (request, last) = &mut seen.at_members[at];
                    if status >= 200 {
                        last.get_or_insert(status);
                    }
                    let (request, status) = (request.clone(), last.unwrap_or(status));
                    (answered(&mut bed, &request, status), Some(request))
                }
                Step::Lost(which) if !seen.at_members.is_empty() => {
                    let (request, last) = &seen.at_members[which % seen.at_members.len()];
                    if last.is_some() {
                        continue;
                    }
                    (bed.unreachable(request.to, &request.bytes), None)
                }
                Step::Limit(slot, most) => {
                    let mut nodes = bed.shard.balancer().nodes().to_vec();
                    nodes[usize::from(slot)].max_calls = most;
                    (bed.set(|setup| setup.nodes = nodes.into()), None)
                }
                Step::Wait(millis) => (bed.wait(Duration::from_millis(millis)), None),
                Step::Call(_) | Step::Cancel(_) | Step::Answer(..) | Step::Lost(_) => continue,
            };
            seen.note(&bed, sent, by.as_ref());
            for (at, calls) in seen.up() {
                prop_assert!(load_of(&bed, at).calls >= calls, "before the ACK: {:?}", seen.answers);
            }
            // A 2xx is acknowledged at once, so that its call stays.
            for (dialog, _) in seen.dialogs.values().flatten() {
                dialog.caller_asks(&mut bed, "ACK", 1);
            }
        }
        // Longer than any INVITE may ring.
        let sent = bed.wait(Duration::from_secs(400));
        seen.note(&bed, sent, None);
        prop_assert_eq!(seen.answers.len(), called.len(), "{:?}", seen.answers);
        let up = seen.up();
        for (address, _) in bed.site.nodes.clone() {
            let calls = up.get(&addr(address)).copied().unwrap_or_default();
            prop_assert_eq!(load_of(&bed, addr(address)).calls, calls, "{}: {:?}", address, seen.answers);
        }
        for (dialog, _) in seen.dialogs.values().flatten() {
            let bye = dialog.caller_asks(&mut bed, "BYE", 2);
            let ok = answer(&bye.bytes, addr(PROXY), 200, bye.to);
            bed.receive(0, bye.to, &ok);
        }
        nothing_is_left(bed);
    }
}
