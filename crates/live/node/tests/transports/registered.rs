//! Users who have registered over connections (RFC 5626).

use super::bed::{CLIENT, answer, client, node, ports, request};
use crate::common::*;
use crate::domain::{ALICE, Bed, call};

fn bed() -> Bed {
    Bed::with_ports(ports(), false, Reach::Source)
}

/// Registers bob by this flow, with these parameters of the contact.
fn register(bed: &mut Bed, flow: Flow, call_id: &str, contact: &str, params: &str) -> Sent {
    let bob = || "<sip:bob@example.com>".to_owned();
    let of = request("REGISTER", call_id, flow);
    let register =
        Req { uri: "sip:example.com".to_owned(), from: bob(), to: bob(), contact: String::new(), ..of };
    let register =
        register.with("Supported", "path, outbound").with("Contact", &format!("<{contact}>{params}"));
    let sent = bed.one_by(flow, &register.bytes());
    assert_eq!((sent.status(), sent.flow.connection), (200, flow.connection));
    sent
}

fn alice() -> Flow {
    client(Transport::Udp, ALICE, 0)
}

fn invite(bed: &mut Bed, name: &str) -> Sent {
    bed.one_by(alice(), &call(name, "bob", alice().peer).bytes())
}

const BROWSER: &str = "sip:bob@df7jal23ls0d.invalid;transport=ws";

/// A phone that speaks UDP calls a browser, and either side hangs up.
#[test]
fn a_browser_is_called_by_its_connection() {
    let mut bed = bed();
    let browser = client(Transport::Wss, CLIENT, 7);
    let ok = register(&mut bed, browser, "r", BROWSER, ";+sip.instance=\"<urn:uuid:1>\";reg-id=1");
    assert!(string(&ok.bytes).contains("Require: outbound\r\n"), "{ok:?}");
    let at_browser = invite(&mut bed, "c");
    assert_eq!(at_browser.flow, browser);
    let recorded = record_routes(&at_browser.bytes);
    assert!(recorded[0].starts_with("<sip:127.0.0.1:8443;transport=ws;lr;"), "{recorded:?}");
    let ok = bed.one_by(browser, &answer(&at_browser, 200, BROWSER));
    assert_eq!((ok.flow, ok.status()), (alice(), 200));
    for (method, cseq) in [("ACK", 1), ("INFO", 2)] {
        let within = Req::in_dialog(method, &ok.bytes, cseq, alice().peer);
        assert_eq!(bed.one_by(alice(), &within.bytes()).flow, browser, "{method}");
    }
}

/// The connection of the REGISTER is used, or if it is gone another one of the same user agent.
#[test]
fn another_flow_of_the_instance_replaces_a_lost_one() {
    let mut bed = bed();
    let flows = [7, 9].map(|number| client(Transport::Tcp, &format!("127.0.9.1:4000{number}"), number));
    for (index, flow) in flows.into_iter().enumerate() {
        let params = format!(";+sip.instance=\"<urn:uuid:1>\";reg-id={}", index + 1);
        register(&mut bed, flow, &format!("r{index}"), "sip:bob@10.0.0.1:5060;transport=tcp", &params);
        bed.now += Duration::from_secs(1);
    }
    let first = invite(&mut bed, "c");
    assert_eq!(first.flow, flows[1], "one flow at a time, the latest first");
    let second = bed.unreachable_by(first.flow, &first.bytes);
    assert_eq!(second.iter().map(|sent| sent.flow).collect::<Vec<_>>(), [flows[0]]);
    // RFC 5626 §11.5: endpoints must not learn of flows.
    let third = bed.unreachable_by(flows[0], &second[0].bytes);
    assert_eq!(third.iter().map(|sent| (sent.flow, sent.status())).collect::<Vec<_>>(), [(alice(), 480)]);
}

