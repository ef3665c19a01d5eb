//! Reports the capacity of a server to balancers every second, to each its part ([`Division`]). It has a thread of its
//! own, so that the measurement never waits for balancers, names or the terminal.

use elastic::update::{Division, Key, Lines, SendError, ServerName, UpdateRefusal, UpdateSender};
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

/// Receivers and contents of reports.
#[derive(Clone, Debug)]
pub struct Reporting {
    /// Balancers, as `HOST:PORT`. Names are resolved again for each connection.
    pub to: Vec<String>,
    /// Key of the server, which the balancers have as well.
    pub key: Key,
    /// The measured server.
    pub server: ServerName,
    /// Called with a text if a balancer cannot be reached, and if it can again.
    pub say: fn(&str),
}

/// Times of the sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderTimes {
    /// Interval of updates (Cloud paper, section V-A).
    pub period: Duration,
    /// Longest wait for a connection, and for each line of the balancer.
    pub patience: Duration,
    /// First wait after a failure; each further one is twice as long.
    pub back_off: Duration,
    /// Longest wait: the last update must stay valid until then (`elastic::estimate::VALIDITY`).
    pub back_off_max: Duration,
    /// Longest wait after a refusal, which an operator must resolve, since each is a line in the balancer's log.
    pub refused_max: Duration,
}

impl SenderTimes {
    /// Times of a monitor.
    pub const USUAL: Self = Self {
        period: Duration::from_secs(1),
        patience: Duration::from_secs(3),
        back_off: Duration::from_secs(1),
        back_off_max: Duration::from_secs(2),
        refused_max: Duration::from_secs(30),
    };
}

/// Updates in a row after which a balancer counts as reachable again: a single one may be accepted before the next is
/// refused.
const SETTLED: u64 = 3;

/// A capacity, and how long it is valid.
#[derive(Clone, Copy, Debug)]
struct Current {
    capacity: f64,
    until: Instant,
}

/// The capacity to report. Dropping it ends the reports.
#[derive(Debug)]
pub struct Telling {
    current: watch::Sender<Option<Current>>,
    validity: Duration,
    targets: Vec<Arc<Target>>,
}

/// A balancer.
#[derive(Debug)]
pub struct Target {
    /// Name or address, as given.
    pub name: String,
    /// Whether it accepts updates.
    pub is_up: AtomicBool,
    /// Number of accepted updates.
    pub accepted: AtomicU64,
    /// Number of failed connections.
    pub failed: AtomicU64,
}

/// The reason why a balancer gets no updates.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no answer within {} s", SenderTimes::USUAL.patience.as_secs())]
    Silent,
    #[error("it closed the connection")]
    Closed,
    #[error(
        "it closed the connection without an answer: is the address of this host in `from` of its [capacity]?"
    )]
    NotGreeted,
    #[error("{0}")]
    Protocol(SendError),
    #[error(
        "it has no member {0} (unknown_server): set --as to the name or address of this server in its pools; its log \
         lists them"
    )]
    UnknownServer(ServerName),
}

impl Failure {
    /// Whether the balancer was reached and refuses the updates.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::NotGreeted | Self::Protocol(_) | Self::UnknownServer(_))
    }
}

/// State of the log about a balancer.
#[derive(Default)]
struct LogState {
    /// Whether a failure was logged, and no recovery since.
    is_down: bool,
    /// Whether updates were accepted before the failure.
    was_up: bool,
}

impl Telling {
    /// Starts to report; `window` is the interval of new capacities.
    pub fn start(reporting: &Reporting, window: Duration) -> io::Result<Self> {
        Self::start_with(reporting, window, SenderTimes::USUAL)
    }

    /// As [`start`](Self::start), with other times.
    pub fn start_with(reporting: &Reporting, window: Duration, times: SenderTimes) -> io::Result<Self> {
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
            // A name that is still being resolved is not needed any more.
            runtime.shutdown_background();
        })?;
        // One window may be missing: the next one is late on a busy machine.
        Ok(Self { current, validity: 2 * window + Duration::from_secs(2), targets })
    }

    /// Sets the capacity that is reported from now on.
    pub fn tell(&self, capacity: f64) {
        self.current.send_replace(Some(Current { capacity, until: Instant::now() + self.validity }));
    }

    /// Returns the balancers.
    pub fn targets(&self) -> Vec<Arc<Target>> {
        self.targets.clone()
    }
}

