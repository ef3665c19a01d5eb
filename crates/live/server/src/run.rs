//! Start and end of a server: its sockets and threads.

use crate::admin::{self, Interface};
use crate::ask::Ask;
use crate::control::{Certificates, Control};
use crate::descriptors;
use crate::handle::Handle;
use crate::key;
use crate::log::{limits, refusals};
use crate::opened::Opened;
use crate::start_error::StartError;
use crate::takeover::{self, offer::Holdings};
use balance::{CallLimits, SentCalls};
use config::{Config, Connections};
use node::{Shard, ShardIdentity};
use shards::listen::expand;
use shards::{Board, Clock, ModelProcessor, Records, ShardReport, Stores, Threads};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use streams::tls::TlsSetup;
use streams::{ConnectionLimits, StreamSettings};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Limit of bytes that wait for a connection's peer to read them.
const SEND_BUFFER: usize = 256 << 10;

/// A server with all its sockets open.
pub struct Server {
    control: Box<Control>,
    threads: Vec<JoinHandle<()>>,
    reports: mpsc::UnboundedReceiver<ShardReport>,
    asks: mpsc::UnboundedReceiver<Ask>,
    handle: Handle,
}

impl Server {
    /// Opens the sockets, looks up the members and starts the shards. `path` is the file of the configuration, which is
    /// read again on reload. Secrets are stored beside it, or in the state directory of the service.
    ///
    /// Must be called on a Tokio runtime.
    ///
    /// # Errors
    /// If an address cannot be bound; the error names it.
    pub async fn start(config: Config, path: Option<PathBuf>) -> Result<Self, StartError> {
        // The future is too large for the stacks of its callers.
        Box::pin(Self::start_on(None, config, path)).await
    }

    /// Starts one server of several in a process, without a file. It reports the utilisation of `model` to its
    /// neighbours.
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_modelled(config: Config, model: ModelProcessor) -> Result<Self, StartError> {
        Box::pin(Self::start_on(Some(model), config, None)).await
    }

    async fn start_on(
        model: Option<ModelProcessor>,
        config: Config,
        path: Option<PathBuf>,
    ) -> Result<Self, StartError> {
        let clock = Clock::start();
        descriptors::raise_limit();
        let ports = expand(&config.listen.listeners)?;
        if ports.is_empty() {
            return Err(StartError::NoListener);
        }
        let count = threads_of(&config);
        let certificates = Certificates::read(&config)?;
        let access = (admin::token::required(&config.admin, path.as_deref())?, config.admin.page);
        let secret = secret(&config, path.as_deref())?;
        let stores = stores(&config, path.as_deref())?;
        // The board has an additional column for the predecessor.
        let board = Arc::new(Board::new(count + 1));
        let shared = (Arc::clone(&board), stores.clone(), records(&config, path.as_deref())?);
        let records = shared.2.clone();
        let mut control =
            Control::start(clock, path.clone(), config.clone(), ports.clone(), secret, shared).await?;
        control.certificates = certificates;
        control.name_members();
        let tls = control.certificates.setup().cloned();
        // From here on no step may be slow, since a predecessor may wait.
        let claim = path.as_ref().map(|path| takeover::claim::claim(path, &ports)).transpose()?.flatten();
        let mut opened = Opened::new(&config, &ports, count, claim)?;
        let (reports_in, reports) = mpsc::unbounded_channel();
        // A single shard counts its calls itself.
        let call_limits = (count > 1).then(Arc::<CallLimits>::default);
        let (copies, stream_copies) = (opened.copies()?, opened.stream_copies(&ports)?);
        let mut shards = Vec::new();
        for (index, sockets) in opened.sockets.into_iter().enumerate() {
            let counts = (call_limits.clone(), Arc::clone(&control.sent_calls));
            let shard = Shard::new(identity(&config, counts, clock, (index, count))?, control.setup());
            shards.push((shard, sockets));
        }
        let mut threads = Threads::new(clock, shards, opened.listeners.len(), &board, &reports_in)?;
        let handles = threads.handles().to_vec();
        if opened.streams.iter().any(|own| !own.is_empty()) {
            let first = control.setup();
            let limits = connection_limits(&config.connections, count * first.topology.nodes().len());
            let settings = stream_settings(&config.connections, count, tls);
            threads.listen_for_streams(opened.streams, &limits, &settings, &ports, first)?;
        }
        let (asks_in, asks) = mpsc::unbounded_channel();
        let bound =
            opened.claim.take().map(|claim| claim.confirm(clock, asks_in.clone())).transpose()?.flatten();
        // Not before the confirmation: until then the predecessor may go on reading, with its own program.
        shards::steer(&copies, control.setup().settings.tokens.call_hash(), count);
        let processes: Vec<_> = bound.iter().map(|(_, process)| Arc::clone(process)).collect();
        processes.iter().try_for_each(|process| takeover::claim::bring_back(process, handles.clone()))?;
        threads.equip(&processes, stores.as_ref(), records.as_ref(), model);
        control.shares(call_limits, bound);
        let threads = threads.start()?;
        control.attach(handles.clone());
        control.announce();
        if let Some(path) = &path {
            let holdings = Holdings {
                listeners: opened.listeners,
                sets: copies,
                streams: stream_copies,
                admin: copy_of(opened.admin.as_ref())?,
                workers: handles.clone(),
                hash: control.setup().settings.tokens.call_hash(),
                processes,
            };
            takeover::offer::start(path, holdings, asks_in.clone());
        }
        let handle = Handle::new(asks_in, handles);
        control.open_capacity(opened.capacity);
        control.start_scaling(handle.clone());
        if let Some(listener) = opened.admin {
            control.open_admin(Interface::new(listener, handle.clone(), access));
        }
        Ok(Self { control, threads, reports, asks, handle })
    }

