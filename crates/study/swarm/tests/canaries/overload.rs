//! Balancers that refuse the wrong requests, or send feedback to strangers.

use crate::canary::*;
use swarm::{RunRule, Sent, Shown};
use wire::Method;

fn breaks(rule: RunRule) -> Canary {
    Canary::new(rule.text(), balancer)
}

/// Returns true for an INVITE outside any dialog.
fn is_initial_invite(bytes: &[u8]) -> bool {
    is(bytes, "INVITE") && scanned(bytes).to_tag().is_none()
}

fn refuse(bytes: &[u8], from: std::net::SocketAddr) -> Sent {
    let mut refusal = response(bytes, from, 503);
    replace(&mut refusal.bytes, "Made up", "Servers Busy");
    refusal
}

pub(crate) fn all() -> Vec<Canary> {
    vec![
        // It refuses every fifth call, and forwards it too.
        breaks(RunRule::RefusedForwarded).on(is_initial_invite, |memory, _, bytes, from, sent| {
            if memory.seen.insert(call_of(bytes)) && memory.turn(5) {
                sent.insert(0, refuse(bytes, from));
            }
        }),
        // It refuses a copy of a forwarded request.
        breaks(RunRule::ForwardedRefused).on(is_initial_invite, |memory, _, bytes, from, sent| {
            if !memory.seen.insert(bytes.to_vec()) {
                *sent = vec![refuse(bytes, from)];
            }
        }),
        breaks(RunRule::FeedbackTarget).tampers(is_initial_invite, |one| {
            line(&mut one.bytes, "Via", 0, |via| format!("{via};oc;oc-algo=\"rate\""));
        }),
        breaks(RunRule::FeedbackTarget).tampers(
            |bytes| is_response(bytes, Method::Invite, 180..300),
            |one| line(&mut one.bytes, "Via", 0, |via| format!("{via};oc=0;oc-algo=\"loss\";oc-validity=0")),
        ),
        breaks(RunRule::LimitLeft).shows(|_, shown| {
            if let Shown::Balancer(state) = shown {
                state.limits = 1;
            }
        }),
    ]
}
