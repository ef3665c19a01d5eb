//! A call that its member leaves unanswered, in a pool with a queue: another member that has room gets it, on bytes.
mod common;

use ::dialog::RecordEvent;
use balance::{Load, Slot};
use base::Outbox;
use common::dialog::Dialog;
use common::proxy::{LIMITS, PROXY, client};
use common::text::{Req, Resp};
use common::*;
use elastic::estimate::Settings;
use elastic::queue::{Moves, QueueSettings};
use node::{
    CapacitySource, DialogSettings, PoolMode, ProxySettings, QueueSetup, Routes, ShardEvent, ShardInput,
};
use route::{BudgetSettings, Choice, Dialogs, Failover, Forward, Pools, Rule, Table, Target};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Method;

const MODE: PoolMode = PoolMode { dialogs: Dialogs::Member, is_sessionless: false, ..PoolMode::HOPS };
const BOUND: Duration = Duration::from_millis(100);
/// Until its timer has fired.
const A_WHILE: Duration = Duration::from_millis(102);

fn setup(capacity: f64, source: CapacitySource) -> QueueSetup {
    let settings = QueueSettings { moves: Some(Moves::after(BOUND)), ..QueueSettings::default() };
    QueueSetup { settings, source, capacity: Settings { maximum: capacity, ..Settings::default() } }
}

/// Three members that take so many calls a second each.
fn bed_of(mode: PoolMode, setup: QueueSetup) -> Bed {
    let mut bed = Bed::new(Site::plain());
    let settings = ProxySettings { limits: LIMITS, ..ProxySettings::default() };
    bed.shard = bed.shard.with_transactions(settings, ([9; 16], 77));
    bed.shard.set_modes(vec![mode], balance::Members::of([]));
    bed.shard.set_queues(vec![Some(Arc::new(setup))], 1);
    bed
}

fn bed() -> Bed {
    bed_of(MODE, setup(10.0, CapacitySource::Fixed))
}

