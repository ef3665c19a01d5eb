//! Tests of monitors and a balancer over loopback, with clients that disturb them.

use super::connection::Limits;
use super::listener::{Intake, Listening, bind};
use super::{CapacityCounts, Offer};
use config::CapacityConfig;
use elastic::update::{Announcements, Key, ServerName, Update, UpdateKeys, UpdateSender};
use instruments::sender::{Reporting, SenderTimes, Telling};
use route::Access;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

const KEY: [u8; 16] = *b"0123456789abcdef";
/// Time limit for events that take a moment on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);
const QUICK: SenderTimes = SenderTimes {
    period: Duration::from_millis(10),
    patience: Duration::from_secs(10),
    back_off: Duration::from_millis(10),
    back_off_max: Duration::from_millis(40),
    refused_max: Duration::from_millis(40),
};
/// Limits with which connections end only by the cause under test.
const PATIENT: Limits = Limits {
    first: Duration::from_hours(1),
    idle: Duration::from_hours(1),
    write: Duration::from_hours(1),
    pause: Duration::ZERO,
    ..Limits::USUAL
};

/// Log lines of the monitors of all tests.
static LOG_LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn say(text: &str) {
    LOG_LINES.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
}

/// Returns the log lines about the balancer at this address.
fn said(address: SocketAddr) -> Vec<String> {
    let all = LOG_LINES.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter(|text| text.contains(&address.to_string())).cloned().collect()
}

/// The parts of a balancer that handle capacities.
struct Balancer {
    config: CapacityConfig,
    intake: Intake,
    listening: Option<Listening>,
    known: Announcements<ServerName>,
    accepted: Vec<Update>,
    /// Calls that were sent to its server.
    sent: u64,
}

impl Balancer {
    fn start(limits: Limits) -> Self {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listen = listener.local_addr().unwrap();
        let config = CapacityConfig { listen, keys: one_for_all(KEY), from: Access::default() };
        let intake = Intake::new(limits);
        let listening = Some(Listening::start(config.clone(), Some(listener), &intake));
        Self { config, intake, listening, known: Announcements::default(), accepted: Vec::new(), sent: 0 }
    }

    /// Stops listening, as a killed process does.
    fn stop(&mut self) {
        self.listening = None;
    }

    fn restart(&mut self) {
        self.listening = Some(Listening::start(self.config.clone(), None, &self.intake));
    }

    fn counts(&self) -> CapacityCounts {
        self.intake.counts()
    }

    fn closed(&self, why: &str) -> u64 {
        let counts = self.counts();
        counts.closed.iter().find(|(name, _)| *name == why).unwrap_or_else(|| panic!("{why}: {counts:?}")).1
    }

    /// Handles updates as the control task does, until the condition holds.
    async fn until(&mut self, condition: &str, mut is_done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_done(self) {
            assert!(start.elapsed() < PATIENCE, "timed out: {condition}; {:?}", self.counts());
            let offer = timeout(Duration::from_millis(5), self.intake.next()).await;
            if let Ok(Offer { connection, update, reply, .. }) = offer {
                let now = base::Instant::from_nanos(start.elapsed().as_nanos() as u64);
                let taken = self.known.take(now, connection, update.server.clone(), update.capacity);
                if taken.is_ok() {
                    self.accepted.push(update);
                }
                let _ = reply.send(taken.map(|()| self.sent));
            }
        }
    }

    /// Waits until this many more updates were accepted.
    async fn more(&mut self, count: usize) {
        let all = self.accepted.len() + count;
        self.until("more updates", |balancer| balancer.accepted.len() >= all).await;
    }

    fn address(&self) -> SocketAddr {
        self.config.listen
    }

    /// Changes the keys, as a reload does.
    fn give(&mut self, keys: Arc<UpdateKeys>) {
        self.config.keys = keys;
        self.listening.as_ref().unwrap().change(self.config.clone());
    }

    fn monitor(&self, key: [u8; 16]) -> Telling {
        monitor(&[self.address()], key, "10.0.0.1")
    }
}

