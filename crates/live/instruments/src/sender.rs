//! Tells balancers every second what a server can take, each its part ([`Division`]), on a thread of its own:
//! whatever becomes of them, of their names or of the terminal, the measuring does not wait.

use elastic::update::{Division, Key, Lines, Refusal, SendError, Sender, Server};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Whom to tell, and as whom.
#[derive(Clone, Debug)]
pub struct Reporting {
    /// Balancers, as `HOST:PORT`. Names are resolved anew for each connection.
    pub to: Vec<String>,
    /// The key that they have, too.
    pub key: Key,
    /// The server that is measured.
    pub server: Server,
    /// Hears when a balancer cannot be told, and when it can again.
    pub say: fn(&str),
}

/// Times of the sender.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Between two updates (Cloud paper, section V-A).
    pub period: Duration,
    /// Longest wait for a connection, and for each line of the other side.
    pub patience: Duration,
    /// The first wait after a failure; each next one is twice as long.
    pub back_off: Duration,
    /// The longest: the last update is to hold until then (`elastic::estimate::VALIDITY`).
    pub back_off_max: Duration,
    /// The longest after a refusal, which an operator has to mend: each is a line in the balancer's log.
    pub refused_max: Duration,
}

impl Times {
    /// Those of a monitor.
    pub const USUAL: Self = Self {
        period: Duration::from_secs(1),
        patience: Duration::from_secs(3),
        back_off: Duration::from_secs(1),
        back_off_max: Duration::from_secs(2),
        refused_max: Duration::from_secs(30),
    };
}

/// So many updates in a row show that a balancer is there again: one may be taken before the next is refused.
const SETTLED: u64 = 3;

/// A capacity, and how long it may be told on.
#[derive(Clone, Copy, Debug)]
struct Current {
    capacity: f64,
    until: Instant,
}

/// The capacity to announce. Once it is dropped, announcements end.
#[derive(Debug)]
pub struct Telling {
    current: watch::Sender<Option<Current>>,
    validity: Duration,
    targets: Vec<Arc<Target>>,
}

/// A balancer.
#[derive(Debug)]
pub struct Target {
    /// As it was named.
    pub name: String,
    /// Whether it takes updates.
    pub is_up: AtomicBool,
    /// Updates that it has accepted.
    pub accepted: AtomicU64,
    /// Connections that failed.
    pub failed: AtomicU64,
}

/// Why a balancer cannot be told.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no answer within {} s", Times::USUAL.patience.as_secs())]
    Silent,
    #[error("it has closed the connection")]
    Closed,
    #[error(
        "it has closed the connection without a word: does the `from` of its [capacity] have the address of this host?"
    )]
    NotGreeted,
    #[error("{0}")]
    Protocol(SendError),
    #[error(
        "it knows no member {0} (unknown_server): say with --as by which name or address its pools have this server; its log names them"
    )]
    UnknownServer(Server),
}

impl Failure {
    /// Whether the balancer is there, and refuses the updates.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::NotGreeted | Self::Protocol(_) | Self::UnknownServer(_))
    }
}

/// The last log entry about a balancer.
#[derive(Default)]
struct Told {
    /// That it is not told the capacity, and not yet that it is again.
    is_down: bool,
    /// Whether it had been told anything before that.
    was_up: bool,
}

impl Telling {
    /// Starts to tell; `window` is how often there is another capacity.
    pub fn start(reporting: &Reporting, window: Duration) -> io::Result<Self> {
        Self::start_with(reporting, window, Times::USUAL)
    }

    /// The same with other times.
    pub fn start_with(reporting: &Reporting, window: Duration, times: Times) -> io::Result<Self> {
        let (current, seen) = watch::channel(None);
        let target = |name: &String| {
            let name = name.clone();
            Arc::new(Target {
                name,
                is_up: AtomicBool::default(),
                accepted: AtomicU64::default(),
                failed: AtomicU64::default(),
            })
        };
        let targets: Vec<_> = reporting.to.iter().map(target).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (division, since) = (Arc::new(Mutex::new(Division::new(0..targets.len()))), Instant::now());
        let reporters: Vec<_> = targets
            .iter()
            .enumerate()
            .map(|(index, target)| Reporter {
                index,
                division: Arc::clone(&division),
                since,
                target: Arc::clone(target),
                reporting: reporting.clone(),
                current: seen.clone(),
                times,
            })
            .collect();
        std::thread::Builder::new().name("report".to_owned()).spawn(move || {
            runtime.block_on(async {
                let tasks: JoinSet<()> = reporters.into_iter().map(Reporter::run).collect();
                tasks.join_all().await;
            });
            // A name that is being resolved is nobody's business any more.
            runtime.shutdown_background();
        })?;
        // One window may stay out: the next is late where the machine is busy.
        Ok(Self { current, validity: 2 * window + Duration::from_secs(2), targets })
    }

