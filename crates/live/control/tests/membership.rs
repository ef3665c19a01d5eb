//! Membership after reloads and DNS answers, and the reuse of slots.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::{A, B, Bed, C, CALL, at, member, settings};
use balance::{Load, NodeId, PoolId, Slot};
use control::{
    ControlEffect, ControlInput, ControlSettings, Drainer, Drains, LogEntry, MemberEvent, MemberSettings,
    PoolSettings, ProcessId,
};
use node::Setup;
use std::sync::Arc;
use std::time::Duration;

fn expected(rows: &[(usize, &str, bool)]) -> Vec<(usize, String, bool)> {
    rows.iter().map(|&(slot, address, leads)| (slot, address.to_owned(), leads)).collect()
}

/// Lets time pass until the shards are asked for slots in use, and answers.
fn sweep(bed: &mut Bed, used: &[bool]) {
    bed.effects();
    bed.pass(CALL);
    bed.handle(ControlInput::Timer);
    assert!(bed.effects().contains(&ControlEffect::AskSlotsInUse), "the shards are asked for slots");
    bed.handle(ControlInput::SlotsInUse(Some(used.to_vec())));
}

#[test]
fn a_slot_is_reused_only_without_references() {
    let mut bed = Bed::of(&[A, B]);
    bed.reload(settings(&[A]));
    let left = expected(&[(0, A, true), (1, B, true)]);
    sweep(&mut bed, &[true, true]);
    assert_eq!(bed.slots(), left, "a session uses the slot");
    let hidden = expected(&[(0, A, true), (1, B, false)]);
    sweep(&mut bed, &[false, false]);
    assert_eq!(bed.slots(), hidden);
    sweep(&mut bed, &[false, true]);
    assert_eq!(bed.slots(), hidden, "a call came between the two looks");
    bed.reload(settings(&[A, C]));
    assert_eq!(
        bed.slots(),
        expected(&[(0, A, true), (1, B, false), (2, C, true)]),
        "B's slot is not free yet"
    );
    sweep(&mut bed, &[false, false, false]);
    assert_eq!(bed.slots(), expected(&[(0, A, true), (2, C, true)]), "members stay, B is forgotten");
    bed.reload(settings(&[A, C, B]));
    assert_eq!(bed.slots(), expected(&[(0, A, true), (1, B, true), (2, C, true)]));
}

#[test]
fn a_member_that_comes_back_before_it_is_forgotten_keeps_its_slot() {
    let mut bed = Bed::of(&[A, B]);
    bed.reload(settings(&[A]));
    sweep(&mut bed, &[false, false]);
    bed.reload(settings(&[A, C, B]));
    bed.pass(CALL);
    bed.handle(ControlInput::Timer);
    assert!(!bed.effects().contains(&ControlEffect::AskSlotsInUse), "no member has left");
    assert_eq!(bed.slots(), expected(&[(0, A, true), (1, B, true), (2, C, true)]));
}

/// An address that had another slot before leads to its present slot, whichever comes first.
#[test]
fn an_address_leads_to_the_slot_that_it_has_now() {
    let mut bed = Bed::of(&[A, B]);
    for members in [&[B][..], &[B, C], &[B], &[A, B]] {
        bed.reload(settings(members));
        for _ in 0..2 {
            bed.pass(CALL);
            bed.handle(ControlInput::Timer);
            bed.handle(ControlInput::SlotsInUse(Some(vec![false; 3])));
        }
    }
    for member in bed.control.listed().iter().filter(|member| member.node.member) {
        assert_eq!(bed.setup().topology.slot_at(member.peer), Some(member.slot), "{}", member.peer);
    }
}

/// An answer about the time before a slot was hidden does not free the slot.
#[test]
fn one_question_to_the_shards_at_a_time() {
    let mut bed = Bed::of(&[A, B]);
    bed.reload(settings(&[A]));
    bed.pass(CALL);
    bed.handle(ControlInput::Timer);
    bed.pass(CALL * 2);
    bed.handle(ControlInput::Timer);
    let asked = bed.effects().iter().filter(|effect| **effect == ControlEffect::AskSlotsInUse).count();
    assert_eq!(asked, 1, "the first question has no answer yet");
    bed.handle(ControlInput::SlotsInUse(Some(vec![false, false])));
    assert_eq!(bed.slots(), expected(&[(0, A, true), (1, B, false)]));
    let effects = bed.effects();
    assert!(
        matches!(effects[..], [ControlEffect::SetUp(_)]),
        "the shards get the setup before the next question: {effects:?}"
    );
    bed.handle(ControlInput::Timer);
    bed.handle(ControlInput::SlotsInUse(None));
    assert_eq!(bed.slots(), expected(&[(0, A, true), (1, B, false)]), "a missing answer frees no slot");
}

