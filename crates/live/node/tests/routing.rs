//! Listeners, Record-Route and Route (RFC 3261 §16.4, §16.6 steps 4 and 6, RFC 5658).

use crate::common::*;

#[test]
fn responses_leave_from_the_listener_that_was_asked() {
    let mut bed = Bed::new(Site { listeners: vec![PROXY, "127.0.0.2:5060"], ..Site::plain() });
    for listener in [0, 1] {
        let call = Dialog::inbound(&mut bed, &format!("asked-{listener}"), client(), listener);
        call.caller_asks(&mut bed, "ACK", 1);
        call.caller_asks(&mut bed, "BYE", 2);
    }
    bed.assert_idle();
}

/// RFC 5658 §4: each side sees this proxy's address that it can reach, and this proxy removes both values.
#[test]
fn double_record_route_between_two_listeners() {
    for site in [Site::two_sided(), Site::mixed()] {
        let hosts = site.listeners.clone();
        let mut bed = Bed::new(site);
        let call = Dialog::inbound(&mut bed, "double", client(), 0);
        let of = |routes: &[String]| -> Vec<_> {
            let host =
                |route: &String| hosts.iter().position(|host| route.starts_with(&format!("<sip:{host};lr;")));
            routes.iter().map(|route| host(route).expect("an address of this proxy")).collect()
        };
        assert_eq!(of(&call.caller.routes), [0, 1], "the caller sends to listener 0 first");
        assert_eq!(of(&call.callee.routes), [1, 0], "the callee to listener 1");
        call.caller_asks(&mut bed, "ACK", 1);
        // To the caller from the address that the caller knows, not from the one that the node used.
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

fn routes(sent: &Sent) -> Vec<String> {
    sent.message().routes().map(|route| string(route.uri)).collect()
}

fn uri(sent: &Sent) -> String {
    string(sent.message().uri().expect("a request"))
}

/// RFC 3261 §16.4: a strict router before this proxy puts this proxy's URI into the Request-URI, and the target behind
/// the Route.
#[test]
fn a_strict_router_before_us() {
    for site in [Site::plain(), Site::two_sided(), Site::mixed()] {
        let mut bed = Bed::new(site);
        let call = Dialog::inbound(&mut bed, "strict", client(), 0);
        let mut bed = bed.restarted();
        for request in [call.by_caller("INFO", 2), call.by_callee("INFO", 1)] {
            let by_callee = request.from_tag == "bob";
            let (from, to) =
                if by_callee { (&call.callee, &call.caller) } else { (&call.caller, &call.callee) };
            let mut strict = request.clone();
            strict.uri = strict.routes.remove(0).trim_matches(['<', '>']).to_owned();
            strict.routes.push(format!("<{}>", request.uri));
            let sent = bed.one(from.listener, from.at, &strict.bytes());
            assert_eq!((sent.to, uri(&sent), routes(&sent)), (to.at, request.uri.clone(), Vec::new()));
            // A strict router between this proxy and the target keeps its own value.
            strict.routes.insert(strict.routes.len() - 1, "<sip:127.0.5.5;lr>".to_owned());
            let sent = bed.one(from.listener, from.at, &strict.bytes());
            let next = if by_callee { addr("127.0.5.5:5060") } else { to.at };
            assert_eq!((sent.to, uri(&sent)), (next, request.uri));
            assert_eq!(routes(&sent), ["sip:127.0.5.5;lr"]);
        }
    }
}

/// RFC 3261 §16.6 step 6: if the next hop is a strict router, its URI becomes the Request-URI.
#[test]
fn a_strict_router_behind_us() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "behind", client(), 0);
    let mut request = call.by_callee("INFO", 1);
    request.routes.extend(["<sip:127.0.5.5>".to_owned(), "<sip:127.0.5.6;lr>".to_owned()]);
    let sent = bed.one(0, call.callee.at, &request.bytes());
    assert_eq!((sent.to, uri(&sent)), (addr("127.0.5.5:5060"), "sip:127.0.5.5".to_owned()));
    assert_eq!(routes(&sent), ["sip:127.0.5.6;lr", "sip:127.0.9.1:6000"]);
}

