//! Queues in front of pools: new calls wait until a member has room for them.

use crate::common::*;

use elastic::queue::{Accrual, MemberChoice, Overflow};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MODE: Service = Service::BalanceTransactions;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A queue in front of three members with this capacity in calls per second, from this source.
fn queue_of(maximum: f64, source: CapacitySource) -> QueueSetup {
    QueueSetup { source, ..queue(maximum) }
}

/// The same with this bound of the wait.
fn queue_with_bound(maximum: f64, bound: Duration) -> QueueSetup {
    let mut setup = queue(maximum);
    setup.settings.bound = bound;
    setup
}

fn set(bed: &mut Bed, setup: QueueSetup) {
    bed.set_queues([Some(setup)]);
}

/// A balancer without transactions whose members take ten calls per second.
fn bed() -> Bed {
    let mut bed = Bed::new(Site::plain());
    set(&mut bed, queue(10.0));
    bed
}

fn with_transactions(mut bed: Bed) -> Bed {
    bed.set_services([MODE]);
    bed
}

fn invite(call_id: &str) -> Vec<u8> {
    Req::new("INVITE", call_id, client()).bytes()
}

fn receive(bed: &mut Bed, bytes: &[u8]) -> Vec<Sent> {
    bed.receive(0, client(), bytes)
}

/// Sends `count` new calls. Returns the messages for each.
fn calls(bed: &mut Bed, count: usize) -> Vec<Vec<Sent>> {
    (0..count).map(|number| receive(bed, &invite(&format!("call{number}")))).collect()
}

fn waiting(bed: &Bed) -> usize {
    bed.shard.queue_reports()[0].as_ref().map_or(0, |report| report.waiting)
}

fn capacity(bed: &Bed, slot: u16) -> f64 {
    let report = queue_report(bed);
    report.members.iter().find(|member| member.slot == Slot(slot)).expect("the slot is of a member").capacity
}

#[test]
fn a_call_waits_until_a_member_has_room() {
    let mut bed = bed();
    let sent = calls(&mut bed, 5);
    let members: Vec<_> = sent.iter().map(|sent| sent.first().map(|sent| bed.slot(sent.to))).collect();
    assert_eq!(members, [Some(0), Some(1), Some(2), None, None]);
    assert_eq!((waiting(&bed), bed.shard.open_transactions()), (2, 5));
    assert_eq!(bed.wait(ms(99)), []);
    let sent = bed.wait(ms(2));
    assert_eq!(sent.iter().map(|sent| bed.slot(sent.to)).collect::<Vec<_>>(), [0, 1]);
    let ids: Vec<_> = sent.iter().map(|sent| sent.message().call_id().to_vec()).collect();
    assert_eq!(ids, [b"call3".to_vec(), b"call4".to_vec()]);
    assert_eq!(waiting(&bed), 0);
}

#[test]
fn requests_of_a_call_do_not_wait() {
    let mut bed = bed();
    let call = Dialog::inbound(&mut bed, "call", client(), 0);
    calls(&mut bed, 4);
    assert_eq!(waiting(&bed), 2);
    call.caller_asks(&mut bed, "INFO", 2);
    call.callee_asks(&mut bed, "INFO", 3);
    // Requests that begin no call do not wait.
    let options = Req::new("OPTIONS", "options", client()).bytes();
    assert_eq!(receive(&mut bed, &options).len(), 1);
    assert_eq!(waiting(&bed), 2);
}

#[test]
fn copies_of_waiting_calls_are_absorbed() {
    let mut bed = bed();
    calls(&mut bed, 4);
    assert_eq!(receive(&mut bed, &invite("call3")), []);
    assert_eq!(waiting(&bed), 1);
    let first = bed.wait(ms(100)).remove(0);
    // A later copy follows it.
    let copy = bed.one(0, client(), &invite("call3"));
    assert_eq!((copy.to, &copy.bytes), (first.to, &first.bytes));
}

