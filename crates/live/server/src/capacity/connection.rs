//! One connection for capacity updates. It has its own task, and a time limit for each wait for its peer.

use super::Offer;
use super::counts::{Closed, Counts};
use crate::key;
use elastic::update::{Lines, ServerName, Update, UpdateKeys, UpdateReceiver, UpdateRefusal};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Number of connections: a monitor for each server of a large cluster.
    pub(super) connections: usize,
    /// Number of connections without an accepted update.
    pub(super) unproven: usize,
    /// Time limit for the first update.
    pub(super) first: Duration,
    /// Time limit for each further update. Updates come every second.
    pub(super) idle: Duration,
    /// Time limit for writing an answer.
    pub(super) write: Duration,
    /// Pause after an update before the next one is read.
    pub(super) pause: Duration,
}

enum End {
    /// The peer closed it, or this process ends.
    Gone,
    Closed(Closed),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) number: u64,
    /// Server of the first update that was accepted.
    pub(super) proven: Arc<OnceLock<ServerName>>,
    pub(super) limits: Limits,
    pub(super) offers: mpsc::Sender<Offer>,
    pub(super) counts: Arc<Counts>,
}

impl Connection {
    /// Processes updates until one is refused, none comes in time, or the peer is gone.
    pub(super) async fn run(mut self, keys: Arc<UpdateKeys>) {
        let (peer, counts) = (self.peer, Arc::clone(&self.counts));
        let nonce = match key::random() {
            Ok(nonce) => nonce,
            Err(error) => return tracing::error!(%error, "no random number for the challenge"),
        };
        let mut receiver = UpdateReceiver::new(keys, nonce);
        match self.serve(&mut receiver).await {
            Ok(()) | Err(End::Gone) => {}
            Err(End::Closed(why)) => {
                counts.closed(why);
                if let Closed::Refused(refusal) = why {
                    // The control task knows the members and their names, and has logged these two.
                    if !matches!(refusal, UpdateRefusal::UnknownServer | UpdateRefusal::NotItsKey) {
                        let server = receiver.named().map(tracing::field::display);
                        tracing::warn!(%peer, server, reason = refusal.name(), "a capacity update was refused");
                    }
                    // A client that does not read the refusal is closed without it.
                    let _ = self.write(&refusal.line()).await;
                } else {
                    tracing::debug!(%peer, reason = why.name(), "a connection for capacity updates was closed");
                }
            }
        }
    }

    async fn serve(&mut self, receiver: &mut UpdateReceiver) -> Result<(), End> {
        self.write(&receiver.greeting()).await?;
        let mut lines = Lines::default();
        let mut wait = self.limits.first;
        loop {
            let update = match timeout(wait, next(&mut self.stream, &mut lines, receiver)).await {
                Ok(update) => update?,
                Err(_) => return Err(End::Closed(Closed::Silent)),
            };
            let sent = self.offer(&update).await?;
            self.counts.accepted.fetch_add(1, Ordering::Relaxed);
            if self.proven.set(update.server.clone()).is_ok() {
                tracing::info!(peer = %self.peer, server = %update.server, "a monitor announces capacity");
            }
            self.write(&update.ok(sent)).await?;
            // Updates that come faster wait in the kernel.
            tokio::time::sleep(self.limits.pause).await;
            wait = self.limits.idle;
        }
    }

    /// Passes an update to the control task. Returns the number of calls that were sent to its server from here so far.
    async fn offer(&self, update: &Update) -> Result<u64, End> {
        let (reply, answer) = oneshot::channel();
        let offer = Offer { connection: self.number, peer: self.peer, update: update.clone(), reply };
        self.offers.send(offer).await.map_err(|_| End::Gone)?;
        let taken = answer.await.map_err(|_| End::Gone)?;
        taken.map_err(|refusal| End::Closed(Closed::Refused(refusal)))
    }

    async fn write(&mut self, line: &str) -> Result<(), End> {
        match timeout(self.limits.write, self.stream.write_all(line.as_bytes())).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(End::Closed(Closed::Silent)),
        }
    }
}

/// Returns the next update, also if it arrives in several pieces.
async fn next(
    stream: &mut TcpStream,
    lines: &mut Lines,
    receiver: &mut UpdateReceiver,
) -> Result<Update, End> {
    let refused = |refusal: UpdateRefusal| End::Closed(Closed::Refused(refusal));
    loop {
        if let Some(line) = lines.next().map_err(refused)? {
            return receiver.line(line).map_err(refused);
        }
        match stream.read(lines.room()).await? {
            0 => return Err(End::Gone),
            count => lines.filled(count),
        }
    }
}

impl Limits {
    /// The limits in production.
    pub(super) const USUAL: Self = Self {
        connections: 1024,
        unproven: 64,
        first: Duration::from_secs(5),
        idle: Duration::from_secs(10),
        write: Duration::from_secs(5),
        pause: Duration::from_millis(100),
    };
}