/// The task of a balancer.
struct Reporter {
    /// Index of the balancer in the division.
    index: usize,
    division: Arc<Mutex<Division<usize>>>,
    /// Time zero of the division.
    since: Instant,
    target: Arc<Target>,
    reporting: Reporting,
    current: watch::Receiver<Option<Current>>,
    times: SenderTimes,
}

impl Reporter {
    /// Sends updates until the monitor has ended.
    async fn run(mut self) {
        let name = self.target.name.clone();
        let mut wait = self.times.back_off;
        let mut log = LogState::default();
        loop {
            // Without a capacity to report the balancer would close the connection as silent.
            let is_over = self.current.wait_for(|current| is_valid(*current)).await.is_err();
            if is_over || self.current.has_changed().is_err() {
                return;
            }
            let before = self.target.accepted.load(Ordering::Relaxed);
            let ended = self.tell(&mut log).await;
            self.target.is_up.store(false, Ordering::Relaxed);
            let Err(failure) = ended else { continue };
            self.target.failed.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut log.is_down, true) {
                log.was_up = self.target.accepted.load(Ordering::Relaxed) > 0;
                (self.reporting.say)(&format!(
                    "{name} gets no capacity updates: {failure}; it is tried again"
                ));
            }
            if self.target.accepted.load(Ordering::Relaxed) - before >= SETTLED {
                wait = self.times.back_off;
            }
            // Random, because many monitors lose a balancer at the same moment and should not return together.
            let most = if failure.is_refusal() { self.times.refused_max } else { self.times.back_off_max };
            wait = wait.min(most);
            tokio::time::sleep(wait.mul_f64(0.5 + 0.5 * rand::random::<f64>())).await;
            wait *= 2;
        }
    }

    /// Sends updates over one connection, until there is no valid capacity.
    async fn tell(&self, log: &mut LogState) -> Result<(), Failure> {
        let Self { index, target, reporting, current, times, .. } = self;
        let mut stream = within(times.patience, TcpStream::connect(&target.name)).await??;
        // The lines are small, and each is answered before the next.
        stream.set_nodelay(true)?;
        let mut lines = Lines::default();
        let line =
            within(times.patience, read(&mut stream, &mut lines)).await?.map_err(
                |failure| match failure {
                    Failure::Closed => Failure::NotGreeted,
                    failure => failure,
                },
            )?;
        let mut sender = UpdateSender::greeted(reporting.key.clone(), &line).map_err(Failure::Protocol)?;
        let mut ticks = interval(times.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut accepted = 0;
        loop {
            ticks.tick().await;
            let now = *current.borrow();
            // The measurement has ended or hangs. The balancer notices it by the missing updates.
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
                SendError::Refused(Some(UpdateRefusal::UnknownServer)) => {
                    Failure::UnknownServer(reporting.server.clone())
                }
                error => Failure::Protocol(error),
            })?;
            self.divided(|division, now| division.on_report(now, *index, sent));
            target.accepted.fetch_add(1, Ordering::Relaxed);
            target.is_up.store(true, Ordering::Relaxed);
            accepted += 1;
            if accepted == SETTLED && std::mem::take(&mut log.is_down) {
                let again = if log.was_up { " again" } else { "" };
                (reporting.say)(&format!("{} gets capacity updates{again}", target.name));
            }
        }
    }
}

impl Reporter {
    fn divided<T>(&self, update: impl FnOnce(&mut Division<usize>, base::Instant) -> T) -> T {
        let now = base::Instant::ZERO + self.since.elapsed();
        update(&mut self.division.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

fn is_valid(current: Option<Current>) -> bool {
    current.is_some_and(|current| Instant::now() < current.until)
}

async fn within<T>(patience: Duration, action: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(patience, action).await.map_err(|_| Failure::Silent)
}

/// Reads the next line of the balancer, without its end.
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
