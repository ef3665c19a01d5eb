//! Parts of all demos: the server in its roles, callers and answerers, and the output.

use crate::picture;
use anyhow::{Context, Result, anyhow};
use base::{Rng, Transport};
use config::Config;
use instruments::agents::{self, RunningAgent};
use load::{
    AnswererConfig, AnswererResults, ArrivalPlan, CallResults, CallerConfig, RandomTime, ServiceModel, Timers,
};
use ratatui::Frame;
use server::{Handle, ModelProcessor, Server, StartError};
use std::fs::DirBuilder;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Interval, MissedTickBehavior};

/// Address of callers and answerers, on ports that the kernel chooses.
pub(super) const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Seed of arrivals and holding times.
pub(super) const SEED: u64 = 1;

/// Interval at which the picture is drawn.
const FRAME: Duration = Duration::from_millis(200);
/// Interval at which figures are printed without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Runs a demo. A server stays on the thread that started it.
pub(super) fn play<T>(played: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, played)
}

/// State of a demo at one moment.
pub(super) trait Scene {
    /// Progress of the plain output, so that nothing is printed twice.
    type Printed: Default;

    /// Draws the picture in the terminal.
    fn draw(&self, frame: &mut Frame<'_>);

    /// Prints new lines, without a terminal.
    fn print(&self, printed: &mut Self::Printed, clock: &mut LineClock) -> Result<()>;
}

/// Time at which figures are printed again.
pub(super) struct LineClock(Instant);

impl LineClock {
    /// Starts a full interval.
    pub(super) fn restart(&mut self) {
        self.0 = Instant::now() + LINE_EVERY;
    }

    /// Returns whether figures are due, and starts the next interval if so.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = Instant::now() >= self.0;
        if is_due {
            self.0 += LINE_EVERY;
        }
        is_due
    }
}

/// Output of scenes: the terminal, or lines.
pub(super) struct Screen<T> {
    terminal: Option<picture::Screen>,
    printed: T,
    clock: LineClock,
    frames: Interval,
    ends: Vec<Signal>,
}

impl<T: Default> Screen<T> {
    /// Opens the terminal, if there is one. The signals `ends` quit the demo, as a key of the terminal does.
    pub(super) fn open(ends: &[SignalKind]) -> Result<Self> {
        let mut frames = tokio::time::interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            terminal: picture::Screen::open()?,
            printed: T::default(),
            clock: LineClock(Instant::now() + LINE_EVERY),
            frames,
            ends: ends.iter().map(|&kind| signal(kind)).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn show(&mut self, scene: &impl Scene<Printed = T>) -> Result<()> {
        match &mut self.terminal {
            Some(terminal) => terminal.draw(|frame| scene.draw(frame)),
            None => scene.print(&mut self.printed, &mut self.clock),
        }
    }

    /// Waits until the next scene is due. Returns whether the user has quit.
    pub(super) async fn has_quit(&mut self) -> Result<bool> {
        let signalled = std::future::poll_fn(|context| {
            let is_signalled = self.ends.iter_mut().any(|end| end.poll_recv(context).is_ready());
            if is_signalled { Poll::Ready(()) } else { Poll::Pending }
        });
        let is_signalled = tokio::select! {
            _ = self.frames.tick() => false,
            () = signalled => true,
        };
        let Some(terminal) = self.terminal.as_mut().filter(|_| !is_signalled) else {
            return Ok(is_signalled);
        };
        terminal.has_quit()
    }
}

/// A server in this process.
pub(super) struct Element {
    pub(super) address: SocketAddr,
    pub(super) handle: Handle,
    running: JoinHandle<Result<(), String>>,
}

impl Element {
    /// Starts a server with these tables at a free port of this address, on a `model` of a processor if one is given.
    pub(super) async fn start(ip: IpAddr, tables: &str, model: Option<ModelProcessor>) -> Result<Self> {
        const TRIES: usize = 5;
        let mut tries = 0;
        loop {
            let address = free_port(ip)?;
            let config = configuration(address, tables)?;
            let started = match model {
                Some(model) => Server::start_modelled(config, model).await,
                None => Server::start(config, None).await,
            };
            tries += 1;
            match started {
                Ok(server) => {
                    let handle = server.handle();
                    return Ok(Self { address, handle, running: tokio::task::spawn_local(server.run()) });
                }
                // Another process has taken the port.
                Err(StartError::Io(_)) if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) async fn close(self) -> Result<()> {
        self.handle.stop();
        self.running.await?.map_err(|error| anyhow!(error))
    }
}

/// Returns a port of this address that is free now.
pub(super) fn free_port(ip: IpAddr) -> Result<SocketAddr> {
    Ok(UdpSocket::bind((ip, 0)).context("no free port")?.local_addr()?)
}

/// Configuration of a server at this address.
pub(super) fn configuration(address: SocketAddr, tables: &str) -> Result<Config> {
    let tables = format!("[stop]\nwait = \"0s\"\n{tables}");
    config::parse(&configuration_text(address, &tables), "demo").map_err(|errors| anyhow!("{errors}"))
}

/// Text of the configuration of a server at this address.
pub(super) fn configuration_text(address: SocketAddr, tables: &str) -> String {
    format!("[listen]\nudp = [\"{address}\"]\nthreads = 1\n[admin]\nlisten = false\n{tables}")
}

/// A new folder, which only this user can read. Dropping it removes the folder.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("sarabande-demo-{}{name}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts callers of `uri` through `target`, with calls of the mean duration `hold`.
pub(super) fn call(
    target: SocketAddr,
    uri: String,
    arrivals: ArrivalPlan,
    hold: Duration,
    rng: Rng,
) -> Result<RunningAgent<CallResults>> {
    let socket = agents::bind(ANY)?;
    let config = CallerConfig {
        transport: Transport::Udp,
        listener: 0,
        connections: 1,
        local: socket.local_addr()?,
        target,
        outbound: false,
        uri,
        arrivals,
        holding: RandomTime::Exponential(hold),
        answer_wait: Duration::from_mins(1),
        timers: Timers::default(),
    };
    Ok(agents::start_caller(socket, config, rng)?)
}

/// Starts an answerer that rings for the time `ring`.
pub(super) fn answer(
    name: &str,
    ring: Duration,
    service: ServiceModel,
    rng: &Rng,
) -> Result<RunningAgent<AnswererResults>> {
    let socket = agents::bind(ANY)?;
    let config = AnswererConfig {
        transport: Transport::Udp,
        listener: 0,
        local: socket.local_addr()?,
        name: name.to_owned(),
        ring: RandomTime::Fixed(ring),
        trying: false,
        service,
        timers: Timers::default(),
    };
    Ok(agents::start_answerer(socket, config, rng.fork(name))?)
}
