//! Proxies that share out the state of calls, and break rules.

use crate::canary::*;
use swarm::{ProcessRule, RunRule};
use wire::Method;

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), sharing)
}

fn is_invite(bytes: &[u8]) -> bool {
    is(bytes, "INVITE")
}

/// Returns true if only the INVITE is sent: it is forwarded without a transaction.
fn is_passed(sent: &[swarm::Sent]) -> bool {
    matches!(sent, [one] if is_invite(&one.bytes))
}

/// Violations in the destination and branch of copies.
pub(crate) fn of_copies() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::StatelessTarget).on(is_invite, |memory, at, bytes, _, sent| {
            let [one] = &mut sent[..] else { return };
            let is_other = |kept: &&swarm::Sent| sent_by(at, kept) && kept.to != one.to;
            if !memory.seen.insert(bytes.to_vec())
                && let Some(other) = memory.kept.iter().find(is_other)
            {
                one.to = other.to;
            }
            memory.kept.push(one.clone());
        }),
        breaks(ProcessRule::StatelessBranch).on(is_invite, |memory, _, bytes, _, sent| {
            if is_passed(sent) && !memory.seen.insert(bytes.to_vec()) {
                rebranch(&mut sent[0].bytes, 0);
            }
        }),
        // It absorbs a request that it has no transaction of.
        breaks(ProcessRule::StatelessNotForwarded).on(is_invite, |memory, _, bytes, _, sent| {
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

/// The last proxy keeps no state: it sends no 100, and uses the branch of a call that another proxy keeps.
fn keeps_nothing(fits: fn(&swarm::Plan) -> bool) -> Canary {
    Canary::new(ProcessRule::StateNotKept.text(), fits).on(is_invite, |memory, _, _, _, sent| {
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
    })
}

/// Violations about which proxy keeps the state, and in the marks that say so.
pub(crate) fn of_state() -> Vec<Canary> {
    vec![
        // It keeps the state of a call that another proxy keeps.
        breaks(ProcessRule::StateKeptTwice).on(is_invite, |_, _, bytes, from, sent| {
            let via = scanned(bytes).top_via().value.of(bytes);
            if is_passed(sent) && (via.ends_with(b"done=1") || via.ends_with(b"done=5")) {
                sent.insert(0, response(bytes, from, 100));
            }
        }),
        keeps_nothing(sharing_transactions),
        keeps_nothing(sharing_dialogs),
        keeps_nothing(sharing_authentication),
        keeps_nothing(sharing_all),
        breaks(ProcessRule::WrongMark)
            .tampers(is_invite, |one| replace(&mut one.bytes, ";done=0", ";done=5")),
        // It refuses every tenth call.
        breaks(ProcessRule::RefusedDespiteRoom).on(is_invite, |memory, _, bytes, from, sent| {
            if is_passed(sent) && scanned(bytes).to_tag().is_none() && memory.turn(10) {
                *sent = vec![response(bytes, from, 503)];
                replace(&mut sent[0].bytes, "Made up", "Too Many Transactions");
            }
        }),
        // A copy of a call with state is taken for another call.
        Canary::new(RunRule::TwoStates.text(), sharing).hears(|memory, bytes| {
            if is_invite(bytes) && !memory.seen.insert(bytes.clone()) {
                rebranch(bytes, 0);
            }
        }),
    ]
}

/// Violations about which proxy writes the record of a call.
pub(crate) fn of_records() -> Vec<Canary> {
    let breaks = |rule: RunRule| Canary::new(rule.text(), sharing_dialogs);
    vec![
        // No record is final.
        breaks(RunRule::NoRecord).writes(|_, records| {
            for record in records {
                record.is_final = false;
            }
        }),
        // Marks get lost between proxies, so that the next proxy keeps the call too.
        breaks(RunRule::TwoRecords).hears(|_, bytes| {
            if is_invite(bytes) {
                replace(bytes, ";done=5", ";done=0");
            }
        }),
    ]
}

/// Marks that ask the next proxy to verify the caller, and marks that say that it is verified.
const ASKED: [&str; 4] = [";done=8", ";done=9", ";done=c", ";done=d"];
const VERIFIED: [&str; 4] = [";done=2", ";done=3", ";done=6", ";done=7"];

fn has_any(bytes: &[u8], marks: &[&str]) -> bool {
    let via = scanned(bytes).top_via().value.of(bytes);
    marks.iter().any(|mark| via.windows(mark.len()).any(|part| part == mark.as_bytes()))
}

/// Returns true for an INVITE with credentials.
fn has_credentials(bytes: &[u8]) -> bool {
    is_invite(bytes) && scanned(bytes).header("Proxy-Authorization").is_some()
}

/// Returns true for an INVITE whose caller a neighbour asks to verify.
fn is_asked(bytes: &[u8]) -> bool {
    is_invite(bytes) && has_any(bytes, &ASKED)
}

/// Returns true for an INVITE that answers the challenge of a proxy behind.
fn is_left(bytes: &[u8]) -> bool {
    has_credentials(bytes) && is_asked(bytes)
}

/// Makes an INVITE as it leaves the network.
fn leaving(at: swarm::SiteProcess, bytes: &[u8]) -> swarm::Sent {
    let mut bytes = bytes.to_vec();
    add(&mut bytes, "Via", &format!("Via: SIP/2.0/UDP {};branch=z9hG4bKcanary", own(at)));
    swarm::Sent::by(base::Flow::udp(0, swarm::answerer_address(0)), bytes)
}

/// Violations about which proxy verifies callers, and in the marks that say so.
pub(crate) fn of_authentication() -> Vec<Canary> {
    let breaks = |rule: RunRule| Canary::new(rule.text(), sharing_authentication);
    let also = |rule: RunRule| Canary::new(rule.text(), sharing_all);
    vec![
        // It lets callers pass that it should have challenged.
        breaks(RunRule::Unverified).on(is_invite, |_, at, bytes, _, sent| {
            if sent.iter().any(|one| is_response(&one.bytes, Method::Invite, 407..408)) {
                *sent = vec![leaving(at, bytes)];
            }
        }),
        // The last proxy forwards requests that it is asked to verify.
        also(RunRule::Unverified).on(is_asked, |_, at, bytes, _, sent| *sent = vec![leaving(at, bytes)]),
        // Credentials for a proxy behind bypass it.
        breaks(RunRule::FalselyVerified).tampers(is_left, |one| one.to = swarm::answerer_address(0)),
        // It claims to have verified callers that it leaves to proxies behind.
        also(RunRule::FalselyVerified).tampers(is_left, |one| {
            for (mark, verified) in ASKED.into_iter().zip(VERIFIED) {
                replace(&mut one.bytes, mark, &format!("{verified};vouch=0123456789abcdef"));
            }
        }),
        // It forwards unverified requests without asking for verification.
        breaks(RunRule::VerificationUnclear).tampers(is_asked, |one| {
            for (mark, open) in ASKED.into_iter().zip([";done=0", ";done=1", ";done=4", ";done=5"]) {
                replace(&mut one.bytes, mark, open);
            }
        }),
        // It does not prove that it has verified a caller.
        also(RunRule::VerificationUnclear)
            .tampers(is_invite, |one| replace(&mut one.bytes, ";vouch=", ";voucher=")),
        // It challenges callers that an earlier proxy has verified.
        breaks(RunRule::ChallengedAgain).on(is_invite, |_, _, bytes, from, sent| {
            if has_any(bytes, &[";vouch="]) {
                *sent = vec![response(bytes, from, 407)];
            }
        }),
        // It challenges callers that have answered a proxy behind.
        also(RunRule::ChallengedAgain).on(has_credentials, |_, _, bytes, from, sent| {
            if sent.iter().any(|one| is_left(&one.bytes)) {
                *sent = vec![response(bytes, from, 407)];
            }
        }),
        // No caller gets through.
        breaks(RunRule::FailedWithoutFaults).swallows(has_credentials),
    ]
}
