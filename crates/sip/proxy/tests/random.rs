//! Whatever happens in whatever order: every INVITE gets one final response, and nothing is left at the end.
mod common;

use common::{Bed, Reply};
use core::time::Duration;
use proptest::prelude::*;
use std::collections::BTreeMap;
use wire::Method::{Ack, Bye, Cancel, Invite};

/// One thing that happens; numbers choose the call, the branch, the status.
#[derive(Clone, Copy, Debug)]
enum Step {
    Invite(u64),
    Bye(u64),
    Ack(u64),
    Cancel(u64),
    Answer(u64, usize),
    AnswerBye(u64, usize),
    AnswerCancel(u64),
    Unreachable(u64),
    Wait(u32),
    Hops(u8),
}

const STATUSES: [u16; 9] = [100, 180, 183, 200, 302, 408, 486, 503, 600];

fn step() -> impl Strategy<Value = Step> {
    let (call, branch, status) = (1..6_u64, 1..12_u64, 0..STATUSES.len());
    prop_oneof![
        3 => call.clone().prop_map(Step::Invite),
        1 => call.clone().prop_map(Step::Bye),
        2 => call.clone().prop_map(Step::Ack),
        2 => call.prop_map(Step::Cancel),
        6 => (branch.clone(), status.clone()).prop_map(|(b, s)| Step::Answer(b, s)),
        2 => (branch.clone(), status).prop_map(|(b, s)| Step::AnswerBye(b, s)),
        1 => branch.clone().prop_map(Step::AnswerCancel),
        1 => branch.prop_map(Step::Unreachable),
        // From 1 ms to 9 minutes.
        3 => (0..20_u32).prop_map(Step::Wait),
        1 => (0..4_u8).prop_map(Step::Hops),
    ]
}

/// Final responses sent to each caller of an INVITE, those that are repeated counted once a status.
fn note(finals: &mut BTreeMap<u64, Vec<u16>>, sent: &[String]) {
    for line in sent {
        let words: Vec<_> = line.rsplit(": ").next().unwrap_or_default().split(' ').collect();
        let (Ok(status), Some(&"<"), Some(branch)) = (words[0].parse(), words.get(1), words.get(2)) else {
            continue;
        };
        let branch: u64 = branch.parse().expect("a number");
        let of_call = finals.entry(branch).or_default();
        if status >= 200 && !of_call.contains(&status) {
            of_call.push(status);
        }
    }
}

/// INVITEs have branches below 100, BYEs above.
const BYES: u64 = 100;

fn run(steps: &[Step]) {
    let mut bed = Bed::new(2);
    let mut finals = BTreeMap::new();
    let mut invited = BTreeMap::new();
    // The caller of the INVITE or BYE that got this serial number.
    let mut below = BTreeMap::new();
    for &step in steps {
        let before = bed.proxy.counters().forwarded;
        let sent = match step {
            Step::Invite(call) => bed.request(Invite, call),
            Step::Bye(call) => bed.request(Bye, BYES + call),
            Step::Ack(call) => bed.request(Ack, call),
            Step::Cancel(call) => bed.request(Cancel, call),
            Step::Answer(branch, status) => {
                let below = below.get(&branch).copied();
                bed.answer_below(Invite, branch, Reply { status: STATUSES[status], below })
            }
            Step::AnswerBye(branch, status) => {
                let below = below.get(&branch).copied();
                bed.answer_below(Bye, branch, Reply { status: STATUSES[status], below })
            }
            Step::AnswerCancel(branch) => bed.answer(Cancel, branch, 200),
            Step::Unreachable(branch) => bed.unreachable(Invite, branch),
            Step::Wait(exponent) => bed.wait(Duration::from_millis(1 << exponent)),
            Step::Hops(hops) => {
                bed.script.hops = hops;
                Vec::new()
            }
        };
        if let (Step::Invite(call), true) = (step, bed.proxy.counters().forwarded > before) {
            *invited.entry(call).or_insert(0) += 1;
        }
        for line in sent.iter().filter(|line| line.contains(" > ") && !line.contains(": ")) {
            let words: Vec<_> = line.split(' ').collect();
            let (serial, call) = match (words[0], step) {
                ("INVITE", Step::Invite(call)) => (words[1].parse::<u64>(), call),
                ("BYE", Step::Bye(call)) => (words[1].parse(), BYES + call),
                _ => continue,
            };
            below.insert(serial.expect("a number"), call);
        }
        note(&mut finals, &sent);
        let unanswered = bed.proxy.unanswered();
        assert!(unanswered <= bed.proxy.in_progress());
    }
    note(&mut finals, &bed.wait(Duration::from_hours(2)));
    bed.assert_empty();
    for call in invited.keys() {
        assert!(
            finals.get(call).is_some_and(|finals| !finals.is_empty()),
            "{call} was left without an answer"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_left_and_nobody_waits(steps in proptest::collection::vec(step(), 0..60)) {
        run(&steps);
    }
}
