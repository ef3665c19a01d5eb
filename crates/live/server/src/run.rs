//! Starts a server: opens sockets, starts threads, and ends them.

use crate::admin::{self, Interface};
use crate::ask::Ask;
use crate::control::{Certificates, Control};
use crate::descriptors;
use crate::handle::Handle;
use crate::key;
use crate::opened::Opened;
use crate::start_error::StartError;
use crate::takeover::{self, offer::Holdings};
use balance::{CallLimits, SentCalls};
use config::{Config, Connections};
use node::{Shard, ShardIdentity};
use shards::listen::expand;
use shards::{Board, Clock, ModelProcessor, Records, Report, Stores, Threads};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use streams::tls::TlsSetup;
use streams::{ConnectionLimits, StreamSettings};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Most bytes that wait for the peer of a connection to read them.
const SEND_BUFFER: usize = 256 << 10;

/// A server with all its sockets open.
pub struct Server {
    control: Box<Control>,
    threads: Vec<JoinHandle<()>>,
    reports: mpsc::UnboundedReceiver<Report>,
    asks: mpsc::UnboundedReceiver<Ask>,
    handle: Handle,
}

impl Server {
    /// Opens the sockets, looks up the members, starts the shards. `path` is where the configuration came from:
    /// it is read again on reload. Secrets are kept beside it, or in the state directory of the service.
    ///
    /// Must be called on a Tokio runtime.
    ///
    /// # Errors
    /// An address that cannot be bound, with the address.
    pub async fn start(config: Config, path: Option<PathBuf>) -> Result<Self, StartError> {
        // What a start works with is too large for the stacks of those who wait for it.
        Box::pin(Self::start_on(None, config, path)).await
    }

    /// The same for one server of several in a process, and without a file: what it tells its neighbours of how busy
    /// it is, is that of a `model`.
    ///
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
        let token = admin::token::required(&config.admin, path.as_deref())?;
        let secret = secret(&config, path.as_deref())?;
        let stores = stores(&config, path.as_deref())?;
        // One column more than threads, for the process before.
        let board = Arc::new(Board::new(count + 1));
        let shared = (Arc::clone(&board), stores.clone(), records(&config, path.as_deref())?);
        let records = shared.2.clone();
        let mut control =
            Control::start(clock, path.clone(), config.clone(), ports.clone(), secret, shared).await?;
        control.certificates = certificates;
        control.name_members();
        let tls = control.certificates.setup().cloned();
        // Nothing slow from here on: another process may wait.
        let claim = path.as_ref().map(|path| takeover::claim::claim(path, &ports)).transpose()?.flatten();
        let mut opened = Opened::new(&config, &ports, count, claim)?;
        let (reports_in, reports) = mpsc::unbounded_channel();
        // The only shard counts its calls itself.
        let call_limits = (count > 1).then(Arc::<CallLimits>::default);
        let (copies, stream_copies) = (opened.copies(), opened.stream_copies(&ports)?);
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
                sets: copies?,
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
            control.open_admin(Interface::new(listener, handle.clone(), token));
        }
        Ok(Self { control, threads, reports, asks, handle })
    }

    /// To ask and command the server while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Carries traffic until [`Handle::stop`] and the end of the last call or of the wait.
    ///
    /// # Errors
    /// When a shard died, which is a bug.
    pub async fn run(self) -> Result<(), String> {
        let outcome = self.control.run(self.reports, self.asks).await;
        if outcome.is_ok() {
            for thread in self.threads {
                let _ = thread.join();
            }
        }
        outcome
    }
}

/// How many threads there are: one a core, unless the configuration says so many.
fn threads_of(config: &Config) -> usize {
    match config.listen.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// How many connections there may be, beside those to so many members.
fn connection_limits(connections: &Connections, members: usize) -> Arc<ConnectionLimits> {
    let &Connections { most, most_per_address, new_per_second, .. } = connections;
    ConnectionLimits::new(descriptors::most_connections(most, members), most_per_address, new_per_second)
}

/// Settings of the connections of each of so many threads.
fn stream_settings(connections: &Connections, threads: usize, tls: Option<Arc<TlsSetup>>) -> StreamSettings {
    let &Connections { idle, handshake, memory, .. } = connections;
    StreamSettings {
        idle,
        handshake,
        send_buffer: SEND_BUFFER,
        opens_websocket: false,
        // Room for what two connections may leave unread, however many threads there are.
        memory: (memory / threads).max(2 * SEND_BUFFER),
        origins: connections.origins.as_slice().into(),
        admission: Arc::default(),
        tls,
    }
}

/// A copy of a socket, for another process.
fn copy_of(listener: Option<&TcpListener>) -> io::Result<Option<OwnedFd>> {
    listener.map(|listener| listener.as_fd().try_clone_to_owned()).transpose()
}

/// The stores of the home domain, if there is one.
fn stores(config: &Config, path: Option<&Path>) -> Result<Option<Arc<Stores>>, StartError> {
    let Some(registrar) = &config.registrar else { return Ok(None) };
    Ok(Some(Arc::new(Stores::start(registrar, path, None).map_err(StartError::Stores)?)))
}

/// Where records of calls go, if any are kept.
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
            tracing::info!(file = %file.display(), "token key kept");
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "no place to keep the token key: after a restart, calls now \
                in progress are found no more. Set [token] key");
            key::random()
        }
    }
}

/// What one shard of so many is; the counts are those of all.
fn identity(
    config: &Config,
    (call_limits, sent_calls): (Option<Arc<CallLimits>>, Arc<SentCalls>),
    clock: Clock,
    (shard, shards): (usize, usize),
) -> io::Result<ShardIdentity> {
    // Branches begin at another number after each start, and in each shard.
    let (secret, serial, timers) = (key::random()?, rand::random(), config.transactions.timers);
    let sent_calls = Some(sent_calls);
    let epoch = clock.epoch();
    Ok(ShardIdentity { shard, shards, secret, serial, timers, epoch, call_limits, sent_calls })
}
