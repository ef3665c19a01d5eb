//! Stateful proxies that break rules.

use crate::canary::*;
use base::Flow;
use swarm::Shown;
use swarm::{ProcessRule, Sent};
use wire::Method;

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), proxy)
}

fn is_invite(bytes: &[u8]) -> bool {
    is(bytes, "INVITE")
}

fn is_ack(bytes: &[u8]) -> bool {
    is(bytes, "ACK")
}

fn is_own_ack(bytes: &[u8]) -> bool {
    is_own(bytes, "ACK")
}

fn is_own_cancel(bytes: &[u8]) -> bool {
    is_own(bytes, "CANCEL")
}

fn rings(bytes: &[u8]) -> bool {
    is_response(bytes, Method::Invite, 180..181)
}

fn accepts(bytes: &[u8]) -> bool {
    is_response(bytes, Method::Invite, 200..300)
}

fn refuses(bytes: &[u8]) -> bool {
    is_response(bytes, Method::Invite, 300..700)
}

/// Violations on responses.
pub(crate) fn of_responses() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::UnmatchedResponse)
            .hears(|_, bytes| {
                if is_any_response(bytes) {
                    rebranch(bytes, 0);
                }
            })
            .on(is_any_response, |_, _, bytes, _, sent| sent.extend(passed_on(bytes))),
        breaks(ProcessRule::Forwarded100).tampers(rings, |one| restatus(&mut one.bytes, 100)),
        // Only repeated 2xx, since the target of other responses is checked by another rule.
        breaks(ProcessRule::ResponseTarget).on(accepts, |memory, _, bytes, _, sent| {
            if !memory.seen.insert(bytes.to_vec()) {
                sent.iter_mut().for_each(elsewhere);
            }
        }),
        breaks(ProcessRule::Forwarded503)
            .hears(|_, bytes| {
                if rings(bytes) {
                    restatus(bytes, 503);
                }
            })
            .on(refuses, |_, _, bytes, _, sent| *sent = passed_on(bytes).into_iter().collect()),
        breaks(ProcessRule::ForwardedResponseTarget)
            .hears(|_, bytes| {
                if rings(bytes) {
                    line(bytes, "Via", 1, |via| {
                        let via: Vec<_> =
                            via.split(';').filter(|part| !part.starts_with("received")).collect();
                        format!("{};received=192.0.2.77", via.join(";"))
                    });
                }
            })
            .on(rings, |_, _, bytes, _, sent| *sent = passed_on(bytes).into_iter().collect()),
        breaks(ProcessRule::Late503).tampers(
            |bytes| is_response(bytes, Method::Invite, 487..488),
            |one| restatus(&mut one.bytes, 503),
        ),
        breaks(ProcessRule::TokenRevealed).on(accepts, |_, _, bytes, _, sent| {
            for one in sent.iter_mut().filter(|one| accepts(&one.bytes)) {
                for at in 0..scanned(bytes).record_routes().count() {
                    let came = scanned(bytes).headers("Record-Route").nth(at).map(<[u8]>::to_vec);
                    let came = String::from_utf8(came.unwrap_or_default()).expect("agents write text");
                    line(&mut one.bytes, "Record-Route", at, |_| came);
                }
            }
        }),
        breaks(ProcessRule::NonInviteStatus)
            .tampers(|bytes| is_response(bytes, Method::Bye, 200..201), |one| restatus(&mut one.bytes, 408)),
        breaks(ProcessRule::SecondFinal).on(accepts, |_, _, _, _, sent| {
            let second = sent.first().cloned();
            sent.extend(second.map(|mut second| {
                restatus(&mut second.bytes, 486);
                second
            }));
        }),
    ]
}

/// Violations in the proxy's own responses.
pub(crate) fn of_answers() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::RepeatedRequest).on(is_invite, |memory, _, bytes, from, sent| {
            if !memory.seen.insert(bytes.to_vec()) {
                sent.push(response(bytes, from, 486));
            }
        }),
        breaks(ProcessRule::AckCopies).on(is_ack, |_, _, _, _, sent| sent.extend(sent.clone())),
        breaks(ProcessRule::FailureAckForwarded).on(is_ack, |_, _, bytes, from, sent| {
            if sent.is_empty() {
                sent.push(Sent::by(Flow::udp(0, from), bytes.to_vec()));
            }
        }),
        breaks(ProcessRule::ResponseWithoutRequest).on(is_invite, |_, _, bytes, from, sent| {
            let mut other = bytes.to_vec();
            rebranch(&mut other, 0);
            sent.push(response(&other, from, 486));
        }),
        breaks(ProcessRule::OwnResponseTarget)
            .tampers(|bytes| is_response(bytes, Method::Invite, 100..101), elsewhere),
    ]
}

