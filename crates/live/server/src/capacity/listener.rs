//! The listener for capacity updates. No connection waits for another. Neither clients without a key nor the monitor of
//! another server can keep monitors out. If all places are taken, a new connection replaces the oldest of several
//! connections for one server. If there are none, it replaces the oldest connection without an update.

use super::Offer;
use super::connection::{Connection, Limits};
use super::counts::{CapacityCounts, Closed, Counts};
use config::CapacityConfig;
use elastic::update::ServerName;
use sockets::cannot_listen;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

/// Limit of updates that wait for the control task.
const OFFERS: usize = 64;
/// Pause after the system refused a connection or an address.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The control task's ends of the channels for updates.
pub(crate) struct Intake {
    offers: (mpsc::Sender<Offer>, mpsc::Receiver<Offer>),
    counts: Arc<Counts>,
    limits: Limits,
}

impl Default for Intake {
    fn default() -> Self {
        Self::new(Limits::USUAL)
    }
}

impl Intake {
    pub(super) fn new(limits: Limits) -> Self {
        Self { offers: mpsc::channel(OFFERS), counts: Arc::default(), limits }
    }

    pub(crate) async fn next(&mut self) -> Offer {
        self.offers.1.recv().await.expect("one end of the channel is here")
    }

    pub(crate) fn counts(&self) -> CapacityCounts {
        self.counts.read()
    }
}

/// A running listener. It ends when dropped.
pub(crate) struct Listening {
    address: SocketAddr,
    /// Settings that may change while it runs.
    terms: watch::Sender<CapacityConfig>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Listens with `listener`. If it is `None`, another process is about to leave the address, which is bound as soon
    /// as it is free.
    pub(crate) fn start(config: CapacityConfig, listener: Option<TcpListener>, intake: &Intake) -> Self {
        let address = config.listen;
        let (terms, seen) = watch::channel(config);
        let (offers, counts) = (intake.offers.0.clone(), Arc::clone(&intake.counts));
        let acceptor = Acceptor { terms: seen, limits: intake.limits, offers, counts };
        let task = tokio::spawn(async move {
            let listener = match listener {
                Some(listener) => listener,
                None => bound(address).await,
            };
            acceptor.serve(listener).await;
        });
        Self { address, terms, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the keys and networks. Connections that were opened under the previous settings are closed.
    pub(crate) fn change(&self, config: CapacityConfig) {
        self.terms.send_if_modified(|terms| {
            let is_other = *terms != config;
            *terms = config;
            is_other
        });
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens a listener.
///
/// # Errors
/// The error names the address, the reason and the remedy. Its kind is the system's.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    listener.map_err(|error| {
        cannot_listen(
            address,
            &error,
            "`ss -ltnp` shows the process that has it; otherwise set [capacity] listen",
        )
    })
}

async fn bound(address: SocketAddr) -> TcpListener {
    let mut is_logged = false;
    loop {
        match bind(address) {
            Ok(listener) => return listener,
            Err(error) if !is_logged && error.kind() != io::ErrorKind::AddrInUse => {
                is_logged = true;
                tracing::warn!(%address, %error, "[capacity] cannot listen; it tries again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// An accepted connection.
struct Open {
    task: AbortHandle,
    /// Server of the first update that was accepted on it.
    proven: Arc<OnceLock<ServerName>>,
}

impl Open {
    fn is_unproven(&self) -> bool {
        self.proven.get().is_none()
    }
}

/// Returns the oldest superseded connection: a later one has sent updates of the same server.
fn superseded(open: &VecDeque<Open>) -> Option<usize> {
    let mut servers = BTreeSet::new();
    let later = open.iter().enumerate().rev();
    later
        .filter(|(_, open)| open.proven.get().is_some_and(|server| !servers.insert(server)))
        .last()
        .map(|(at, _)| at)
}

/// Returns the oldest connection without an accepted update.
fn unproven(open: &VecDeque<Open>) -> Option<usize> {
    open.iter().position(Open::is_unproven)
}

/// Returns the connection to close for a new one. Superseded ones come first, since a client with the key of one server
/// could otherwise occupy all places.
fn expendable(open: &VecDeque<Open>) -> Option<usize> {
    superseded(open).or_else(|| unproven(open))
}

/// Counts an open connection until it is dropped.
struct Counted(Arc<Counts>);

impl Counted {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counts))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Acceptor {
    terms: watch::Receiver<CapacityConfig>,
    limits: Limits,
    offers: mpsc::Sender<Offer>,
    counts: Arc<Counts>,
}

impl Acceptor {
    /// Serves until the task is aborted.
    async fn serve(self, listener: TcpListener) {
        let mut tasks = JoinSet::new();
        // The oldest connection first.
        let mut open: VecDeque<Open> = VecDeque::new();
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection for capacity updates was not accepted");
                    self.make_room(&mut open, expendable);
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            while tasks.try_join_next().is_some() {}
            open.retain(|connection| !connection.task.is_finished());
            let number = self.counts.connections.fetch_add(1, Ordering::Relaxed) + 1;
            // A listener on `[::]` sees IPv4 addresses as IPv4-mapped IPv6 addresses (RFC 4291 section 2.5.5.2).
            let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
            if !self.terms.borrow().from.admits(peer.ip()) {
                self.counts.closed(Closed::NotAdmitted);
                tracing::warn!(%peer, "refused a connection for capacity updates: its address is not in [capacity] \
                    from");
                continue;
            }
            let is_crowded =
                open.iter().filter(|connection| connection.is_unproven()).count() >= self.limits.unproven;
            let is_full = open.len() >= self.limits.connections;
            let choose = if is_crowded { unproven } else { expendable };
            if (is_crowded || is_full) && !self.make_room(&mut open, choose) {
                self.counts.closed(Closed::Crowded);
                continue;
            }
            let proven = Arc::<OnceLock<ServerName>>::default();
            let task = tasks.spawn(self.connection(stream, peer, number, Arc::clone(&proven)));
            open.push_back(Open { task, proven });
        }
    }

    /// Closes the connection that `choose` returns. Returns whether there was one.
    fn make_room(&self, open: &mut VecDeque<Open>, choose: fn(&VecDeque<Open>) -> Option<usize>) -> bool {
        let closed =
            choose(open).and_then(|at| open.remove(at)).map(|connection| connection.task.abort()).is_some();
        if closed {
            self.counts.closed(Closed::Crowded);
        }
        closed
    }

    fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        number: u64,
        proven: Arc<OnceLock<ServerName>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut terms = self.terms.clone();
        let keys = Arc::clone(&terms.borrow_and_update().keys);
        let counted = Counted::new(&self.counts);
        let (offers, counts) = (self.offers.clone(), Arc::clone(&self.counts));
        let connection = Connection { stream, peer, number, proven, limits: self.limits, offers, counts };
        async move {
            tokio::select! {
                () = connection.run(keys) => {}
                // The settings have changed, or the listener is gone.
                _ = terms.changed() => {}
            }
            drop(counted);
        }
    }
}