#[test]
fn a_cancelled_call_is_answered_and_not_delivered() {
    for mut bed in [bed(), with_transactions(bed())] {
        calls(&mut bed, 4);
        let cancel = Req::new("CANCEL", "call3", client()).bytes();
        let sent = receive(&mut bed, &cancel);
        let answers: Vec<_> = sent.iter().map(|sent| (sent.status(), sent.to)).collect();
        assert_eq!(answers, [(200, client()), (487, client())]);
        assert_eq!(sent[1].message().cseq().method, Method::Invite);
        assert_eq!(waiting(&bed), 0);
        let late = bed.wait(ms(400));
        assert!(late.iter().all(|sent| sent.message().call_id() != b"call3"), "{late:?}");
    }
}

/// An ICMP error quotes the lost message, which no other sender has seen.
#[test]
fn a_call_of_an_unreachable_caller_is_dropped() {
    let mut bed = with_transactions(bed());
    set(&mut bed, queue_with_bound(1.0, Duration::from_secs(5)));
    let trying = calls(&mut bed, 4).remove(3).remove(0);
    let lost = |bed: &mut Bed, to, quoted: &[u8]| {
        assert_eq!(bed.unreachable(to, quoted), []);
        waiting(bed)
    };
    let other = String::from_utf8(trying.bytes.clone()).expect("text").replace("call3", "call9");
    assert_eq!(lost(&mut bed, trying.to, other.as_bytes()), 1, "an error about another call");
    assert_eq!(lost(&mut bed, addr("127.0.9.2:6000"), &trying.bytes), 1, "an error from another address");
    assert_eq!(lost(&mut bed, trying.to, &trying.bytes), 0);
    let sent = bed.wait(Duration::from_secs(5));
    assert!(sent.iter().all(|sent| sent.message().call_id() != b"call3"), "{sent:#?}");
}

/// The Via sends the 100 to another port than the INVITE's source: the ICMP error comes from there.
#[test]
fn reachability_is_judged_at_the_response_address() {
    let mut bed = with_transactions(bed());
    set(&mut bed, queue_with_bound(1.0, Duration::from_secs(5)));
    calls(&mut bed, 3);
    let invite = Req::new("INVITE", "call3", client()).via("SIP/2.0/UDP 127.0.9.1:7000;branch=z9hG4bK-3");
    let trying = bed.one(0, client(), &invite.bytes());
    assert_eq!((trying.status(), trying.to), (100, addr("127.0.9.1:7000")));
    bed.unreachable(client(), &trying.bytes);
    assert_eq!(waiting(&bed), 1, "an error from another address");
    bed.unreachable(trying.to, &trying.bytes);
    assert_eq!(waiting(&bed), 0);
}

#[test]
fn no_call_waits_longer_than_its_limit() {
    let mut bed = bed();
    let mut setup = queue(1.0);
    set(&mut bed, setup.clone());
    calls(&mut bed, 4);
    assert_eq!(bed.wait(ms(249)), []);
    let sent = bed.wait(ms(1));
    assert_eq!((sent.len(), sent[0].status(), sent[0].to), (1, 503, client()));
    let retry_after: u32 = testkit::value(&sent[0].bytes, "Retry-After")
        .expect("the refusal has a Retry-After")
        .parse()
        .expect("a number");
    assert!((5..=15).contains(&retry_after), "{retry_after}");
    // Its ACK ends here.
    let tag = String::from_utf8(sent[0].message().to_tag().expect("a tag").to_vec()).expect("text");
    let ack = Req { to_tag: Some(tag), ..Req::new("ACK", "call3", client()) };
    assert_eq!(receive(&mut bed, &ack.bytes()), []);
    // Or the call is dropped silently.
    setup.settings.overflow = Overflow::Drop;
    set(&mut bed, setup);
    let sent: Vec<_> = (0..7).map(|number| receive(&mut bed, &invite(&format!("other{number}")))).collect();
    assert_eq!(sent.iter().filter(|sent| sent.is_empty()).count(), 4);
    assert_eq!((bed.wait(ms(250)), bed.drops("queue_full")), (Vec::new(), 4));
}

