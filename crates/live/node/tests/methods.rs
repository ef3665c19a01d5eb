//! Requests other than INVITE: all are balanced, and later messages go to the node of the first one.

use crate::common::*;

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
            // RFC 3261 §16.6 step 4: for requests that may begin a dialog.
            let routes = usize::from(matches!(method, "SUBSCRIBE" | "REFER"));
            assert_eq!(record_routes(&sent.bytes).len(), routes, "{method}");
            let back = answered(&mut bed, &sent, 200);
            assert_eq!((back.to, back.status()), (client(), 200));
            seen.push(sent.to);
            bed.assert_idle();
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 3, "{method}: each node gets a request");
        bed.assert_forgets();
    }
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
            let back = bed.one(0, client(), &answer(&arrived.bytes, addr(PROXY), 200, client()));
            assert_eq!((back.to, back.listener, back.status()), (node, side, 200));
            // The second one comes after a restart.
            bed = bed.restarted();
        }
    }
}
