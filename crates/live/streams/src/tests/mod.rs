//! Connections of a thread with sockets on loopback; time is an argument, without waiting.

mod bounds;
mod dialogs;
mod leaving;
mod names;

use super::batch::StreamBatch;
use super::counts::CloseReason;
use super::limits::ConnectionLimits;
use super::listener::{StreamListener, listen};
use super::settings::StreamSettings;
use super::table::{StreamSetup, Streams};
use crate::tls::{CertificateFiles, Tls, TlsSetup};
use base::{Connection, Flow, Instant, Transport};
use core::time::Duration;
use rustix::event::{Timespec, poll};
use rustls::{ClientConnection, StreamOwned};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, client};

const IDLE: Duration = Duration::from_mins(10);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// More than any test opens, but for one.
const NEW_PER_SECOND: u32 = 20;
const BYE: &[u8] = b"BYE sip:b@x SIP/2.0\r\nCall-ID: c\r\nContent-Length: 0\r\n\r\n";
const OK: &[u8] = b"SIP/2.0 200 OK\r\nCall-ID: c\r\nContent-Length: 0\r\n\r\n";

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls").join(name)
}

fn tls() -> Tls {
    let certificate = |name: &str| CertificateFiles {
        chain: file(&format!("{name}.pem")),
        key: file(&format!("{name}.key")),
    };
    Tls {
        certificates: vec![certificate("first"), certificate("second")],
        authorities: Some(file("authority.pem")),
        client_authorities: None,
        require_client: false,
        key_log: None,
    }
}

/// One thread, with listeners for these transports.
struct Bed {
    streams: Streams,
    locals: Vec<SocketAddr>,
    batch: StreamBatch,
    now: Instant,
}

impl Bed {
    fn new(transports: &[Transport]) -> Self {
        Self::with(transports, 100, &[])
    }

    fn with(transports: &[Transport], most_per_source: usize, proxies: &[&str]) -> Self {
        Self::at("127.0.0.1:0", transports, (most_per_source, proxies))
    }

    fn at(address: &str, transports: &[Transport], (most_per_source, proxies): (usize, &[&str])) -> Self {
        Self::limited(address, transports, (1_000, most_per_source, proxies))
    }

    fn limited(
        address: &str,
        transports: &[Transport],
        (most, most_per_source, proxies): (usize, usize, &[&str]),
    ) -> Self {
        let setup = TlsSetup::read(&tls(), None).expect("certificates for tests");
        let (mut locals, mut listeners) = (Vec::new(), Vec::new());
        for (index, transport) in (0..).zip(transports) {
            let socket = listen(address.parse().unwrap(), true).unwrap();
            let at = socket.local_addr().unwrap();
            locals.push(at);
            let proxies = proxies.iter().map(|network| network.parse().unwrap()).collect();
            listeners.push(StreamListener::new(index, *transport, socket, proxies));
        }
        let settings = StreamSettings {
            idle: IDLE,
            handshake: HANDSHAKE,
            send_buffer: 64 << 10,
            opens_websocket: false,
            memory: 1 << 30,
            origins: Arc::default(),
            admission: Arc::default(),
            tls: Some(Arc::new(setup)),
        };
        let limits = ConnectionLimits::new(most, most_per_source, NEW_PER_SECOND);
        let setup = StreamSetup { index: 0, threads: 1, locals: locals.clone(), listeners, limits, settings };
        let streams = Streams::new(setup).unwrap();
        Self { streams, locals, batch: StreamBatch::default(), now: Instant::from_millis(1) }
    }

