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
    panic!("no member is probed");
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
fn one_503_to_a_probe_pauses_new_calls_for_its_retry_after() {
    let mut bed = Bed::new(probing(&[A], true, 3));
    next_probe(&mut bed);
    answer(&mut bed, 503, &[("Retry-After", "60")]);
    let (node, now) = (&bed.control.nodes()[0], bed.now);
    assert!(node.is_up() && node.asked_until > now);
    assert_eq!(node.refusal(now, 0), Some(NodeRefusal::Paused));
    let length = Duration::from_mins(1);
    let rests = |entry: &LogEntry| matches!(entry, LogEntry::Member { event: MemberEvent::Pauses { length: time, to_probe: true }, .. } if *time == length);
    assert!(bed.entries().iter().any(rests));
    assert_eq!(bed.control.listed()[0].last_probe, Some(ProbeResult::Status(503)));
}

/// Sends a probe on suspicion that gets no answer.
fn suspect_without_answer(bed: &mut Bed) {
    bed.pass(Duration::from_secs(1));
    bed.handle(ControlInput::Unreachable(udp(A.parse().unwrap())));
    next_probe(bed);
    silence(bed);
}

#[test]
fn without_regular_probes_silence_means_dead() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    suspect_without_answer(&mut bed);
    assert!(is_up(&bed));
    for _ in 0..2 {
        next_probe(&mut bed);
        silence(&mut bed);
        assert!(!is_up(&bed));
    }
    next_probe(&mut bed);
    answer(&mut bed, 405, &[]);
    assert!(is_up(&bed), "an error response to OPTIONS counts as alive");
    bed.pass(Duration::from_secs(10));
    bed.handle(ControlInput::Unreachable(udp(A.parse().unwrap())));
    next_probe(&mut bed);
    let quoted = probe(&bed);
    bed.handle(ControlInput::ProbeRefused { by: A.parse().unwrap(), quoted: &quoted });
    assert!(!is_up(&bed));
    next_probe(&mut bed);
    silence(&mut bed);
    assert!(!is_up(&bed), "silence after a closed port counts as dead");
}

#[test]
fn without_regular_probes_a_response_means_alive() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    let answered =
        |bed: &mut Bed| bed.handle(ControlInput::Shard(ShardEvent::Sign(Sign::Answer { slot: Slot(0) })));
    suspect_without_answer(&mut bed);
    assert!(bed.control.nodes()[0].doubted, "the shards report its next answer");
    answered(&mut bed);
    assert!(is_up(&bed) && !bed.control.nodes()[0].doubted);
    suspect_without_answer(&mut bed);
    assert!(is_up(&bed), "the member has answered in between");
    next_probe(&mut bed);
    silence(&mut bed);
    assert!(!is_up(&bed));
    answered(&mut bed);
    assert!(is_up(&bed) && !bed.control.nodes()[0].doubted);
}

#[test]
fn a_reload_probes_dead_members_without_regular_probes() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    bed.handle(ControlInput::Unreachable(udp(A.parse().unwrap())));
    next_probe(&mut bed);
    let quoted = probe(&bed);
    bed.handle(ControlInput::ProbeRefused { by: A.parse().unwrap(), quoted: &quoted });
    assert!(!is_up(&bed));
    bed.reload(probing(&[A], false, 2));
    assert!(bed.control.deadline() <= bed.now + Duration::from_secs(1), "the dead member is probed soon");
}

