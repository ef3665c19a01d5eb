//! One connection: its protocol, its stage, and its time limits.

use super::admission::admit;
use super::alias::Alias;
use super::batch::StreamBatch;
use super::carrier::Carrier;
use super::counts::CloseReason;
use super::dialogs::Dialogs;
use super::limits::ConnectionPlace;
use super::settings::StreamSettings;
use super::unanswered::Unanswered;
use super::way::Way;
use super::websocket::{self, Upgrade, Upgrading};
use base::{Flow, Instant, Transport};
use rustix::event::epoll::EventFlags;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tungstenite::{Message, WebSocket};
use wire::{Framed, Framer, proxy_header};

/// Bytes read from one connection before others get their turn.
const TURN: usize = 64 << 10;
/// Messages read from one connection before others get their turn.
const TURN_MESSAGES: usize = 4;
/// Idle time after which a connection is closed, if another process has taken over.
const LEFT_AFTER: Duration = Duration::from_secs(5);
/// Time without a message after which a client gets a keep-alive, if requests depend on its connection. NATs and
/// intermediate proxies often drop a connection that is silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(45);
/// Length of a client's ping or pong before its payload (RFC 6455 §5.2), in bytes.
const CONTROL_HEAD: usize = 6;
/// Longest message, in bytes.
const LONGEST: usize = Transport::Tcp.longest();

/// Protocol of a connection at present.
pub(super) enum Speech {
    /// Reads the PROXY header; holds the bytes so far.
    Proxied(Carrier, Vec<u8>),
    /// Messages in a byte stream (RFC 3261 §18.3).
    Stream(Carrier, Framer),
    /// Opening handshake of `WebSocket`.
    Upgrading(Box<Upgrading>),
    /// One SIP message in each WebSocket message (RFC 7118).
    WebSocket(Box<WebSocket<Carrier>>),
    /// Failed.
    Over,
}

/// Whether a connection has more to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadOn {
    Dry,
    /// More data is buffered, which the socket will not report.
    More,
}

/// Stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The TCP handshake is not complete.
    Connecting,
    /// TLS, `WebSocket` or the PROXY header is not complete.
    Opening,
    /// Messages can be exchanged.
    Open,
}

/// A connection of this thread.
pub(super) struct Connection {
    /// Flow of its messages; after a PROXY header, with the client's address.
    pub(super) flow: Flow,
    pub(super) speech: Speech,
    /// Key by which messages find the connection; `None`: the peer has opened it.
    pub(super) way: Option<Way>,
    /// Events that the socket must report.
    pub(super) interest: EventFlags,
    /// Time at which it was accepted, or its opening started.
    pub(super) since: Instant,
    pub(super) place: ConnectionPlace,
    pub(super) stage: Stage,
    /// Whether it waits for another turn.
    pub(super) is_unread: bool,
    /// Time of the next check.
    pub(super) due: Instant,
    /// Requests that wait until it is open.
    pub(super) unsent: Vec<Box<[u8]>>,
    /// Length of these requests, in bytes.
    unsent_bytes: usize,
    /// Memory at the last count, in bytes.
    pub(super) counted: usize,
    /// Bytes of `WebSocket` read since the last complete message.
    fragments: usize,
    /// Use of the connection by requests to the peer, if the peer has opened it and asked for that.
    pub(super) alias: Alias,
    /// Time at which this process last sent a request on it.
    pub(super) asked: Option<Instant>,
    /// Whether the peer has opened it, and has sent no message so far.
    pub(super) is_silent: bool,
    pub(super) unanswered: Unanswered,
    pub(super) dialogs: Dialogs,
    /// Whether another process has taken over.
    pub(super) is_leaving: bool,
    /// Time of the last message or keep-alive, in either direction.
    heard: Instant,
    /// Time of our last keep-alive.
    kept_alive: Instant,
    /// Start of an incomplete message.
    message_since: Option<Instant>,
    /// Time since which the socket accepts nothing of the queue.
    stalled: Option<Instant>,
    /// Error that ends it during its handshake.
    pub(super) error: Option<Box<str>>,
}

