//! SIPS requests are not sent over UDP (RFC 3261 §26.2.2: each hop must be secured with TLS), in both roles.

use crate::common::*;

const SIPS: &str = "sips:bob@pool.example";

/// A strict router has put this proxy's URI into the Request-URI, and the request's URI last (RFC 3261 §16.4).
#[test]
fn a_sips_request_uri_behind_ours_is_refused() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "strict", client(), 0);
    let mut bye = call.by_caller("BYE", 2);
    bye.uri = bye.routes.remove(0).trim_matches(['<', '>']).to_owned();
    bye.routes.push(format!("<{SIPS}>"));
    assert_eq!(bed.one(0, client(), &bye.bytes()).status(), 416);
}

/// The next Route value decides where a request goes (RFC 3261 §16.6 step 7).
#[test]
fn a_sips_route_is_refused() {
    let mut bed = Bed::new(Site::plain());
    let mut proxy = ProxyBed::plain();
    let ours = || "<sip:127.0.0.1:5060;lr>".to_owned();
    for (call, next) in [("ip", "<sips:127.0.1.1:5060;lr>"), ("name", "\"S\" <SIPS:edge.example>")] {
        let routes = vec![ours(), next.to_owned()];
        let request = Req { routes, ..Req::new("INVITE", call, client()) };
        assert_eq!(bed.one(0, client(), &request.bytes()).status(), 502, "{next}");
        assert_eq!(proxy.one(client(), &request.bytes()).status(), 502, "{next}");
    }
    for counters in [bed.shard.counters(), proxy.shard.counters()] {
        assert_eq!(counters.replies[&(502, "Next Hop Needs TLS")], 2);
    }
    // URIs behind the next hop are its responsibility.
    let routes = vec![ours(), format!("<sip:{};lr>", HOPS[0]), "<sips:far.example;lr>".to_owned()];
    let request = Req { routes, ..Req::new("INVITE", "behind", client()) };
    let sent = bed.one(0, client(), &request.bytes());
    assert!(bed.is_node(sent.to));
    assert_eq!(proxy.invite(&request).to, addr(HOPS[0]));
}

/// A node that calls an outside address, and one that uses the route set of its dialog.
#[test]
fn a_node_cannot_send_sips_over_udp_either() {
    let mut bed = Bed::new(Site::plain());
    let node = addr(bed.site.nodes[0].0);
    let out = Req { uri: "sips:bob@127.0.7.7".to_owned(), ..Req::new("INVITE", "out", node) };
    assert_eq!(bed.one(0, node, &out.bytes()).status(), 416);
    let call = Dialog::inbound(&mut bed, "within", client(), 0);
    let mut info = call.by_callee("INFO", 1);
    info.routes.push("<sips:127.0.7.7;lr>".to_owned());
    assert_eq!(bed.one(0, call.callee.at, &info.bytes()).status(), 502);
}
