//! Probes, their effect and that of the traffic on members, and the end of a process.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::{A, B, Bed, C, at, settings, udp};
use balance::{HealthSettings, Load, NodeRefusal, PoolId, Sign, Slot};
use control::{
    Address, ControlEffect, ControlInput, ControlSettings, Drainer, LogEntry, MemberEvent, PoolSettings,
    ProbeResult, ProbeSettings, ProcessId, WorkLeft,
};
use node::ShardEvent;
use route::{Dialogs, Service, Spread};
use std::time::Duration;

/// Returns members that are probed regularly, or only on suspicion.
fn probing(members: &[&str], periodic: bool, fall: u32) -> ControlSettings {
    let mut settings = settings(members);
    let pool = &mut settings.pools[0];
    pool.health = HealthSettings { regular: periodic, fall, ..HealthSettings::default() };
    pool.probes = ProbeSettings { periodic, ..ProbeSettings::default() };
    settings
}

/// Returns the last probe that was sent.
fn probe(bed: &Bed) -> Vec<u8> {
    bed.out.message(bed.out.transmits().last().expect("a probe was sent")).to_vec()
}

fn answer(bed: &mut Bed, status: u16, headers: &[(&str, &str)]) {
    let probe = probe(bed);
    let (request, mut bytes) = (wire::scan(&probe).unwrap(), Vec::new());
    wire::write_response(&request, A.parse().unwrap(), status, "x", "t", headers, &mut bytes);
    bed.handle(ControlInput::ProbeMessage { from: A.parse().unwrap(), bytes: &bytes });
}

/// Lets time pass until the next probe is sent.
fn next_probe(bed: &mut Bed) {
    let before = bed.out.transmits().len();
    for _ in 0..1_000 {
        if bed.out.transmits().len() > before {
            return;
        }
        bed.now = bed.control.deadline().max(bed.now);
        bed.handle(ControlInput::Timer);
    }
    panic!("nobody is asked");
}

/// Lets the probe under way time out.
fn silence(bed: &mut Bed) {
    let until = bed.now + ProbeSettings::default().timeout;
    while bed.now < until {
        bed.now = bed.control.deadline().min(until).max(bed.now + Duration::from_millis(1));
        bed.handle(ControlInput::Timer);
    }
}

fn is_up(bed: &Bed) -> bool {
    bed.control.nodes()[0].is_up()
}

#[test]
fn one_503_to_a_probe_keeps_new_calls_away_for_as_long_as_it_says() {
    let mut bed = Bed::new(probing(&[A], true, 3));
    next_probe(&mut bed);
    answer(&mut bed, 503, &[("Retry-After", "60")]);
    let (node, now) = (&bed.control.nodes()[0], bed.now);
    assert!(node.is_up() && node.asked_until > now);
    assert_eq!(node.refusal(now, 0), Some(NodeRefusal::Paused));
    let length = Duration::from_mins(1);
    let rests = |entry: &LogEntry| matches!(entry, LogEntry::Member { event: MemberEvent::Pauses { length: told, to_probe: true }, .. } if *told == length);
    assert!(bed.entries().iter().any(rests));
    assert_eq!(bed.control.listed()[0].last_probe, Some(ProbeResult::Status(503)));
}

/// Sends a probe on suspicion that gets no answer.
fn suspect_in_vain(bed: &mut Bed) {
    bed.pass(Duration::from_secs(1));
    bed.handle(ControlInput::Unreachable(udp(A.parse().unwrap())));
    next_probe(bed);
    silence(bed);
}

