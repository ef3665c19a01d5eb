//! Elements of every kind that break the rules of a hop.

use crate::canary::*;
use base::Flow;
use swarm::{Plan, ProcessRule, Sent};
use wire::Method;

fn is_invite(bytes: &[u8]) -> bool {
    is(bytes, "INVITE")
}

fn rings(bytes: &[u8]) -> bool {
    is_response(bytes, Method::Invite, 180..181)
}

fn accepts(bytes: &[u8]) -> bool {
    is_response(bytes, Method::Invite, 200..300)
}

/// Canaries for the plans of one kind of element.
fn of(kind: fn(&Plan) -> bool) -> Vec<Canary> {
    let breaks = |rule: ProcessRule| Canary::new(rule.text(), kind);
    vec![
        breaks(ProcessRule::AddressFamily)
            .tampers(is_request, |one| one.to = "[2001:db8::1]:5060".parse().expect("an address")),
        breaks(ProcessRule::UnparsableInput).hears(|_, bytes| bytes.truncate(9)).on(
            |_| true,
            |_, _, bytes, from, sent| {
                sent.push(Sent::by(Flow::udp(0, from), bytes.to_vec()));
            },
        ),
        breaks(ProcessRule::ResponseVias).tampers(rings, |one| double_via(&mut one.bytes)),
        breaks(ProcessRule::ResponseBody).tampers(accepts, |one| embody(&mut one.bytes)),
        breaks(ProcessRule::TopVia).tampers(is_invite, |one| {
            line(&mut one.bytes, "Via", 0, |via| via.replace("198.51.100.1", "198.51.100.9"));
        }),
        breaks(ProcessRule::RequestVias).tampers(is_invite, |one| double_via(&mut one.bytes)),
        breaks(ProcessRule::RequestBody).tampers(is_invite, |one| embody(&mut one.bytes)),
        breaks(ProcessRule::LowerVia).tampers(is_invite, |one| {
            line(&mut one.bytes, "Via", 1, |via| via.replace("192.0.2.1", "192.0.2.9"));
        }),
        breaks(ProcessRule::MaxForwards).tampers(is_invite, |one| {
            line(&mut one.bytes, "Max-Forwards", 0, |_| "7".to_owned());
        }),
        breaks(ProcessRule::MaxBreadth)
            .tampers(is_invite, |one| line(&mut one.bytes, "Max-Breadth", 0, |_| "61".to_owned())),
    ]
}

pub(crate) fn all() -> Vec<Canary> {
    [balancer, proxy, mixed].map(of).concat()
}