fn one_for_all(key: [u8; 16]) -> Arc<UpdateKeys> {
    Arc::new(UpdateKeys { shared: Some(Key::new(&key)), ..UpdateKeys::default() })
}

/// Gives each server its own key.
fn own<const N: usize>(keys: [(&str, &[u8; 16]); N]) -> Arc<UpdateKeys> {
    let own = keys.map(|(server, key)| (server.parse().unwrap(), Key::new(key)));
    Arc::new(UpdateKeys { shared: None, own: own.into() })
}

fn monitor(to: &[SocketAddr], key: [u8; 16], server: &str) -> Telling {
    let to = to.iter().map(ToString::to_string).collect();
    let reporting = Reporting { to, key: Key::new(&key), server: server.parse().unwrap(), say };
    let telling = Telling::start_with(&reporting, PATIENCE, QUICK).unwrap();
    telling.tell(250.0);
    telling
}

/// Reads until the other side closes. A reset is also an end.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection is closed");
    String::from_utf8(bytes).unwrap()
}

async fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(
            timeout(PATIENCE, stream.read_u8())
                .await
                .expect("a line arrives in time")
                .expect("the connection is open"),
        );
    }
    String::from_utf8(line).unwrap()
}

#[tokio::test]
async fn each_balancer_gets_every_capacity() {
    let (mut one, mut other) = (Balancer::start(PATIENT), Balancer::start(PATIENT));
    let telling = monitor(&[one.address(), other.address()], KEY, "sip1.example.com");
    let is = |update: &Update, capacity: f64| (update.capacity - capacity).abs() < 1e-9;
    for balancer in [&mut one, &mut other] {
        balancer
            .until("the whole capacity", |balancer| {
                balancer.accepted.last().is_some_and(|last| is(last, 250.0))
            })
            .await;
        assert!(balancer.accepted.iter().all(|update| is(update, 125.0) || is(update, 250.0)));
        assert_eq!(balancer.accepted[0].server.to_string(), "sip1.example.com");
    }
    // Before the need of the other balancer is known, the first one gets half the capacity.
    assert!([&one, &other].iter().any(|balancer| is(&balancer.accepted[0], 125.0)));
    telling.tell(100.0);
    for balancer in [&mut one, &mut other] {
        balancer
            .until("the new capacity", |balancer| {
                balancer.accepted.last().is_some_and(|last| last.capacity < 101.0)
            })
            .await;
        assert_eq!(balancer.counts().connections, 1);
    }
    let targets = telling.targets();
    assert!(targets.iter().all(|target| target.is_up.load(Ordering::Relaxed)));
    assert!(targets.iter().all(|target| target.failed.load(Ordering::Relaxed) == 0));
    assert_eq!(said(one.address()), [""; 0], "no failure is logged");
    drop(telling);
    one.until("the monitor is gone", |balancer| balancer.counts().open == 0).await;
}

/// A standby balancer gets no capacity. Once both send calls, their capacities add up to the server's capacity.
#[tokio::test]
async fn the_capacity_is_divided_among_those_that_send_calls() {
    let (mut active, mut standby) = (Balancer::start(PATIENT), Balancer::start(PATIENT));
    let _telling = monitor(&[active.address(), standby.address()], KEY, "10.0.0.1");
    let last_capacity = |balancer: &Balancer| balancer.accepted.last().map_or(0.0, |update| update.capacity);
    for _ in 0..5 {
        active.sent += 100;
        active.more(1).await;
        standby.more(1).await;
    }
    assert_eq!((last_capacity(&active), standby.accepted.len()), (250.0, 5), "the whole capacity");
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE, "{} and {}", last_capacity(&active), last_capacity(&standby));
        (active.sent, standby.sent) = (active.sent + 100, standby.sent + 100);
        active.more(1).await;
        standby.more(1).await;
        if (last_capacity(&active) + last_capacity(&standby) - 250.0).abs() < 1.0 {
            break;
        }
    }
}

