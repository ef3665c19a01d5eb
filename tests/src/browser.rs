//! A browser: SIP over `WebSocket` (RFC 7118), from an address that accepts no connections.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use testkit::{TestRequest, TestResponse, status};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket, client};

/// Longest wait for a response. It bounds a hang.
const PATIENCE: Duration = Duration::from_secs(10);
/// Host that a browser puts in Via and Contact (RFC 7118 §5).
const NOWHERE: &str = "df7jal23ls0d.invalid";

/// A user of a browser, with one connection.
#[derive(Debug)]
pub struct Browser {
    socket: WebSocket<TcpStream>,
    user: &'static str,
}

impl Browser {
    /// Connects to a `ws` listener.
    pub fn connect(to: SocketAddr, user: &'static str) -> Self {
        let stream = TcpStream::connect(to).unwrap_or_else(|error| panic!("{to}: {error}"));
        stream.set_read_timeout(Some(PATIENCE)).expect("the limit is not zero");
        let mut request = format!("ws://{to}/").into_client_request().expect("an address");
        request.headers_mut().insert("Sec-WebSocket-Protocol", "sip".parse().expect("a token"));
        let (socket, _) =
            client(request, stream).unwrap_or_else(|error| panic!("WebSocket with {to}: {error}"));
        Self { socket, user }
    }

    /// Returns its Contact.
    pub fn contact(&self) -> String {
        format!("sip:{}@{NOWHERE};transport=ws", self.user)
    }

    /// Sends a request of this user, with a Via and a Contact that cannot be resolved.
    pub fn send(&mut self, request: TestRequest) {
        let via = format!(
            "SIP/2.0/WS {NOWHERE};branch=z9hG4bK{}{}{}",
            request.call_id, request.cseq, request.method
        );
        let request = TestRequest { contact: self.contact(), ..request.via(&via) };
        self.write(request.text());
    }

    /// Answers a request.
    pub fn answer(&mut self, request: &[u8], status: u16) {
        let somewhere = SocketAddr::from(([127, 0, 0, 1], 9));
        let response = TestResponse { contact: self.contact(), ..TestResponse::new(status, somewhere) };
        self.write(String::from_utf8_lossy(&response.bytes(request)).into_owned());
    }

    fn write(&mut self, text: String) {
        self.socket.send(Message::text(text)).expect("the connection is there");
    }

    /// Returns the next message. Panics if none comes.
    pub fn receive(&mut self) -> Vec<u8> {
        match self.socket.read() {
            Ok(Message::Text(text)) => text.as_bytes().to_vec(),
            Ok(other) => panic!("the browser of {} gets {other:?}", self.user),
            Err(error) => panic!("nothing comes to the browser of {}: {error}", self.user),
        }
    }

    /// Returns the next request of this method, skipping responses.
    pub fn request(&mut self, method: &str) -> Vec<u8> {
        loop {
            let message = self.receive();
            if status(&message).is_none() {
                assert!(
                    message.starts_with(method.as_bytes()),
                    "expected {method}: {}",
                    testkit::text(&message)
                );
                return message;
            }
        }
    }

    /// Returns the next final response, skipping other messages.
    pub fn final_response(&mut self) -> Vec<u8> {
        loop {
            let message = self.receive();
            if status(&message).is_some_and(|status| status >= 200) {
                return message;
            }
        }
    }
}
