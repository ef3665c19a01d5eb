//! UDP sockets for messages that SIPp cannot send or check.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::message::respond;
use crate::worker::{GLANCE, Worker};
use testkit::{status, value};

/// Longest wait for a message. It bounds a hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// One UDP socket of a test.
#[derive(Debug)]
pub struct Agent {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Agent {
    /// Binds `address`. A program that another thread starts has a copy of all sockets between its fork and its exec, so
    /// an address that was just closed may be in use for a moment.
    pub fn bind(address: SocketAddr) -> Self {
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            match UdpSocket::bind(address) {
                Ok(socket) => return Self { socket, address },
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("agent at {address}: {error}"),
            }
        }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends one datagram.
    pub fn send(&self, to: SocketAddr, datagram: &[u8]) {
        self.socket.send_to(datagram, to).unwrap_or_else(|error| panic!("to {to}: {error}"));
    }

    /// Returns the next datagram within `limit`.
    pub fn receive_within(&self, limit: Duration) -> Option<(Vec<u8>, SocketAddr)> {
        self.socket.set_read_timeout(Some(limit)).expect("the limit is not zero");
        let mut buffer = vec![0; 65_536];
        match self.socket.recv_from(&mut buffer) {
            Ok((length, from)) => Some((buffer[..length].to_vec(), from)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(error) => panic!("at {}: {error}", self.address),
        }
    }

    /// Returns the next datagram. Panics if none comes.
    pub fn receive(&self) -> Vec<u8> {
        let datagram = self.receive_within(PATIENCE);
        datagram.unwrap_or_else(|| panic!("nothing comes to {} in {PATIENCE:?}", self.address)).0
    }

    /// Returns the final response to a transaction of `call_id`, skipping all other messages.
    pub fn final_response(&self, call_id: &str) -> Vec<u8> {
        loop {
            let message = self.receive();
            let is_final = status(&message).is_some_and(|code| code >= 200);
            if is_final && value(&message, "Call-ID").as_deref() == Some(call_id) {
                return message;
            }
        }
    }
}

/// A server that answers some requests by itself and passes the others to the test.
#[derive(Debug)]
pub struct AnsweringAgent {
    rest: Receiver<Vec<u8>>,
    _worker: Worker,
}

impl AnsweringAgent {
    /// Serves at `address`. A request that `answers` accepts gets 200 at once (an ACK nothing). All others come out of
    /// [`AnsweringAgent::next`].
    pub fn start(address: SocketAddr, answers: impl Fn(&[u8]) -> bool + Send + 'static) -> Self {
        Self::saying(address, move |message| answers(message).then_some("200 OK"))
    }

    /// The same with a status for each request; `None`: passed to the test.
    pub fn saying(
        address: SocketAddr,
        status: impl Fn(&[u8]) -> Option<&'static str> + Send + 'static,
    ) -> Self {
        Self::serving(address, move |message| status(message).map(|status| respond(message, status, address)))
    }

    fn serving(address: SocketAddr, response: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let agent = Agent::bind(address);
        let (sender, rest) = channel();
        let step = move || {
            let Some((message, from)) = agent.receive_within(GLANCE) else { return };
            match response(&message) {
                // The receiver is gone when the agent is being dropped.
                None => drop(sender.send(message)),
                Some(_) if message.starts_with(b"ACK ") => {}
                Some(response) => agent.send(from, &response),
            }
        };
        Self { rest, _worker: Worker::start(step) }
    }

    /// Returns a message that it did not answer, if there is one.
    pub fn try_next(&self) -> Option<Vec<u8>> {
        self.rest.try_recv().ok()
    }

    /// Returns the next message that it did not answer. Panics if none comes.
    pub fn next(&self) -> Vec<u8> {
        self.rest.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no message in {PATIENCE:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentRequest, TestSite};

    #[test]
    fn an_answerer_answers_the_chosen_requests_and_hands_over_the_others() {
        let field = TestSite::new("answerer");
        let server = AnsweringAgent::start(field.sip(1), |message| message.starts_with(b"OPTIONS "));
        let agent = Agent::bind(field.sip(2));
        let info = AgentRequest::new("INFO", "passed-on").bytes(agent.address());
        agent.send(field.sip(1), &info);
        agent.send(field.sip(1), &AgentRequest::new("OPTIONS", "answered").bytes(agent.address()));
        let answer = agent.final_response("answered");
        assert_eq!(status(&answer), Some(200));
        assert!(
            answer.ends_with(b"\r\n\r\n") && !answer.windows(2).any(|two| two[0] != b'\r' && two[1] == b'\n')
        );
        assert_eq!(server.next(), info);
    }
}
