//! Sites of several pools that break rules.

use crate::canary::*;
use dialog::{CallRecord, Cause};
use swarm::{RunRule, Sent, Shown};
use wire::Method;

fn breaks(rule: RunRule) -> Canary {
    Canary::new(rule.text(), mixed)
}

/// Returns true for an INVITE outside any dialog.
fn is_initial_invite(bytes: &[u8]) -> bool {
    is(bytes, "INVITE") && scanned(bytes).to_tag().is_none()
}

fn refuse(bytes: &[u8], from: std::net::SocketAddr, reason: &str) -> Sent {
    let mut refusal = response(bytes, from, 503);
    replace(&mut refusal.bytes, "Made up", reason);
    refusal
}

pub(crate) fn all() -> Vec<Canary> {
    let is_answered = |record: &&mut CallRecord| record.accepted.is_some();
    vec![
        breaks(RunRule::WrongPool).tampers(is_initial_invite, elsewhere),
        // It refuses every fifth call, and forwards a copy of the INVITE.
        breaks(RunRule::RefusedStarted).on(is_initial_invite, |memory, _, bytes, from, sent| {
            let is_first = memory.seen.insert(bytes.to_vec());
            let goes_on = sent.iter().find(|one| is_initial_invite(&one.bytes)).cloned();
            let invite = memory.kept.iter().find(|one| call_of(&one.bytes) == call_of(bytes)).cloned();
            match (goes_on, invite) {
                (Some(invite), None) if is_first && memory.turn(5) => {
                    memory.kept.push(invite);
                    *sent = vec![refuse(bytes, from, "Out of Order")];
                }
                (_, Some(invite)) => *sent = vec![invite],
                _ => {}
            }
        }),
        breaks(RunRule::NoRecord).writes(|_, records| records.clear()),
        breaks(RunRule::TwoRecords).writes(|_, records| records.extend(records.clone())),
        breaks(RunRule::LostRecord).writes(move |_, records| {
            records.iter_mut().filter(is_answered).for_each(|record| record.cause = Some(Cause::Lost));
        }),
        breaks(RunRule::RefusedEarly).on(is_initial_invite, |memory, _, bytes, from, sent| {
            if memory.turn(10) {
                *sent = vec![refuse(bytes, from, "Too Many Calls")];
            }
        }),
        breaks(RunRule::QueueLeft).shows(|_, shown| {
            if let Shown::Balancer(state) = shown {
                state.waiting = 1;
            }
        }),
        // Requests of a dialog go to the wrong answerer.
        breaks(RunRule::WrongAnswerer)
            .tampers(|bytes| is(bytes, "BYE") && !is_response(bytes, Method::Bye, 100..700), elsewhere),
    ]
}