    fn connect(&self, port: u16) -> TcpStream {
        let socket = TcpStream::connect(self.locals[usize::from(port)]).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    /// A WebSocket after its opening handshake.
    fn upgraded(&mut self) -> TcpStream {
        let mut socket = self.connect(0);
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
              Sec-WebSocket-Protocol: sip\r\n\r\n";
        socket.write_all(request).unwrap();
        while self.streams.list().iter().all(|connection| !connection.is_open) {
            self.turn();
        }
        socket
    }

    /// Waits for an event, and handles it like a thread.
    fn turn(&mut self) {
        let most = Timespec { tv_sec: 20, tv_nsec: 0 };
        if !self.streams.has_unread() {
            poll(&mut [self.streams.watched()], Some(&most)).unwrap();
        }
        self.streams.turn(self.now, &mut self.batch);
        self.streams.flush(self.now);
    }

    /// Like [`Self::turn`], without waiting for an event.
    fn turn_briefly(&mut self) {
        self.streams.turn(self.now, &mut self.batch);
        self.streams.flush(self.now);
    }

    /// The next message.
    fn message(&mut self) -> (Flow, Vec<u8>) {
        for _ in 0..200 {
            if let Some((flow, bytes)) = self.batch.first() {
                let message = (flow, bytes.to_vec());
                self.batch.take();
                return message;
            }
            self.turn();
        }
        panic!("no message arrived; counts: {:?}", self.streams.counts);
    }

    fn send(&mut self, flow: Flow, bytes: &[u8]) {
        self.streams.send(self.now, flow, bytes);
        self.streams.flush(self.now);
    }

    fn closed(&self, reason: CloseReason) -> u64 {
        self.streams.counts.closed[reason as usize]
    }

    /// Continues until a connection was closed for this reason.
    fn until_closed(&mut self, reason: CloseReason) {
        for _ in 0..200 {
            if self.closed(reason) > 0 {
                return;
            }
            self.turn();
        }
        panic!("not closed by {reason:?}; counts: {:?}", self.streams.counts);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.streams.on_time(self.now);
    }
}

fn read(from: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn messages_arrive_whole_and_responses_use_their_connection() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    let two = [BYE, b"\r\n", OK].concat();
    for part in two.chunks(7) {
        client.write_all(part).unwrap();
    }
    let (flow, first) = bed.message();
    assert_eq!((first.as_slice(), flow.peer), (BYE, client.local_addr().unwrap()));
    assert_eq!(bed.message(), (flow, OK.to_vec()));
    bed.send(flow, OK);
    assert_eq!(read(&mut client, OK.len()), OK);
    // A keep-alive is answered by half of it (RFC 5626 §4.4.1).
    client.write_all(b"\r\n\r\n").unwrap();
    bed.turn();
    client.write_all(BYE).unwrap();
    bed.message();
    bed.send(flow, OK);
    assert_eq!(read(&mut client, 2 + OK.len()), [b"\r\n", OK].concat());
    drop(client);
    bed.until_closed(CloseReason::Peer);
    assert_eq!(bed.streams.counts.open, [0; 5]);
}

/// A response after a crash finds no connection of the next process, even if its client is behind the same NAT.
#[test]
fn connection_numbers_start_at_random_in_each_process() {
    let first = || {
        let mut bed = Bed::new(&[Transport::Tcp]);
        let _client = bed.connect(0);
        dialogs::flow(&mut bed).connection.map(|number| number.0.get()).unwrap()
    };
    let mut numbers = [first(), first(), first()];
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|two| two[1] - two[0] > 1_000), "{numbers:?}");
}

#[test]
fn a_connection_is_opened_once_and_reused() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to =
        Flow { transport: Transport::Tcp, listener: 0, peer: server.local_addr().unwrap(), connection: None };
    bed.send(to, BYE);
    bed.send(to, BYE);
    let (mut accepted, _) = server.accept().unwrap();
    bed.turn();
    assert_eq!(read(&mut accepted, 2 * BYE.len()), [BYE, BYE].concat());
    accepted.write_all(OK).unwrap();
    let (flow, answer) = bed.message();
    assert_eq!((answer.as_slice(), flow.remote()), (OK, to.remote()));
    assert!(flow.connection.is_some());
    assert_eq!(bed.streams.counts.opened, 1);
    // A response is pending: the sender of the request learns that it will not arrive.
    drop(accepted);
    bed.until_closed(CloseReason::Peer);
    let lost = bed.streams.take_undelivered();
    assert_eq!(lost.iter().map(|lost| (lost.to, lost.quoted.len())).collect::<Vec<_>>(), [(to, 0)]);
}

