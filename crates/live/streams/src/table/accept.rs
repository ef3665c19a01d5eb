//! Accepting connections.

use super::{LISTENER, Streams, is_shortage};
use crate::admission::admit;
use crate::connection::Connection;
use crate::counts::CloseReason;
use base::{Connection as Number, Flow, Instant};
use core::num::NonZeroU32;
use core::time::Duration;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use std::net::TcpStream;

/// Connections accepted in one go, before others get their turn.
const ACCEPTED: usize = 64;
/// Pause of accepting after the kernel had no resources left.
const PAUSE: Duration = Duration::from_millis(200);

/// Event data of the listener at this index.
fn data_of(place: usize) -> EventData {
    EventData::new_u64(LISTENER | place as u64)
}

impl Streams {
    /// Starts or stops accepting connections. A stopped listener is not watched: the process that has taken over may
    /// have closed it, and the kernel would report that again and again.
    pub(super) fn set_accepting(&mut self, accepts: bool) {
        if std::mem::replace(&mut self.is_accepting, accepts) == accepts {
            return;
        }
        for (place, listener) in self.listeners.iter().enumerate() {
            // The listener is registered exactly if `is_accepting` was set.
            let _ = if accepts {
                epoll::add(&self.epoll, &listener.socket, data_of(place), EventFlags::IN)
            } else {
                epoll::delete(&self.epoll, &listener.socket)
            };
        }
    }

    pub(super) fn accept(&mut self, now: Instant, place: usize) {
        for _ in 0..ACCEPTED {
            let listener = &self.listeners[place];
            let (socket, from) = match listener.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer has disconnected meanwhile (accept(2)).
                Err(error) if !is_shortage(&error) => continue,
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "no connection can be accepted; open connections continue. Raise `LimitNOFILE` of the \
                         service, or \
                         lower [connections] most"
                    );
                    self.paused_until = Some(now + PAUSE);
                    self.set_accepting(false);
                    return;
                }
            };
            let (port, transport) = (listener.port, listener.transport);
            let is_proxied = listener.expects_proxy_header(from.ip());
            let flow = Flow { transport, listener: port, peer: from, connection: None };
            if let Err(reason) = self.take_in(now, flow, socket, is_proxied) {
                self.counts.close(reason);
            }
        }
    }

    /// Makes a connection of an accepted socket, if its source is admitted. Behind a load balancer, admission follows
    /// the PROXY header.
    fn take_in(
        &mut self,
        now: Instant,
        flow: Flow,
        socket: TcpStream,
        is_proxied: bool,
    ) -> Result<(), CloseReason> {
        let mut place = self.limits.place();
        if !is_proxied {
            admit(&self.settings, now, flow, &mut place)?;
        }
        // A connection without any message is closed to make room, but only for an admitted client, so that refused
        // clients close no others. More than one may have to be closed: another thread may take the place, and
        // connections to members may exceed the limit.
        while let Err(reached) = place.open() {
            let Some(&(_, oldest)) = self.silent.first() else { return Err(reached.into()) };
            self.close(now, oldest, CloseReason::Most);
        }
        let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
        prepared.map_err(|_| CloseReason::Error)?;
        let number = self.number();
        let flow = Flow { connection: NonZeroU32::new(number).map(Number), ..flow };
        let mut connection = Connection::new(flow, now, (socket, place), (None, self.settings.send_buffer));
        self.counts.accepted += 1;
        if is_proxied {
            connection.expect_proxy_header();
        } else {
            connection.begin(&self.settings)?;
        }
        self.enter(now, number, connection)
    }
}
