//! Queues in front of members that leave calls unanswered: they get no more than they can take, and others lose
//! nothing by it.
mod common;

use balance::Slot;
use common::proxy::{LIMITS, PROXY, client};
use common::text::Req;
use common::*;
use elastic::estimate::Settings;
use elastic::queue::{Choice, Moves, QueueSettings};
use node::{CapacitySource, ProxyLimits, QueueSetup};
use route::Service;
use std::time::Duration;

const MODE: Service = Service::BalanceTransactions;
const SOURCES: [CapacitySource; 3] =
    [CapacitySource::Fixed, CapacitySource::Announced, CapacitySource::Responses];
const ORDERS: [Choice; 3] = [Choice::MostRoom, Choice::Tlwl, Choice::IndexPacking];

/// Three members of so many calls a second, the first answers of which take 10 ms at most.
fn setup(choice: Choice, capacity: f64, source: CapacitySource) -> QueueSetup {
    let settings = QueueSettings { choice, ..QueueSettings::default() };
    let threshold = Duration::from_millis(10);
    let capacity = Settings { maximum: capacity, threshold, ..Settings::default() };
    QueueSetup { settings, source, capacity }
}

fn bed(setup: QueueSetup, has_transactions: bool) -> Bed {
    let mut bed = Bed::new(Site::plain());
    if has_transactions {
        let limits = ProxyLimits { transactions: 10_000, ..LIMITS };
        bed.set(|setup| setup.settings.limits = limits);
        bed.set_services([MODE]);
    }
    bed.set_queues([Some(setup)]);
    bed
}

/// The INVITEs among these.
fn invites(sent: Vec<Sent>) -> Vec<Sent> {
    sent.into_iter().filter(|sent| sent.message().method() == Some(wire::Method::Invite)).collect()
}

fn call(bed: &mut Bed, number: u32) -> Vec<Sent> {
    invites(bed.receive(0, client(), &Req::new("INVITE", &format!("call{number}"), client()).bytes()))
}

/// A member answers; the calls that it or others get for that.
fn answered(bed: &mut Bed, request: &Sent) -> Vec<Sent> {
    invites(bed.receive(0, request.to, &text::answer(&request.bytes, addr(PROXY), 486, request.to)))
}

/// Whatever says what they can take, and whatever the order: with 1,000 calls/s for which a member may take 10 ms, it
/// has 10 at a time.
#[test]
fn a_frozen_member_gets_what_it_can_take_and_then_one_call_at_a_time() {
    for has_transactions in [false, true] {
        for (source, choice) in SOURCES.into_iter().flat_map(|source| ORDERS.map(|choice| (source, choice))) {
            let mut bed = bed(setup(choice, 1_000.0, source), has_transactions);
            let what = format!("{source:?}, {choice:?}, {has_transactions}");
            let (mut frozen, mut others) = (Vec::new(), 0);
            for number in 0..3_000 {
                let mut given = call(&mut bed, number);
                given.extend(invites(bed.wait(Duration::from_millis(1))));
                while let Some(request) = given.pop() {
                    if bed.slot(request.to) == 0 {
                        let copies = |sent: &&Sent| sent.message().call_id() == request.message().call_id();
                        if frozen.iter().find(copies).is_none() {
                            frozen.push(request);
                        }
                    } else {
                        others += 1;
                        given.extend(answered(&mut bed, &request));
                    }
                }
            }
            // TLWL leaves it alone sooner. Half of the capacity, which a member begins with where it is not fixed, is
            // 5 at a time; then a call after 0.1, 0.2, 0.4, 0.8 and 1.6 s.
            let most = if source == CapacitySource::Fixed { 10 } else { 5 } + 5;
            assert!((1..=most).contains(&frozen.len()), "{what}: {}", frozen.len());
            assert!(others > 2_900, "{what}: {others}");
            // It thaws, and is one of three again.
            for request in &frozen {
                answered(&mut bed, request);
            }
            let again = (3_000..3_030).filter(|number| {
                let given = call(&mut bed, *number);
                for request in &given {
                    answered(&mut bed, request);
                }
                bed.wait(Duration::from_millis(20));
                given.iter().any(|request| bed.slot(request.to) == 0)
            });
            assert!(again.count() >= 9, "{what}");
        }
    }
}

fn answer_all_but_every_15th(bed: &mut Bed, mut given: Vec<Sent>) {
    while let Some(request) = given.pop() {
        let id = String::from_utf8_lossy(request.message().call_id()).into_owned();
        let number: u32 = id.trim_start_matches("call").parse().expect("a number");
        if !number.is_multiple_of(15) {
            given.extend(answered(bed, &request));
        }
    }
}

