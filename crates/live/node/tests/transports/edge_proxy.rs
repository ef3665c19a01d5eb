//! An edge proxy between clients and a registrar behind it (RFC 5626 §5).

use super::bed::{CLIENT, answer, client, node, request, shard};
use crate::common::*;

const REGISTRAR: &str = "127.0.1.1:5060";
const CONTACT: &str = "sip:bob@df7jal23ls0d.invalid;transport=ws";

fn bed() -> testbed::Bed {
    shard(Service::HOPS, &[registrar()])
}

fn registrar() -> Flow {
    node(Transport::Udp, REGISTRAR)
}

fn browser() -> Flow {
    client(Transport::Wss, CLIENT, 7)
}

fn register(from: Flow, supported: &str) -> Req {
    let of = request("REGISTER", "r", from);
    Req { uri: "sip:pool.example".to_owned(), ..of }.with("Supported", supported)
}

/// Returns the Path of a REGISTER at the registrar.
fn path(sent: &Sent) -> Option<String> {
    testkit::value(&sent.bytes, "Path")
}

/// A call to a client that is registered with this Path.
fn call(path: &str) -> Req {
    let uri = CONTACT.to_owned();
    Req { uri, routes: vec![path.to_owned()], ..Req::new("INVITE", "c", registrar().peer) }
}

#[test]
fn a_client_is_called_by_the_connection_that_its_path_names() {
    let mut bed = bed();
    let registered = bed.one_by(browser(), &register(browser(), "path, outbound").bytes());
    assert_eq!(registered.flow, registrar());
    let path = path(&registered).expect("a Path");
    assert!(path.starts_with("<sip:") && path.ends_with("@127.0.0.1:5060;lr;ob>"), "{path}");
    let at_browser = bed.one_by(registrar(), &call(&path).bytes());
    assert_eq!(at_browser.flow, browser());
    let text = string(&at_browser.bytes);
    assert!(
        text.starts_with(&format!("INVITE {CONTACT} SIP/2.0\r\n")) && !text.contains("\r\nRoute:"),
        "{text}"
    );
    assert_eq!(record_routes(&at_browser.bytes).len(), 2, "one Record-Route for each side");
    let ok = bed.one_by(browser(), &answer(&at_browser, 200, CONTACT));
    assert_eq!((ok.flow, ok.status()), (registrar(), 200));
    for (method, cseq) in [("ACK", 1), ("BYE", 2)] {
        let within = Req::in_dialog(method, &ok.bytes, cseq, registrar().peer);
        assert_eq!(bed.one_by(registrar(), &within.bytes()).flow, browser(), "{method}");
    }
}

#[test]
fn a_lost_connection_is_answered_with_430() {
    let mut bed = bed();
    let registered = bed.one_by(browser(), &register(browser(), "path").bytes());
    let path = path(&registered).expect("a Path");
    let at_browser = bed.one_by(registrar(), &call(&path).bytes());
    let answers = bed.unreachable_by(browser(), &at_browser.bytes);
    assert_eq!(
        answers.iter().map(|sent| (sent.flow, sent.status())).collect::<Vec<_>>(),
        [(registrar(), 430)]
    );
}

/// An altered Path names no connection.
#[test]
fn an_altered_path_leads_nowhere() {
    let mut bed = bed();
    let registered = bed.one_by(browser(), &register(browser(), "path").bytes());
    let path = path(&registered).expect("a Path");
    let (token, rest) = path.split_once('@').expect("a token");
    let last = if token.ends_with('0') { "1" } else { "0" };
    let altered = format!("{}{last}@{rest}", &token[..token.len() - 1]);
    assert_eq!(bed.one_by(registrar(), &call(&altered).bytes()).status(), 403);
    assert_eq!(bed.one_by(registrar(), &call("<sip:bob@127.0.0.1:5060;lr;ob>").bytes()).status(), 403);
}

/// The Path leads to the client for as long as its registration may last, and only from next hops and members. Other
/// senders could use it to bypass routes and authentication.
#[test]
fn a_path_is_valid_only_for_next_hops_and_for_its_lifetime() {
    for (expires, good) in [("7200", 7_200), ("60", 3_600)] {
        let mut bed = bed();
        let request = register(browser(), "path").with("Expires", expires);
        let path = path(&bed.one_by(browser(), &request.bytes())).expect("a Path");
        let stranger = client(Transport::Udp, "127.0.9.7:5060", 0);
        let other = client(Transport::Wss, CLIENT, 8);
        for from in [stranger, other] {
            let call = Req { routes: vec![path.clone()], uri: CONTACT.to_owned(), ..request_of(from) };
            assert_eq!(bed.one_by(from, &call.bytes()).status(), 403);
        }
        bed.now += Duration::from_secs(good);
        assert_eq!(bed.one_by(registrar(), &call(&path).bytes()).flow, browser());
        bed.now += Duration::from_secs(33);
        let late =
            Req { call_id: "late".to_owned(), ..call(&path) }.via("SIP/2.0/UDP 127.0.1.1;branch=z9hG4bKl");
        assert_eq!(bed.one_by(registrar(), &late.bytes()).status(), 403);
    }
}

fn request_of(from: Flow) -> Req {
    request("INVITE", &format!("c{}", from.peer), from)
}

/// §5.1: only the first hop names a connection, and only for clients that support Path.
#[test]
fn a_path_is_added_by_the_first_hop_for_clients_that_support_it() {
    let over_udp = client(Transport::Udp, CLIENT, 0);
    let behind = "SIP/2.0/WSS a.invalid;branch=z9hG4bKr, SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKq";
    let register_behind = register(browser(), "path").via(behind);
    for (from, request) in [
        (browser(), register(browser(), "outbound")),
        (over_udp, register(over_udp, "path")),
        (browser(), register_behind),
        (browser(), register(browser(), "path").with("Path", "<sip:192.0.2.1;lr>")),
    ] {
        let sent = bed().one_by(from, &request.bytes());
        assert!(path(&sent).is_none_or(|path| !path.contains(";ob")), "{sent:?}");
    }
    assert!(path(&bed().one_by(browser(), &register(browser(), "path").bytes())).is_some());
}

/// §5.3.2: a request of the client with its own Path is handled like its other requests.
#[test]
fn requests_of_the_client_with_its_own_path_are_forwarded() {
    let mut bed = bed();
    let registered = bed.one_by(browser(), &register(browser(), "path").bytes());
    let path = path(&registered).expect("a Path");
    let invite = Req { routes: vec![path], ..request("INVITE", "c", browser()) };
    let sent = bed.one_by(browser(), &invite.bytes());
    assert_eq!(sent.flow, registrar());
}