/// Balancers send more calls than the server takes, and then die one by one.
async fn divided_among(count: usize) {
    let mut balancers: Vec<_> = (0..count).map(|_| Balancer::start(PATIENT)).collect();
    let addresses: Vec<_> = balancers.iter().map(Balancer::address).collect();
    let _telling = monitor(&addresses, KEY, "10.0.0.1");
    let mut was_divided = false;
    while !balancers.is_empty() {
        let part = 250.0 / balancers.len() as f64;
        let start = Instant::now();
        loop {
            let mut last_capacity = Vec::new();
            for balancer in &mut balancers {
                balancer.sent += 100;
                balancer.more(1).await;
                last_capacity.push(balancer.accepted.last().map_or(0.0, |update| update.capacity));
            }
            assert!(start.elapsed() < PATIENCE, "{last_capacity:?} of {count}");
            // This also holds while it is unknown whether a dead balancer comes back.
            assert!(
                !was_divided || last_capacity.iter().sum::<f64>() < 250.1,
                "{last_capacity:?} of {count}"
            );
            if last_capacity.iter().all(|last_capacity| (last_capacity - part).abs() < 0.1) {
                break;
            }
        }
        // The first one dies, and later the remaining ones.
        was_divided = true;
        balancers.remove(0);
    }
}

#[tokio::test]
async fn the_capacities_of_balancers_add_up_also_when_one_dies() {
    tokio::join!(divided_among(1), divided_among(2), divided_among(3), divided_among(4));
}

/// One log line says that the balancer is gone, and one that it is back, whatever the number of attempts.
#[tokio::test]
async fn a_balancer_that_comes_back_gets_the_capacity_again() {
    let mut balancer = Balancer::start(PATIENT);
    let telling = balancer.monitor(KEY);
    balancer.more(3).await;
    for round in 1..3 {
        balancer.stop();
        let failed = |telling: &Telling| telling.targets()[0].failed.load(Ordering::Relaxed);
        let before = failed(&telling);
        balancer.until("the monitor tries again", |_| failed(&telling) >= before + 3).await;
        assert!(!telling.targets()[0].is_up.load(Ordering::Relaxed));
        balancer.restart();
        balancer.more(1).await;
        balancer.until("it is logged", |balancer| said(balancer.address()).len() == 2 * round).await;
    }
    let said = said(balancer.address());
    assert!(
        said[0].contains("gets no capacity")
            && said[1].contains("again")
            && said[2].contains("gets no capacity"),
        "{said:?}"
    );
}

