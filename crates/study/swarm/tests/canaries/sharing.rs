//! Proxies that share out the state of calls, and break rules.

use crate::cage::*;
use swarm::{ProcessRule, RunRule};
use wire::Method;

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), sharing)
}

fn is_invite(bytes: &[u8]) -> bool {
    is(bytes, "INVITE")
}

/// Whether what is sent for an INVITE is the INVITE alone: it goes on without a transaction.
fn is_passed(sent: &[swarm::Sent]) -> bool {
    matches!(sent, [one] if is_invite(&one.bytes))
}

/// Where copies go, and under which branch.
pub(crate) fn of_copies() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::PassedElsewhere).on(is_invite, |memory, at, bytes, _, sent| {
            let [one] = &mut sent[..] else { return };
            let is_other = |kept: &&swarm::Sent| sent_by(at, kept) && kept.to != one.to;
            if !memory.seen.insert(bytes.to_vec())
                && let Some(other) = memory.kept.iter().find(is_other)
            {
                one.to = other.to;
            }
            memory.kept.push(one.clone());
        }),
        breaks(ProcessRule::PassedRebranched).on(is_invite, |memory, _, bytes, _, sent| {
            if is_passed(sent) && !memory.seen.insert(bytes.to_vec()) {
                rebranch(&mut sent[0].bytes, 0);
            }
        }),
        // It absorbs what it has no transaction of.
        breaks(ProcessRule::PassedNot).on(is_invite, |memory, _, bytes, _, sent| {
            if is_passed(sent) && !memory.seen.insert(bytes.to_vec()) {
                sent.clear();
            }
        }),
        breaks(ProcessRule::ResponseStatus).tampers(
            |bytes| is_response(bytes, Method::Invite, 180..181),
            |one| restatus(&mut one.bytes, 183),
        ),
    ]
}

/// Who keeps the state, and who is said to.
pub(crate) fn of_state() -> Vec<Canary> {
    vec![
        // It keeps what another one keeps.
        breaks(ProcessRule::KeptTwice).on(is_invite, |_, _, bytes, from, sent| {
            let via = scanned(bytes).top_via().value.of(bytes);
            if is_passed(sent) && (via.ends_with(b"done=1") || via.ends_with(b"done=5")) {
                sent.insert(0, response(bytes, from, 100));
            }
        }),
        // The last one keeps nothing: it sends no 100, and the branch is that of a call which another one keeps.
        breaks(ProcessRule::KeptByNobody).on(is_invite, |memory, _, _, _, sent| {
            let branch = |one: &swarm::Sent| scanned(&one.bytes).top_via().branch.map(<[u8]>::to_vec);
            if sent.iter().any(|one| one.to.ip() == swarm::answerer_address(0).ip()) {
                sent.retain(|one| is_invite(&one.bytes));
                let Some((one, other)) = sent.first_mut().zip(memory.kept.first().and_then(branch)) else {
                    return;
                };
                let own = String::from_utf8(branch(one).unwrap_or_default()).unwrap_or_default();
                replace(&mut one.bytes, &own, &String::from_utf8(other).unwrap_or_default());
            } else if is_passed(sent) && branch(&sent[0]).is_some_and(|own| node::is_hop_branch(&own)) {
                memory.kept.push(sent[0].clone());
            }
        }),
        breaks(ProcessRule::WrongMark)
            .tampers(is_invite, |one| replace(&mut one.bytes, ";done=0", ";done=5")),
        // It refuses every tenth call.
        breaks(ProcessRule::RefusedFull).on(is_invite, |memory, _, bytes, from, sent| {
            if is_passed(sent) && scanned(bytes).to_tag().is_none() && memory.turn(10) {
                *sent = vec![response(bytes, from, 503)];
                replace(&mut sent[0].bytes, "Made up", "Too Many Transactions");
            }
        }),
        // A copy of a call that is kept is taken for another one.
        Canary::new(RunRule::TwoStates.text(), sharing).hears(|memory, bytes| {
            if is_invite(bytes) && !memory.seen.insert(bytes.clone()) {
                rebranch(bytes, 0);
            }
        }),
    ]
}

/// Who writes the record of a call.
pub(crate) fn of_records() -> Vec<Canary> {
    let breaks = |rule: RunRule| Canary::new(rule.text(), sharing_dialogs);
    vec![
        // No record is the last one of its call.
        breaks(RunRule::NoRecord).writes(|_, records| {
            for record in records {
                record.is_final = false;
            }
        }),
        // Marks get lost between proxies, so that the one behind keeps the call, too.
        breaks(RunRule::TwoRecords).hears(|_, bytes| {
            if is_invite(bytes) {
                replace(bytes, ";done=5", ";done=0");
            }
        }),
    ]
}