/// A caller that got a 100 sends no copies, so a lost response would leave it without any.
#[test]
fn a_call_with_a_100_is_answered_until_the_ack() {
    for is_cancelled in [false, true] {
        let mut bed = with_transactions(bed());
        set(&mut bed, queue_with_bound(1.0, Duration::from_millis(700)));
        calls(&mut bed, 3);
        // As long as most INVITEs, so that retransmissions of the response stay within twice its bytes.
        let long = Req::new("INVITE", "call3", client()).with("Subject", &"long".repeat(200));
        let sent = receive(&mut bed, &long.bytes());
        assert_eq!((sent.len(), sent[0].status(), waiting(&bed)), (1, 100, 1));
        let of_it = |sent: &[Sent]| -> Vec<u16> {
            let is_its = |sent: &&Sent| sent.to == client() && sent.message().call_id() == b"call3";
            sent.iter().filter(is_its).map(Sent::status).collect()
        };
        let (status, first) = if is_cancelled {
            (487, receive(&mut bed, &Req::new("CANCEL", "call3", client()).bytes()).remove(1))
        } else {
            let mut sent = bed.wait(ms(700));
            sent.retain(|sent| sent.to == client());
            assert!(sent[0].message().header("Retry-After").is_some(), "{sent:#?}");
            (503, sent.remove(0))
        };
        assert_eq!(of_it(core::slice::from_ref(&first)), [status]);
        assert_eq!(of_it(&bed.wait(ms(1_600))), [status, status], "after T1 and twice T1");
        let tag = first.message().to_tag().expect("a final answer has one").to_vec();
        let tag = String::from_utf8(tag).expect("text");
        let ack = Req { to_tag: Some(tag), ..Req::new("ACK", "call3", client()) };
        assert_eq!(receive(&mut bed, &ack.bytes()), []);
        assert_eq!(of_it(&bed.wait(Duration::from_secs(10))), []);
        assert_eq!(bed.shard.proxy_report().map(|report| report.unanswered), Some(3));
    }
}

#[test]
fn long_messages_do_not_fill_the_memory() {
    let mut bed = bed();
    let mut setup = queue(1.0);
    setup.settings.length.least = 1_000;
    set(&mut bed, setup);
    calls(&mut bed, 3);
    let long = "x".repeat(50_000);
    let outcomes: Vec<_> = (0..200)
        .map(|number| {
            receive(
                &mut bed,
                &Req::new("INVITE", &format!("long{number}"), client()).with("Subject", &long).bytes(),
            )
            .len()
        })
        .collect();
    assert_eq!(waiting(&bed), outcomes.iter().filter(|answers| **answers == 0).count());
    assert!((150..170).contains(&waiting(&bed)), "{}", waiting(&bed));
    bed.wait(ms(250));
    // All of it is free again.
    assert_eq!((waiting(&bed), receive(&mut bed, &invite("other")).len()), (0, 0));
}

#[test]
fn a_caller_that_may_wait_long_gets_a_100() {
    let mut bed = bed();
    set(&mut bed, queue_with_bound(1.0, Duration::from_secs(2)));
    let sent = calls(&mut bed, 4).remove(3);
    assert_eq!((sent.len(), sent[0].status()), (1, 100));
    let again = bed.one(0, client(), &invite("call3"));
    assert_eq!(again.status(), 100);
    assert_eq!(bed.wait(ms(1_000)).len(), 1);
}

#[test]
fn only_live_members_pull_calls() {
    let mut bed = bed();
    bed.port_closed(1);
    bed.port_closed(2);
    let sent = calls(&mut bed, 3);
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 0]);
    let sent: Vec<_> = (0..5).flat_map(|_| bed.probed(1, true)).collect();
    assert_eq!(sent.iter().map(|sent| bed.slot(sent.to)).collect::<Vec<_>>(), [1]);
}

#[test]
fn without_members_no_call_waits() {
    let mut bed = bed();
    (0..3).for_each(|slot| bed.port_closed(slot));
    assert_eq!(bed.one(0, client(), &invite("call")).status(), 503);
}

