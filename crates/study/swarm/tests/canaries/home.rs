//! Registrars that break rules.

use crate::cage::*;
use swarm::ProcessRule;
use wire::Method;

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), home)
}

pub(crate) fn all() -> Vec<Canary> {
    vec![
        // It sends 100 to the caller, and no INVITE to the contacts.
        breaks(ProcessRule::NotFound).says(|_, _, _, sent| sent.retain(|one| !is(&one.bytes, "INVITE"))),
        // It calls a contact that was never registered.
        breaks(ProcessRule::CalledGone).tampers(
            |bytes| is(bytes, "INVITE"),
            |one| replace(&mut one.bytes, "sip:phone-", "sip:former-phone-"),
        ),
        // It accepts every REGISTER.
        breaks(ProcessRule::Unproven).on(
            |bytes| is(bytes, "REGISTER"),
            |_, _, bytes, from, sent| *sent = vec![response(bytes, from, 200)],
        ),
        breaks(ProcessRule::Waits)
            .says(|_, _, _, sent| sent.retain(|one| !is_response(&one.bytes, Method::Register, 100..700))),
    ]
}
