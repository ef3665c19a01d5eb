//! The busy neighbour of a server: work that takes a part of its processor without passing the balancer.

use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::build::RequestBuilder;

/// Share of the processor that the neighbour takes.
pub(super) const SHARE: f64 = 0.85;

/// A busy neighbour. Dropping it ends its work.
///
/// The processor of a server serves one request after another. An OPTIONS takes one unit of its time. Many of them a
/// second take a share of the processor from the calls, which wait behind them.
pub(super) struct Neighbour {
    /// Dropping it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    /// Starts the neighbour of a server with this time for one unit of work.
    pub(super) fn of(server: SocketAddr, service: Duration) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let (end, ended) = channel::<()>();
        let gap = service.div_f64(SHARE);
        let thread = std::thread::Builder::new().name("neighbour".to_owned()).spawn(move || {
            let (mut due, mut number, mut answer) = (Instant::now(), 0_u64, [0; 2048]);
            loop {
                let wait = due.saturating_duration_since(Instant::now());
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                (due, number) = (due + gap, number + 1);
                // A lost request is only less work, and the answers are not used.
                let _ = socket.send(&request(local, server, number));
                while socket.recv(&mut answer).is_ok() {}
            }
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has printed its message.
            let _ = thread.join();
        }
    }
}

fn request(local: SocketAddr, server: SocketAddr, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let name = format!("neighbour-{}-{number}", local.port());
    RequestBuilder::new(&mut bytes, "OPTIONS", format!("sip:{server}"))
        .header("Via", format!("SIP/2.0/UDP {local};rport;branch=z9hG4bK{name}"))
        .header("Max-Forwards", "70")
        .header("From", format!("<sip:neighbour@{local}>;tag={name}"))
        .header("To", format!("<sip:{server}>"))
        .header("Call-ID", &name)
        .header("CSeq", "1 OPTIONS")
        .finish(b"");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Method;

    #[test]
    fn each_request_has_its_own_transaction_and_call() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let _neighbour = Neighbour::of(server.local_addr().expect("an address"), Duration::from_millis(5))
            .expect("a thread");
        let mut bytes = [0; 2048];
        let mut call_ids = Vec::new();
        for _ in 0..3 {
            let length = server.recv(&mut bytes).expect("a request");
            let message = wire::scan(&bytes[..length]).expect("a SIP message");
            assert_eq!((message.cseq().method, message.to_tag()), (Method::Options, None));
            call_ids.push(String::from_utf8_lossy(message.call_id()).into_owned());
        }
        call_ids.dedup();
        assert_eq!(call_ids.len(), 3, "a repeated Call-ID would be no work: {call_ids:?}");
    }
}