#[test]
fn a_member_gets_calls_by_its_announced_capacity() {
    let mut bed = Bed::new(Site::plain());
    set(&mut bed, queue_of(100.0, CapacitySource::Announced));
    calls(&mut bed, 1);
    assert!((capacity(&bed, 0) - 50.0).abs() < 1e-9, "half of the most at the beginning");
    for (slot, announced) in [(0, 20.0), (1, 1_000.0), (2, 0.0)] {
        bed.input(ShardInput::Capacity { slot: Slot(slot), capacity: announced });
    }
    let known: Vec<_> = (0..3).map(|slot| capacity(&bed, slot)).collect();
    assert_eq!(known, [20.0, 100.0, 0.0]);
    bed.wait(Duration::from_mins(10));
    calls(&mut bed, 1);
    let report = queue_report(&bed);
    assert!(report.members.iter().all(|member| member.is_silent));
    // The announced capacity outlives a change of the queue.
    bed.input(ShardInput::Capacity { slot: Slot(0), capacity: 30.0 });
    let mut setup = queue_of(100.0, CapacitySource::Announced);
    setup.settings.choice = MemberChoice::IndexPacking;
    set(&mut bed, setup);
    calls(&mut bed, 2);
    assert!((capacity(&bed, 0) - 30.0).abs() < 1e-9);
}

/// A new member is assumed to take half of its maximum of 20 calls/s, and 50 arrive for three. Members that answer at
/// once get all of them.
#[test]
fn a_capacity_that_is_too_low_refuses_no_call() {
    let mut bed = Bed::new(Site::plain());
    let mut setup = queue_of(20.0, CapacitySource::Responses);
    setup.settings.accrual = Accrual::Answers { most: 20.0 };
    set(&mut bed, setup);
    assert_eq!(carry(&mut bed, 2, ms(1)), 0);
}

/// For `seconds`, the first member takes `first_takes` for each response, the others 1 ms, and 50 calls/s arrive.
/// Returns the number of refusals.
fn carry(bed: &mut Bed, seconds: usize, first_takes: Duration) -> usize {
    let mut refused = 0;
    for number in 0..50 * seconds {
        let mut sent = receive(bed, &invite(&format!("{:?}-{number}", bed.now)));
        sent.extend(bed.wait(ms(1)));
        let mut late = Vec::new();
        for request in &sent {
            if request.message().status().is_some() {
                refused += 1;
            } else if bed.slot(request.to) == 0 {
                late.push(request.clone());
            } else {
                respond(bed, request, 200);
            }
        }
        bed.wait(first_takes.saturating_sub(ms(1)));
        for request in late {
            respond(bed, &request, 200);
        }
        let rest = bed.wait(ms(20).saturating_sub(first_takes.max(ms(1))));
        refused += rest.iter().filter(|sent| sent.message().status().is_some_and(|code| code == 503)).count();
        for request in rest.iter().filter(|sent| sent.message().status().is_none()) {
            respond(bed, request, 200);
        }
    }
    refused
}

/// Measured capacities outlive a reload, and are passed to another process in its place. With the initial capacities,
/// calls would be refused.
#[test]
fn measured_capacities_outlive_the_queue() {
    let mut bed = Bed::new(Site::plain());
    let mut setup = queue_of(34.0, CapacitySource::Responses);
    setup.capacity.threshold = ms(10);
    set(&mut bed, setup.clone());
    carry(&mut bed, 30, ms(1));
    let shown: Vec<_> = (0..3).map(|slot| capacity(&bed, slot)).collect();
    assert!(shown.iter().all(|shown| *shown > 18.0), "more than half of the most: {shown:?}");
    setup.settings.bound = ms(100);
    set(&mut bed, setup.clone());
    bed.one(0, client(), &invite("first"));
    assert_eq!((0..3).map(|slot| capacity(&bed, slot)).collect::<Vec<_>>(), shown);
    // The other process sees its members before it learns their capacities.
    let mut other = Bed::new(Site::plain());
    set(&mut other, setup);
    other.one(0, client(), &invite("second"));
    let ids: Vec<_> = other.shard.balancer().nodes().iter().map(|node| node.id).collect();
    for (id, capacity) in ids.into_iter().zip(&shown) {
        let pool = PoolId::default();
        other.input(ShardInput::Learned { pool, node: id, capacity: *capacity });
    }
    other.one(0, client(), &invite("third"));
    assert_eq!((0..3).map(|slot| capacity(&other, slot)).collect::<Vec<_>>(), shown);
    // A former member takes nothing, and its measured capacity is forgotten.
    other.set_members(&[0, 1]);
    other.one(0, client(), &invite("fourth"));
    let report = queue_report(&other);
    assert_eq!(report.members.len(), 2);
    other.set_members(&[0, 1, 2]);
    other.one(0, client(), &invite("fifth"));
    assert!(capacity(&other, 2) < shown[2], "the member starts with the initial capacity");
}

