//! TLS to hosts that a message names and the configuration does not.

use super::{Bed, tls};
use crate::tls::TlsSetup;
use base::{Flow, Transport};
use rustix::event::{Timespec, poll};
use std::net::SocketAddr;

/// A bed that opens connections, and one that accepts them, with certificates of first.example and second.example.
struct Pair {
    here: Bed,
    there: Bed,
    to: Flow,
}

impl Pair {
    fn new() -> Self {
        let (here, there) = (Bed::new(&[Transport::Tls]), Bed::new(&[Transport::Tls]));
        let peer = there.locals[0];
        Self { here, there, to: Flow { transport: Transport::Tls, listener: 0, peer, connection: None } }
    }

    /// Whether a request to this URI arrives; otherwise it is reported as not delivered.
    fn arrives(&mut self, uri: &str) -> bool {
        let text = format!(
            "BYE {uri} SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\n\
             To: <sip:b@x>;tag=2\r\nCall-ID: c\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
        );
        self.here.send(self.to, text.as_bytes());
        for _ in 0..200 {
            for bed in [&mut self.here, &mut self.there] {
                let most = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                poll(&mut [bed.streams.watched()], Some(&most)).unwrap();
                bed.streams.turn(bed.now, &mut bed.batch);
                bed.streams.flush(bed.now);
            }
            if let Some((_, bytes)) = self.there.batch.first() {
                assert_eq!(bytes, text.as_bytes());
                self.there.batch.take();
                return true;
            }
            if let Some(lost) = self.here.streams.take_undelivered().pop() {
                assert_eq!((&*lost.quoted, lost.is_unreachable), (text.as_bytes(), true));
                return false;
            }
        }
        panic!("the request neither arrives nor fails: {:?}", self.here.streams.counts);
    }

    fn configure(&mut self, names: [(SocketAddr, Option<String>); 1]) {
        let setup = TlsSetup::read(&tls(), None).unwrap().with_names(names.into_iter());
        self.here.streams.settings.tls = Some(std::sync::Arc::new(setup));
    }
}

/// RFC 5922 §4: the certificate of one host does not authenticate another one at the same address.
#[test]
fn the_certificate_must_be_for_the_host_named_by_the_message() {
    let mut pair = Pair::new();
    assert!(pair.arrives("sips:b@first.example"));
    assert!(pair.arrives("sips:b@second.example"), "the client names the host (RFC 6066)");
    assert!(!pair.arrives("sips:b@third.example"));
    assert!(pair.arrives("sip:b@First.Example.;transport=tls"));
    assert_eq!(pair.here.streams.counts.opened, 2);
    assert!(pair.arrives("sips:b@127.0.0.1"), "the certificates have the address as well");
}

#[test]
fn the_configured_name_of_a_server_takes_precedence() {
    let mut pair = Pair::new();
    pair.configure([(pair.to.peer, Some("second.example".to_owned()))]);
    assert!(pair.arrives("sips:b@third.example"));
    let mut pair = Pair::new();
    pair.configure([(pair.to.peer, None)]);
    assert!(pair.arrives("sips:b@third.example"), "the certificate is for the configured address");
}