    /// Returns a handle to query and command the running server.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves traffic until [`Handle::stop`] and the end of the last call or of the wait.
    ///
    /// # Errors
    /// If a shard died, which is a bug.
    pub async fn run(self) -> Result<(), String> {
        tokio::spawn(refusals::report(self.handle.clone()));
        tokio::spawn(limits::report(self.handle.clone()));
        let outcome = self.control.run(self.reports, self.asks).await;
        if outcome.is_ok() {
            for thread in self.threads {
                let _ = thread.join();
            }
        }
        outcome
    }
}

/// Returns the number of threads: the configured number, or one for each core.
fn threads_of(config: &Config) -> usize {
    match config.listen.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// Returns the limits of connections, beside connections to `members` members.
fn connection_limits(connections: &Connections, members: usize) -> Arc<ConnectionLimits> {
    let &Connections { most, most_per_address, new_per_second, .. } = connections;
    ConnectionLimits::new(descriptors::most_connections(most, members), most_per_address, new_per_second)
}

/// Returns the connection settings of each of `threads` threads.
fn stream_settings(connections: &Connections, threads: usize, tls: Option<Arc<TlsSetup>>) -> StreamSettings {
    let &Connections { idle, handshake, memory, .. } = connections;
    StreamSettings {
        idle,
        handshake,
        send_buffer: SEND_BUFFER,
        opens_websocket: false,
        // Each thread has room for the unread bytes of two connections.
        memory: (memory / threads).max(2 * SEND_BUFFER),
        origins: connections.origins.as_slice().into(),
        admission: Arc::default(),
        tls,
    }
}

/// Returns a copy of a socket for another process.
fn copy_of(listener: Option<&TcpListener>) -> io::Result<Option<OwnedFd>> {
    listener.map(|listener| listener.as_fd().try_clone_to_owned()).transpose()
}

/// Returns the stores of the registrar; `None` without one.
fn stores(config: &Config, path: Option<&Path>) -> Result<Option<Arc<Stores>>, StartError> {
    let Some(registrar) = &config.registrar else { return Ok(None) };
    Ok(Some(Arc::new(Stores::start(registrar, path, None).map_err(StartError::Stores)?)))
}

/// Returns the destination of call records; `None` if none are written.
fn records(config: &Config, path: Option<&Path>) -> Result<Option<Arc<Records>>, StartError> {
    let Some(calls) = &config.calls else { return Ok(None) };
    Ok(Some(Arc::new(Records::start(calls, path, None).map_err(StartError::Records)?)))
}

fn secret(config: &Config, path: Option<&Path>) -> io::Result<[u8; 16]> {
    if let Some(key) = config.token.key {
        return Ok(key);
    }
    let Some(file) = path.map(key::beside) else { return key::random() };
    match key::keep(&file) {
        Ok(key) => {
            tracing::info!(file = %file.display(), "token key stored");
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "the token key cannot be stored: after a restart, the \
                present calls \
                are not recognised. Set [token] key");
            key::random()
        }
    }
}

/// Returns the identity of one shard. The counts are shared by all shards.
fn identity(
    config: &Config,
    (call_limits, sent_calls): (Option<Arc<CallLimits>>, Arc<SentCalls>),
    clock: Clock,
    (shard, shards): (usize, usize),
) -> io::Result<ShardIdentity> {
    // Branches begin with another number after each start and in each shard.
    let (secret, serial, timers) = (key::random()?, rand::random(), config.transactions.timers);
    let sent_calls = Some(sent_calls);
    let epoch = clock.epoch();
    Ok(ShardIdentity { shard, shards, secret, serial, timers, epoch, call_limits, sent_calls })
}
