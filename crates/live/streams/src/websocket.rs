//! SIP over `WebSocket` (RFC 7118): the opening handshake, and messages as frames.

use super::carrier::Carrier;
use super::counts::CloseReason;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tungstenite::client::{ClientRequestBuilder, client_with_config};
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response, ServerHandshake};
use tungstenite::handshake::{HandshakeError, HandshakeRole, MidHandshake};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Bytes, Error, Message, WebSocket, accept_hdr_with_config};

/// Bytes read at a time; an idle connection keeps this buffer.
const READ: usize = 4 << 10;

/// Accepts clients that offer SIP, and browsers only for allowed pages.
pub(super) struct HandshakePolicy {
    origins: Arc<[String]>,
}

/// Response that refuses a handshake, with the reason as text.
fn refusal(status: StatusCode, text: &str) -> ErrorResponse {
    let mut refusal = ErrorResponse::new(Some(format!("{text}\n")));
    *refusal.status_mut() = status;
    refusal
}

impl HandshakePolicy {
    /// Whether a client that has sent these header fields may connect. A browser names the page that it acts for. So
    /// not every page that a person visits can send from this person's address (RFC 6455 §10.2). Other clients send no
    /// such field.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let is_host = |page: &Uri| {
            let pair = page.host().zip(host.as_ref());
            page.scheme().is_some() && pair.is_some_and(|(page, host)| page.eq_ignore_ascii_case(host.host()))
        };
        headers.get_all(header::ORIGIN).iter().map(HeaderValue::as_bytes).all(|origin| {
            if self.origins.is_empty() {
                return Uri::try_from(origin).is_ok_and(|page| is_host(&page));
            }
            let is_it = |one: &String| one == "*" || one.as_bytes().eq_ignore_ascii_case(origin);
            self.origins.iter().any(is_it)
        })
    }
}

impl Callback for HandshakePolicy {
    /// RFC 7118 §5: the client offers `sip`, and the server confirms it.
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let offers_sip = offered
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|protocol| protocol.trim().eq_ignore_ascii_case("sip"));
        if !offers_sip {
            let text = "expected `Sec-WebSocket-Protocol: sip` (RFC 7118)";
            return Err(refusal(StatusCode::BAD_REQUEST, text));
        }
        if !self.admits(request.headers()) {
            let origin = request.headers().get(header::ORIGIN);
            tracing::warn!(
                ?origin,
                "a web page of another host has tried to connect over WebSocket. If it is yours, add it to \
                 [connections] origins"
            );
            return Err(refusal(
                StatusCode::FORBIDDEN,
                "pages of this origin may not connect (RFC 6455, 10.2)",
            ));
        }
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("sip"));
        Ok(response)
    }
}

/// An incomplete opening handshake.
pub(super) enum Upgrading {
    Server(MidHandshake<ServerHandshake<Carrier, HandshakePolicy>>),
    Client(MidHandshake<ClientHandshake<Carrier>>),
}

impl Upgrading {
    pub(super) fn carrier(&self) -> &Carrier {
        match self {
            Self::Server(handshake) => handshake.get_ref().get_ref(),
            Self::Client(handshake) => handshake.get_ref().get_ref(),
        }
    }

    pub(super) fn carrier_mut(&mut self) -> &mut Carrier {
        match self {
            Self::Server(handshake) => handshake.get_mut().get_mut(),
            Self::Client(handshake) => handshake.get_mut().get_mut(),
        }
    }

    /// Continues the handshake after more bytes have arrived.
    pub(super) fn go_on(self) -> Upgrade {
        match self {
            Self::Server(handshake) => outcome(handshake.handshake(), Self::Server),
            Self::Client(handshake) => outcome(handshake.handshake().map(|(socket, _)| socket), Self::Client),
        }
    }
}

/// Result of a step of an opening handshake.
pub(super) enum Upgrade {
    More(Box<Upgrading>),
    Done(Box<WebSocket<Carrier>>),
    /// The handshake failed; a client got the reason in the response.
    Failed,
}

fn config(longest: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ)
        .write_buffer_size(0)
        .max_message_size(Some(longest))
        .max_frame_size(Some(longest))
}

/// Starts the handshake as a server.
pub(super) fn accept(carrier: Carrier, longest: usize, origins: &Arc<[String]>) -> Upgrade {
    let asked = HandshakePolicy { origins: Arc::clone(origins) };
    outcome(accept_hdr_with_config(carrier, asked, Some(config(longest))), Upgrading::Server)
}

/// Starts the handshake as a client of this server.
pub(super) fn connect(carrier: Carrier, server: SocketAddr, longest: usize) -> Upgrade {
    let Ok(uri) = format!("ws://{server}/").parse() else { return Upgrade::Failed };
    let request = ClientRequestBuilder::new(uri).with_sub_protocol("sip");
    let result = client_with_config(request, carrier, Some(config(longest)));
    outcome(result.map(|(socket, _)| socket), Upgrading::Client)
}

fn outcome<R: HandshakeRole>(
    result: Result<WebSocket<Carrier>, HandshakeError<R>>,
    more: impl FnOnce(MidHandshake<R>) -> Upgrading,
) -> Upgrade {
    match result {
        Ok(socket) => Upgrade::Done(Box::new(socket)),
        Err(HandshakeError::Interrupted(handshake)) => Upgrade::More(Box::new(more(handshake))),
        Err(HandshakeError::Failure(_)) => Upgrade::Failed,
    }
}

/// Reads the next message; `None`: more bytes are needed.
pub(super) fn read(socket: &mut WebSocket<Carrier>) -> Result<Option<Message>, CloseReason> {
    match socket.read() {
        Ok(message) => Ok(Some(message)),
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(reason(&error)),
    }
}

/// Queues a message, as text if it is valid UTF-8, which browsers prefer (RFC 7118 §5).
pub(super) fn write(socket: &mut WebSocket<Carrier>, bytes: &[u8]) -> Result<(), CloseReason> {
    let message = match str::from_utf8(bytes) {
        Ok(text) => Message::text(text),
        Err(_) => Message::binary(bytes.to_vec()),
    };
    socket.write(message).map_err(|error| reason(&error))
}

/// Queues a ping.
pub(super) fn ping(socket: &mut WebSocket<Carrier>) -> Result<(), CloseReason> {
    socket.write(Message::Ping(Bytes::new())).map_err(|error| reason(&error))
}

fn reason(error: &Error) -> CloseReason {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => CloseReason::Peer,
        Error::Io(error) => super::connection::reason_of(error),
        Error::WriteBufferFull(_) => CloseReason::NotReading,
        _ => CloseReason::WebSocket,
    }
}