/// Asks for all names and answers for this one. The others are asked for again.
fn learn(bed: &mut Bed, name: &str, addresses: Result<&[&str], &str>) {
    bed.effects();
    bed.pass(Duration::from_secs(30));
    bed.handle(ControlInput::ResolverRead { is_other: false });
    let questions = bed.questions();
    let (id, _) =
        questions.iter().find(|(_, asked)| asked == name).expect("a look-up of the name is under way");
    bed.answer(*id, addresses);
    for (id, _) in questions.iter().filter(|(_, asked)| asked != name) {
        bed.answer(*id, Err("no answer in time"));
    }
}

#[test]
fn a_name_that_is_not_found_keeps_no_member() {
    let mut bed = Bed::of(&[A, B]);
    bed.effects();
    bed.reload(settings(&[B, "typo.invalid"]));
    assert_eq!(bed.members(), [A, B], "the name may mean A, and its look-up is under way");
    let questions = bed.questions();
    bed.answer(questions[0].0, Err("no such name"));
    assert_eq!(bed.members(), [B]);
    bed.reload(settings(&[B, "typo.invalid", C]));
    assert_eq!(bed.members(), [B, C]);
    bed.reload(settings(&[C, "typo.invalid"]));
    assert_eq!(bed.members(), [C], "a name that was not found keeps no member");
}

#[test]
fn each_name_keeps_its_own_last_answer() {
    let mut bed = Bed::of(&["a.example", "b.example"]);
    let questions = bed.questions();
    bed.answer(questions[0].0, Ok(&[A, B]));
    assert!(bed.control.is_starting() && bed.members().is_empty(), "the other name is not resolved yet");
    bed.answer(questions[1].0, Ok(&[C]));
    assert!(!bed.control.is_starting());
    assert_eq!(bed.members(), [A, B, C]);
    assert!(bed.control.nodes().iter().all(|node| node.ramp.is_zero()), "first members have no slow start");
    learn(&mut bed, "a.example", Err("no answer in time"));
    assert_eq!(bed.members(), [A, B, C]);
    bed.reload(settings(&["b.example"]));
    assert_eq!(bed.members(), [C]);
}

#[test]
fn an_incompletely_resolved_name_is_looked_up_again_soon() {
    let mut bed = Bed::of(&["a.example", "b.example"]);
    let questions = bed.questions();
    bed.answer(questions[0].0, Ok(&[A]));
    bed.answer(questions[1].0, Err("no answer in time"));
    bed.handle(ControlInput::Timer);
    let again = bed.questions();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1, "b.example");
    bed.answer(again[0].0, Err("no answer in time"));
    let due = bed.control.deadline();
    assert!(due > bed.now && due <= bed.now + Duration::from_secs(3));
    bed.now = due;
    bed.handle(ControlInput::Timer);
    while bed.questions().is_empty() {
        bed.now = bed.control.deadline();
        bed.handle(ControlInput::Timer);
    }
    assert!(bed.now <= at(3_000), "{}", bed.now);
}

/// Another resolver may find more, and answers of the former one no longer count.
#[test]
fn a_reload_with_a_new_resolver_empties_no_pool() {
    let mut bed = Bed::of(&[A, "pool.test"]);
    let (former, _) = bed.questions()[0].clone();
    bed.answer(former, Err("no answer in time"));
    assert_eq!(bed.members(), [A]);
    bed.handle(ControlInput::ResolverRead { is_other: false });
    let (former, _) = bed.questions()[0].clone();
    let mended = |members: &[&str]| ControlInput::Settings {
        settings: Box::new(settings(members)),
        is_other_resolver: true,
    };
    bed.handle(mended(&["pool.test"]));
    assert_eq!(bed.members(), [A], "the new server may resolve the name to it");
    let (id, _) = bed.questions()[0].clone();
    bed.answer(former, Err("no answer in time"));
    assert_eq!(bed.members(), [A], "answers of the former resolver are ignored");
    bed.answer(id, Ok(&["192.0.2.1:5060"]));
    assert_eq!(bed.members(), ["192.0.2.1:5060"]);
    bed.reload(settings(&["pool.test", "typo.test"]));
    let questions = bed.questions();
    let (id, _) = questions.iter().find(|(_, name)| name == "typo.test").unwrap();
    bed.answer(*id, Err("no such name"));
    bed.reload(settings(&["typo.test"]));
    assert!(bed.members().is_empty(), "the same server gives the same answer");
}