/// Violations in retransmissions.
pub(crate) fn of_retransmissions() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::RetransmissionWithoutTimer)
            .on(rings, |memory, at, _, _, sent| sent.extend(memory.invite(at, Stage::Ringing))),
        breaks(ProcessRule::RetransmissionTarget).says(|memory, _, _, sent| {
            for one in sent.iter_mut().filter(|one| is_invite(&one.bytes)) {
                if !memory.seen.insert(one.bytes.clone()) {
                    elsewhere(one);
                }
            }
        }),
        breaks(ProcessRule::RetransmissionBytes).says(|memory, _, _, sent| {
            for one in sent.iter_mut().filter(|one| is_invite(&one.bytes)) {
                if !memory.seen.insert(one.bytes.clone()) {
                    line(&mut one.bytes, "Max-Forwards", 0, |_| "7".to_owned());
                }
            }
        }),
        breaks(ProcessRule::RetransmissionAnswered)
            .on_timer(|memory, at, sent| sent.extend(memory.invite(at, Stage::Answered))),
        breaks(ProcessRule::RetransmissionCount).on_timer(|memory, at, sent| {
            let silent = memory.invite(at, Stage::Silent);
            sent.extend(silent.into_iter().flat_map(|one| vec![one; 12]));
        }),
    ]
}

/// Violations in requests made by the proxy: ACK to a failure, CANCEL.
pub(crate) fn of_generated_requests() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::OwnBranch).tampers(is_own_cancel, |one| rebranch(&mut one.bytes, 0)),
        breaks(ProcessRule::OwnHop).tampers(is_own_ack, elsewhere),
        breaks(ProcessRule::OwnUri).tampers(is_own_ack, |one| replace(&mut one.bytes, "sip:", "sip:x")),
        breaks(ProcessRule::OwnCseq)
            .tampers(is_own_ack, |one| line(&mut one.bytes, "CSeq", 0, |_| "9 ACK".to_owned())),
        breaks(ProcessRule::OwnCallId).tampers(is_own_ack, |one| {
            line(&mut one.bytes, "Call-ID", 0, |call| format!("{call}x"));
        }),
        breaks(ProcessRule::OwnMethod).on(rings, |memory, at, _, _, sent| {
            sent.extend(memory.invite(at, Stage::Ringing).map(|invite| made_of(&invite, "BYE")));
        }),
        breaks(ProcessRule::AckWithoutFailure).on(rings, |memory, at, _, _, sent| {
            sent.extend(memory.invite(at, Stage::Ringing).map(|invite| made_of(&invite, "ACK")));
        }),
        // The ACK to one failure is sent for the next.
        breaks(ProcessRule::AckToOtherInvite).on(refuses, |memory, at, _, _, sent| {
            for one in sent.iter_mut().filter(|one| is_own_ack(&one.bytes)) {
                let before = core::mem::replace(&mut memory.kept, vec![one.clone()]);
                let before = before.into_iter().next();
                if let Some(before) = before.filter(|kept| sent_by(at, kept)) {
                    *one = before;
                }
            }
        }),
        breaks(ProcessRule::AckTag)
            .tampers(is_own_ack, |one| line(&mut one.bytes, "To", 0, |to| format!("{to}x"))),
        breaks(ProcessRule::AckDiffers).on(refuses, |_, _, _, _, sent| {
            if let Some(mut second) = sent.iter().find(|one| is_own_ack(&one.bytes)).cloned() {
                line(&mut second.bytes, "To", 0, |to| format!("{to}x"));
                sent.push(second);
            }
        }),
        breaks(ProcessRule::CancelForwarded).on(
            |bytes| is(bytes, "CANCEL"),
            |memory, at, bytes, _, sent| {
                sent.extend(memory.invite_of(at, &call_of(bytes)).map(|invite| {
                    let mut cancel = alternate(invite);
                    replace(&mut cancel.bytes, "INVITE ", "CANCEL ");
                    line(&mut cancel.bytes, "CSeq", 0, |cseq| cseq.replace("INVITE", "CANCEL"));
                    cancel
                }));
            },
        ),
        breaks(ProcessRule::CancelWithoutCause).on(rings, |memory, at, _, _, sent| {
            sent.extend(memory.invite(at, Stage::Ringing).map(|invite| made_of(&invite, "CANCEL")));
        }),
        breaks(ProcessRule::CancelUntimely).on_timer(|memory, at, sent| {
            sent.extend(memory.invite(at, Stage::Answered).map(|invite| made_of(&invite, "CANCEL")));
        }),
    ]
}

