//! A shard with a pool and next hops: each message is forwarded in its own way.

use crate::common::*;

const HOP: &str = "127.0.2.1:5060";

/// Three members, and a next hop.
fn bed() -> Bed {
    let mut site = Site::plain();
    let members = site.nodes.len() as u16;
    site.nodes.push((HOP, 0));
    let mut bed = Bed::new(site);
    let hop = Members::of([Slot(members)]);
    bed.set_pools([pool_of(Service::Balance, 0..members), hops(Service::HOPS, hop)]);
    bed
}

/// A dialog that a process with the same key has begun through a next hop.
fn proxied() -> Dialog {
    ProxyBed::new(&[PROXY], &[(HOP, 0)]).call("proxied")
}

#[test]
fn a_dialog_with_a_next_hop_goes_on_with_transactions() {
    let mut bed = bed();
    let call = proxied();
    let bye = call.by_caller("BYE", 2).bytes();
    let at_hop = bed.one(0, client(), &bye);
    assert_eq!((at_hop.to, transactions(&bed)), (addr(HOP), 2), "one each side");
    assert_eq!(bed.receive(0, client(), &bye), [], "a retransmission is absorbed");
    let ok = bed.one(0, addr(HOP), &answer(&at_hop.bytes, addr(PROXY), 200, addr(HOP)));
    assert_eq!((ok.to, ok.status()), (client(), 200));
    assert_eq!(bed.one(0, client(), &bye), ok, "the retransmission is answered again");
    let by_callee = bed.one(0, addr(HOP), &call.by_callee("INFO", 1).bytes());
    assert_eq!(by_callee.to, client());
    assert_eq!(bed.load(), Load::default(), "the pool has no load of it");
}

#[test]
fn tokens_of_pools_and_proxies_are_not_interchangeable() {
    let mut bed = bed();
    let call = proxied();
    let mut info = call.by_caller("INFO", 2);
    for route in &mut info.routes {
        *route = route.replace(";sbp=", ";sbt=");
    }
    assert_eq!(bed.one(0, client(), &info.bytes()).status(), 481);
    assert_eq!(transactions(&bed), 0);
}

#[test]
fn a_response_without_a_request_is_dropped() {
    let mut bed = bed();
    let stranger = Req::new("OPTIONS", "other", client()).bytes();
    bed.dropped(0, addr(HOP), &answer(&stranger, addr(PROXY), 200, addr(HOP)), "no_way_back");
    let of_pool = Dialog::inbound(&mut bed, "balanced", client(), 0);
    let ok = asked(&mut bed, client(), &of_pool.by_caller("INFO", 2), 200);
    assert_eq!(ok.to, client(), "a node's answer goes back by its Via");
}