#[test]
fn a_member_may_be_named_in_every_form() {
    let first = "127.0.0.8:5060";
    let mut bed = Bed::of(&[first, B, "pool.example", "typo.invalid"]);
    let questions = bed.questions();
    bed.answer(questions[0].0, Ok(&[B, C]));
    bed.answer(questions[1].0, Err("no such name"));
    let meant = |text: &str| {
        let named = (!text.is_empty()).then(|| member(text).address);
        let meant = bed.control.meant(text, named.as_ref());
        let addresses = |all: Vec<(Slot, base::Peer)>| {
            all.iter().map(|(_, address)| address.to_string()).collect::<Vec<_>>().join(" ")
        };
        meant.map(addresses).map_err(|error| error.split(';').next().unwrap().to_owned())
    };
    for (named, wanted) in [(first, first), (B, B)] {
        assert_eq!(meant(named).as_deref(), Ok(wanted), "{named}");
    }
    let both = format!("{B} {C}");
    assert_eq!(meant("pool.example"), Ok(both), "B has its own name, and is included");
    let refused = |text: &str| Err(text.to_owned());
    assert_eq!(meant("typo.invalid"), refused("typo.invalid is not resolved: it stands for no member yet"));
    assert_eq!(meant("127.0.0.9:5060"), refused("no member \"127.0.0.9:5060\""));
    assert_eq!(meant(""), refused("no member \"\""));
}

/// A key or command for an address applies to all of these names.
#[test]
fn an_address_has_the_names_of_all_its_members() {
    let tcp = format!("{C};transport=tcp");
    let mut bed = Bed::of(&[A, B, "pool.example", "_sip._tcp.pool.example", &tcp]);
    let at = |bed: &Bed, address: &str| bed.control.named_at(address.parse().unwrap());
    assert_eq!(at(&bed, C), [tcp.as_str()]);
    let questions = bed.questions();
    bed.answer(questions[0].0, Ok(&[B, C]));
    bed.answer(questions[1].0, Ok(&[A]));
    assert_eq!(at(&bed, A), [A, "_sip._tcp.pool.example"], "over any transport");
    assert_eq!(at(&bed, B), [B, "pool.example"]);
    assert_eq!(at(&bed, C), ["pool.example", &tcp]);
    assert_eq!(at(&bed, "127.0.0.1:5084"), [""; 0], "another port is another server");
    bed.reload(settings(&[A]));
    assert_eq!(
        (at(&bed, A), at(&bed, C)),
        (vec![A.to_owned()], vec!["pool.example".to_owned(), tcp]),
        "former members"
    );
}

/// One address over two transports is two members. A name without transport means UDP if that member exists.
#[test]
fn a_member_is_named_with_its_transport() {
    let (udp, tcp) = (B.to_owned(), format!("{B};transport=tcp"));
    let meant = |bed: &Bed, text: &str| {
        let all = bed.control.meant(text, Some(&member(text).address));
        all.map(|all| all.iter().map(|(_, peer)| peer.to_string()).collect::<Vec<_>>())
    };
    let both = Bed::of(&[A, &udp, &tcp]);
    assert_eq!(both.members(), [A, &udp, &tcp]);
    assert_eq!(meant(&both, &udp), Ok(vec![udp.clone()]));
    assert_eq!(meant(&both, &tcp), Ok(vec![tcp.clone()]));
    assert!(meant(&both, &format!("{A};transport=tcp")).is_err_and(|error| error.contains(&tcp)));
    let one = Bed::of(&[A, &tcp]);
    assert_eq!(meant(&one, &udp), Ok(vec![tcp.clone()]));
    let ids: Vec<_> = both.control.listed().iter().map(|listed| listed.node.id).collect();
    assert_ne!(ids[1], ids[2]);
}