/// Loose routing: Route values behind this proxy's stay, and from the pool the first of them is the next hop.
#[test]
fn a_loose_router_behind_us() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "loose", client(), 0);
    let mut request = call.by_callee("INFO", 1);
    request.routes.push("<sip:127.0.5.5:5099;lr>, <sip:127.0.5.6;lr>".to_owned());
    let sent = bed.one(0, call.callee.at, &request.bytes());
    assert_eq!((sent.to, uri(&sent)), (addr("127.0.5.5:5099"), format!("sip:{}", client())));
    assert_eq!(routes(&sent), ["sip:127.0.5.5:5099;lr", "sip:127.0.5.6;lr"]);
    let back = bed.one(0, sent.to, &answer(&sent.bytes, addr(PROXY), 200, client()));
    assert_eq!((back.to, back.status()), (call.callee.at, 200));
}

/// A client with this proxy as its outbound proxy puts it into Route without a token, by address or by name.
#[test]
fn a_preloaded_route_to_us_is_removed() {
    let mut bed = Bed::new(Site::plain());
    for ours in [PROXY, "127.0.0.1", "pool.example", "POOL.example:5999"] {
        let routes_in = vec![format!("<sip:{ours};lr>"), "<sip:127.0.6.6;lr>".to_owned()];
        let invite = Req { routes: routes_in, ..Req::new("INVITE", ours, client()) };
        let sent = bed.one(0, client(), &invite.bytes());
        assert!(bed.is_node(sent.to));
        assert_eq!(routes(&sent), ["sip:127.0.6.6;lr"], "{ours}");
    }
    assert_eq!(bed.shard.counters().tokens_refused, 0);
}

/// A member calls an address or name of this proxy, like a trunk. The call goes by a rule for members, or nowhere. No
/// request goes from this proxy to itself.
#[test]
fn requests_of_a_member_to_this_proxy_do_not_loop() {
    let of_members = to_pool(0, Conditions { origin: Origin::Members, ..Conditions::default() });
    let outside = to_pool(0, Conditions::default());
    let (member, at) = (addr("127.0.1.1:5060"), |uri: &str| Req {
        uri: uri.to_owned(),
        ..Req::new("INVITE", "c", addr("127.0.1.1:5060"))
    });
    let elsewhere = "sip:bob@127.0.5.5";
    for (rules, is_routed) in [(vec![], false), (vec![outside], false), (vec![of_members], true)] {
        let mut bed = Bed::new(Site::plain());
        set_rules(&mut bed, rules);
        for request in [
            at("sip:bob@127.0.0.1"),
            at("sip:bob@127.0.0.1:5060"),
            at("sip:bob@POOL.example."),
            at(&format!("{elsewhere};maddr=127.0.0.1")),
            at(elsewhere).with("Route", "<sip:127.0.5.5;maddr=127.0.0.1;lr>"),
        ] {
            let explained = bed.explain(member, &request.bytes());
            let sent = bed.one(0, member, &request.bytes());
            if is_routed {
                assert!(bed.is_node(sent.to) && explained.is_ok(), "{}", request.uri);
            } else {
                assert_eq!((sent.to, sent.status()), (member, 404), "{}", request.uri);
                assert_eq!(explained.unwrap_err(), "refused: 404 Leads Back Here");
            }
        }
        let probe = Req { method: "OPTIONS".to_owned(), ..at("sip:127.0.0.1") };
        assert_eq!(bed.one(0, member, &probe.bytes()).message().status(), (!is_routed).then_some(200));
    }
    // The same within a dialog, if a client has named an address of this proxy as its Contact.
    let mut bed = Bed::new(Site::plain());
    let mut call = Dialog::inbound(&mut bed, "d", client(), 0);
    call.caller.at = addr(PROXY);
    assert_eq!(bed.one(0, call.callee.at, &call.by_callee("BYE", 2).bytes()).status(), 404);
}