impl Connection {
    pub(super) fn new(
        flow: Flow,
        now: Instant,
        (socket, place): (TcpStream, ConnectionPlace),
        (way, send_buffer): (Option<Way>, usize),
    ) -> Self {
        let carrier = Carrier::new(socket, send_buffer);
        let dialogs = Dialogs::new(way.is_none());
        Self {
            flow,
            speech: Speech::Stream(carrier, Framer::new(LONGEST)),
            interest: EventFlags::empty(),
            since: now,
            place,
            stage: if way.is_some() { Stage::Connecting } else { Stage::Opening },
            is_silent: way.is_none(),
            way,
            is_unread: false,
            due: now,
            unsent: Vec::new(),
            unsent_bytes: 0,
            counted: 0,
            fragments: 0,
            alias: Alias::default(),
            asked: None,
            unanswered: Unanswered::default(),
            dialogs,
            is_leaving: false,
            heard: now,
            kept_alive: now,
            message_since: None,
            stalled: None,
            error: None,
        }
    }

    pub(super) fn carrier(&mut self) -> Option<&mut Carrier> {
        match &mut self.speech {
            Speech::Proxied(carrier, _) | Speech::Stream(carrier, _) => Some(carrier),
            Speech::Upgrading(upgrading) => Some(upgrading.carrier_mut()),
            Speech::WebSocket(socket) => Some(socket.get_mut()),
            Speech::Over => None,
        }
    }

    /// Starts the protocols of its transport: TLS, then `WebSocket`.
    pub(super) fn begin(&mut self, settings: &StreamSettings) -> Result<(), CloseReason> {
        let (transport, peer) = (self.flow.transport, self.flow.peer);
        if matches!(transport, Transport::Tls | Transport::Wss) {
            let tls = settings.tls.as_ref().ok_or(CloseReason::Tls)?;
            let tls = match &self.way {
                Some(way) => tls.connect(peer, way.host()),
                None => tls.accept(),
            };
            let carrier = self.carrier().ok_or(CloseReason::Error)?;
            carrier.secure(tls.ok_or(CloseReason::Tls)?, peer);
        }
        if matches!(transport, Transport::Ws | Transport::Wss) {
            self.upgrade(&settings.origins)
        } else {
            Ok(())
        }
    }

    /// Makes the connection expect a PROXY header of a load balancer.
    pub(super) fn expect_proxy_header(&mut self) {
        if let Speech::Stream(carrier, _) = std::mem::replace(&mut self.speech, Speech::Over) {
            self.speech = Speech::Proxied(carrier, Vec::new());
        }
    }

    /// Reads the PROXY header. Returns whether it is complete and the next protocol has started.
    pub(super) fn read_proxy_header(
        &mut self,
        now: Instant,
        scratch: &mut [u8],
        settings: &StreamSettings,
    ) -> Result<bool, CloseReason> {
        let Speech::Proxied(carrier, header) = &mut self.speech else { return Ok(false) };
        let count = match carrier.read(scratch) {
            Ok(0) => return Err(CloseReason::Peer),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(reason_of(&error)),
        };
        header.extend_from_slice(&scratch[..count]);
        let (length, source) = match proxy_header::read(header) {
            Ok(proxy_header::Read::More) => return Ok(false),
            Ok(proxy_header::Read::Whole { length, ends }) => (length, ends.map(|ends| ends.source)),
            Err(fault) => {
                tracing::debug!(from = %self.flow.peer, reason = fault.reason(), "{fault}");
                return Err(CloseReason::ProxyHeader);
            }
        };
        let early = header.split_off(length);
        if let Speech::Proxied(mut carrier, _) = std::mem::replace(&mut self.speech, Speech::Over) {
            carrier.put_back(early);
            self.speech = Speech::Stream(carrier, Framer::new(LONGEST));
        }
        match source {
            Some(source) => {
                self.flow.peer = source;
                admit(settings, now, self.flow, &mut self.place)?;
            }
            // A load balancer names no client for its own connections, such as health checks.
            None => self.place.count(self.flow.peer.ip())?,
        }
        self.begin(settings)?;
        Ok(true)
    }

    /// Starts the opening handshake of `WebSocket` on the present carrier.
    fn upgrade(&mut self, origins: &Arc<[String]>) -> Result<(), CloseReason> {
        match std::mem::replace(&mut self.speech, Speech::Over) {
            Speech::Stream(carrier, _) if self.way.is_some() => {
                self.after(websocket::connect(carrier, self.flow.peer, LONGEST))
            }
            Speech::Stream(carrier, _) => self.after(websocket::accept(carrier, LONGEST, origins)),
            other => {
                self.speech = other;
                Ok(())
            }
        }
    }

