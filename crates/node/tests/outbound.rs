//! Calls that a node begins.
mod common;

use common::dialog::Dialog;
use common::text::Req;
use common::*;

#[test]
fn a_node_calls_out() {
    let mut bed = Bed::new(Site::plain());
    let outside = addr("127.0.7.7:5080");
    let call = Dialog::outbound(&mut bed, "outbound", 1, outside);
    assert_eq!(bed.shard.balancer().load(balance::Slot(1)).own.calls, 1);
    call.caller_asks(&mut bed, "ACK", 1);
    call.callee_asks(&mut bed, "INFO", 1);
    call.callee_asks(&mut bed, "INVITE", 2);
    call.callee_asks(&mut bed, "ACK", 2);
    call.caller_asks(&mut bed, "UPDATE", 2);
    call.callee_asks(&mut bed, "BYE", 3);
    bed.assert_idle();
    // As if nothing were remembered: the token says which side is the node.
    let call = Dialog::outbound(&mut bed, "outbound-2", 2, outside);
    let mut bed = bed.restarted();
    call.callee_asks(&mut bed, "INVITE", 2);
    call.caller_asks(&mut bed, "BYE", 2);
    bed.assert_idle();
}

#[test]
fn a_node_calls_a_name_or_no_host() {
    let mut bed = Bed::new(Site::plain());
    let node = addr(bed.site.nodes[0].0);
    for uri in [
        "sip:carol@example.com",
        "tel:+1",
        "sip:carol@0.0.0.0",
        "sip:224.0.0.1",
        "sip:255.255.255.255",
        "sip:[::1]",
    ] {
        let invite = Req { uri: uri.to_owned(), ..Req::new("INVITE", uri, node) };
        let sent = bed.one(0, node, &invite.bytes());
        assert_eq!((sent.to, sent.status()), (node, 502), "{uri}");
        bed.assert_idle();
    }
    assert_eq!(bed.shard.balancer().counts(), balance::TableCounts::default(), "nothing began");
}