#[test]
fn an_answer_from_another_host_is_ignored_and_logged() {
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
fn the_death_of_all_members_is_logged_once() {
    let mut bed = Bed::of(&[A, B]);
    bed.effects();
    let mut logged = Vec::new();
    while bed.now < at(30_000) {
        bed.now = bed.control.deadline();
        bed.handle(ControlInput::Timer);
        logged.extend(bed.entries());
    }
    let lost = |entry: &&LogEntry| matches!(entry, LogEntry::Member { event: MemberEvent::Lost(_), .. });
    assert_eq!(logged.iter().filter(lost).count(), 2);
    assert_eq!(
        logged
            .iter()
            .filter(|entry| **entry == LogEntry::NoneAlive { pool: "servers".to_owned(), silent: true })
            .count(),
        1
    );
}

/// Calls of one pool find no member. The log names only the members of that pool, with their state.
#[test]
fn refusals_of_a_pool_are_logged_with_its_members() {
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
    let logged = |pool: &str, refused, members: &[(&str, &'static str)]| {
        let members = members.iter().map(|(member, why)| (member.parse().unwrap(), *why)).collect();
        LogEntry::NoneTook { pool: pool.to_owned(), refused, members }
    };
    let servers = [(A, "draining"), (B, "full")];
    assert_eq!(refused(&mut bed, 0, 5), [logged("servers", 5, &servers)]);
    assert_eq!(refused(&mut bed, 1, 1), [logged("spare", 1, &[(C, "takes calls again")])]);
    assert_eq!(refused(&mut bed, 0, 7), []);
    bed.pass(Duration::from_secs(10));
    assert_eq!(
        refused(&mut bed, 0, 1),
        [logged("servers", 8, &servers)],
        "including the refusals in between"
    );
}

#[test]
fn calls_of_a_member_silent_for_long_are_given_up() {
    let mut bed = Bed::new(probing(&[A], false, 2));
    suspect_without_answer(&mut bed);
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
fn a_next_hop_is_probed_only_on_suspicion() {
    let mut all = settings(&[A, B]);
    all.pools[0].service = Service::Proxy { spread: Spread::Counted, record_route: true };
    all.pools[0].health.regular = false;
    all.pools[0].probes.periodic = false;
    let mut bed = Bed::new(all);
    assert_eq!(bed.setup().pools[0].service.dialogs(), Dialogs::Route);
    bed.effects();
    assert!(bed.control.deadline() > bed.now + Duration::from_secs(5), "no member is probed");
    let until = bed.now + Duration::from_secs(32);
    bed.handle(ControlInput::Shard(ShardEvent::Sign(Sign::Unreachable { slot: Slot(0), until })));
    assert!(
        bed.control.nodes()[0].paused_until == until && bed.control.nodes()[0].is_up(),
        "every shard gets the new state"
    );
    // A client can make a next hop close a connection. The hop is probed at once and answers.
    next_probe(&mut bed);
    answer(&mut bed, 200, &[]);
    assert!(bed.control.nodes()[0].paused_until <= bed.now, "the hop is not paused for one message");
    bed.handle(ControlInput::Shard(ShardEvent::Sign(Sign::NoAnswer { slot: Slot(1), silent: true })));
    assert!(bed.control.deadline() <= bed.now + Duration::from_secs(1), "the hop is probed");
    assert_eq!(
        bed.control.meant(B, Some(&Address::Socket(B.parse().unwrap()))).unwrap().len(),
        1,
        "the hop can be drained"
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
        assert!(!ends(&mut bed), "no stop was requested");
        bed.handle(ControlInput::Stop);
        bed.handle(ControlInput::Timer);
        assert!(bed.effects().contains(&ControlEffect::AskWorkLeft));
        bed.handle(left(vec![1, 0], true));
        assert!(!ends(&mut bed));
        bed
    };
    let mut bed = stop();
    let due = bed.control.deadline();
    assert!(bed.now < due && due <= bed.now + Duration::from_secs(1), "the shards are asked again");
    bed.handle(left(vec![0, 0], true));
    assert!(ends(&mut bed));
    let mut bed = stop();
    bed.pass(Duration::from_mins(5));
    bed.handle(left(vec![1, 0], true));
    assert!(ends(&mut bed), "the wait is over");
    let mut bed = stop();
    bed.handle(ControlInput::Joins { process: ProcessId(1), drained: &[], dead: &[] });
    bed.handle(left(vec![0, 0], false));
    assert!(!ends(&mut bed), "the predecessor has calls");
    bed.handle(ControlInput::Joins { process: ProcessId(2), drained: &[], dead: &[] });
    bed.handle(ControlInput::Gone(ProcessId(1)));
    bed.handle(left(vec![0, 0], false));
    assert!(!ends(&mut bed), "another process has calls, too");
    bed.handle(ControlInput::Gone(ProcessId(2)));
    bed.handle(left(vec![0, 0], false));
    assert!(ends(&mut bed));
}

#[test]
fn a_predecessor_refuses_nothing_and_stays_for_late_messages() {
    let mut bed = Bed::of(&[A]);
    bed.handle(ControlInput::Succeeded);
    assert!(bed.control.is_stopping() && bed.setup().stopping.is_none());
    bed.handle(left(vec![0], true));
    assert!(!ends(&mut bed), "only this process repeats its responses");
    bed.handle(ControlInput::GivenBack);
    assert!(!bed.control.is_stopping());
    bed.handle(ControlInput::Succeeded);
    bed.handle(ControlInput::SuccessionOver);
    bed.handle(left(vec![2], true));
    assert!(ends(&mut bed), "the successor hands over no more messages");
}

#[test]
fn calls_of_dead_members_are_not_awaited() {
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
fn the_pause_of_a_stopped_hop_ends_when_its_successor_answers() {
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
    assert_eq!(bed.out.transmits().len(), asked, "the pause is over, so no probe is sent");
}
