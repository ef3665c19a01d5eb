//! Targets of URIs with another transport than UDP (RFC 3263 §4).

use super::bed::{CLIENT, client, node, request, shard, shard_with};
use crate::common::*;

const MEMBER: &str = "127.0.1.1:5060";

/// A member of a pool without transactions sends requests to any Request-URI.
fn bed() -> testbed::Bed {
    shard(Service::Balance, &[node(Transport::Udp, MEMBER)])
}

fn to(call: &str, uri: &str) -> Vec<u8> {
    Req { uri: uri.to_owned(), ..Req::new("INVITE", call, addr(MEMBER)) }.bytes()
}

#[test]
fn an_address_is_reached_over_the_transport_of_its_uri() {
    let mut bed = bed();
    for (index, (uri, transport, at)) in [
        ("sip:a@127.0.7.7", Transport::Udp, "127.0.7.7:5060"),
        ("sip:a@127.0.7.7;transport=TCP", Transport::Tcp, "127.0.7.7:5060"),
        ("sip:a@127.0.7.7;transport=tls", Transport::Tls, "127.0.7.7:5061"),
        ("sip:a@127.0.7.7:7000;transport=tls", Transport::Tls, "127.0.7.7:7000"),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = bed.one(0, addr(MEMBER), &to(&format!("c{index}"), uri));
        assert_eq!(sent.flow, node(transport, at), "{uri}");
        let via = format!("SIP/2.0/{} 127.0.0.1:", transport.name());
        assert!(string(&sent.bytes).contains(&via), "{sent:?}");
    }
}

#[test]
fn an_absent_transport_leads_nowhere() {
    let mut bed =
        shard_with(&[Transport::Udp, Transport::Tcp], Service::Balance, &[node(Transport::Udp, MEMBER)]);
    for transport in ["tls", "sctp"] {
        let refused =
            bed.one(0, addr(MEMBER), &to(transport, &format!("sip:a@127.0.7.7;transport={transport}")));
        assert_eq!(refused.status(), 502);
    }
}

#[test]
fn a_name_is_looked_up_for_its_transport() {
    let mut bed = bed();
    let invite = to("named", "sip:a@far.example;transport=tcp");
    assert_eq!(bed.receive(0, addr(MEMBER), &invite), []);
    let (transport, host) = (Transport::Tcp, "far.example".to_owned());
    let name = HopName { transport, by_dns: false, host, port: None };
    assert!(bed.events.contains(&ShardEvent::LookUp(name.clone())));
    bed.input(ShardInput::Name { name: &name, answer: &found(transport, &[addr("127.0.7.8:5062")]) });
    assert_eq!(bed.one(0, addr(MEMBER), &invite).flow, node(Transport::Tcp, "127.0.7.8:5062"));
}

/// RFC 3263 §4.1: if the URI names neither transport nor port, the DNS determines both.
#[test]
fn the_dns_determines_the_transport_of_a_name() {
    let members = [node(Transport::Udp, MEMBER), node(Transport::Tls, "127.0.1.3:5061")];
    for (uri, from, said) in [
        ("sip:a@far.example", members[0], Transport::Tcp),
        ("sip:a@far.example", members[0], Transport::Udp),
        ("sips:a@far.example", members[1], Transport::Tls),
    ] {
        let (mut bed, usual) = (shard(Service::Balance, &members), from.transport);
        let invite = Req { uri: uri.to_owned(), ..request("INVITE", "c", from) };
        assert_eq!(bed.receive_by(from, &invite.bytes()), []);
        let name = HopName { transport: usual, by_dns: true, host: "far.example".to_owned(), port: None };
        assert!(bed.events.contains(&ShardEvent::LookUp(name.clone())), "{uri}: {:?}", bed.events);
        bed.input(ShardInput::Name { name: &name, answer: &found(said, &[addr("127.0.7.8:5062")]) });
        assert_eq!(bed.one_by(from, &invite.bytes()).flow, node(said, "127.0.7.8:5062"), "{uri}");
    }
}

/// A node is identified by address and transport.
#[test]
fn a_route_names_a_member_by_its_transport() {
    let members = [node(Transport::Udp, MEMBER), node(Transport::Tcp, MEMBER)];
    let mut bed = shard(Service::HOPS, &members);
    let caller = client(Transport::Udp, CLIENT, 0);
    for (index, (param, member)) in [("", members[0]), (";transport=tcp", members[1])].into_iter().enumerate()
    {
        let routes = vec!["<sip:127.0.0.1:5060;lr>".to_owned(), format!("<sip:{MEMBER}{param};lr>")];
        let invite = Req { routes, ..Req::new("INVITE", &format!("r{index}"), caller.peer) };
        assert_eq!(bed.one_by(caller, &invite.bytes()).flow, member);
    }
}
