//! Sending, by the connection that a flow names, or by one that this thread has opened.

use super::{NotOpened, Streams, Undelivered, is_shortage};
use crate::connection::Connection;
use crate::way::Way;
use base::{Connection as Number, Flow, Instant, Transport};
use core::num::NonZeroU32;
use std::io;

fn is_response(bytes: &[u8]) -> bool {
    bytes.starts_with(b"SIP/2.0 ")
}

impl Streams {
    /// Sends by the connection that the flow names, or by one to its peer, which is opened if there is none.
    /// [`take_undelivered`](Self::take_undelivered) reports messages that cannot be sent.
    pub fn send(&mut self, now: Instant, flow: Flow, bytes: &[u8]) {
        let is_response = is_response(bytes);
        let number = match self.named(flow, is_response) {
            Some(number) => Ok(number),
            // RFC 3261 §18.2.2: a response may use another connection; a request must use the named one.
            None if flow.connection.is_some() && !is_response => Err(NotOpened::Here),
            None => {
                let way = Way::of(flow, bytes, self.settings.tls.as_deref());
                match self.by_way.get(&way).copied().or_else(|| self.opened_by(flow, &way, is_response)) {
                    Some(number) => Ok(number),
                    None => self.open(now, flow, way, is_response),
                }
            }
        };
        let number = match number {
            Ok(number) => number,
            Err(why) => return self.not_delivered(flow, bytes, why),
        };
        let Some(connection) = self.connections.get_mut(&number) else { return };
        match connection.send(now, bytes) {
            // Consecutive messages often leave by the same connection.
            Ok(()) if self.written.last() == Some(&number) => {}
            Ok(()) => self.written.push(number),
            Err(reason) => {
                self.not_delivered(flow, bytes, NotOpened::Here);
                self.close(now, number, reason);
            }
        }
    }

    /// Connection that the destination server has opened itself and by which it takes requests.
    fn opened_by(&mut self, flow: Flow, way: &Way, is_response: bool) -> Option<u32> {
        let number = *self.aliases.get(&flow.remote()).filter(|_| !is_response)?;
        let name = self.settings.tls.as_deref()?.name_of(flow.peer, way.host());
        self.connections.get_mut(&number)?.may_carry_for(name).then_some(number)
    }

    fn not_delivered(&mut self, to: Flow, bytes: &[u8], why: NotOpened) {
        let is_unreachable = why == NotOpened::There;
        self.undelivered.push(Undelivered { to, quoted: bytes.into(), is_unreachable });
    }

    /// Starts to open a connection. Connections to members and next hops have no limit. Connections to the address of a
    /// Via, a Contact or a URI, which any client may have written, are limited like those from this address.
    fn open(&mut self, now: Instant, flow: Flow, way: Way, is_response: bool) -> Result<u32, NotOpened> {
        if matches!(flow.transport, Transport::Ws | Transport::Wss) && !self.settings.opens_websocket {
            return Err(NotOpened::Here);
        }
        if !self.backoff.may_try(now, &way) {
            return Err(NotOpened::There);
        }
        let is_known = !is_response && self.settings.admission.is_node(flow.peer.ip());
        let place = if is_known {
            self.limits.own_place()
        } else {
            let mut place = self.limits.place();
            place.count(flow.peer.ip()).and_then(|()| place.open()).map_err(|_| NotOpened::Here)?;
            place
        };
        let local = self.locals.get(usize::from(flow.listener)).ok_or(NotOpened::Here)?;
        let socket = match crate::listener::connect(local.ip(), flow.peer) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(peer = %flow.peer, %error, "no connection");
                self.counts.connect_failed += 1;
                if is_shortage(&error) || error.kind() == io::ErrorKind::AddrNotAvailable {
                    return Err(NotOpened::Here);
                }
                self.backoff.failed(now, way);
                return Err(NotOpened::There);
            }
        };
        let number = self.number();
        let named = Flow { connection: NonZeroU32::new(number).map(Number), ..flow };
        let opened = (Some(way.clone()), self.settings.send_buffer);
        let mut connection = Connection::new(named, now, (socket, place), opened);
        connection.begin(&self.settings).map_err(|_| NotOpened::Here)?;
        self.by_way.insert(way.clone(), number);
        if let Err(reason) = self.enter(now, number, connection) {
            self.by_way.remove(&way);
            self.counts.close(reason);
            return Err(NotOpened::Here);
        }
        Ok(number)
    }

    /// Whether this thread has the connection that the flow names, for this message.
    pub fn has(&self, flow: Flow, bytes: &[u8]) -> bool {
        self.named(flow, is_response(bytes)).is_some()
    }

    /// Connection that a flow names. Another process may have used the same number, so the address is compared. The
    /// flow of a response has the port of a Via.
    fn named(&self, flow: Flow, is_response: bool) -> Option<u32> {
        let Number(number) = flow.connection?;
        let (is, wanted) = (self.connections.get(&number.get())?.flow.peer, flow.peer);
        let is_it = is.ip() == wanted.ip() && (is_response || is.port() == wanted.port());
        is_it.then_some(number.get())
    }
}