/// Waiting calls were admitted before the stop.
#[test]
fn calls_that_wait_before_a_stop_are_served() {
    for mut bed in [bed(), with_transactions(bed())] {
        set(&mut bed, queue_with_bound(10.0, Duration::from_secs(5)));
        calls(&mut bed, 5);
        stop(&mut bed);
        let refused = receive(&mut bed, &invite("late"));
        assert_eq!(refused.iter().map(Sent::status).collect::<Vec<_>>(), [503]);
        assert_eq!(waiting(&bed), 2);
        let sent = bed.wait(ms(110));
        assert_eq!((requests(&sent, Method::Invite).len(), waiting(&bed)), (2, 0));
    }
}

/// The monitors of all members fail, and the members work as before.
#[test]
fn silent_monitors_cause_no_refusals() {
    for was_heard in [true, false] {
        let mut bed = Bed::new(Site::plain());
        let mut setup = queue_of(60.0, CapacitySource::Announced);
        setup.capacity.threshold = ms(10);
        set(&mut bed, setup);
        carry(&mut bed, 1, ms(1));
        (0..3).filter(|_| was_heard).for_each(|slot| {
            drop(bed.input(ShardInput::Capacity { slot: Slot(slot), capacity: 40.0 }));
        });
        // A fifth of the announced or the initial capacity would be less than half of the calls.
        assert_eq!(carry(&mut bed, 60, ms(1)), 0, "was heard: {was_heard}");
        let report = queue_report(&bed);
        assert!(report.members.iter().all(|member| member.is_silent));
        // A new announcement of the monitor counts at once.
        bed.input(ShardInput::Capacity { slot: Slot(0), capacity: 10.0 });
        assert!((capacity(&bed, 0) - 10.0).abs() < 1e-9);
    }
}

#[test]
fn a_slow_member_whose_monitor_is_silent_gets_less() {
    let mut bed = Bed::new(Site::plain());
    let mut setup = queue_of(60.0, CapacitySource::Announced);
    setup.capacity.threshold = ms(10);
    set(&mut bed, setup);
    carry(&mut bed, 1, ms(1));
    (0..3).for_each(|slot| drop(bed.input(ShardInput::Capacity { slot: Slot(slot), capacity: 40.0 })));
    carry(&mut bed, 60, ms(15));
    let (slow, quick) = (capacity(&bed, 0), capacity(&bed, 1));
    assert!(slow < 0.5 * quick && slow >= 0.2 * 40.0, "{slow} {quick}");
}

#[test]
fn a_new_pool_in_the_file_keeps_waiting_calls() {
    let mut bed = bed();
    calls(&mut bed, 5);
    let before = bed.shard.queue_reports()[0].clone().expect("a queue");
    assert_eq!((before.waiting, before.counts.offered), (2, 5));
    bed.set_queues([Some(queue(10.0)), None]);
    let after = bed.shard.queue_reports()[0].clone().expect("a queue");
    assert_eq!((after.waiting, after.counts.offered), (2, 5));
}

/// An event at a shard.
#[derive(Clone, Debug)]
enum Step {
    Call(u8),
    Cancel(u8),
    Answer(u16),
    Wait(u64),
    Member(u16, bool),
    Announce(u16, f64),
    Queue(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<u8>().prop_map(Step::Call),
        2 => any::<u8>().prop_map(Step::Cancel),
        4 => prop_oneof![Just(100), Just(180), Just(200), Just(486), Just(503)].prop_map(Step::Answer),
        4 => (0..400_u64).prop_map(Step::Wait),
        1 => (0..3_u16, any::<bool>()).prop_map(|(slot, alive)| Step::Member(slot, alive)),
        2 => (0..3_u16, 0.0..50.0).prop_map(|(slot, capacity)| Step::Announce(slot, capacity)),
        1 => (0..4_u8).prop_map(Step::Queue),
    ]
}

