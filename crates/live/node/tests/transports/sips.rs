//! SIPS requests come and leave over TLS (RFC 3261 §26.2.2, RFC 5630).

use super::bed::{CLIENT, answer, client, node, ports, request, shard};
use crate::common::*;
use crate::domain;

const MEMBER: &str = "127.0.1.1:5061";
const MODES: [Service; 3] = [Service::Balance, Service::HOPS, Service::Relay { record_route: true }];

fn invite(call: &str, by: Flow) -> Req {
    Req { uri: "sips:bob@pool.example".to_owned(), ..request("INVITE", call, by) }
}

fn assert_refused(sent: &Sent, status: u16, text: &str) {
    assert_eq!(sent.status(), status, "{sent:?}");
    assert!(string(&sent.bytes).contains(text), "{sent:?}");
}

#[test]
fn a_sips_request_goes_from_tls_to_tls() {
    for mode in MODES {
        for by in [client(Transport::Tls, CLIENT, 7), client(Transport::Wss, CLIENT, 7)] {
            let member = node(Transport::Tls, MEMBER);
            let mut bed = shard(mode, &[member]);
            let at_member = bed.one_by(by, &invite("c", by).bytes());
            assert_eq!(at_member.flow, member);
            let recorded = record_routes(&at_member.bytes);
            assert!(recorded.iter().all(|route| route.starts_with("<sips:127.0.0.1:")), "{recorded:?}");
            let ok = bed.one_by(member, &answer(&at_member, 200, &format!("sips:bob@{MEMBER}")));
            let within = Req::in_dialog("ACK", &ok.bytes, 1, by.peer);
            assert_eq!(bed.one_by(by, &within.bytes()).flow, member, "{mode:?}");
        }
    }
}

#[test]
fn a_sips_request_is_refused_without_tls() {
    for mode in MODES {
        let tls = client(Transport::Tls, CLIENT, 7);
        let mut bed = shard(mode, &[node(Transport::Tls, MEMBER)]);
        for plain in [client(Transport::Tcp, CLIENT, 8), client(Transport::Udp, CLIENT, 0)] {
            for method in ["INVITE", "REGISTER", "CANCEL", "MESSAGE"] {
                let request =
                    Req { uri: "SIPS:bob@pool.example".to_owned(), ..request(method, method, plain) };
                assert_refused(&bed.one_by(plain, &request.bytes()), 416, "SIPS Needs TLS");
                assert_eq!(bed.receive_by(plain, &request.same_branch("ACK", None).bytes()), []);
            }
        }
        assert_eq!((transactions(&bed), bed.drops("refused_ack")), (0, 8));
        let members = [node(Transport::Tls, MEMBER), node(Transport::Udp, "127.0.1.2:5060")];
        let mut bed = shard(mode, &members);
        for call in 0..8 {
            let refused = bed.one_by(tls, &invite(&format!("c{call}"), tls).bytes());
            assert_refused(&refused, 480, "Warning: 380 proxy \"SIPS Not Allowed\"\r\n");
        }
        assert!(
            bed.explain_by(tls, &invite("x", tls).bytes())
                .is_err_and(|text| text.contains("SIPS Not Allowed"))
        );
    }
}

/// A call to a user goes only to SIPS contacts, by their connections.
#[test]
fn a_user_is_reached_at_sips_contacts_alone() {
    let mut bed = domain::Bed::with_ports(ports(), false, Reach::Source);
    let (phone, caller) = (client(Transport::Tls, CLIENT, 7), client(Transport::Tls, "127.0.9.2:40002", 8));
    let bob = || "<sips:bob@example.com>".to_owned();
    let mut register = |call: &str, contact: &str| {
        let uri = "sips:example.com".to_owned();
        let register = Req { uri, from: bob(), to: bob(), ..request("REGISTER", call, phone) };
        let register = Req { contact: contact.to_owned(), ..register };
        assert_eq!(bed.one_by(phone, &register.bytes()).status(), 200);
        let uri = "sips:bob@example.com".to_owned();
        let invite = Req { uri, to: bob(), ..request("INVITE", &format!("to-{call}"), caller) };
        bed.one_by(caller, &invite.bytes())
    };
    assert_refused(&register("a", "sip:bob@10.0.0.1:5061;transport=tls"), 480, "SIPS Not Allowed");
    assert_eq!(register("b", "sips:bob@10.0.0.1:5061").flow, phone);
}
