//! Answerers, callers and whole runs that break rules.

use crate::canary::*;
use std::time::Duration;
use swarm::{PlannedAction, RunRule, Shown};
use wire::Method;

fn breaks(rule: RunRule) -> Canary {
    Canary::new(rule.text(), balancer)
}

pub(crate) fn all() -> Vec<Canary> {
    vec![
        breaks(RunRule::AckAnswered).answers(|_, one| {
            if is_response(&one.bytes, Method::Invite, 200..300) {
                line(&mut one.bytes, "CSeq", 0, |cseq| cseq.replace("INVITE", "ACK"));
            }
        }),
        breaks(RunRule::UnknownAddress)
            .answers(|_, one| one.to = "192.0.2.200:5060".parse().expect("an address")),
        breaks(RunRule::TooManyDatagrams).prepare(|plan| plan.datagrams_max = 100),
        // A caller that pauses for longer than its calls may take to end.
        breaks(RunRule::CallersLeft).prepare(|plan| {
            calm(plan);
            plan.callers[0].arrivals.duration = None;
            let end = plan.end.saturating_since(base::Instant::ZERO).as_millis() as u64;
            act(plan, end - 1, PlannedAction::Stall(0, Duration::from_mins(10)));
        }),
        // Drops the response to BYE of one call in eight.
        breaks(RunRule::FailedWithoutFaults).swallows(|bytes| {
            let sum: u32 = call_of(bytes).iter().map(|&byte| u32::from(byte)).sum();
            is_response(bytes, Method::Bye, 100..700) && sum.is_multiple_of(8)
        }),
        // An answerer that does not find its dialogs, and reports that it ended them.
        breaks(RunRule::AnswerersLeft)
            .prepare(calm)
            .tampers(|bytes| is(bytes, "BYE"), |one| line(&mut one.bytes, "To", 0, |to| format!("{to}x")))
            .answers(|_, one| {
                if is_response(&one.bytes, Method::Bye, 481..482) {
                    restatus(&mut one.bytes, 200);
                }
            }),
        // The first three calls require an extension that no proxy has (RFC 3261 §16.3 step 5).
        Canary::new(RunRule::TooManyFailed.text(), gentle).prepare(calm).hears(|memory, bytes| {
            if is(bytes, "INVITE") && (memory.seen.len() < 3 || memory.seen.contains(&call_of(bytes))) {
                memory.seen.insert(call_of(bytes));
                add(bytes, "Max-Forwards", "Proxy-Require: flying");
            }
        }),
        Canary::new(RunRule::TwoServers.text(), gentle).prepare(calm).answers(|_, one| {
            if is_response(&one.bytes, Method::Bye, 200..300) {
                line(&mut one.bytes, "Server", 0, |_| "somebody else".to_owned());
            }
        }),
        // One piece of a hundred lacks its last byte.
        Canary::new(RunRule::OtherMessage.text(), over_tcp).carries(|memory, piece| {
            if memory.turn(100) {
                piece.pop();
            }
        }),
        // The other rules work over TCP too: one BYE of fifty goes to another server.
        Canary::new(RunRule::WrongAnswerer.text(), over_tcp).says(|memory, _, _, sent| {
            for bye in sent.iter_mut().filter(|one| is(&one.bytes, "BYE")) {
                if memory.turn(50) {
                    elsewhere(bye);
                }
            }
        }),
        breaks(RunRule::Panic).says(|_, _, _, sent| assert!(sent.is_empty(), "out of the blue")),
        Canary::new(RunRule::ProxyLeft.text(), proxy).shows(|_, shown| {
            if let Shown::Proxy { deadline, .. } = shown {
                *deadline = Some(base::Instant::ZERO);
            }
        }),
    ]
}
