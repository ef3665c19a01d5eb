//! A client of a stream that sends any bytes: whole messages, parts, garbage, nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use testkit::{status, value};

use crate::message::{AgentRequest, show};

/// Longest wait for a response, or for the end of the connection. It bounds a hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// A TCP connection of a test.
#[derive(Debug)]
pub struct StreamClient {
    stream: TcpStream,
    address: SocketAddr,
    /// Received bytes of an incomplete message.
    held: Vec<u8>,
}

impl StreamClient {
    /// Connects from this address, with any port.
    pub fn connect(from: IpAddr, to: SocketAddr) -> Self {
        let stream = connect_from(from, to);
        let stream = stream.unwrap_or_else(|error| panic!("from {from} to {to}: {error}"));
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        set.expect("a new socket takes options");
        let address = stream.local_addr().expect("it is bound");
        Self { stream, address, held: Vec::new() }
    }

    /// Returns its own address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the bytes of a request as sent from here.
    pub fn request(&self, request: &AgentRequest) -> Vec<u8> {
        let udp = show(&request.bytes(self.address));
        udp.replacen("SIP/2.0/UDP", "SIP/2.0/TCP", 1).into_bytes()
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// Fails if the other side has closed the connection, or accepts nothing for a long time.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Returns the next message, or a `\r\n` between messages; `None`: the connection was closed or reset.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = self.first() {
                return Some(self.held.drain(..length).collect());
            }
            let mut buffer = [0; 4_096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.held.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("at {}: {error}", self.address),
            }
        }
    }

    /// Returns the messages until none comes for `limit`, and whether the other side has closed the connection.
    pub fn take(&mut self, limit: Duration) -> (Vec<Vec<u8>>, bool) {
        self.stream.set_read_timeout(Some(limit)).expect("the limit is not zero");
        let is_closed = loop {
            let mut buffer = [0; 4_096];
            match self.stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(count) => self.held.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break true,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    break false;
                }
                Err(error) => panic!("at {}: {error}", self.address),
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).expect("the limit is not zero");
        let mut messages = Vec::new();
        while let Some(length) = self.first() {
            messages.push(self.held.drain(..length).collect());
        }
        (messages, is_closed)
    }

    /// Returns the length of the first received message, if it is complete.
    fn first(&self) -> Option<usize> {
        if self.held.starts_with(b"\r\n") {
            return Some(2);
        }
        let header = self.held.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let message = &self.held[..header];
        let length = value(message, "Content-Length").and_then(|length| length.parse::<usize>().ok());
        let length = length.unwrap_or_else(|| panic!("no Content-Length in {}", show(message)));
        (self.held.len() >= header + length).then_some(header + length)
    }

    /// Sends a request and waits for its final response.
    pub fn ask(&mut self, request: &AgentRequest) -> u16 {
        let bytes = self.request(request);
        self.send(&bytes).unwrap_or_else(|error| panic!("{}: {error}", show(&bytes)));
        let response = self.final_response(&request.call_id);
        status(&response).expect("it is a response")
    }

    /// Returns the final response with this Call-ID, skipping other messages.
    pub fn final_response(&mut self, call_id: &str) -> Vec<u8> {
        loop {
            let message = self.receive().unwrap_or_else(|| panic!("closed before the answer to {call_id}"));
            let is_final = status(&message).is_some_and(|code| code >= 200);
            if is_final && value(&message, "Call-ID").as_deref() == Some(call_id) {
                return message;
            }
        }
    }

    /// Waits until the other side closes the connection, and discards data before that.
    pub fn wait_until_closed(&mut self) {
        let mut buffer = [0; 4_096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
                Err(error) => panic!("{} is still open: {error}", self.address),
            }
        }
    }

    /// Closes the connection with a reset.
    pub fn reset(self) {
        reset(&self.stream);
    }
}

/// Makes the connection end with a reset, which is sent when the last handle is dropped.
pub(crate) fn reset(stream: &TcpStream) {
    set_socket_linger(stream, Some(Duration::ZERO)).expect("a socket takes the option");
}

/// Connects from this address with any port.
pub(crate) fn connect_from(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    connect(&socket, &to)?;
    Ok(socket.into())
}
