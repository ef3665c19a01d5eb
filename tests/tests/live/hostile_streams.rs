//! Clients of streams that break every rule: each is cut off for a reason that is counted, and the others notice
//! nothing.

use std::net::SocketAddr;

use sarabande_tests::{
    AgentRequest, AnsweringAgent, RunningBalancer, StreamClient, TestSettings, TestSite, show, tls_table,
    until, value,
};

/// The host of the server behind the balancer, of the client that behaves, and of the one that does not.
const SERVER: u8 = 11;
const NEIGHBOUR: u8 = 2;
const ATTACKER: u8 = 3;

/// Connections from one address at a time.
const MOST_PER_ADDRESS: usize = 20;

/// A balancer with listeners of TCP and TLS, a server that answers everything, and a client beside the attack.
struct Scene {
    balancer: RunningBalancer,
    neighbour: StreamClient,
    asked: u32,
    _server: AnsweringAgent,
    // The last to be dropped: then another test may have its addresses.
    field: TestSite,
}

impl Scene {
    fn new(name: &str) -> Self {
        Self::with(name, 0, "")
    }

    /// One where so many connections a second may come from one address, and where the listeners have this access list.
    fn with(name: &str, new_per_second: u32, access: &str) -> Self {
        let field = TestSite::new(name);
        let server = AnsweringAgent::start(field.sip(SERVER), |_| true);
        let item = |at: SocketAddr| {
            format!("[{{ bind = \"{at}\"{} }}]", access.replace("ATTACKER", &field.ip(ATTACKER).to_string()))
        };
        let settings = TestSettings {
            listen_more: vec![format!("tcp = {}\ntls = {}", item(tcp(&field)), item(tls(&field)))],
            threads: 1,
            tables: format!(
                "[connections]\nnew_per_second = {new_per_second}\nmost_per_address = {MOST_PER_ADDRESS}\nhandshake = \"1s\"\nsend_buffer = \"64KiB\"\n"
            ) + &tls_table(),
            ..TestSettings::new(&field, &[SERVER])
        };
        let balancer = RunningBalancer::start(&field, settings);
        let neighbour = StreamClient::connect(field.ip(NEIGHBOUR), tcp(&field));
        let mut scene = Self { balancer, neighbour, asked: 0, _server: server, field };
        scene.neighbour_is_served();
        scene
    }

    fn attacker(&self) -> StreamClient {
        StreamClient::connect(self.field.ip(ATTACKER), tcp(&self.field))
    }

    /// On the connection that the neighbour has had from the beginning.
    fn neighbour_is_served(&mut self) {
        self.asked += 1;
        let request = AgentRequest::new("OPTIONS", &format!("neighbour-{}", self.asked));
        assert_eq!(self.neighbour.ask(&request), 200);
    }

