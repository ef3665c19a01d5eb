//! Listeners, Record-Route and Route (RFC 3261 §16.4, §16.6 steps 4 and 6, RFC 5658).
mod common;

use common::dialog::Dialog;
use common::*;

const LB: &str = "127.0.0.1:5060";

fn client() -> std::net::SocketAddr {
    addr("127.0.9.1:6000")
}

#[test]
fn responses_leave_from_the_listener_that_was_asked() {
    let mut bed = Bed::new(Site { listeners: vec![LB, "127.0.0.2:5060"], ..Site::plain() });
    for listener in [0, 1] {
        let call = Dialog::inbound(&mut bed, &format!("asked-{listener}"), client(), listener);
        call.caller_asks(&mut bed, "ACK", 1);
        call.caller_asks(&mut bed, "BYE", 2);
    }
    bed.assert_idle();
}

/// RFC 5658 §4: each side sees the address of ours that it can reach, and both values are ours to remove.
#[test]
fn double_record_route_between_two_listeners() {
    for site in [Site::two_sided(), Site::mixed()] {
        let hosts = site.listeners.clone();
        let mut bed = Bed::new(site);
        let call = Dialog::inbound(&mut bed, "double", client(), 0);
        let of = |routes: &[String]| -> Vec<_> {
            let host =
                |route: &String| hosts.iter().position(|host| route.starts_with(&format!("<sip:{host};lr;")));
            routes.iter().map(|route| host(route).expect("one of ours")).collect()
        };
        assert_eq!(of(&call.caller.routes), [0, 1], "the caller sends to listener 0 first");
        assert_eq!(of(&call.callee.routes), [1, 0], "the callee to listener 1");
        call.caller_asks(&mut bed, "ACK", 1);
        // To the caller from the address that the caller knows, not from the one that the node asked.
        call.callee_asks(&mut bed, "INFO", 1);
        let mut bed = bed.restarted();
        call.callee_asks(&mut bed, "INVITE", 2);
        call.caller_asks(&mut bed, "BYE", 2);
        bed.assert_idle();
    }
}

#[test]
fn one_listener_for_both_sides_needs_one_record_route() {
    let mut bed =
        Bed::new(Site { listeners: vec!["[::1]:5060"], nodes: vec![("[::1]:5081", 0)], ..Site::plain() });
    let call = Dialog::inbound(&mut bed, "v6", addr("[::1]:6000"), 0);
    assert_eq!(call.caller.routes.len(), 1);
    call.caller_asks(&mut bed, "ACK", 1);
    call.callee_asks(&mut bed, "BYE", 1);
    bed.assert_idle();
}