proptest! {
    /// Each INVITE goes to a member once, or is answered, or is dropped by a queue that drops silently. No state is
    /// left at the end. With transactions an INVITE may also go to others after a member that leaves it unanswered.
    #[test]
    fn no_call_is_lost_or_delivered_twice(
        keeps_transactions in any::<bool>(),
        moves in any::<bool>(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut bed = if keeps_transactions { with_transactions(bed()) } else { bed() };
        let invite_timeout = if moves { ms(100) } else { ms(0) };
        bed.set(|setup| {
            let queue = Some(Arc::new(queue(10.0)));
            setup.pools = [PoolSetup { invite_timeout, queue, ..setup.pools[0].clone() }].into();
        });
        let mut delivered: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let (mut offered, mut at_members) = (Vec::new(), Vec::<Sent>::new());
        let mut answered: BTreeMap<Vec<u8>, u16> = BTreeMap::new();
        let mut note = |sent: &[Sent], at_members: &mut Vec<Sent>| {
            for sent in sent {
                let message = sent.message();
                let call = message.call_id().to_vec();
                match message.status() {
                    Some(status) if status >= 200 && message.cseq().method == Method::Invite => {
                        answered.insert(call, status);
                    }
                    None if message.method() == Some(Method::Invite) => {
                        *delivered.entry(call).or_default() += 1;
                        at_members.push(sent.clone());
                    }
                    _ => {}
                }
            }
        };
        let mut is_known = [false; 256];
        for step in steps {
            let sent = match step {
                Step::Call(number) if !is_known[usize::from(number)] => {
                    is_known[usize::from(number)] = true;
                    let call = format!("call{number}");
                    offered.push(call.clone().into_bytes());
                    receive(&mut bed, &invite(&call))
                }
                Step::Cancel(number) if is_known[usize::from(number)] => {
                    receive(&mut bed, &Req::new("CANCEL", &format!("call{number}"), client()).bytes())
                }
                Step::Call(_) | Step::Cancel(_) => Vec::new(),
                Step::Answer(status) => match at_members.pop() {
                    Some(request) => respond(&mut bed, &request, status),
                    None => Vec::new(),
                },
                Step::Wait(millis) => bed.wait(ms(millis)),
                Step::Member(slot, alive) => {
                    bed.probed(slot, alive)
                }
                Step::Announce(slot, capacity) => {
                    bed.input(ShardInput::Capacity { slot: Slot(slot), capacity })
                }
                Step::Queue(which) => {
                    let source = match which {
                        0 => None,
                        1 => Some(CapacitySource::Fixed),
                        2 => Some(CapacitySource::Announced),
                        _ => Some(CapacitySource::Responses),
                    };
                    let queues = source.map(|source| queue_of(5.0, source));
                    bed.set_queues([queues])
                }
            };
            note(&sent, &mut at_members);
        }
        // Long enough for waiting calls, but not for calls that a member leaves unanswered.
        let sent = bed.wait(ms(600));
        note(&sent, &mut at_members);
        prop_assert_eq!(bed.shard.queue_reports().iter().flatten().map(|report| report.waiting).sum::<usize>(), 0);
        for call in &offered {
            let times = delivered.get(call).copied().unwrap_or_default();
            // With a transaction the request is retransmitted, and goes to another member when one fails.
            let is_once = times == 1 || (keeps_transactions && times > 1);
            prop_assert!(
                is_once || (times == 0 && answered.contains_key(call)),
                "{}: delivered {times} times, answered {:?}", call.escape_ascii(), answered.get(call)
            );
        }
        bed.assert_forgets();
        prop_assert_eq!(bed.shard.deadline(), None);
        if let Some(report) = bed.shard.proxy_report() {
            prop_assert_eq!((report.transactions, report.unanswered, report.memory), (0, 0, 0));
        }
    }
}

#[test]
fn a_shard_has_its_part_of_a_capacity() {
    let mut bed = Bed::new(Site::plain());
    let identity = node::ShardIdentity { shards: 4, ..node::ShardIdentity::only([9; 16], 77) };
    bed.inner = testbed::Bed::with_identity(identity, bed.setup.clone());
    set(&mut bed, queue(10.0));
    calls(&mut bed, 1);
    assert!((capacity(&bed, 0) - 2.5).abs() < 1e-9);
    let report = queue_report(&bed);
    let mut sum = report.clone();
    (0..3).for_each(|_| sum.merge(&report));
    assert!((sum.members[0].capacity - 10.0).abs() < 1e-9);
    assert_eq!(sum.counts.offered, 4 * report.counts.offered);
}