    /// From now on this is told.
    pub fn tell(&self, capacity: f64) {
        self.current.send_replace(Some(Current { capacity, until: Instant::now() + self.validity }));
    }

    /// The balancers.
    pub fn targets(&self) -> Vec<Arc<Target>> {
        self.targets.clone()
    }
}

/// The task of a balancer.
struct Reporter {
    /// Whether the balancer is among those that get updates.
    index: usize,
    division: Arc<Mutex<Division<usize>>>,
    /// When the time of the division begins.
    since: Instant,
    target: Arc<Target>,
    reporting: Reporting,
    current: watch::Receiver<Option<Current>>,
    times: Times,
}

impl Reporter {
    /// Sends updates until the monitor has ended.
    async fn run(mut self) {
        let name = self.target.name.clone();
        let mut wait = self.times.back_off;
        let mut told = Told::default();
        loop {
            // Before there is anything to tell, a connection would be closed as silent.
            let is_over = self.current.wait_for(|current| is_valid(*current)).await.is_err();
            if is_over || self.current.has_changed().is_err() {
                return;
            }
            let before = self.target.accepted.load(Ordering::Relaxed);
            let ended = self.tell(&mut told).await;
            self.target.is_up.store(false, Ordering::Relaxed);
            let Err(failure) = ended else { continue };
            self.target.failed.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut told.is_down, true) {
                told.was_up = self.target.accepted.load(Ordering::Relaxed) > 0;
                (self.reporting.say)(&format!(
                    "{name} is not told the capacity: {failure}; it is tried until it is"
                ));
            }
            if self.target.accepted.load(Ordering::Relaxed) - before >= SETTLED {
                wait = self.times.back_off;
            }
            // Many monitors lose a balancer at the same moment, and are not to come back at the same moment.
            let most = if failure.is_refusal() { self.times.refused_max } else { self.times.back_off_max };
            wait = wait.min(most);
            tokio::time::sleep(wait.mul_f64(0.5 + 0.5 * rand::random::<f64>())).await;
            wait *= 2;
        }
    }

    /// Tells over one connection, until there is nothing to tell.
    async fn tell(&self, people: &mut Told) -> Result<(), Failure> {
        let Self { index, target, reporting, current, times, .. } = self;
        let mut stream = within(times.patience, TcpStream::connect(&target.name)).await??;
        // Small lines, each of which is waited for.
        stream.set_nodelay(true)?;
        let mut lines = Lines::default();
        let line =
            within(times.patience, read(&mut stream, &mut lines)).await?.map_err(
                |failure| match failure {
                    Failure::Closed => Failure::NotGreeted,
                    failure => failure,
                },
            )?;
        let mut sender = Sender::greeted(reporting.key.clone(), &line).map_err(Failure::Protocol)?;
        let mut ticks = interval(times.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = 0;
        loop {
            ticks.tick().await;
            let now = *current.borrow();
            // Nobody measures any more, or the measuring hangs: the balancer is to see that.
            let Some(Current { capacity, .. }) =
                now.filter(|_| is_valid(now) && current.has_changed().is_ok())
            else {
                return Ok(());
            };
            let part = self.divided(|division, now| division.part(now, *index, capacity));
            let update = sender.update(&reporting.server, part);
            within(times.patience, stream.write_all(update.as_bytes())).await??;
            let line = within(times.patience, read(&mut stream, &mut lines)).await??;
            let sent = sender.answer(&line).map_err(|error| match error {
                SendError::Refused(Some(Refusal::UnknownServer)) => {
                    Failure::UnknownServer(reporting.server.clone())
                }
                error => Failure::Protocol(error),
            })?;
            self.divided(|division, now| division.heard(now, *index, sent));
            target.accepted.fetch_add(1, Ordering::Relaxed);
            target.is_up.store(true, Ordering::Relaxed);
            told += 1;
            if told == SETTLED && std::mem::take(&mut people.is_down) {
                let again = if people.was_up { " again" } else { "" };
                (reporting.say)(&format!("{} is told the capacity{again}", target.name));
            }
        }
    }
}

impl Reporter {
    fn divided<T>(&self, what: impl FnOnce(&mut Division<usize>, base::Instant) -> T) -> T {
        let now = base::Instant::ZERO + self.since.elapsed();
        what(&mut self.division.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

fn is_valid(current: Option<Current>) -> bool {
    current.is_some_and(|current| Instant::now() < current.until)
}

async fn within<T>(patience: Duration, what: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(patience, what).await.map_err(|_| Failure::Silent)
}

/// The next line of the other side, without its end.
async fn read(stream: &mut TcpStream, lines: &mut Lines) -> Result<Vec<u8>, Failure> {
    loop {
        match lines.next() {
            Ok(Some(line)) => return Ok(line.to_vec()),
            Ok(None) => {}
            Err(_) => return Err(Failure::Protocol(SendError::NoReceiver)),
        }
        match stream.read(lines.room()).await? {
            0 => return Err(Failure::Closed),
            count => lines.filled(count),
        }
    }
}