#[test]
fn without_regular_probes_silence_is_death_and_never_life() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    suspect_in_vain(&mut bed);
    assert!(is_up(&bed));
    for _ in 0..2 {
        next_probe(&mut bed);
        silence(&mut bed);
        assert!(!is_up(&bed));
    }
    next_probe(&mut bed);
    answer(&mut bed, 405, &[]);
    assert!(is_up(&bed), "it answers, if only that it does not know OPTIONS");
    bed.pass(Duration::from_secs(10));
    bed.handle(ControlInput::Unreachable(udp(A.parse().unwrap())));
    next_probe(&mut bed);
    let quoted = probe(&bed);
    bed.handle(ControlInput::ProbeRefused { by: A.parse().unwrap(), quoted: &quoted });
    assert!(!is_up(&bed));
    next_probe(&mut bed);
    silence(&mut bed);
    assert!(!is_up(&bed), "the host of the closed port is gone, too");
}

#[test]
fn without_regular_probes_an_answer_to_a_request_is_life() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    let answered =
        |bed: &mut Bed| bed.handle(ControlInput::Shard(ShardEvent::Sign(Sign::Answer { slot: Slot(0) })));
    suspect_in_vain(&mut bed);
    assert!(bed.control.nodes()[0].doubted, "the shards are to tell of its next answer");
    answered(&mut bed);
    assert!(is_up(&bed) && !bed.control.nodes()[0].doubted);
    suspect_in_vain(&mut bed);
    assert!(is_up(&bed), "it has answered in between");
    next_probe(&mut bed);
    silence(&mut bed);
    assert!(!is_up(&bed));
    answered(&mut bed);
    assert!(is_up(&bed) && !bed.control.nodes()[0].doubted);
}

#[test]
fn a_reload_asks_the_dead_anew_where_nobody_is_asked_regularly() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    bed.handle(ControlInput::Unreachable(udp(A.parse().unwrap())));
    next_probe(&mut bed);
    let quoted = probe(&bed);
    bed.handle(ControlInput::ProbeRefused { by: A.parse().unwrap(), quoted: &quoted });
    assert!(!is_up(&bed));
    bed.reload(probing(&[A], false, 2));
    assert!(bed.control.deadline() <= bed.now + Duration::from_secs(1), "nothing else would ask it");
}

#[test]
fn an_answer_from_another_host_does_not_count_and_is_told() {
    let mut bed = Bed::new(probing(&[A], true, 2));
    next_probe(&mut bed);
    let probe = probe(&bed);
    let (request, mut bytes) = (wire::scan(&probe).unwrap(), Vec::new());
    wire::write_response(&request, A.parse().unwrap(), 200, "x", "t", &[], &mut bytes);
    let from = "127.0.0.2:5060".parse().unwrap();
    bed.effects();
    bed.handle(ControlInput::ProbeMessage { from: udp(from), bytes: &bytes });
    assert_eq!(bed.entries(), [LogEntry::ForeignAnswer { member: A.parse().unwrap(), from }]);
    assert_eq!(bed.control.listed()[0].last_probe, None);
}

/// No member of two answers. Each log entry appears once, and calls continue for a limited time.
#[test]
fn the_death_of_all_is_told_once() {
    let mut bed = Bed::of(&[A, B]);
    bed.effects();
    let mut told = Vec::new();
    while bed.now < at(30_000) {
        bed.now = bed.control.deadline();
        bed.handle(ControlInput::Timer);
        told.extend(bed.entries());
    }
    let lost = |entry: &&LogEntry| matches!(entry, LogEntry::Member { event: MemberEvent::Lost(_), .. });
    assert_eq!(told.iter().filter(lost).count(), 2);
    assert_eq!(
        told.iter()
            .filter(|entry| **entry == LogEntry::NoneAlive { pool: "servers".to_owned(), silent: true })
            .count(),
        1
    );
}