/// Somebody calls twice a second what all members swallow. Each such call moves, since nobody answers it, and says
/// nothing of the members: they answer all others at once.
#[test]
fn swallowed_calls_lower_no_capacity() {
    let mut setup = setup(Choice::Tlwl, 60.0, CapacitySource::Responses);
    setup.settings.moves = Some(Moves::after(Duration::from_millis(100)));
    let mut bed = bed(setup, true);
    let mut waited = 0;
    for number in 0..1_000 {
        let given = call(&mut bed, number);
        waited += u32::from(given.is_empty());
        answer_all_but_every_15th(&mut bed, given);
        // 30 calls/s in all.
        for _ in 0..33 {
            let given = invites(bed.wait(Duration::from_millis(1)));
            answer_all_but_every_15th(&mut bed, given);
        }
    }
    let report = bed.shard.queue_reports().remove(0).expect("the pool has a queue");
    assert!(report.counts.moved > 30, "{report:?}");
    for slot in 0..3 {
        let member = report.members.iter().find(|member| member.slot == Slot(slot)).expect("a member");
        assert!(member.capacity >= 30.0, "{report:?}");
    }
    assert_eq!((report.counts.refused, report.counts.expired), (0, 0), "{report:?}");
    assert!(waited < 20, "{waited} of 1,000 did not find a member at once");
}

/// How many calls count as unanswered, by slot.
fn unanswered(bed: &Bed) -> [usize; 3] {
    let report = bed.shard.queue_reports().remove(0).expect("the pool has a queue");
    let of = |slot| report.members.iter().find(|member| member.slot == Slot(slot));
    [0, 1, 2].map(|slot| of(slot).map_or(0, |member| member.unanswered))
}

/// A call that does not reach its member is none that the member leaves unanswered.
#[test]
fn a_call_that_could_not_be_sent_is_given_back() {
    let mut bed = bed(setup(Choice::IndexPacking, 300.0, CapacitySource::Fixed), true);
    let first = call(&mut bed, 1).remove(0);
    assert_eq!((bed.slot(first.to), unanswered(&bed)), (0, [1, 0, 0]));
    let second = invites(bed.unreachable(first.to, &first.bytes)).remove(0);
    assert_ne!(second.to, first.to);
    assert_eq!(unanswered(&bed), [0; 3], "nor has the second one got it from the queue");
}

/// Nobody hears of the answer to a branch of a call that has too many.
#[test]
fn branches_that_are_too_many_for_a_session_are_given_back() {
    let mut bed = bed(setup(Choice::MostRoom, 10_000.0, CapacitySource::Fixed), true);
    let first = call(&mut bed, 0).remove(0);
    answered(&mut bed, &first);
    bed.wait(Duration::from_millis(100));
    let mut branches = Vec::new();
    for branch in 0..70 {
        let request = Req::new("INVITE", "call", client());
        let via = request.via.replace("branch=z9hG4bK", &format!("branch=z9hG4bK{branch}x"));
        let request = Req { via, ..request };
        branches.extend(invites(bed.receive(0, client(), &request.bytes())));
    }
    assert_eq!((branches.len(), unanswered(&bed).iter().sum::<usize>()), (70, 64));
    for request in &branches {
        answered(&mut bed, request);
    }
    assert_eq!(unanswered(&bed), [0; 3]);
}

/// A call that has waited may be refused when its turn has come: for want of room for its transaction, here.
#[test]
fn a_call_that_is_refused_when_its_turn_comes_is_given_back() {
    let mut setup = setup(Choice::MostRoom, 100.0, CapacitySource::Fixed);
    setup.settings.bound = Duration::from_secs(4);
    let mut bed = bed(setup, true);
    let given: Vec<_> = (0..6).flat_map(|number| call(&mut bed, number)).collect();
    assert_eq!((given.len(), unanswered(&bed)), (3, [1; 3]), "one for each, and three wait");
    let limits = ProxyLimits { transactions: 0, ..LIMITS };
    bed.set(|setup| setup.settings.limits = limits);
    let sent = bed.wait(Duration::from_millis(50));
    assert_eq!(
        sent.iter().filter(|sent| sent.to == client() && sent.status() == 503).count(),
        3,
        "{sent:#?}"
    );
    assert_eq!(unanswered(&bed), [1; 3]);
}