/// The INVITE for another next hop, under another branch.
fn alternate(mut invite: Sent) -> Sent {
    rebranch(&mut invite.bytes, 0);
    invite
}

/// Violations in the timing of forwarded requests.
pub(crate) fn of_times() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::ForwardedWithoutRequest).on_timer(|memory, at, sent| {
            sent.extend(memory.invite(at, Stage::Ringing).map(|mut invite| {
                rebranch(&mut invite.bytes, 1);
                alternate(invite)
            }));
        }),
        breaks(ProcessRule::ForwardedAfterFinal).on_timer(|memory, at, sent| {
            sent.extend(memory.invite(at, Stage::Answered).map(alternate));
        }),
        // It sends 100, and forwards the INVITE only at its next timer.
        breaks(ProcessRule::ForwardedLate).says(|memory, at, cause, sent| {
            if matches!(cause, swarm::ProcessInput::Timer) {
                let (own, others) =
                    core::mem::take(&mut memory.kept).into_iter().partition(|kept| sent_by(at, kept));
                memory.kept = others;
                sent.splice(..0, own);
            } else if let Some(held) = sent.iter().position(|one| is_invite(&one.bytes)) {
                memory.kept.push(sent.remove(held));
            }
        }),
        breaks(ProcessRule::AlternateCancelled).on(
            |bytes| is(bytes, "CANCEL"),
            |memory, at, bytes, _, sent| {
                sent.extend(memory.invite_of(at, &call_of(bytes)).map(alternate));
            },
        ),
        breaks(ProcessRule::AlternateEarly).on(rings, |memory, at, _, _, sent| {
            sent.extend(memory.invite(at, Stage::Ringing).map(alternate));
        }),
        breaks(ProcessRule::OtherBranch).on(is_ack, |memory, _, bytes, _, sent| {
            if !memory.seen.insert(bytes.to_vec()) {
                for one in sent {
                    rebranch(&mut one.bytes, 0);
                }
            }
        }),
    ]
}

/// Violations in forwarded requests.
pub(crate) fn of_requests() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::RecordRouteCount)
            .tampers(is_invite, |one| without(&mut one.bytes, "Record-Route")),
        breaks(ProcessRule::RecordRouteAddress).tampers(is_invite, |one| {
            line(&mut one.bytes, "Record-Route", 0, |uri| uri.replace("198.51.100.1", "proxy.example"));
        }),
        breaks(ProcessRule::RecordRouteSide).tampers(is_invite, |one| {
            line(&mut one.bytes, "Record-Route", 0, |uri| uri.replace("198.51.100.1", "198.51.100.9"));
        }),
        breaks(ProcessRule::RecordRouteLoose).tampers(is_invite, |one| {
            line(&mut one.bytes, "Record-Route", 0, |uri| uri.replace(";lr", ""));
        }),
        breaks(ProcessRule::RecordRouteToken).tampers(is_invite, |one| {
            line(&mut one.bytes, "Record-Route", 0, |uri| uri.replace(";sbp=", ";nothing="));
        }),
        breaks(ProcessRule::NotANextHop)
            .tampers(is_invite, |one| one.to = "192.0.2.1:5060".parse().expect("a caller's address")),
        breaks(ProcessRule::RemainingRoute).tampers(
            |bytes| is(bytes, "BYE"),
            |one| add(&mut one.bytes, "Max-Forwards", "Route: <sip:198.51.100.77;lr>"),
        ),
        breaks(ProcessRule::RouteTarget).says(|memory, at, _, sent| {
            for bye in sent.iter_mut().filter(|one| is(&one.bytes, "BYE")) {
                let is_site = bye.to.ip() == own(at).ip();
                if is_site && memory.turn(20) {
                    elsewhere(bye);
                }
            }
        }),
    ]
}

/// Violations in the reported state.
pub(crate) fn of_reports() -> Vec<Canary> {
    vec![
        breaks(ProcessRule::TooManyPending).shows(|_, shown| {
            if let Shown::Proxy { report, .. } = shown {
                report.unanswered += 1_000_000;
            }
        }),
        breaks(ProcessRule::TooManyTransactions).shows(|_, shown| {
            if let Shown::Proxy { report, .. } = shown {
                report.transactions += 1_000_000;
            }
        }),
    ]
}
