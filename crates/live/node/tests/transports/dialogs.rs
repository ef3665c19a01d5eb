//! Calls between transports, in both directions and by the connections of clients.

use super::bed::{CLIENT, answer, client, node, request, shard};
use crate::common::*;

const MEMBER: &str = "127.0.1.1:5060";
const MODES: [Service; 3] = [Service::Balance, Service::HOPS, Service::Relay { record_route: true }];

/// A call as its two sides know it.
struct Call {
    caller: Flow,
    callee: Flow,
    invite: Req,
    callee_uri: String,
    at_callee: Sent,
    /// The route set of the caller.
    routes: Vec<String>,
}

impl Call {
    /// INVITE and 200. The 200 comes by `callee`, with the member's URI as its Contact.
    fn new(bed: &mut testbed::Bed, name: &str, caller: Flow, member: Flow, callee: Flow) -> Self {
        let invite = request("INVITE", name, caller);
        let at_callee = bed.one_by(caller, &invite.bytes());
        assert_eq!(at_callee.flow, member);
        let callee_uri = format!("sip:bob@{}{}", member.peer, member.transport.uri_param());
        let ok = bed.one_by(callee, &answer(&at_callee, 200, &callee_uri));
        assert_eq!((ok.flow.transport, ok.flow.connection), (caller.transport, caller.connection));
        let mut routes = record_routes(&ok.bytes);
        routes.reverse();
        Self { caller, callee, invite, callee_uri, at_callee, routes }
    }

    /// A request of the caller on this connection.
    fn by_caller(&self, method: &str, cseq: u32, flow: Flow) -> Vec<u8> {
        let to_tag = Some("bob".to_owned());
        let via = format!("SIP/2.0/{} x.invalid;branch=z9hG4bKa{method}{cseq}", flow.transport.name());
        let (uri, routes) = (self.callee_uri.clone(), self.routes.clone());
        let method = method.to_owned();
        Req { method, uri, via, to_tag, cseq, routes, ..self.invite.clone() }.bytes()
    }

    /// A request of the callee.
    fn by_callee(&self, method: &str, cseq: u32) -> Vec<u8> {
        let (at, transport) = (self.callee.peer, self.callee.transport);
        Req {
            uri: self.invite.contact.clone(),
            via: format!(
                "SIP/2.0/{} {at};branch=z9hG4bK{}{method}{cseq}",
                transport.name(),
                self.invite.call_id
            ),
            from: "<sip:bob@pool.example>".to_owned(),
            from_tag: "bob".to_owned(),
            to: self.invite.from.clone(),
            to_tag: Some("alice".to_owned()),
            cseq,
            routes: record_routes(&self.at_callee.bytes),
            ..Req::new(method, &self.invite.call_id, at)
        }
        .bytes()
    }
}

/// A browser calls a server that speaks UDP, which then sends a request and hangs up.
#[test]
fn a_browser_is_reached_by_its_connection() {
    for mode in MODES {
        let member = node(Transport::Udp, MEMBER);
        let mut bed = shard(mode, &[member]);
        let browser = client(Transport::Wss, CLIENT, 7);
        let call = Call::new(&mut bed, "browser", browser, member, member);
        let recorded = record_routes(&call.at_callee.bytes);
        assert_eq!(recorded.len(), 2, "{mode:?}: one Record-Route for each side (RFC 5658)");
        assert!(recorded[0].starts_with("<sip:127.0.0.1:5060;lr;"), "{recorded:?}");
        assert!(recorded[1].starts_with("<sip:127.0.0.1:8443;transport=ws;lr;"), "{recorded:?}");
        assert_eq!(bed.one_by(browser, &call.by_caller("ACK", 1, browser)).flow, member);
        let bye = bed.one_by(member, &call.by_callee("BYE", 1));
        assert_eq!(bye.flow, browser, "{mode:?}");
        assert_eq!(bye.message().routes().count(), 0);
        let ok = bed.one_by(browser, &answer(&bye, 200, ""));
        assert_eq!((ok.flow, ok.status()), (member, 200));
    }
}

