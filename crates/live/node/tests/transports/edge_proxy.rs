//! An edge proxy between clients and a registrar behind it (RFC 5626 §5).

use super::bed::{CLIENT, answer, client, node, request, shard};
use crate::common::*;

const REGISTRAR: &str = "127.0.1.1:5060";
const CONTACT: &str = "sip:bob@df7jal23ls0d.invalid;transport=ws";
/// Contact of a telephone behind a NAT.
const PRIVATE: &str = "sip:bob@192.168.1.7";

fn bed() -> testbed::Bed {
    shard(Service::HOPS, &[registrar()])
}

fn registrar() -> Flow {
    node(Transport::Udp, REGISTRAR)
}

fn browser() -> Flow {
    client(Transport::Wss, CLIENT, 7)
}

/// A telephone behind a NAT.
fn phone() -> Flow {
    client(Transport::Udp, CLIENT, 0)
}

fn contact(of: Flow) -> &'static str {
    if of.transport == Transport::Udp { PRIVATE } else { CONTACT }
}

fn register(from: Flow, supported: &str) -> Req {
    let of = request("REGISTER", "r", from);
    let behind_nat = "SIP/2.0/UDP 192.168.1.7;branch=z9hG4bKr;rport".to_owned();
    let via = if from == phone() { behind_nat } else { of.via.clone() };
    Req { uri: "sip:pool.example".to_owned(), contact: contact(from).to_owned(), via, ..of }
        .with("Supported", supported)
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
fn a_client_is_called_by_the_flow_that_its_path_names() {
    for (client, end, sides) in [(browser(), ";lr;ob>", 2), (phone(), ";lr;nat>", 1)] {
        let mut bed = bed();
        let registered = bed.one_by(client, &register(client, "path, outbound").bytes());
        assert_eq!(registered.flow, registrar());
        let path = path(&registered).expect("a Path");
        assert!(path.starts_with("<sip:") && path.ends_with(&format!("@127.0.0.1:5060{end}")), "{path}");
        let at_client = bed.one_by(registrar(), &call(&path).bytes());
        assert_eq!(at_client.flow, client);
        let text = string(&at_client.bytes);
        assert!(
            text.starts_with(&format!("INVITE {CONTACT} SIP/2.0\r\n")) && !text.contains("\r\nRoute:"),
            "{text}"
        );
        assert_eq!(record_routes(&at_client.bytes).len(), sides, "a Record-Route for each port");
        let ok = bed.one_by(client, &answer(&at_client, 200, contact(client)));
        assert_eq!((ok.flow, ok.status()), (registrar(), 200));
        for (method, cseq) in [("ACK", 1), ("INVITE", 2), ("BYE", 3)] {
            let within = Req::in_dialog(method, &ok.bytes, cseq, registrar().peer);
            assert_eq!(bed.one_by(registrar(), &within.bytes()).flow, client, "{method}");
        }
    }
}

#[test]
fn a_lost_flow_is_answered_with_430() {
    for client in [browser(), phone()] {
        let mut bed = bed();
        let registered = bed.one_by(client, &register(client, "path").bytes());
        let path = path(&registered).expect("a Path");
        let at_client = bed.one_by(registrar(), &call(&path).bytes());
        let answers = bed.unreachable_by(client, &at_client.bytes);
        assert_eq!(
            answers.iter().map(|sent| (sent.flow, sent.status())).collect::<Vec<_>>(),
            [(registrar(), 430)]
        );
    }
}

/// An altered Path names no flow.
#[test]
fn an_altered_path_leads_nowhere() {
    for client in [browser(), phone()] {
        altered_path_leads_nowhere(client);
    }
}

fn altered_path_leads_nowhere(client: Flow) {
    let mut bed = bed();
    let registered = bed.one_by(client, &register(client, "path").bytes());
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
    for (user, expires, good) in
        [(browser(), "7200", 7_200), (browser(), "60", 3_600), (phone(), "60", 3_600)]
    {
        let mut bed = bed();
        let request = register(user, "path").with("Expires", expires);
        let path = path(&bed.one_by(user, &request.bytes())).expect("a Path");
        let stranger = client(Transport::Udp, "127.0.9.7:5060", 0);
        let other = client(Transport::Wss, CLIENT, 8);
        for from in [stranger, other] {
            let call = Req { routes: vec![path.clone()], uri: CONTACT.to_owned(), ..request_of(from) };
            assert_eq!(bed.one_by(from, &call.bytes()).status(), 403);
        }
        bed.now += Duration::from_secs(good);
        assert_eq!(bed.one_by(registrar(), &call(&path).bytes()).flow, user);
        bed.now += Duration::from_secs(33);
        let late =
            Req { call_id: "late".to_owned(), ..call(&path) }.via("SIP/2.0/UDP 127.0.1.1;branch=z9hG4bKl");
        assert_eq!(bed.one_by(registrar(), &late.bytes()).status(), 403);
    }
}

fn request_of(from: Flow) -> Req {
    request("INVITE", &format!("c{}", from.peer), from)
}

/// §5.1: only the first hop names a flow, and only for clients that support Path or are behind a NAT.
#[test]
fn a_path_is_added_by_the_first_hop_for_clients_that_need_it() {
    let direct = Req { contact: format!("sip:bob@{CLIENT}"), ..register(phone(), "path") };
    let behind = "SIP/2.0/WSS a.invalid;branch=z9hG4bKr, SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKq";
    let register_behind = register(browser(), "path").via(behind);
    for (from, request) in [
        (browser(), register(browser(), "outbound")),
        (phone(), direct),
        (browser(), register_behind),
        (browser(), register(browser(), "path").with("Path", "<sip:192.0.2.1;lr>")),
    ] {
        let sent = bed().one_by(from, &request.bytes());
        assert!(path(&sent).is_none_or(|path| path == "<sip:192.0.2.1;lr>"), "{sent:?}");
    }
    assert!(path(&bed().one_by(phone(), &register(phone(), "replaces").bytes())).is_some());
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
