//! Stream clients that break rules. Each is disconnected for a counted reason, and the others are not affected. The
//! crate `streams` tests each rule. Here a configured process applies all of them, with the kernel's buffers.

use std::net::SocketAddr;

use sarabande_tests::{
    AgentRequest, AnsweringAgent, RunningBalancer, StreamClient, TestSettings, TestSite, show, tls_table,
    until,
};

/// Hosts of the server behind the balancer, of a normal client, and of the attacker.
const SERVER: u8 = 11;
const NEIGHBOUR: u8 = 2;
const ATTACKER: u8 = 3;

/// Limit on connections from one address.
const MOST_PER_ADDRESS: usize = 20;

/// A balancer with TCP and TLS listeners, a server that answers everything, and a normal client.
struct Scene {
    balancer: RunningBalancer,
    neighbour: StreamClient,
    requests: u32,
    _server: AnsweringAgent,
    // Dropped last, since another test may then take the addresses.
    field: TestSite,
}

impl Scene {
    /// At most `new_per_second` connections a second from one address. `access` is the access list of both listeners.
    fn new(name: &str, new_per_second: u32, access: &str) -> Self {
        let field = TestSite::new(name);
        let server = AnsweringAgent::start(field.sip(SERVER), |_| true);
        let item = |at: SocketAddr| {
            format!("[{{ bind = \"{at}\"{} }}]", access.replace("ATTACKER", &field.ip(ATTACKER).to_string()))
        };
        let settings = TestSettings {
            listen_more: vec![format!("tcp = {}\ntls = {}", item(tcp(&field)), item(tls(&field)))],
            threads: 1,
            tables: format!(
                "[connections]\nnew_per_second = {new_per_second}\nmost_per_address = {MOST_PER_ADDRESS}\nhandshake = \"1s\"\n"
            ) + &tls_table(),
            ..TestSettings::new(&field, &[SERVER])
        };
        let balancer = RunningBalancer::start(&field, settings);
        let neighbour = StreamClient::connect(field.ip(NEIGHBOUR), tcp(&field));
        let mut scene = Self { balancer, neighbour, requests: 0, _server: server, field };
        scene.neighbour_is_served();
        scene
    }

    fn attacker(&self) -> StreamClient {
        StreamClient::connect(self.field.ip(ATTACKER), tcp(&self.field))
    }

    fn attacker_over_tls(&self) -> StreamClient {
        StreamClient::connect(self.field.ip(ATTACKER), tls(&self.field))
    }

    /// Returns true if a new connection of the attacker is served.
    fn attacker_is_served(&self, call_id: &str) -> bool {
        let mut client = self.attacker();
        let request = options(&client, call_id);
        client.send(&request).is_ok() && client.receive().is_some()
    }

    /// Checks that the neighbour is served on its first connection.
    fn neighbour_is_served(&mut self) {
        self.requests += 1;
        let request = AgentRequest::new("OPTIONS", &format!("neighbour-{}", self.requests));
        assert_eq!(self.neighbour.ask(&request), 200);
    }

    /// Waits until this many connections were closed for this reason. The neighbour must still be served.
    fn closes(&mut self, reason: &str, count: u64) {
        until(&format!("{count} connections closed for {reason}"), || {
            (self.balancer.closed(reason) >= count).then_some(())
        });
        assert_eq!(self.balancer.closed(reason), count, "{reason}");
        self.neighbour_is_served();
    }
}

fn tcp(field: &TestSite) -> SocketAddr {
    field.sip(1)
}

fn tls(field: &TestSite) -> SocketAddr {
    SocketAddr::new(field.ip(1), 5061)
}

fn options(client: &StreamClient, call_id: &str) -> Vec<u8> {
    client.request(&AgentRequest::new("OPTIONS", call_id))
}