/// The later connection counts. A pending update in the first connection is refused.
#[tokio::test]
async fn a_restarted_monitor_supersedes_its_old_connection() {
    let mut balancer = Balancer::start(PATIENT);
    let mut old = TcpStream::connect(balancer.address()).await.unwrap();
    let greeting = line(&mut old).await;
    let mut sender = UpdateSender::greeted(Key::new(&KEY), greeting.trim_end().as_bytes()).unwrap();
    let server: ServerName = "10.0.0.1".parse().unwrap();
    old.write_all(sender.update(&server, 900.0).as_bytes()).await.unwrap();
    balancer.more(1).await;
    assert_eq!(line(&mut old).await, "OK 1 0\n");
    let _telling = balancer.monitor(KEY);
    balancer.more(1).await;
    old.write_all(sender.update(&server, 900.0).as_bytes()).await.unwrap();
    balancer.until("the update is refused", |balancer| balancer.closed("superseded") == 1).await;
    assert_eq!(rest(&mut old).await, "ERROR superseded\n");
    balancer.more(3).await;
    assert!(balancer.accepted[1..].iter().all(|update| update.capacity < 900.0));
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_the_right_one_accepted_later() {
    let mut balancer = Balancer::start(PATIENT);
    let telling = balancer.monitor(*b"another key here");
    balancer.until("several updates are refused", |balancer| balancer.closed("wrong_code") >= 3).await;
    assert_eq!(balancer.accepted, []);
    let words = said(balancer.address());
    assert!(words.len() == 1 && words[0].contains("another key"), "{words:?}");
    // The operator gives the balancer the monitor's key.
    balancer.give(one_for_all(*b"another key here"));
    balancer.more(3).await;
    balancer.until("it is logged", |balancer| said(balancer.address()).len() == 2).await;
    let words = said(balancer.address());
    assert!(!words[1].contains("again"), "no capacity was accepted before: {words:?}");
    // The key changes again, which ends the present connection.
    balancer.give(one_for_all(KEY));
    let before = balancer.closed("wrong_code");
    balancer.until("the update is refused again", |balancer| balancer.closed("wrong_code") > before).await;
    drop(telling);
}

#[tokio::test]
async fn a_client_outside_the_networks_gets_no_greeting() {
    let mut balancer = Balancer::start(PATIENT);
    let from = Access::new(&["192.0.2.0/24".parse().unwrap()], &[], route::AccessRefusal::Silence).unwrap();
    balancer.listening.as_ref().unwrap().change(CapacityConfig { from, ..balancer.config.clone() });
    let mut stranger = TcpStream::connect(balancer.address()).await.unwrap();
    assert_eq!(rest(&mut stranger).await, "");
    balancer.until("the refusal is counted", |balancer| balancer.closed("not_admitted") == 1).await;
    assert_eq!(balancer.counts().open, 0);
    let _telling = balancer.monitor(KEY);
    balancer.until("a monitor is not admitted", |balancer| balancer.closed("not_admitted") >= 2).await;
    balancer.until("it is logged", |balancer| !said(balancer.address()).is_empty()).await;
    assert!(said(balancer.address())[0].contains("`from` of its [capacity]"));
}

/// Silent strangers take few connections, and never a monitor's.
#[tokio::test]
async fn silent_connections_keep_no_monitor_out() {
    let mut balancer = Balancer::start(PATIENT);
    let telling = balancer.monitor(KEY);
    balancer.more(1).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(balancer.address()).await.unwrap());
    }
    balancer.until("all were accepted", |balancer| balancer.counts().connections >= 201).await;
    balancer.until("most make room", |balancer| balancer.counts().open <= PATIENT.unproven as u64 + 1).await;
    assert_eq!(balancer.closed("crowded"), 200 - PATIENT.unproven as u64);
    balancer.more(3).await;
    let late = monitor(&[balancer.address()], KEY, "10.0.0.2");
    let second: ServerName = "10.0.0.2".parse().unwrap();
    balancer
        .until("a late monitor", |balancer| balancer.accepted.iter().any(|update| update.server == second))
        .await;
    assert_eq!(
        telling.targets()[0].failed.load(Ordering::Relaxed),
        0,
        "the first monitor's connection is never closed"
    );
    drop(late);
}

#[tokio::test]
async fn a_silent_or_slow_client_is_closed() {
    let first = Duration::from_millis(50);
    let mut balancer = Balancer::start(Limits { first, ..PATIENT });
    let mut silent = TcpStream::connect(balancer.address()).await.unwrap();
    let mut slow = TcpStream::connect(balancer.address()).await.unwrap();
    let slow_writer = async {
        // Single bytes do not count as an update.
        while slow.write_all(b"U").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, slow_writer).await.expect("a connection that sends single bytes is closed");
    assert!(rest(&mut silent).await.starts_with("sarabande-capacity 2 "));
    balancer.until("both are counted", |balancer| balancer.closed("silent") == 2).await;
    assert_eq!(balancer.counts().open, 0);
}

#[tokio::test]
async fn a_monitor_that_falls_silent_is_closed() {
    let idle = Duration::from_millis(50);
    let mut balancer = Balancer::start(Limits { idle, ..PATIENT });
    let mut stream = TcpStream::connect(balancer.address()).await.unwrap();
    let greeting = line(&mut stream).await;
    let mut sender = UpdateSender::greeted(Key::new(&KEY), greeting.trim_end().as_bytes()).unwrap();
    stream.write_all(sender.update(&"a".parse().unwrap(), 1.0).as_bytes()).await.unwrap();
    balancer.until("the connection is closed", |balancer| balancer.closed("silent") == 1).await;
    assert_eq!(rest(&mut stream).await, "OK 1 0\n");
}