    fn after(&mut self, upgrade: Upgrade) -> Result<(), CloseReason> {
        self.speech = match upgrade {
            Upgrade::More(upgrading) => Speech::Upgrading(upgrading),
            Upgrade::Done(mut socket) => {
                // The bytes read so far belong to no message.
                socket.get_mut().take_read();
                Speech::WebSocket(socket)
            }
            Upgrade::Failed => return Err(CloseReason::WebSocket),
        };
        Ok(())
    }

    /// Reads available data, at most one turn's worth.
    pub(super) fn read(
        &mut self,
        now: Instant,
        scratch: &mut [u8],
        batch: &mut StreamBatch,
    ) -> Result<ReadOn, CloseReason> {
        if let Speech::Upgrading(_) = self.speech
            && let Speech::Upgrading(upgrading) = std::mem::replace(&mut self.speech, Speech::Over)
        {
            self.after(upgrading.go_on())?;
        }
        match self.speech {
            Speech::Stream(..) => self.read_stream(now, scratch, batch),
            Speech::WebSocket(_) => self.read_frames(now, batch),
            Speech::Proxied(..) | Speech::Upgrading(_) => Ok(ReadOn::Dry),
            Speech::Over => Err(CloseReason::Error),
        }
    }

    fn read_stream(
        &mut self,
        now: Instant,
        scratch: &mut [u8],
        batch: &mut StreamBatch,
    ) -> Result<ReadOn, CloseReason> {
        let Speech::Stream(carrier, framer) = &mut self.speech else { return Ok(ReadOn::Dry) };
        let (mut read, mut messages) = (0, 0);
        loop {
            while let Some(framed) = framer.next().inspect_err(|fault| {
                tracing::debug!(from = %self.flow.peer, reason = fault.reason(), "{fault}");
            })? {
                // The next bytes belong to another message, with a time limit of its own.
                (self.heard, self.message_since) = (now, None);
                match framed {
                    Framed::Message(message) => {
                        self.unanswered.note(message, self.is_leaving);
                        self.dialogs.note(now, message);
                        let is_known = || carrier.tls().is_some_and(|tls| tls.peer_certificates().is_some());
                        if self.way.is_none() && self.alias.is_open() && is_known() {
                            self.alias.hear(message);
                        }
                        batch.push(self.flow, message);
                    }
                    // RFC 5626 §4.4.1.
                    Framed::Ping => carrier.write_all(b"\r\n").map_err(|_| CloseReason::NotReading)?,
                    Framed::Pong => {}
                }
                messages += 1;
                if batch.is_full() || messages >= TURN_MESSAGES {
                    return Ok(ReadOn::More);
                }
            }
            self.message_since = framer.is_within_message().then(|| self.message_since.unwrap_or(now));
            if read >= TURN {
                return Ok(ReadOn::More);
            }
            match carrier.read(scratch) {
                Ok(0) => return Err(CloseReason::Peer),
                Ok(count) => {
                    framer.take(&scratch[..count]);
                    read += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadOn::Dry),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    fn read_frames(&mut self, now: Instant, batch: &mut StreamBatch) -> Result<ReadOn, CloseReason> {
        let Speech::WebSocket(socket) = &mut self.speech else { return Ok(ReadOn::Dry) };
        // A fragmented message may have no end, so the turn is limited in bytes as well.
        socket.get_mut().allow(TURN);
        for _ in 0..TURN_MESSAGES {
            if batch.is_full() {
                return Ok(ReadOn::More);
            }
            let frame = websocket::read(socket)?;
            let read = socket.get_mut().take_read();
            self.fragments += read;
            match frame {
                None => {
                    let since = (read > 0).then(|| self.message_since.unwrap_or(now));
                    self.message_since = since.or(self.message_since);
                    let is_spent = socket.get_ref().is_spent();
                    return Ok(if is_spent { ReadOn::More } else { ReadOn::Dry });
                }
                // RFC 7118 §4.2: one message in each. Line ends alone, the keep-alive of TCP, are dropped.
                Some(Message::Text(text)) => {
                    self.unanswered.note(text.as_bytes(), self.is_leaving);
                    self.dialogs.note(now, text.as_bytes());
                    take_frame(batch, self.flow, text.as_bytes());
                }
                Some(Message::Binary(bytes)) => {
                    self.unanswered.note(&bytes, self.is_leaving);
                    self.dialogs.note(now, &bytes);
                    take_frame(batch, self.flow, &bytes);
                }
                // A ping between the fragments of a message does not extend its time limit.
                Some(other) => {
                    if let Message::Ping(payload) | Message::Pong(payload) = &other {
                        self.fragments = self.fragments.saturating_sub(CONTROL_HEAD + payload.len());
                    }
                    self.heard = now;
                    continue;
                }
            }
            (self.heard, self.message_since, self.fragments) = (now, None, 0);
        }
        Ok(ReadOn::More)
    }

    /// Logs an error of the socket or TLS, and returns its reason.
    fn failed(&mut self, error: &io::Error) -> CloseReason {
        let reason = reason_of(error);
        self.error = (self.stage == Stage::Opening).then(|| error.to_string().into());
        tracing::debug!(peer = %self.flow.peer, transport = self.flow.transport.name(), %error, "connection failed");
        reason
    }

    /// Queues a message. It leaves at the end of the batch, or once the connection is open.
    pub(super) fn send(&mut self, now: Instant, bytes: &[u8]) -> Result<(), CloseReason> {
        let is_request = !bytes.starts_with(b"SIP/2.0 ");
        match &mut self.speech {
            Speech::Stream(carrier, _) => carrier.write_all(bytes).map_err(|error| reason_of(&error))?,
            Speech::WebSocket(socket) => websocket::write(socket, bytes)?,
            // The request leaves with `unsent`.
            Speech::Upgrading(_) if self.way.is_some() && is_request => {}
            Speech::Proxied(..) | Speech::Upgrading(_) | Speech::Over => return Err(CloseReason::Error),
        }
        self.heard = now;
        self.unanswered.note(bytes, self.is_leaving);
        self.dialogs.note(now, bytes);
        if is_request {
            self.asked = Some(now);
            if self.stage != Stage::Open {
                self.unsent.push(bytes.into());
                self.unsent_bytes += bytes.len();
            }
        }
        Ok(())
    }

    /// Writes as much as the socket accepts.
    pub(super) fn write_out(&mut self, now: Instant) -> Result<(), CloseReason> {
        if self.stage == Stage::Connecting {
            return Ok(());
        }
        let Some(carrier) = self.carrier() else { return Ok(()) };
        let before = carrier.waiting();
        let written = carrier.write_out();
        let after = carrier.waiting();
        if let Err(error) = written {
            return Err(self.failed(&error));
        }
        self.stalled = (after > 0).then(|| self.stalled.filter(|_| after >= before).unwrap_or(now));
        Ok(())
    }

    /// Memory in bytes: incomplete messages, and data to be sent.
    pub(super) fn held(&self) -> usize {
        let spoken = match &self.speech {
            Speech::Proxied(carrier, header) => carrier.held() + header.capacity(),
            Speech::Stream(carrier, framer) => carrier.held() + framer.held(),
            Speech::Upgrading(upgrading) => {
                let carrier = upgrading.carrier();
                carrier.held() + carrier.read_so_far()
            }
            Speech::WebSocket(socket) => socket.get_ref().held() + self.fragments,
            Speech::Over => 0,
        };
        spoken + self.unsent_bytes + self.unanswered.held() + self.dialogs.held()
    }

    /// Events that the socket must report from now on.
    pub(super) fn wanted(&mut self) -> EventFlags {
        let writes =
            self.stage == Stage::Connecting || self.carrier().is_some_and(|carrier| carrier.wants_write());
        let read = EventFlags::IN | EventFlags::RDHUP;
        if writes { read | EventFlags::OUT } else { read }
    }

    /// Whether the connection has just become ready for messages. Then queues the requests that waited for `WebSocket`.
    pub(super) fn opens(&mut self, now: Instant) -> Result<bool, CloseReason> {
        let is_ready = match &self.speech {
            Speech::Stream(carrier, _) => !carrier.is_handshaking(),
            Speech::WebSocket(_) => true,
            Speech::Proxied(..) | Speech::Upgrading(_) | Speech::Over => false,
        };
        let opens = self.stage == Stage::Opening && is_ready;
        if opens {
            if let Speech::WebSocket(socket) = &mut self.speech {
                self.unsent.iter().try_for_each(|bytes| websocket::write(socket, bytes))?;
            }
            (self.stage, self.heard) = (Stage::Open, now);
            (self.unsent, self.unsent_bytes) = (Vec::new(), 0);
        }
        Ok(opens)
    }

    /// Whether it has no unanswered request, no incomplete message, and no data to send or read.
    fn is_at_rest(&mut self) -> bool {
        self.unanswered.len() == 0
            && self.message_since.is_none()
            && self.carrier().is_none_or(|carrier| carrier.waiting() == 0 && !carrier.has_more())
    }

    /// Whether unanswered requests, dialogs or bindings depend on it.
    fn is_in_use(&self, now: Instant) -> bool {
        self.unanswered.len() > 0 || self.dialogs.is_any(now)
    }

    /// Time and reason of its end if nothing happens. `moves_at`: from then on it is closed as soon as it is at rest.
    pub(super) fn end(
        &mut self,
        now: Instant,
        settings: &StreamSettings,
        moves_at: Option<Instant>,
    ) -> (Instant, CloseReason) {
        if self.stage != Stage::Open {
            return (self.since + settings.handshake, CloseReason::Handshake);
        }
        let is_left = self.is_leaving && !self.is_in_use(now);
        let idle = self.heard + if is_left { settings.idle.min(LEFT_AFTER) } else { settings.idle };
        let moves_at = moves_at.filter(|at| *at > now || self.is_at_rest());
        let idle = (moves_at.map_or(idle, |at| at.min(idle)), CloseReason::Idle);
        let message = self.message_since.map(|since| (since + settings.handshake, CloseReason::SlowMessage));
        let stalled = self.stalled.map(|since| (since + settings.handshake, CloseReason::NotReading));
        [message, stalled].into_iter().flatten().fold(idle, Ord::min)
    }

    /// Time of the next keep-alive. `None`: no request depends on the connection.
    fn keep_alive_at(&self, now: Instant, settings: &StreamSettings) -> Option<Instant> {
        let is_open_way = self.stage == Stage::Open && self.way.is_none();
        (is_open_way && self.is_in_use(now))
            .then(|| self.heard.max(self.kept_alive) + KEEP_ALIVE.min(settings.idle / 2))
    }

    /// Queues a keep-alive if one is due; returns whether it was. A WebSocket client must answer it (RFC 6455 §5.5.2),
    /// and is idle if it does not. Over TCP no answer is required, but the kernel closes the connection to a peer that
    /// acknowledges nothing. A peer ignores the keep-alive (RFC 3261 §7.5) or answers it (RFC 5626 §4.4.1).
    pub(super) fn keep_alive(
        &mut self,
        now: Instant,
        settings: &StreamSettings,
    ) -> Result<bool, CloseReason> {
        if self.keep_alive_at(now, settings).is_none_or(|at| at > now) {
            return Ok(false);
        }
        self.kept_alive = now;
        match &mut self.speech {
            Speech::Stream(carrier, _) => {
                carrier.write_all(b"\r\n\r\n").map_err(|error| reason_of(&error))?;
                self.heard = now;
            }
            Speech::WebSocket(socket) => websocket::ping(socket)?,
            Speech::Proxied(..) | Speech::Upgrading(_) | Speech::Over => {}
        }
        Ok(true)
    }

    /// Time of the next check, at which it may end or get a keep-alive.
    pub(super) fn next_look(
        &mut self,
        now: Instant,
        settings: &StreamSettings,
        moves_at: Option<Instant>,
    ) -> Instant {
        let (end, _) = self.end(now, settings, moves_at);
        self.keep_alive_at(now, settings).map_or(end, |at| at.min(end))
    }

    /// Sends the close notification of its protocols, as far as the socket accepts it at once.
    pub(super) fn send_close_notification(&mut self) {
        if let Speech::WebSocket(socket) = &mut self.speech {
            // RFC 6455 §7.4.1: 1001, going away.
            let frame = tungstenite::protocol::CloseFrame {
                code: tungstenite::protocol::frame::coding::CloseCode::Away,
                reason: "".into(),
            };
            let _ = socket.close(Some(frame));
        }
        if let Some(carrier) = self.carrier() {
            let _ = carrier.write_out();
            carrier.send_close_notification();
            let _ = carrier.write_out();
        }
    }
}

fn take_frame(batch: &mut StreamBatch, flow: Flow, bytes: &[u8]) {
    if bytes.iter().any(|byte| !matches!(byte, b'\r' | b'\n')) {
        batch.push(flow, bytes);
    }
}

/// Close reason for an error of the socket, of TLS or of the queue.
pub(super) fn reason_of(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::InvalidData => CloseReason::Tls,
        io::ErrorKind::StorageFull => CloseReason::NotReading,
        _ => CloseReason::Error,
    }
}
