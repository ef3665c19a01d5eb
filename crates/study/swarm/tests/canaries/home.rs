//! Registrars that break rules.

use crate::canary::*;
use swarm::ProcessRule;
use wire::Method;

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), home)
}

pub(crate) fn all() -> Vec<Canary> {
    vec![
        // It sends 100 to the caller, and no INVITE to the contacts.
        breaks(ProcessRule::ContactNotCalled)
            .says(|_, _, _, sent| sent.retain(|one| !is(&one.bytes, "INVITE"))),
        // It calls a contact that was never registered.
        breaks(ProcessRule::GoneContactCalled).tampers(
            |bytes| is(bytes, "INVITE"),
            |one| replace(&mut one.bytes, "sip:phone-", "sip:former-phone-"),
        ),
        // It accepts every REGISTER.
        breaks(ProcessRule::NotAuthenticated).on(
            |bytes| is(bytes, "REGISTER"),
            |_, _, bytes, from, sent| *sent = vec![response(bytes, from, 200)],
        ),
        breaks(ProcessRule::NotAnswered)
            .says(|_, _, _, sent| sent.retain(|one| !is_response(&one.bytes, Method::Register, 100..700))),
    ]
}