#[tokio::test]
async fn a_malformed_update_gets_its_reason() {
    let mut balancer = Balancer::start(PATIENT);
    let long = "a".repeat(600);
    for (sent, answer) in [
        ("GET / HTTP/1.1\r\n\r\n", "ERROR malformed\n"),
        (&long[..], "ERROR too_long\n"),
        ("\u{0}\n", "ERROR malformed\n"),
    ] {
        let mut stream = TcpStream::connect(balancer.address()).await.unwrap();
        line(&mut stream).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let last_capacity = rest(&mut stream).await;
        // Later bytes are not read, so a reset may overtake the answer.
        assert!(last_capacity == answer || last_capacity.is_empty(), "{sent}: {last_capacity}");
    }
    balancer
        .until("all are counted", |balancer| balancer.closed("malformed") + balancer.closed("too_long") == 3)
        .await;
}

/// The server at that address may be of any kind.
#[tokio::test]
async fn a_monitor_survives_any_other_server() {
    for (index, answer) in
        ["", "HTTP/1.1 400 Bad Request\r\n\r\n", "sarabande-capacity 3 x\n"].into_iter().enumerate()
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let telling = monitor(&[address], KEY, "10.0.0.1");
        for _ in 0..2 {
            let (mut stream, _) =
                timeout(PATIENCE, listener.accept()).await.expect("the monitor tries again").unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        let words = said(address);
        let expected =
            ["closed the connection", "takes no updates", "version 3 of the protocol, and here is version 2"]
                [index];
        assert!(words.len() == 1 && words[0].contains(expected), "{words:?}");
        drop(telling);
    }
}

#[tokio::test]
async fn an_address_is_bound_when_it_becomes_free() {
    let mut balancer = Balancer::start(PATIENT);
    let before = balancer.listening.take();
    balancer.restart();
    let telling = balancer.monitor(KEY);
    // The predecessor still listens and answers.
    balancer.more(3).await;
    drop(before);
    balancer.more(3).await;
    assert!(balancer.counts().connections >= 2);
    drop(telling);
}

/// Sends an update of this server on a new connection with this key. Returns the connection and the answer.
async fn attempt(balancer: &mut Balancer, key: &[u8; 16], server: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(balancer.address()).await.unwrap();
    let greeting = line(&mut stream).await;
    let mut sender = UpdateSender::greeted(Key::new(key), greeting.trim_end().as_bytes()).unwrap();
    stream.write_all(sender.update(&server.parse().unwrap(), 1.0).as_bytes()).await.unwrap();
    let reading = tokio::spawn(async move {
        let answer = line(&mut stream).await;
        (stream, answer)
    });
    balancer.until("an answer", |_| reading.is_finished()).await;
    reading.await.unwrap()
}

const FIRST: &[u8; 16] = b"key of the first";
const SECOND: &[u8; 16] = b"key of a second.";

/// A client with the key of one server keeps filling all connections. One other monitor is connected, and a third
/// arrives.
#[tokio::test]
async fn the_key_of_one_server_keeps_no_other_monitor_out() {
    let limits = Limits { connections: 8, unproven: 4, ..PATIENT };
    let mut balancer = Balancer::start(limits);
    balancer.give(own([("10.0.0.1", FIRST), ("10.0.0.2", SECOND), ("10.0.0.3", &KEY)]));
    let victim = monitor(&[balancer.address()], *SECOND, "10.0.0.2");
    balancer.more(1).await;
    let mut places = Vec::new();
    for _ in 0..20 {
        let (stream, answer) = attempt(&mut balancer, FIRST, "10.0.0.1").await;
        assert_eq!(answer, "OK 1 0\n");
        places.push(stream);
    }
    balancer.until("all places are taken", |balancer| balancer.counts().open == 8).await;
    let (mut late, answer) = attempt(&mut balancer, &KEY, "10.0.0.3").await;
    assert_eq!(answer, "OK 1 0\n");
    for _ in 0..20 {
        places.push(attempt(&mut balancer, FIRST, "10.0.0.1").await.0);
    }
    balancer.more(2).await;
    assert_eq!(victim.targets()[0].failed.load(Ordering::Relaxed), 0);
    let is_open = timeout(Duration::from_millis(20), late.read_u8()).await.is_err();
    assert!(is_open, "the later monitor's connection stays open too");
}