/// Time passes; what is sent meanwhile.
fn wait(bed: &mut Bed, time: Duration) -> Vec<Sent> {
    let end = bed.now + time;
    let mut sent = Vec::new();
    while let Some(deadline) = bed.shard.deadline().filter(|&deadline| deadline <= end) {
        bed.now = bed.now.max(deadline);
        let mut out = Outbox::default();
        bed.shard.handle(bed.now, ShardInput::Timer, &mut out);
        sent.extend(out.transmits().iter().map(|t| Sent {
            listener: t.flow.listener,
            to: t.flow.peer,
            bytes: out.message(t).to_vec(),
        }));
        assert_eq!(bed.shard.balancer().audit(), Ok(()));
        bed.events.extend(out.drain_events());
    }
    bed.now = end;
    sent
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
    let mut sent = wait(bed, A_WHILE);
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
    wait(&mut bed, Duration::from_secs(100));
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
    // The first one hears no more of it, and what it says now goes nowhere.
    assert_eq!(wait(&mut bed, Duration::from_secs(5)), []);
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
        let later = wait(&mut bed, A_WHILE);
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

#[test]
fn a_call_moves_once() {
    let mut bed = bed();
    let (_, second) = moved(&mut bed);
    let later = wait(&mut bed, Duration::from_millis(300));
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
    assert_eq!((wait(&mut bed, Duration::from_millis(300)), moves(&bed)), (Vec::new(), 0));
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

#[test]
fn nothing_moves_after_a_cancel() {
    let mut bed = bed();
    let request = Req::new("INVITE", "call", client());
    call(&mut bed, "call");
    bed.receive(0, client(), &request.same_branch("CANCEL", None).bytes());
    assert_eq!((wait(&mut bed, A_WHILE), moves(&bed)), (Vec::new(), 0));
    nothing_is_left(bed);
}

#[test]
fn nothing_moves_where_nobody_has_room() {
    let mut bed = bed_of(MODE, setup(1.0, CapacitySource::Fixed));
    let first = call(&mut bed, "call");
    (0..2).for_each(|number| drop(call(&mut bed, &format!("other{number}"))));
    assert_eq!((wait(&mut bed, A_WHILE), moves(&bed)), (Vec::new(), 0));
    let ok = answered(&mut bed, &first, 200).remove(0);
    assert_eq!(ok.status(), 200);
}

#[test]
fn a_call_moves_once_somebody_has_room() {
    let mut bed = bed_of(MODE, setup(4.0, CapacitySource::Fixed));
    (0..3).for_each(|number| drop(call(&mut bed, &format!("call{number}"))));
    assert_eq!((wait(&mut bed, Duration::from_millis(249)), moves(&bed)), (Vec::new(), 0));
    assert!(wait(&mut bed, BOUND).iter().all(|sent| is_request(sent, Method::Invite)));
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
    bed.shard.set_routes(Arc::new(routes), 1);
    let known = call(&mut bed, "first");
    answered(&mut bed, &known, 200);
    wait(&mut bed, BOUND);
    (0..6).for_each(|number| drop(call(&mut bed, &format!("call{number}"))));
    let sent = wait(&mut bed, A_WHILE);
    assert_eq!((sent.len(), moves(&bed)), (2, 2));
}

#[test]
fn who_has_stalled_gets_no_call_until_it_answers() {
    let mut bed = bed_of(MODE, setup(100.0, CapacitySource::Fixed));
    let (first, _) = moved(&mut bed);
    let others: Vec<_> = (0..6).map(|number| call(&mut bed, &format!("other{number}")).to).collect();
    assert!(others.iter().all(|to| *to != first.to), "{others:?}");
    answered(&mut bed, &first, 100);
    let others: Vec<_> = (6..12).map(|number| call(&mut bed, &format!("other{number}")).to).collect();
    assert!(others.contains(&first.to), "{others:?}");
}

/// A call that moved away was a slow one.
#[test]
fn who_stalls_loses_capacity() {
    let mut setup = setup(100.0, CapacitySource::Responses);
    setup.capacity.threshold = Duration::from_millis(50);
    let mut bed = bed_of(MODE, setup);
    let (mut stalls, mut late) = (None, Vec::<(u32, Sent)>::new());
    for number in 0..400 {
        for (_, request) in late.extract_if(.., |(since, _)| number - *since >= 6) {
            answered(&mut bed, &request, 100);
            answered(&mut bed, &request, 487);
        }
        let request = call(&mut bed, &format!("call{number}"));
        let stalled = *stalls.get_or_insert(request.to);
        // Now and then it takes 150 ms.
        if request.to == stalled && number % 16 < 4 {
            late.push((number, request));
        } else {
            answered(&mut bed, &request, 200);
        }
        for moved in wait(&mut bed, Duration::from_millis(25)) {
            if is_request(&moved, Method::Invite) && moved.to != stalled {
                answered(&mut bed, &moved, 200);
            }
        }
    }
    let report = bed.shard.queue_reports().remove(0).expect("the pool has a queue");
    let capacity =
        |at| report.members.iter().find(|member| member.slot == Slot(bed.slot(at))).map(|of| of.capacity);
    let stalled = stalls.and_then(capacity).expect("a member");
    assert!(report.counts.moved > 3 && stalled < 45.0, "{report:?}");
    let others = report.members.iter().filter(|member| member.capacity > stalled);
    assert_eq!(others.count(), 2, "{report:?}");
}

/// The record of a call names the member that has answered it.
#[test]
fn the_record_is_of_the_member_that_answered() {
    for first_wins in [true, false] {
        let mut bed = bed_of(
            PoolMode { forward: Forward::Dialog, dialogs: Dialogs::Route, ..MODE },
            setup(10.0, CapacitySource::Fixed),
        );
        bed.shard
            .set_dialogs(&DialogSettings { pools: vec!["calls".to_owned()], ..DialogSettings::default() }, 1);
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