#[test]
fn an_address_without_a_listener_is_skipped_and_logged_once() {
    let mut bed = Bed::of(&[A, "[2001:db8::1]:5060", "127.0.0.1:5061;transport=tls"]);
    let left_out = |bed: &mut Bed| {
        bed.entries().iter().filter(|entry| matches!(entry, LogEntry::LeftOut { .. })).count()
    };
    assert_eq!((bed.members(), left_out(&mut bed)), (vec![A.to_owned()], 2));
    bed.reload(settings(&[A, "[2001:db8::1]:5060"]));
    assert_eq!(left_out(&mut bed), 0);
}

fn setups(bed: &mut Bed) -> Vec<Arc<Setup>> {
    let setup = |effect| if let ControlEffect::SetUp(setup) = effect { Some(setup) } else { None };
    bed.effects().into_iter().filter_map(setup).collect()
}

#[test]
fn the_shards_get_one_setup_for_each_change() {
    let mut bed = Bed::of(&[A, B]);
    assert_eq!(setups(&mut bed).len(), 1);
    bed.reload(settings(&[A, B]));
    assert_eq!(setups(&mut bed), [], "nothing has changed");
    let other = ControlSettings { own_names: vec![("sip.example".to_owned(), None)], ..settings(&[B]) };
    bed.reload(other);
    let [after] = &setups(&mut bed)[..] else { panic!("one reload is one change") };
    assert_eq!((after.topology.names.len(), after.nodes[0].member), (1, false));
    bed.handle(ControlInput::Drain { slot: Slot(1), by: Drainer::Operator, draining: true });
    let [drained] = &setups(&mut bed)[..] else { panic!("one change") };
    assert!(drained.nodes[1].draining && Arc::ptr_eq(&drained.topology, &after.topology));
    bed.handle(ControlInput::Stop);
    let [stopping] = &setups(&mut bed)[..] else { panic!("one change") };
    assert_eq!(stopping.stopping, Some(bed.now + Duration::from_mins(5)));
}

#[test]
fn each_source_ends_only_its_own_drain() {
    let mut bed = Bed::of(&[A]);
    let mut drain = |by, draining| {
        bed.handle(ControlInput::Drain { slot: Slot(0), by, draining });
        bed.control.nodes()[0].draining
    };
    assert!(drain(Drainer::Operator, true) && drain(Drainer::Scaler, true));
    assert!(drain(Drainer::Scaler, false), "the operator's drain stays");
    assert!(!drain(Drainer::Operator, false));
    assert!(drain(Drainer::Scaler, true) && drain(Drainer::Operator, false), "the scaler's drain stays, too");
    bed.reload(settings(&[A]));
    assert!(bed.control.nodes()[0].draining);
}

#[test]
fn the_load_of_the_predecessor_counts_until_it_ends() {
    let mut bed = Bed::of(&[A, B]);
    let b = bed.control.nodes()[1].id;
    bed.effects();
    let load = Load { calls: 3, transactions: 1, work: 7 };
    let a = bed.control.nodes()[0].id;
    let (before, other) = (ProcessId(7), ProcessId(8));
    let drained = [(b, Drainer::Scaler)];
    bed.handle(ControlInput::Joins { process: before, drained: &drained, dead: &[a, NodeId(1)] });
    assert!(bed.control.nodes()[1].draining && !bed.control.nodes()[0].is_up());
    assert_eq!(bed.control.listed()[1].drains, Drains { operator: false, scaler: true });
    bed.effects();
    bed.handle(ControlInput::OtherLoads { process: before, loads: vec![(b, load), (NodeId(1), load)] });
    let effects = bed.effects();
    assert!(effects.contains(&ControlEffect::Elsewhere(vec![Load::default(), load])), "{effects:?}");
    assert_eq!(bed.control.listed()[1].before, load);
    // There may be several such processes.
    bed.handle(ControlInput::Joins { process: other, drained: &[], dead: &[] });
    bed.handle(ControlInput::OtherLoads { process: other, loads: vec![(a, load), (b, load)] });
    assert_eq!((bed.control.listed()[0].before, bed.control.listed()[1].before), (load, load + load));
    bed.effects();
    bed.handle(ControlInput::Gone(before));
    let effects = bed.effects();
    assert!(effects.contains(&ControlEffect::Elsewhere(vec![load; 2])), "{effects:?}");
    assert!(effects.contains(&ControlEffect::Gone(before)));
    bed.handle(ControlInput::OtherLoads { process: before, loads: vec![(b, load)] });
    bed.handle(ControlInput::Gone(before));
    assert_eq!(bed.effects(), [], "the other process has ended");
    bed.handle(ControlInput::Gone(other));
    let effects = bed.effects();
    assert!(effects.contains(&ControlEffect::Elsewhere(vec![Load::default(); 2])), "{effects:?}");
}