/// Calls of one pool find no member. The log names only the members of that pool, with their state.
#[test]
fn refusals_of_a_pool_are_told_with_its_members() {
    let mut settings = settings(&[A, B, C]);
    let spare = PoolSettings { name: "spare".to_owned(), ..settings.pools[0].clone() };
    settings.pools.push(spare);
    settings.members[1].max_calls = 1;
    settings.members[2].pool = PoolId(1);
    let mut bed = Bed::new(settings);
    bed.handle(ControlInput::Drain { slot: Slot(0), by: Drainer::Operator, draining: true });
    bed.effects();
    let refused = |bed: &mut Bed, pool, refused| {
        bed.handle(ControlInput::Shard(ShardEvent::NoServer { pool: PoolId(pool), refused }));
        bed.entries()
    };
    let told = |pool: &str, refused, members: &[(&str, &'static str)]| {
        let members = members.iter().map(|(member, why)| (member.parse().unwrap(), *why)).collect();
        LogEntry::NoneTook { pool: pool.to_owned(), refused, members }
    };
    let servers = [(A, "draining"), (B, "full")];
    assert_eq!(refused(&mut bed, 0, 5), [told("servers", 5, &servers)]);
    assert_eq!(refused(&mut bed, 1, 1), [told("spare", 1, &[(C, "takes calls again")])]);
    assert_eq!(refused(&mut bed, 0, 7), []);
    bed.pass(Duration::from_secs(10));
    assert_eq!(refused(&mut bed, 0, 1), [told("servers", 8, &servers)], "those in between as well");
}

#[test]
fn the_calls_of_one_that_was_silent_for_long_are_given_up() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    suspect_in_vain(&mut bed);
    next_probe(&mut bed);
    silence(&mut bed);
    let node = &bed.control.nodes()[0];
    assert!(!node.is_up() && node.lost != node.deaths);
    let until = bed.now + Duration::from_secs(310);
    while bed.now < until {
        bed.now = bed.control.deadline();
        bed.handle(ControlInput::Timer);
    }
    let node = &bed.control.nodes()[0];
    assert_eq!(node.lost, node.deaths);
}

/// Next hops are not probed while they answer, only on suspicion.
#[test]
fn a_next_hop_is_a_member_that_is_not_probed_for_nothing() {
    let mut all = settings(&[A, B]);
    all.pools[0].service = Service::Proxy { spread: Spread::Counted, record_route: true };
    all.pools[0].health.regular = false;
    all.pools[0].probes.periodic = false;
    let mut bed = Bed::new(all);
    assert_eq!(bed.setup().pools[0].service.dialogs(), Dialogs::Route);
    bed.effects();
    assert!(bed.control.deadline() > bed.now + Duration::from_secs(5), "nobody is asked");
    let until = bed.now + Duration::from_secs(32);
    bed.handle(ControlInput::Shard(ShardEvent::Sign(Sign::Unreachable { slot: Slot(0), until })));
    assert!(
        bed.control.nodes()[0].paused_until == until && bed.control.nodes()[0].is_up(),
        "every shard hears of it"
    );
    // A client can make a next hop close a connection. The hop is probed at once and answers.
    next_probe(&mut bed);
    answer(&mut bed, 200, &[]);
    assert!(bed.control.nodes()[0].paused_until <= bed.now, "it was the fault of one message");
    bed.handle(ControlInput::Shard(ShardEvent::Sign(Sign::NoAnswer { slot: Slot(1), silent: true })));
    assert!(bed.control.deadline() <= bed.now + Duration::from_secs(1), "it is asked");
    assert_eq!(
        bed.control.meant(B, Some(&Address::Socket(B.parse().unwrap()))).unwrap().len(),
        1,
        "and can be drained"
    );
}

fn left(open: Vec<usize>, is_any_kept: bool) -> ControlInput<'static> {
    ControlInput::WorkLeft(WorkLeft { open, waiting: 0, is_any_kept })
}

fn ends(bed: &mut Bed) -> bool {
    bed.effects().contains(&ControlEffect::End)
}