/// A new connection is opened to a client without a NAT. A client that has answered is not tried again.
#[test]
fn a_reachable_client_gets_a_new_connection() {
    for (status, contact, to) in [
        (None, "sip:bob@127.0.9.1:5080;transport=tcp", Some(node(Transport::Tcp, "127.0.9.1:5080"))),
        (None, "sip:bob@10.0.0.1:5080;transport=tcp", None),
        (Some(486), "sip:bob@127.0.9.1:5080;transport=tcp", None),
        (Some(503), "sip:bob@127.0.9.1:5080;transport=tcp", None),
    ] {
        let mut bed = bed();
        let phone = client(Transport::Tcp, CLIENT, 7);
        register(&mut bed, phone, "r", contact, "");
        let at_phone = invite(&mut bed, "c");
        assert_eq!(at_phone.flow, phone);
        let then = match status {
            None => bed.unreachable_by(phone, &at_phone.bytes),
            Some(status) => bed.receive_by(phone, &answer(&at_phone, status, "")),
        };
        let requests: Vec<_> = then.iter().filter(|sent| sent.message().status().is_none()).collect();
        let others: Vec<_> = requests.iter().filter(|sent| !sent.bytes.starts_with(b"ACK")).collect();
        assert_eq!(others.iter().map(|sent| sent.flow).collect::<Vec<_>>(), Vec::from_iter(to), "{contact}");
    }
}

/// RFC 3261 §21.4.18: a user whose telephone is gone is unavailable, by any transport and in any mode.
#[test]
fn an_unreachable_telephone_is_answered_with_480() {
    let tcp = client(Transport::Tcp, CLIENT, 7);
    let anew = node(Transport::Tcp, "127.0.9.1:5080");
    let udp = client(Transport::Udp, CLIENT, 0);
    let reachable = "sip:bob@127.0.9.1:5080;transport=tcp";
    for (forward, phone, contact, ways) in [
        (Forward::Transaction, tcp, reachable, &[tcp, anew][..]),
        (Forward::Dialog, tcp, "sip:bob@10.0.0.1:5060;transport=tcp", &[tcp]),
        (Forward::Transaction, udp, "sip:bob@10.0.0.1:5060", &[udp]),
        (Forward::Stateless, tcp, reachable, &[tcp]),
    ] {
        let mut bed = bed();
        bed.set_forward(forward);
        bed.set(|setup| setup.settings.dialogs = Some(Arc::default()));
        register(&mut bed, phone, "r", contact, "");
        let mut sent = vec![invite(&mut bed, "c")];
        for way in ways {
            assert_eq!(
                sent.iter().map(|sent| sent.flow).collect::<Vec<_>>(),
                [*way],
                "{forward:?} {contact}"
            );
            sent = bed.unreachable_by(*way, &sent[0].bytes);
        }
        let answers: Vec<_> = sent.iter().map(|sent| (sent.flow, sent.status())).collect();
        assert_eq!(answers, [(alice(), 480)], "{forward:?} {contact}");
    }
}

/// The number of a connection means something only to its own process.
#[test]
fn another_proxy_with_the_same_store_has_no_such_connection() {
    for (contact, to) in [
        ("sip:bob@127.0.9.1:5080;transport=tcp", Some(node(Transport::Tcp, "127.0.9.1:5080"))),
        ("sip:bob@10.0.0.1:5080;transport=tcp", None),
    ] {
        let mut bed = bed();
        register(&mut bed, client(Transport::Tcp, CLIENT, 7), "r", contact, "");
        let elsewhere = |port: Port| {
            let local = SocketAddr::new("127.0.0.2".parse().unwrap(), port.local.port());
            Port::new(port.transport, local, local)
        };
        let other = ports().into_iter().map(elsewhere).collect();
        let mut other = Bed::with_ports(other, false, Reach::Source);
        other.store = bed.store;
        let sent = invite(&mut other, "c");
        match to {
            Some(to) => assert_eq!(sent.flow, to),
            None => assert_eq!(sent.status(), 480),
        }
    }
}

/// Two user agents behind one NAT may have the same contact.
#[test]
fn two_instances_with_one_contact_both_ring() {
    let mut bed = bed();
    let flows = [7, 9].map(|number| client(Transport::Tls, &format!("127.0.9.1:4000{number}"), number));
    for (index, flow) in flows.into_iter().enumerate() {
        let params = format!(";+sip.instance=\"<urn:uuid:{index}>\";reg-id=1");
        register(&mut bed, flow, &format!("r{index}"), "sip:bob@10.0.0.1:5061;transport=tls", &params);
    }
    let mut rung = bed.receive_by(alice(), &call("c", "bob", alice().peer).bytes());
    rung.retain(|sent| sent.message().status().is_none());
    let mut rung: Vec<_> = rung.into_iter().map(|sent| sent.flow.connection.unwrap().0.get()).collect();
    rung.sort_unstable();
    assert_eq!(rung, [7, 9]);
}