#[test]
fn joins_and_leaves_are_logged() {
    let mut bed = Bed::of(&[A]);
    let mut effects = |members: &[&str]| {
        bed.reload(settings(members));
        let event = |entry| match entry {
            LogEntry::Member { member, event, .. } => Some((member.to_string(), event)),
            _ => None,
        };
        bed.entries().into_iter().filter_map(event).collect::<Vec<_>>()
    };
    let event_of = |address: &str, event| (address.to_owned(), event);
    assert_eq!(effects(&[A]), [event_of(A, MemberEvent::Joins)]);
    assert_eq!(effects(&[B]), [event_of(B, MemberEvent::Joins), event_of(A, MemberEvent::Leaves)]);
    assert_eq!(effects(&[B, A]), [event_of(A, MemberEvent::JoinsAgain)]);
}

/// Returns pools with their members, in the order of the file.
fn pools(pools: &[(&str, &[&str])]) -> ControlSettings {
    let usual = settings(&[]);
    let pool = |(name, _): &(&str, _)| PoolSettings { name: (*name).to_owned(), ..usual.pools[0].clone() };
    let of = |(pool, (_, members)): (PoolId, &(_, &[&str]))| -> Vec<_> {
        members.iter().map(|text| MemberSettings { pool, ..member(text) }).collect()
    };
    let members = (0..).map(PoolId).zip(pools).flat_map(of).collect();
    ControlSettings { pools: pools.iter().map(pool).collect(), members, ..usual }
}

/// Checks the members of each pool, in the shards' setup and in the list for operators.
fn assert_in_pools(bed: &Bed, expected: &[(&str, &[&str])]) {
    let setup = bed.setup();
    for ((id, pool), (name, members)) in bed.control.pools().zip(expected) {
        assert_eq!(pool.name, *name);
        for listed in bed.control.listed() {
            let is_expected = members.contains(&&listed.peer.to_string()[..]);
            assert_eq!(listed.pools.contains(&id), is_expected, "{} in {name}", listed.peer);
            if listed.node.member {
                assert_eq!(
                    setup.pools[id.index()].nodes.has(listed.slot),
                    is_expected,
                    "{} in {name}",
                    listed.peer
                );
            }
        }
    }
}

#[test]
fn a_member_stays_in_its_pools_when_their_places_change() {
    let mut bed = Bed::new(pools(&[("first", &[A]), ("second", &[B]), ("third", &[B, C])]));
    assert_in_pools(&bed, &[("first", &[A]), ("second", &[B]), ("third", &[B, C])]);
    bed.reload(pools(&[("third", &[B, C]), ("second", &[B])]));
    assert_in_pools(&bed, &[("third", &[B, C]), ("second", &[B])]);
    assert!(bed.control.listed()[0].pools.is_empty(), "the former member has no pool left");
}

/// A new name may mean any of these members, so none leaves before it is resolved. Meanwhile they get no calls of other
/// pools, not even of the only remaining one.
#[test]
fn a_member_kept_for_unresolved_names_is_in_no_other_pool() {
    let mut bed = Bed::new(pools(&[("first", &[A]), ("second", &[B])]));
    bed.effects();
    bed.reload(pools(&[("second", &["new.test", B])]));
    assert_eq!(bed.members(), [A, B], "no member leaves yet");
    assert_in_pools(&bed, &[("second", &[B])]);
    let (id, _) = bed.questions().remove(0);
    bed.answer(id, Ok(&[C]));
    assert_eq!(bed.members(), [B, C]);
    assert_in_pools(&bed, &[("second", &[B, C])]);
    let second = bed.control.pool_number("second").expect("the pool exists");
    assert_eq!(second, PoolId(1), "the number of the first pool is not reused");
    assert_eq!(bed.setup().pools[second.index()].nodes, balance::Members::All);
}