#[test]
fn a_process_ends_with_its_last_call_or_when_the_wait_is_over() {
    let stop = || {
        let mut bed = Bed::of(&[A, B]);
        bed.handle(left(vec![0, 0], false));
        assert!(!ends(&mut bed), "nobody has asked it to stop");
        bed.handle(ControlInput::Stop);
        bed.handle(ControlInput::Timer);
        assert!(bed.effects().contains(&ControlEffect::AskWorkLeft));
        bed.handle(left(vec![1, 0], true));
        assert!(!ends(&mut bed));
        bed
    };
    let mut bed = stop();
    let due = bed.control.deadline();
    assert!(bed.now < due && due <= bed.now + Duration::from_secs(1), "it asks again");
    bed.handle(left(vec![0, 0], true));
    assert!(ends(&mut bed));
    let mut bed = stop();
    bed.pass(Duration::from_mins(5));
    bed.handle(left(vec![1, 0], true));
    assert!(ends(&mut bed), "it has waited long enough");
    let mut bed = stop();
    bed.handle(ControlInput::Joins { process: ProcessId(1), drained: &[], dead: &[] });
    bed.handle(left(vec![0, 0], false));
    assert!(!ends(&mut bed), "the process before has calls");
    bed.handle(ControlInput::Joins { process: ProcessId(2), drained: &[], dead: &[] });
    bed.handle(ControlInput::Gone(ProcessId(1)));
    bed.handle(left(vec![0, 0], false));
    assert!(!ends(&mut bed), "and so has another one");
    bed.handle(ControlInput::Gone(ProcessId(2)));
    bed.handle(left(vec![0, 0], false));
    assert!(ends(&mut bed));
}

#[test]
fn one_that_is_succeeded_refuses_nothing_and_stays_for_late_messages() {
    let mut bed = Bed::of(&[A]);
    bed.handle(ControlInput::Succeeded);
    assert!(bed.control.is_stopping() && bed.setup().stopping.is_none());
    bed.handle(left(vec![0], true));
    assert!(!ends(&mut bed), "who repeats a message gets the same answer only here");
    bed.handle(ControlInput::GivenBack);
    assert!(!bed.control.is_stopping());
    bed.handle(ControlInput::Succeeded);
    bed.handle(ControlInput::SuccessionOver);
    bed.handle(left(vec![2], true));
    assert!(ends(&mut bed), "it gets nothing any more");
}

#[test]
fn calls_of_the_dead_are_not_waited_for() {
    let mut bed = Bed::of(&[A, B]);
    next_probe(&mut bed);
    let quoted = probe(&bed);
    let flow = bed.out.transmits().last().unwrap().flow;
    bed.handle(ControlInput::ProbeRefused { by: flow.remote(), quoted: &quoted });
    let dead = bed.control.nodes().iter().position(|node| !node.is_up()).expect("the port is closed");
    bed.handle(ControlInput::Stop);
    let mut open = vec![0; 2];
    open[dead] = Load { calls: 4, ..Load::default() }.calls as usize;
    bed.handle(left(open, false));
    assert!(ends(&mut bed));
}

/// A next hop is stopped, and its successor answers: the pause that the first one asked for ends early.
#[test]
fn the_rest_of_a_stopped_hop_ends_with_the_answers_of_its_successor() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    let until = bed.now + Duration::from_secs(30);
    let pause = Sign::Pause { slot: Slot(0), until, asked: true };
    bed.handle(ControlInput::Shard(ShardEvent::Sign(pause)));
    for status in [503, 503, 200, 200] {
        let now = bed.now;
        assert_eq!(bed.control.nodes()[0].refusal(now, 0), Some(NodeRefusal::Paused));
        next_probe(&mut bed);
        answer(&mut bed, status, if status == 503 { &[("Retry-After", "20")] } else { &[] });
    }
    let now = bed.now;
    assert_eq!(bed.control.nodes()[0].refusal(now, 0), None);
    assert!(until.saturating_since(now) > Duration::from_secs(20));
    let recovered =
        |entry: &LogEntry| matches!(entry, LogEntry::Member { event: MemberEvent::Recovered, .. });
    assert!(bed.entries().iter().any(recovered));
    let asked = bed.out.transmits().len();
    bed.pass(Duration::from_mins(1));
    assert_eq!(bed.out.transmits().len(), asked, "it rests no more, so nobody asks");
}