/// Stalled messages, messages byte by byte, garbage, stalled TLS handshakes, resets, and finally requests whose
/// responses are not read.
#[test]
fn clients_that_break_rules_are_disconnected_and_affect_no_other() {
    const RESETS: u64 = 2 * MOST_PER_ADDRESS as u64;
    let mut scene = Scene::new("hostile", 0, "");
    let mut silent = scene.attacker();
    let half = options(&silent, "half");
    silent.send(&half[..half.len() / 2]).expect("it is open");
    let mut slow = scene.attacker();
    let text = [b"OPTIONS sip:b@x SIP/2.0\r\nX: ".to_vec(), vec![b'x'; 30_000]].concat();
    // Byte by byte, one every few milliseconds.
    let mut bytes = text.iter();
    until("the slow client is cut off", || match bytes.next() {
        Some(byte) => slow.send(&[*byte]).err().map(drop),
        None => panic!("all bytes were taken"),
    });
    silent.wait_until_closed();
    scene.closes("slow_message", 2);

    let sound = show(&options(&scene.attacker(), "unreadable"));
    let line = sound.lines().find(|line| line.starts_with("Content-Length")).expect("a length").to_owned();
    for (reason, attack) in [
        ("missing_content_length", sound.replace(&format!("{line}\r\n"), "").into_bytes()),
        ("message_too_long", sound.replace(&line, "Content-Length: 4000000000").into_bytes()),
        ("header_too_long", [&sound.as_bytes()[..sound.len() - 2], b"X: ", &vec![b'x'; 40_000]].concat()),
        ("not_sip", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ] {
        let mut client = scene.attacker();
        // It may be closed while the rest is still sent.
        let _ = client.send(&attack);
        client.wait_until_closed();
        scene.closes(reason, 1);
    }

    // No TLS, the beginning of a ClientHello, and no bytes at all.
    let [mut garbage, mut incomplete, mut nothing] = [(); 3].map(|()| scene.attacker_over_tls());
    garbage.send(b"OPTIONS sip:b@x SIP/2.0\r\nl: 0\r\n\r\n").expect("it is open");
    incomplete.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").expect("it is open");
    for client in [&mut garbage, &mut incomplete, &mut nothing] {
        client.wait_until_closed();
    }
    scene.closes("tls", 1);
    scene.closes("handshake", 2);

    // In the middle of a message, and while its response is on its way. Each frees its place in the limit of its
    // address.
    for round in 0..RESETS {
        let mut client = scene.attacker();
        let text = options(&client, &format!("reset-{round}"));
        let cut = if round % 2 == 0 { text.len() / 2 } else { text.len() };
        client.send(&text[..cut]).expect("it is open");
        client.reset();
        until("the connection is closed", || (scene.balancer.closed("error") > round).then_some(()));
    }
    scene.closes("error", RESETS);

    // The response repeats a long From. The balancer refuses the request itself, so no server is involved.
    let mut deaf = scene.attacker();
    let text = show(&options(&deaf, "deaf")).replace("Max-Forwards: 70", "Max-Forwards: 0");
    let from = text.lines().find(|line| line.starts_with("From:")).expect("a From").to_owned();
    let text = text.replace(&from, &format!("From: <sip:{}@x>;tag=1", "x".repeat(8_000)));
    let refused = (0..5_000).position(|number| {
        let text = text.replace("deaf", &format!("deaf{number}"));
        deaf.send(text.as_bytes()).is_err()
    });
    assert!(refused.is_some(), "more than 40 MB of answers would wait");
    scene.closes("not_reading", 1);
}

/// Other addresses and earlier connections are not affected, and a freed place can be taken.
#[test]
fn one_address_has_its_share_of_connections() {
    const MORE: usize = 200;
    let mut scene = Scene::new("flood", 0, "");
    let mut held: Vec<_> = (0..MOST_PER_ADDRESS).map(|_| scene.attacker()).collect();
    for client in &mut held {
        let call_id = format!("held-{}", client.address().port());
        assert_eq!(client.ask(&AgentRequest::new("OPTIONS", &call_id)), 200);
    }
    for _ in 0..MORE {
        scene.attacker().wait_until_closed();
    }
    scene.closes("most_per_address", MORE as u64);
    let mut other = StreamClient::connect(scene.field.ip(4), tcp(&scene.field));
    assert_eq!(other.ask(&AgentRequest::new("OPTIONS", "other")), 200);
    assert_eq!(held[0].ask(&AgentRequest::new("OPTIONS", "still")), 200);
    held.pop();
    until("the place is free", || scene.attacker_is_served("again").then_some(()));
}

/// The access list applies before TLS, and to clients that send nothing.
#[test]
fn denied_clients_may_not_connect_and_others_not_too_often() {
    let mut scene = Scene::new("denied", 0, ", deny = [\"ATTACKER\"]");
    scene.attacker().wait_until_closed();
    scene.attacker_over_tls().wait_until_closed();
    scene.closes("denied", 2);
    drop(scene);

    let mut scene = Scene::new("often", 5, "");
    until("a connection is refused", || (!scene.attacker_is_served("often")).then_some(()));
    assert!(scene.balancer.closed("new_per_second") > 0);
    scene.neighbour_is_served();
    until("it is served again", || scene.attacker_is_served("later").then_some(()));
}