#[test]
fn connections_to_a_server_that_is_dead_are_closed_once() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to =
        Flow { transport: Transport::Tcp, listener: 0, peer: server.local_addr().unwrap(), connection: None };
    let dead = BTreeSet::from([to.remote()]);
    bed.send(to, BYE);
    let (mut hung, _) = server.accept().unwrap();
    bed.turn();
    assert_eq!(read(&mut hung, BYE.len()), BYE);
    bed.streams.know_dead(bed.now, dead.clone());
    let lost = bed.streams.take_undelivered();
    assert_eq!(lost.iter().map(|lost| (lost.to, lost.quoted.len())).collect::<Vec<_>>(), [(to, 0)]);
    assert_eq!(bed.closed(CloseReason::Dead), 1);
    // Requests of its calls are still tried.
    bed.send(to, BYE);
    let (mut again, _) = server.accept().unwrap();
    bed.turn();
    bed.streams.know_dead(bed.now, dead);
    assert_eq!((read(&mut again, BYE.len()), bed.closed(CloseReason::Dead)), (BYE.to_vec(), 1));
}

#[test]
fn undelivered_messages_are_reported_and_followed_by_a_pause() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = Flow { transport: Transport::Tcp, listener: 0, peer: closed, connection: None };
    bed.send(to, BYE);
    let mut lost = bed.streams.take_undelivered();
    while lost.is_empty() {
        bed.turn();
        lost = bed.streams.take_undelivered();
    }
    assert_eq!((lost[0].to, &*lost[0].quoted, lost[0].is_unreachable), (to, BYE, true));
    let failed = bed.streams.counts.connect_failed;
    bed.send(to, BYE);
    assert_eq!(bed.streams.take_undelivered().len(), 1);
    assert_eq!(bed.streams.counts.connect_failed, failed, "no attempt during the pause");
    bed.pass(Duration::from_secs(1));
    let server = TcpListener::bind(closed).unwrap();
    bed.send(to, BYE);
    bed.turn();
    assert_eq!(read(&mut server.accept().unwrap().0, 3), b"BYE", "the next attempt after the pause");
}

#[test]
fn a_response_but_no_request_leaves_a_lost_connection_for_another() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = Flow {
        transport: Transport::Tcp,
        listener: 0,
        peer: server.local_addr().unwrap(),
        connection: std::num::NonZeroU32::new(77).map(Connection),
    };
    bed.send(gone, BYE);
    let lost = bed.streams.take_undelivered();
    assert_eq!((lost.len(), lost[0].to, lost[0].is_unreachable), (1, gone, false));
    bed.send(gone, OK);
    bed.turn();
    assert_eq!(read(&mut server.accept().unwrap().0, OK.len()), OK);
}

#[test]
fn a_peer_that_does_not_read_is_disconnected() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    client.write_all(BYE).unwrap();
    let (flow, _) = bed.message();
    let long = [OK, &[b'x'; 16 << 10]].concat();
    for _ in 0..2_000 {
        bed.send(flow, &long);
        if bed.closed(CloseReason::NotReading) > 0 {
            return;
        }
    }
    panic!("the connection is still open with 32 MB waiting");
}

#[test]
fn incomplete_messages_and_handshakes_time_out() {
    for (incomplete, reason) in [
        (&BYE[..20], CloseReason::SlowMessage),
        (b"BYE sip:b@x SIP/2.0\r\nContent-Length: 100\r\n\r\nabc", CloseReason::SlowMessage),
        (b"\r\n\r\n", CloseReason::Idle),
    ] {
        let mut bed = Bed::new(&[Transport::Tcp]);
        let mut client = bed.connect(0);
        bed.turn();
        client.write_all(incomplete).unwrap();
        bed.turn();
        bed.pass(Duration::from_millis(9_999));
        assert_eq!(bed.closed(reason), 0);
        bed.pass(if reason == CloseReason::Idle { IDLE } else { Duration::from_millis(1) });
        assert_eq!(bed.closed(reason), 1, "{:?}", bed.streams.counts);
    }
    // A connection closed during TLS or WebSocket has sent no message.
    for transport in [Transport::Tls, Transport::Wss, Transport::Ws] {
        let mut bed = Bed::new(&[transport]);
        let _client = bed.connect(0);
        bed.turn();
        bed.pass(HANDSHAKE);
        assert_eq!(bed.closed(CloseReason::Handshake), 1, "{transport:?}");
    }
}

/// The data of a busy client may end within a message at each read: each message has its own time limit.
#[test]
fn a_busy_client_is_not_a_slow_one() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let mut client = bed.connect(0);
    client.write_all(&BYE[..20]).unwrap();
    for _ in 0..4 {
        client.write_all(&[&BYE[20..], &BYE[..20]].concat()).unwrap();
        bed.message();
        bed.pass(Duration::from_millis(9_999));
    }
    assert_eq!(bed.closed(CloseReason::SlowMessage), 0);
    bed.pass(Duration::from_millis(1));
    assert_eq!(bed.closed(CloseReason::SlowMessage), 1);
}

