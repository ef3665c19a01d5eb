//! Requests other than INVITE: all are balanced, and what follows goes where the first one went.
mod common;

use common::dialog::Dialog;
use common::text::{Req, answer, record_routes};
use common::*;

const LB: &str = "127.0.0.1:5060";

fn client() -> std::net::SocketAddr {
    addr("127.0.9.1:6000")
}

#[test]
fn every_method_is_balanced() {
    for method in
        ["REGISTER", "OPTIONS", "MESSAGE", "SUBSCRIBE", "PUBLISH", "NOTIFY", "INFO", "REFER", "STRANGE"]
    {
        let mut bed = Bed::new(Site::plain());
        let mut seen = Vec::new();
        for n in 0..3 {
            let request = Req::new(method, &format!("{method}-{n}"), client());
            let sent = bed.one(0, client(), &request.bytes());
            assert_eq!(bed.one(0, client(), &request.bytes()), sent, "{method}, retransmitted");
            assert_eq!(bed.load().transactions, 1);
            // RFC 3261 §16.6 step 4: where a dialog may begin.
            let routes = usize::from(matches!(method, "SUBSCRIBE" | "REFER"));
            assert_eq!(record_routes(&sent.bytes).len(), routes, "{method}");
            let back = bed.one(0, sent.to, &answer(&sent.bytes, addr(LB), 200, sent.to));
            assert_eq!((back.to, back.status()), (client(), 200));
            seen.push(sent.to);
            bed.assert_idle();
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 3, "{method}: each node once");
        bed.assert_forgets();
    }
}

#[test]
fn a_refresh_within_the_linger_goes_to_the_same_node() {
    let mut bed = Bed::new(Site::plain());
    let register = |cseq| Req {
        cseq,
        ..Req::new("REGISTER", "registration", client())
            .via(&format!("SIP/2.0/UDP {};branch=z9hG4bK{cseq}", client()))
    };
    let first = bed.one(0, client(), &register(1).bytes());
    bed.one(0, first.to, &answer(&first.bytes, addr(LB), 401, first.to));
    assert_eq!(bed.one(0, client(), &register(2).bytes()).to, first.to, "with credentials");
}

#[test]
fn notify_from_the_node_reaches_the_subscriber() {
    for site in [Site::plain(), Site::two_sided(), Site::mixed()] {
        let mut bed = Bed::new(site);
        let subscribe = Req::new("SUBSCRIBE", "presence", client());
        let sent = bed.one(0, client(), &subscribe.bytes());
        let (node, side) = (sent.to, sent.listener);
        let source = addr(bed.site.listeners[side as usize]);
        let ok = bed.one(side, node, &answer(&sent.bytes, source, 200, node));
        assert_eq!(ok.to, client());
        let notify = |cseq| Req {
            uri: format!("sip:{}", client()),
            from_tag: "bob".to_owned(),
            to_tag: Some("alice".to_owned()),
            cseq,
            routes: record_routes(&sent.bytes),
            ..Req::new("NOTIFY", "presence", node).via(&format!("SIP/2.0/UDP {node};branch=z9hG4bKn{cseq}"))
        };
        for cseq in 1..3 {
            let arrived = bed.one(side, node, &notify(cseq).bytes());
            assert_eq!((arrived.to, arrived.listener), (client(), 0));
            let back = bed.one(0, client(), &answer(&arrived.bytes, addr(LB), 200, client()));
            assert_eq!((back.to, back.listener, back.status()), (node, side, 200));
            // The second one comes after a restart.
            bed = bed.restarted();
        }
    }
}

#[test]
fn refer_within_a_call_leads_to_notify_within_it() {
    let mut bed = Bed::new(Site::plain());
    let call = Dialog::inbound(&mut bed, "transfer", client(), 0);
    call.caller_asks(&mut bed, "ACK", 1);
    call.caller_asks(&mut bed, "REFER", 2);
    call.callee_asks(&mut bed, "NOTIFY", 1);
    call.callee_asks(&mut bed, "BYE", 2);
    bed.assert_idle();
}
