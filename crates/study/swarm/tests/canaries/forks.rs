//! Proxies that fork, and break rules.

use crate::canary::*;
use swarm::ProcessRule;
use wire::Method;

fn breaks(rule: ProcessRule) -> Canary {
    Canary::new(rule.text(), forking)
}

fn accepts(bytes: &[u8]) -> bool {
    is_response(bytes, Method::Invite, 200..300)
}

pub(crate) fn all() -> Vec<Canary> {
    vec![
        // It does not forward a second 2xx.
        breaks(ProcessRule::SuccessNotForwarded)
            .on(accepts, |_, _, _, _, sent| sent.retain(|one| !accepts(&one.bytes))),
        breaks(ProcessRule::BranchNotCancelled)
            .on(accepts, |_, _, _, _, sent| sent.retain(|one| !is_own(&one.bytes, "CANCEL"))),
        // It sends the last failure, whatever the others were.
        breaks(ProcessRule::NotBest).on(
            |bytes| is_response(bytes, Method::Invite, 300..700),
            |_, _, _, _, sent| {
                let refuses = |bytes: &[u8]| is_response(bytes, Method::Invite, 300..600);
                for one in sent.iter_mut().filter(|one| refuses(&one.bytes)) {
                    restatus(&mut one.bytes, 699);
                }
            },
        ),
        // It tries another next hop after a 6xx.
        breaks(ProcessRule::NextHopAfter6xx).on(
            |bytes| is_response(bytes, Method::Invite, 600..700),
            |memory, at, bytes, _, sent| {
                sent.extend(memory.invite_of(at, &call_of(bytes)).map(|mut invite| {
                    rebranch(&mut invite.bytes, 0);
                    invite
                }));
            },
        ),
    ]
}