#[test]
fn data_that_is_not_sip_ends_the_connection() {
    let endless = format!("BYE sip:b@x SIP/2.0\r\nX: {}", "x".repeat(40_000));
    let faults: [(&[u8], _); 8] = [
        (b"GET / HTTP/1.1\r\n\r\n", CloseReason::NotSip),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", CloseReason::NotSip),
        (b"BYE sip:b@x SIP/2.0\n", CloseReason::LineEnd),
        (b"BYE sip:b@x SIP/2.0\r\nCall-ID: c\r\n\r\n", CloseReason::MissingContentLength),
        (b"BYE sip:b@x SIP/2.0\r\nContent-Length: -5\r\n\r\n", CloseReason::MalformedContentLength),
        (b"BYE sip:b@x SIP/2.0\r\nl: 1\r\nl: 2\r\n\r\n", CloseReason::DifferentContentLengths),
        (b"BYE sip:b@x SIP/2.0\r\nContent-Length: 99999999\r\n\r\n", CloseReason::MessageTooLong),
        (endless.as_bytes(), CloseReason::HeaderTooLong),
    ];
    for (fault, reason) in faults {
        let mut bed = Bed::new(&[Transport::Tcp]);
        let mut client = bed.connect(0);
        client.write_all(fault).unwrap();
        bed.until_closed(reason);
    }
}

#[test]
fn connections_of_a_source_are_limited() {
    let mut bed = Bed::with(&[Transport::Tcp], 2, &[]);
    let clients = [bed.connect(0), bed.connect(0), bed.connect(0)];
    bed.until_closed(CloseReason::MostPerAddress);
    assert_eq!(bed.streams.counts.open[Transport::Tcp as usize], 2);
    drop(clients);
    while bed.streams.counts.open[Transport::Tcp as usize] > 0 {
        bed.turn();
    }
    let mut client = bed.connect(0);
    client.write_all(BYE).unwrap();
    bed.message();
}

/// A client that sends faster than it is served gets a part of each batch, and the others the rest.
#[test]
fn an_endless_sender_does_not_delay_others() {
    let mut bed = Bed::new(&[Transport::Tcp]);
    let (mut busy, mut other) = (bed.connect(0), bed.connect(0));
    busy.write_all(&b"A a SIP/2.0\r\nl:0\r\n\r\n".repeat(20_000)).unwrap();
    let busy_at = busy.local_addr().unwrap();
    for turn in 0..20 {
        bed.turn();
        if turn == 5 {
            other.write_all(BYE).unwrap();
        }
        let mut served = false;
        while let Some((flow, _)) = bed.batch.first() {
            served |= flow.peer != busy_at;
            bed.batch.take();
        }
        if served {
            return;
        }
    }
    panic!("the other connection is not served");
}

/// A message with endless fragments takes no more of a turn than other messages, and ends in time.
#[test]
fn endless_fragments_time_out() {
    let mut bed = Bed::new(&[Transport::Ws]);
    let mut socket = bed.upgraded();
    // The first fragment of a text, then empty ones (RFC 6455 §5.4), all masked with zeros.
    socket.write_all(&[0x01, 0x81, 0, 0, 0, 0, b'A']).unwrap();
    socket.write_all(&[0x00, 0x80, 0, 0, 0, 0].repeat(5_000)).unwrap();
    bed.turn();
    bed.pass(HANDSHAKE);
    assert_eq!(bed.closed(CloseReason::SlowMessage), 1, "{:?}", bed.streams.counts);
}

/// Speaks TLS as a client in a thread of its own, while the bed turns.
fn over_tls(
    bed: &mut Bed,
    name: &'static str,
    exchange: impl FnOnce(StreamOwned<ClientConnection, TcpStream>) + Send,
) {
    let setup = TlsSetup::read(&tls(), None).unwrap();
    let socket = bed.connect(0);
    let client = ClientConnection::new(setup.client(), name.try_into().unwrap()).unwrap();
    let stream = StreamOwned::new(client, socket);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| exchange(stream));
        while !client.is_finished() {
            let most = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            poll(&mut [bed.streams.watched()], Some(&most)).unwrap();
            bed.streams.turn(bed.now, &mut bed.batch);
            while let Some((flow, bytes)) = bed.batch.first() {
                assert_eq!(bytes, BYE);
                bed.batch.take();
                bed.streams.send(bed.now, flow, OK);
            }
            bed.streams.flush(bed.now);
        }
        client.join().unwrap();
    });
}