/// The member is reached at its address, whatever connection its messages come by.
#[test]
fn a_member_over_tcp_is_reached_at_its_address() {
    for mode in MODES {
        let member = node(Transport::Tcp, MEMBER);
        let mut bed = shard(mode, &[member]);
        let phone = client(Transport::Udp, CLIENT, 0);
        let call = Call::new(&mut bed, "member", phone, member, client(Transport::Tcp, MEMBER, 3));
        assert_eq!(bed.one_by(phone, &call.by_caller("ACK", 1, phone)).flow, member);
        assert_eq!(bed.one_by(phone, &call.by_caller("INFO", 2, phone)).flow, member);
        let opened = client(Transport::Tcp, "127.0.1.1:39999", 5);
        let bye = bed.one_by(opened, &call.by_callee("BYE", 1));
        assert_eq!(bye.flow, phone, "{mode:?}");
        let ok = bed.one_by(phone, &answer(&bye, 200, ""));
        assert_eq!((ok.flow.connection, ok.flow.transport), (opened.connection, Transport::Tcp));
    }
}

/// Two clients of one port: each is reached by its own connection.
#[test]
fn clients_of_one_port_are_distinguished() {
    for mode in MODES {
        let member = node(Transport::Udp, MEMBER);
        let mut bed = shard(mode, &[member]);
        let first = client(Transport::Tcp, CLIENT, 7);
        let second = client(Transport::Tcp, "127.0.9.1:40002", 8);
        let calls = [first, second]
            .map(|flow| Call::new(&mut bed, &format!("of{}", flow.peer.port()), flow, member, member));
        for call in calls {
            assert_eq!(bed.one_by(member, &call.by_callee("BYE", 1)).flow, call.caller, "{mode:?}");
        }
    }
}

/// A client that has reconnected sends a target refresh, with the same Contact.
#[test]
fn a_client_that_connects_again_is_reached_by_the_new_connection() {
    for mode in MODES {
        let member = node(Transport::Udp, MEMBER);
        let mut bed = shard(mode, &[member]);
        let call = Call::new(&mut bed, "again", client(Transport::Wss, CLIENT, 7), member, member);
        let again = client(Transport::Wss, "127.0.9.1:40077", 9);
        let update = bed.one_by(again, &call.by_caller("UPDATE", 2, again));
        bed.one_by(member, &answer(&update, 200, &call.callee_uri));
        assert_eq!(bed.one_by(member, &call.by_callee("BYE", 1)).flow, again, "{mode:?}");
    }
}

/// If its connection is gone, a client whose Contact is its source address gets a new one. A client behind a NAT and a
/// browser get none.
#[test]
fn a_new_connection_is_opened_to_a_client_without_nat() {
    let member = node(Transport::Udp, MEMBER);
    for (transport, contact, to) in [
        (Transport::Tcp, "sip:alice@127.0.9.1:5080;transport=tcp", Some("127.0.9.1:5080")),
        (Transport::Tls, "sip:alice@127.0.9.1;transport=tls", Some("127.0.9.1:5061")),
        (Transport::Tcp, "sip:alice@10.0.0.1:5080;transport=tcp", None),
        (Transport::Wss, "sip:alice@df7jal23ls0d.invalid;transport=ws", None),
    ] {
        let mut bed = shard(Service::HOPS, &[member]);
        let caller = client(transport, CLIENT, 7);
        let mut invite = request("INVITE", "gone", caller);
        contact.clone_into(&mut invite.contact);
        let at_callee = bed.one_by(caller, &invite.bytes());
        bed.one_by(member, &answer(&at_callee, 200, "sip:bob@127.0.1.1:5060"));
        let (routes, callee_uri) = (Vec::new(), String::new());
        let call = Call { caller, callee: member, invite, callee_uri, at_callee, routes };
        let bye = bed.one_by(member, &call.by_callee("BYE", 1));
        assert_eq!(bye.flow, caller);
        let mut then = bed.unreachable_by(bye.flow, &bye.bytes);
        assert_eq!(then.len(), 1, "{then:?}");
        let then = then.remove(0);
        match to {
            Some(to) => assert_eq!(then.flow, node(transport, to), "{contact}"),
            None => assert_eq!((then.flow, then.status()), (member, 430), "{contact}"),
        }
    }
}

/// A process with the same key, which has taken over the calls of another one.
#[test]
fn a_token_of_another_process_names_the_connection() {
    for mode in MODES {
        let member = node(Transport::Udp, MEMBER);
        let browser = client(Transport::Wss, CLIENT, 7);
        let call = Call::new(&mut shard(mode, &[member]), "taken", browser, member, member);
        let mut bed = shard(mode, &[member]);
        assert_eq!(bed.one_by(member, &call.by_callee("BYE", 1)).flow, browser, "{mode:?}");
    }
}