    /// Waits until so many have been ended for this reason, and then serves the neighbour still.
    fn closes(&mut self, reason: &str, count: u64) {
        until(&format!("{count} ended for {reason}"), || {
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

/// A certificate for nobody, by the stock tool.
fn options(client: &StreamClient, call_id: &str) -> Vec<u8> {
    client.request(&AgentRequest::new("OPTIONS", call_id))
}

/// Slow-loris: bytes that come one by one keep no message open for longer than one that stands still.
#[test]
fn messages_that_do_not_end_are_ended() {
    let mut scene = Scene::new("unfinished");
    let mut silent = scene.attacker();
    let text = options(&silent, "half");
    silent.send(&text[..text.len() / 2]).expect("it is open");
    let mut slow = scene.attacker();
    let text = [b"OPTIONS sip:b@x SIP/2.0\r\nX: ".to_vec(), vec![b'x'; 30_000]].concat();
    // Each byte by itself, until the connection is closed: a byte in some milliseconds.
    let mut bytes = text.iter();
    until("the slow one is cut off", || match bytes.next() {
        Some(byte) => slow.send(&[*byte]).err().map(drop),
        None => panic!("all bytes were taken"),
    });
    silent.wait_until_closed();
    scene.closes("slow_message", 2);
}

/// What cannot be divided into messages: no Content-Length, a header without end, no SIP, TLS where there is none.
#[test]
fn streams_that_cannot_be_read_are_closed() {
    let mut scene = Scene::new("unreadable");
    let sender = scene.attacker();
    let sound = show(&options(&sender, "unreadable"));
    let line = sound.lines().find(|line| line.starts_with("Content-Length")).expect("a length").to_owned();
    let attacks = [
        sound.replace(&format!("{line}\r\n"), "").into_bytes(),
        sound.replace(&line, "Content-Length: -5").into_bytes(),
        sound.replace(&line, "Content-Length: 4000000000").into_bytes(),
        sound.replace(&line, "Content-Length: 1\r\nl: 2").into_bytes(),
        [&sound.as_bytes()[..sound.len() - 2], b"X: ", &vec![b'x'; 40_000]].concat(),
        vec![b'A'; 100_000],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        sound.replace("\r\n", "\n").into_bytes(),
    ];
    for attack in attacks {
        let mut client = scene.attacker();
        // It may be closed while the rest is still sent.
        let _ = client.send(&attack);
        client.wait_until_closed();
    }
    for (reason, count) in [
        ("missing_content_length", 1),
        ("malformed_content_length", 1),
        ("message_too_long", 1),
        ("different_content_lengths", 1),
        ("header_too_long", 2),
        ("not_sip", 2),
        ("line_end", 1),
    ] {
        scene.closes(reason, count);
    }
}

/// Each pair of line ends is a ping and is answered; the others have their turn meanwhile.
#[test]
fn line_ends_without_end_disturb_nobody() {
    const PINGS: usize = 20_000;
    let mut scene = Scene::new("line-ends");
    let mut client = scene.attacker();
    for _ in 0..PINGS / 100 {
        client.send(&b"\r\n\r\n".repeat(100)).expect("it is open");
        for _ in 0..100 {
            assert_eq!(client.receive().as_deref(), Some(&b"\r\n"[..]));
        }
    }
    scene.neighbour_is_served();
    assert_eq!(client.ask(&AgentRequest::new("OPTIONS", "after-pings")), 200);
}

#[test]
fn one_address_has_its_share_of_connections() {
    const MORE: usize = 200;
    let mut scene = Scene::new("flood");
    let mut held: Vec<_> = (0..MOST_PER_ADDRESS).map(|_| scene.attacker()).collect();
    for client in &mut held {
        let call_id = format!("held-{}", client.address().port());
        assert_eq!(client.ask(&AgentRequest::new("OPTIONS", &call_id)), 200);
    }
    for _ in 0..MORE {
        scene.attacker().wait_until_closed();
    }
    scene.closes("most_per_address", MORE as u64);
    // Neither other addresses nor the connections of before suffer; a place that is left can be taken.
    let mut other = StreamClient::connect(scene.field.ip(4), tcp(&scene.field));
    assert_eq!(other.ask(&AgentRequest::new("OPTIONS", "other")), 200);
    assert_eq!(held[0].ask(&AgentRequest::new("OPTIONS", "still")), 200);
    held.pop();
    until("the place is free", || {
        let mut again = scene.attacker();
        let request = options(&again, "again");
        again.send(&request).ok()?;
        again.receive().map(drop)
    });
}

/// The list is asked before TLS, and counts for whoever would send nothing at all.
#[test]
fn those_who_may_not_send_may_not_connect() {
    let mut scene = Scene::with("denied", 0, ", deny = [\"ATTACKER\"]");
    scene.attacker().wait_until_closed();
    StreamClient::connect(scene.field.ip(ATTACKER), tls(&scene.field)).wait_until_closed();
    scene.closes("denied", 2);
}

#[test]
fn one_address_connects_so_often_and_no_more() {
    let mut scene = Scene::with("often", 5, "");
    until("one is refused", || {
        let mut attacker = scene.attacker();
        let request = options(&attacker, "often");
        let _ = attacker.send(&request);
        attacker.receive().is_none().then_some(())
    });
    assert!(scene.balancer.closed("new_per_second") > 0);
    scene.neighbour_is_served();
    // It may come back later.
    until("it is served again", || {
        let mut attacker = scene.attacker();
        let request = options(&attacker, "again");
        attacker.send(&request).ok()?;
        attacker.receive().map(drop)
    });
}

/// Answers that nobody fetches: the connection is ended once more than `send_buffer` waits.
#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let mut scene = Scene::new("deaf");
    let mut deaf = StreamClient::connect_with_small_buffer(scene.field.ip(ATTACKER), tcp(&scene.field));
    // The answer repeats From, so that it is long; it is refused here, and no server is asked.
    let long = format!("From: <sip:{}@x>;tag=1", "x".repeat(8_000));
    let text = show(&options(&deaf, "deaf")).replace("Max-Forwards: 70", "Max-Forwards: 0");
    let from = text.lines().find(|line| line.starts_with("From:")).expect("a From").to_owned();
    let text = text.replace(&from, &long);
    let sent = (0..5_000).position(|number| {
        let text = text.replace("deaf", &format!("deaf{number}"));
        deaf.send(text.as_bytes()).is_err()
    });
    assert!(sent.is_some(), "more than 40 MB of answers would wait");
    scene.closes("not_reading", 1);
}

#[test]
fn what_is_no_tls_and_handshakes_that_stop_are_ended() {
    let mut scene = Scene::new("tls");
    let attacker = scene.field.ip(ATTACKER);
    let connect = || StreamClient::connect(attacker, tls(&scene.field));
    let mut garbage = connect();
    garbage.send(b"OPTIONS sip:b@x SIP/2.0\r\nl: 0\r\n\r\n").expect("it is open");
    garbage.wait_until_closed();
    // The beginning of a ClientHello, and nothing at all.
    let (mut begun, mut silent) = (connect(), connect());
    begun.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").expect("it is open");
    begun.wait_until_closed();
    silent.wait_until_closed();
    scene.closes("tls", 1);
    scene.closes("handshake", 2);
}

#[test]
fn connections_that_are_reset_are_forgotten() {
    const ROUNDS: u64 = 50;
    let mut scene = Scene::new("reset");
    for round in 0..ROUNDS {
        let mut client = scene.attacker();
        let text = options(&client, &format!("reset-{round}"));
        // In the middle of a message, and while its answer is on its way.
        let cut = if round % 2 == 0 { text.len() / 2 } else { text.len() };
        client.send(&text[..cut]).expect("it is open");
        client.reset();
        // Before there are as many as one address may have.
        until("it is forgotten", || (scene.balancer.closed("error") > round).then_some(()));
    }
    scene.closes("error", ROUNDS);
}

/// However the bytes are divided, each message is one.
#[test]
fn messages_may_come_together_or_in_any_parts() {
    let mut scene = Scene::new("parts");
    let mut client = scene.attacker();
    let names: Vec<_> = (0..100).map(|number| format!("together-{number}")).collect();
    let all: Vec<_> = names.iter().flat_map(|name| options(&client, name)).collect();
    client.send(&all).expect("it is open");
    let mut answered: Vec<_> = names
        .iter()
        .map(|_| client.receive().and_then(|answer| value(&answer, "Call-ID")).expect("an answer"))
        .collect();
    answered.sort_unstable();
    let mut expected = names.clone();
    expected.sort_unstable();
    assert_eq!(answered, expected);
    let length = options(&client, "part-100").len();
    for cut in 1..length {
        let name = format!("part-{cut:03}");
        let text = options(&client, &name);
        client.send(&text[..cut]).expect("it is open");
        client.send(&text[cut..]).expect("it is open");
        assert_eq!(client.final_status(&name), 200, "cut at {cut}");
    }
    scene.neighbour_is_served();
}