#[test]
fn a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
    for name in ["first.example", "second.example"] {
        let mut bed = Bed::new(&[Transport::Tls]);
        over_tls(&mut bed, name, |mut stream| {
            stream.write_all(BYE).unwrap();
            assert_eq!(read(&mut stream, OK.len()), OK);
        });
        assert_eq!(bed.streams.counts.handshakes, 1);
    }
    let mut bed = Bed::new(&[Transport::Tls]);
    over_tls(&mut bed, "third.example", |mut stream| {
        let error = stream.write_all(BYE).unwrap_err().to_string();
        assert!(error.contains("not valid for name"), "{error}");
    });
    bed.until_closed(CloseReason::Tls);
}

/// A server with a certificate of its own connects, and sends a request with this Via. Returns whether a request to its
/// listening address then uses its own connection.
fn comes_back(shows: Option<usize>, via: &str, known_as: Option<&str>) -> bool {
    let asking = Tls { client_authorities: Some(file("authority.pem")), ..tls() };
    let setup = TlsSetup::read(&asking, None).unwrap();
    // No process listens there.
    let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let names = known_as.map(|name| (server, Some(name.to_owned())));
    let mut bed = Bed::new(&[Transport::Tls]);
    bed.streams.settings.tls = Some(Arc::new(setup.with_names(names.into_iter())));
    let mut theirs = tls();
    theirs.certificates = shows.map(|index| tls().certificates.remove(index)).into_iter().collect();
    let client = TlsSetup::read(&theirs, None).unwrap().client();
    let client = ClientConnection::new(client, "first.example".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, bed.connect(0));
    let via = via.replace("PORT", &server.port().to_string());
    let request = format!(
        "OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/{via}\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: c\r\n\
         CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    );
    let sender = std::thread::spawn(move || {
        stream.write_all(request.as_bytes()).unwrap();
        stream
    });
    let (from, _) = bed.message();
    let mut stream = sender.join().unwrap();
    let to = Flow { transport: Transport::Tls, listener: 0, peer: server, connection: None };
    bed.send(to, BYE);
    let mut lost = bed.streams.take_undelivered();
    let opened = bed.streams.list().len() > 1;
    if lost.is_empty() && !opened {
        assert_eq!(read(&mut stream, BYE.len()), BYE);
        // After the loss of the connection, the sender of the request is told.
        drop(stream);
        bed.until_closed(CloseReason::Peer);
        lost = bed.streams.take_undelivered();
        assert!(lost.iter().any(|lost| lost.to == to) && from.peer != server, "{lost:?}");
        bed.send(to, BYE);
        assert!(
            bed.streams.list().len() == 1 || !bed.streams.take_undelivered().is_empty(),
            "a new one is opened"
        );
        return true;
    }
    false
}

/// RFC 5923.
#[test]
fn a_server_that_sends_alias_is_reached_by_its_own_connection() {
    let via = "TLS 127.0.0.1:PORT;alias;branch=z9hG4bKa";
    assert!(comes_back(Some(0), via, None), "the certificate has the address");
    assert!(comes_back(Some(0), via, Some("first.example")));
    assert!(comes_back(Some(1), via, Some("second.example")));
    assert!(!comes_back(Some(1), via, Some("first.example")), "the certificate is for another name");
    assert!(!comes_back(Some(1), via, None), "the certificate does not have the address");
    assert!(!comes_back(None, via, Some("first.example")), "the server has no certificate");
    let without = "TLS 127.0.0.1:PORT;branch=z9hG4bKalias";
    assert!(!comes_back(Some(0), without, Some("first.example")));
    let elsewhere = "TLS 127.0.0.1:5061;alias;branch=z9hG4bKa";
    assert!(!comes_back(Some(0), elsewhere, Some("first.example")), "the Via names another port of its host");
}

#[test]
fn a_browser_asks_for_sip_over_secure_websocket() {
    let mut bed = Bed::new(&[Transport::Wss]);
    over_tls(&mut bed, "first.example", |stream| {
        let mut request = "wss://first.example/".into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", "sip".parse().unwrap());
        let (mut socket, response) = client(request, stream).unwrap();
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "sip");
        socket.send(Message::binary(BYE.to_vec())).unwrap();
        assert_eq!(socket.read().unwrap(), Message::text(str::from_utf8(OK).unwrap()));
        socket.send(Message::Ping(b"are you there".to_vec().into())).unwrap();
        assert_eq!(socket.read().unwrap(), Message::Pong(b"are you there".to_vec().into()));
    });
}

#[test]
fn a_client_opens_websockets_and_a_server_does_not() {
    for transport in [Transport::Ws, Transport::Wss] {
        let mut bed = Bed::new(&[transport]);
        let to = Flow { transport, listener: 0, peer: bed.locals[0], connection: None };
        bed.send(to, BYE);
        assert_eq!(bed.streams.take_undelivered().len(), 1, "{transport:?}: no server listens there");
        bed.streams.settings.opens_websocket = true;
        for _ in 0..2 {
            bed.send(to, BYE);
            let (flow, request) = bed.message();
            assert_eq!(request, BYE, "{transport:?}");
            bed.send(flow, OK);
            assert_eq!(bed.message().1, OK, "{transport:?}");
        }
        assert_eq!((bed.streams.counts.opened, bed.streams.counts.accepted), (1, 1));
    }
}

#[test]
fn another_websocket_protocol_is_refused_with_the_reason() {
    let mut bed = Bed::new(&[Transport::Ws]);
    let mut socket = bed.connect(0);
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Protocol: chat\r\n\r\n";
    socket.write_all(request).unwrap();
    bed.until_closed(CloseReason::WebSocket);
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.contains("expected `Sec-WebSocket-Protocol: sip`"),
        "{answer}"
    );
}

/// RFC 6455 §10.2: a page does not speak for the person who visits it.
#[test]
fn a_browser_connects_from_pages_of_the_same_host_or_of_the_list() {
    let status = |origins: &[&str], fields: &str| {
        let mut bed = Bed::new(&[Transport::Ws]);
        bed.streams.settings.origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
        let mut socket = bed.connect(0);
        let request = format!(
            "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: sip\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{fields}\r\n"
        );
        socket.write_all(request.as_bytes()).unwrap();
        bed.turn();
        bed.turn_briefly();
        String::from_utf8(read(&mut socket, 12)).unwrap().split_off(9)
    };
    let own = "Host: sip.example:8080\r\n";
    for (list, fields, expected) in [
        (&[][..], own.to_owned(), "101"),
        (&[], format!("{own}Origin: https://SIP.example\r\n"), "101"),
        (&[], format!("{own}Origin: https://sip.example.evil\r\n"), "403"),
        (&[], format!("{own}Origin: sip.example\r\n"), "403"),
        (&[], format!("{own}Origin: null\r\n"), "403"),
        (&[], "Origin: https://sip.example\r\n".to_owned(), "403"),
        (&[], format!("{own}Origin: https://sip.example\r\nOrigin: https://evil.example\r\n"), "403"),
        (&["https://phone.example"], own.to_owned(), "101"),
        (&["https://phone.example"], format!("{own}Origin: https://phone.example\r\n"), "101"),
        (&["https://phone.example"], format!("{own}Origin: http://phone.example\r\n"), "403"),
        (&["https://phone.example"], format!("{own}Origin: https://sip.example:8080\r\n"), "403"),
        (&["*"], format!("{own}Origin: https://evil.example\r\n"), "101"),
    ] {
        assert_eq!(status(list, &fields), expected, "{list:?} {fields}");
    }
}

#[test]
fn a_proxy_header_names_the_client() {
    let mut bed = Bed::with(&[Transport::Tcp], 100, &["127.0.0.0/8"]);
    let mut client = bed.connect(0);
    client.write_all(b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 5060\r\n").unwrap();
    client.write_all(BYE).unwrap();
    let (flow, _) = bed.message();
    assert_eq!(flow.peer, "192.0.2.7:40000".parse::<SocketAddr>().unwrap());
    bed.send(flow, OK);
    assert_eq!(read(&mut client, OK.len()), OK);
    let mut liar = bed.connect(0);
    liar.write_all(BYE).unwrap();
    bed.until_closed(CloseReason::ProxyHeader);
}
