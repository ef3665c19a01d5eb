//! The task beside the traffic that scales one pool: looks at it every few seconds, and does what is decided.

use super::advice::Advice;
use super::driver::{Driver, Listing, Server};
use super::fleet::{Fleet, Order};
use super::tell::tell;
use super::view::PoolView;
use crate::admin::view::{ScaleView, ScaledServer};
use crate::clock::Clock;
use crate::control::ScaleWish;
use crate::handle::Handle;
use base::Instant;
use elastic::scale::ServerId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// How often a driver is asked what runs, and how long it is left alone after a first failure; twice as long after each further
/// one, up to the most.
const LIST_EVERY: Duration = Duration::from_secs(5);
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_mins(1);
/// A driver keeps its own time; one that does not is not waited for longer than this beyond it.
const BEYOND: Duration = Duration::from_secs(5);

/// What a driver has answered.
enum Done {
    Started(Server, Result<(), String>),
    Stopped(Server, Result<(), String>),
    Listed(Instant, Result<Listing, String>),
}

/// Who decides about a pool.
pub(super) enum Decider {
    /// Servers are started and stopped.
    Fleet(Box<Fleet>, Arc<dyn Driver>),
    /// It is said how many there should be.
    Advice(Box<Advice>),
}

/// What the task of a pool works with.
pub(super) struct Task {
    pub(super) pool: String,
    pub(super) driver_name: &'static str,
    pub(super) clock: Clock,
    pub(super) handle: Handle,
    pub(super) step: Duration,
    pub(super) timeout: Duration,
    pub(super) decider: Decider,
    pub(super) shown: watch::Sender<ScaleView>,
    pub(super) trouble: Trouble,
}

/// How a driver fails.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    failures: u64,
    /// In a row.
    lists_failed: u32,
    list: Option<String>,
    last: Option<Failed>,
    /// When it is asked next what runs; `None` while it is being asked.
    next_list: Option<Instant>,
}

/// A start or a stop that failed.
#[derive(Clone, Debug)]
struct Failed {
    /// What it was, and why.
    what: String,
    /// When a stop is asked for again; `None`: it was a start.
    stop_again: Option<Instant>,
}

impl Trouble {
    pub(super) fn new(now: Instant) -> Self {
        Self { next_list: Some(now), ..Self::default() }
    }

    fn listed(&mut self, now: Instant, result: Result<(), &String>) {
        match result {
            Ok(()) => {
                (self.lists_failed, self.list) = (0, None);
                self.next_list = Some(now + LIST_EVERY);
            }
            Err(error) => {
                self.failures += 1;
                let wait = BACK_OFF.saturating_mul(1 << self.lists_failed.min(10)).min(BACK_OFF_MAX);
                self.lists_failed += 1;
                self.list = Some(error.clone());
                self.next_list = Some(now + wait);
            }
        }
    }

    fn done(&mut self, result: Result<(), Failed>) {
        self.last = result.err();
        self.failures += u64::from(self.last.is_some());
    }

    /// What goes wrong, and how long it is until it is tried again.
    fn shown(&self, now: Instant, next_start: Instant) -> (Option<String>, f64) {
        let next_list = self.next_list.filter(|_| self.list.is_some());
        let stop = self.last.as_ref().and_then(|failed| failed.stop_again);
        let next = next_list.or(stop).unwrap_or(next_start);
        let list = self.list.as_ref().map(|error| format!("list: {error}"));
        let what = list.or_else(|| self.last.as_ref().map(|failed| failed.what.clone()));
        (what, next.saturating_since(now).as_secs_f64())
    }
}

impl Task {
    /// Runs until it is aborted, or the server has ended.
    pub(super) async fn run(mut self) {
        let mut tick = tokio::time::interval(self.step);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut jobs = JoinSet::new();
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    // While the server ends there is nobody to ask.
                    let Ok(view) = self.handle.pool_view(&self.pool).await else { return };
                    if let Some(view) = view {
                        self.look(&view, &mut jobs);
                    }
                }
                Some(done) = jobs.join_next() => {
                    // A driver that panics is a bug, and no reason to end the process.
                    if let Ok(done) = done {
                        self.done(done);
                    }
                }
            }
        }
    }

    fn look(&mut self, view: &PoolView, jobs: &mut JoinSet<Done>) {
        let mut orders = Vec::new();
        match &mut self.decider {
            Decider::Fleet(fleet, driver) => {
                fleet.step(view, &mut orders);
                if self.trouble.next_list.take_if(|next| *next <= view.now).is_some() {
                    let (driver, at, limit) = (Arc::clone(driver), view.now, self.timeout + BEYOND);
                    jobs.spawn(async move { Done::Listed(at, within(limit, driver.list()).await) });
                }
            }
            Decider::Advice(advice) => {
                let mut news = Vec::new();
                advice.step(view, &mut news);
                orders.extend(news.into_iter().map(Order::Tell));
            }
        }
        for order in orders {
            self.carry_out(order, view, jobs);
        }
        self.show(view);
    }

    fn carry_out(&self, order: Order, view: &PoolView, jobs: &mut JoinSet<Done>) {
        let limit = self.timeout + BEYOND;
        match (order, &self.decider) {
            (Order::Tell(news), _) => tell(&self.pool, &news, view),
            (Order::Drain(address, is_drained), _) => {
                self.handle.scale(&self.pool, address, ScaleWish::Drain(is_drained));
            }
            (Order::Doubt(address), _) => self.handle.scale(&self.pool, address, ScaleWish::Doubt),
            (Order::Start(server), Decider::Fleet(_, driver)) => {
                let driver = Arc::clone(driver);
                jobs.spawn(async move {
                    let result = within(limit, driver.start(&server)).await;
                    Done::Started(server, result)
                });
            }
            (Order::Stop(server), Decider::Fleet(_, driver)) => {
                let driver = Arc::clone(driver);
                jobs.spawn(async move {
                    let result = within(limit, driver.stop(&server)).await;
                    Done::Stopped(server, result)
                });
            }
            (Order::Start(_) | Order::Stop(_), Decider::Advice(_)) => {}
        }
    }

    fn done(&mut self, done: Done) {
        let Decider::Fleet(fleet, _) = &mut self.decider else { return };
        let (now, pool) = (self.clock.now(), &self.pool);
        match done {
            Done::Started(server, result) => {
                let id = ServerId(server.index);
                let name = fleet.name(id);
                fleet.on_started(now, id, result.is_ok());
                if let Err(error) = &result {
                    tracing::warn!(pool, server = name, error, "scale: a server could not be started");
                }
                let failed = |error| Failed { what: format!("start of {name}: {error}"), stop_again: None };
                self.trouble.done(result.map_err(failed));
            }
            Done::Stopped(server, result) => {
                let id = ServerId(server.index);
                let name = fleet.name(id);
                fleet.on_stopped(now, id, result.is_ok());
                match &result {
                    Ok(()) => tracing::info!(pool, server = name, "scale: a server has been stopped"),
                    Err(error) => {
                        tracing::warn!(pool, server = name, error, "scale: a server could not be stopped");
                    }
                }
                let failed = |error| Failed {
                    what: format!("stop of {name}: {error}"),
                    stop_again: fleet.stopped_again(id),
                };
                self.trouble.done(result.map_err(failed));
            }
            Done::Listed(at, result) => {
                let was_failing = self.trouble.list.is_some();
                self.trouble.listed(now, result.as_ref().map(|_| ()));
                if result.is_err() {
                    fleet.on_list_failed(at);
                }
                match result {
                    Ok(listing) => {
                        if was_failing {
                            tracing::info!(pool, "scale: the driver answers again");
                        }
                        fleet.on_listed(at, listing);
                    }
                    // Once, and not at each attempt.
                    Err(error) if !was_failing => {
                        tracing::warn!(pool, error, "scale: the driver does not say what runs; calls go on");
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// For those who look on.
    fn show(&self, view: &PoolView) {
        let now = view.now;
        let base = ScaleView {
            pool: self.pool.clone(),
            driver: self.driver_name.to_owned(),
            driver_failures_total: self.trouble.failures,
            ..ScaleView::default()
        };
        let shown = match &self.decider {
            Decider::Fleet(fleet, _) => {
                let (trouble, retry_seconds) = self.trouble.shown(now, fleet.scaler().next_start());
                ScaleView {
                    ready: fleet.knows(now),
                    rate: fleet.scaler().rate(),
                    capacity: fleet.capacity(view),
                    wanted: fleet.wanted(),
                    least: fleet.settings().least,
                    most: fleet.settings().most,
                    servers: servers(fleet, view),
                    cluster_latency: fleet.outlook.cluster_latency,
                    short: fleet.outlook.short,
                    unlisted: fleet.unlisted(),
                    decisions: fleet.outlook.decisions,
                    trouble,
                    retry_seconds,
                    ..base
                }
            }
            Decider::Advice(advice) => ScaleView {
                ready: true,
                rate: advice.rate(),
                capacity: advice.capacity(view),
                wanted: advice.wanted(),
                least: advice.settings().least,
                most: advice.settings().most,
                cluster_latency: advice.outlook.cluster_latency,
                short: advice.outlook.short,
                decisions: advice.outlook.decisions,
                ..base
            },
        };
        let utilisation = if shown.capacity > 0.0 { shown.rate / shown.capacity } else { 0.0 };
        self.shown.send_replace(ScaleView { utilisation, ..shown });
    }
}

/// An answer that comes in time.
async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(format!("no answer for {limit:?}")))
}

/// All servers that may be.
fn servers(fleet: &Fleet, view: &PoolView) -> Vec<ScaledServer> {
    let rows: Vec<_> = fleet.scaler().rows().collect();
    let mut ids: Vec<_> = fleet.roster().ids().chain(rows.iter().map(|row| row.id)).collect();
    ids.sort_unstable();
    ids.dedup();
    let server = |id: ServerId| {
        let members = fleet.roster().members(id, view);
        let row = rows.iter().find(|row| row.id == id);
        ScaledServer {
            name: fleet.name(id),
            address: members.first().map(|member| member.address),
            state: row.map_or("off", |row| row.state.name()).to_owned(),
            since_seconds: row.map_or(0.0, |row| (view.now - row.since).as_secs_f64()),
            capacity: row.map_or(0.0, |row| row.capacity),
            work: members.iter().map(|member| member.work).sum(),
        }
    };
    ids.into_iter().map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_fails_is_asked_ever_less_often_and_again_at_once_when_it_answers() {
        let mut trouble = Trouble::new(Instant::ZERO);
        let mut waits = Vec::new();
        for _ in 0..7 {
            trouble.listed(Instant::ZERO, Err(&"away".to_owned()));
            waits.push(trouble.shown(Instant::ZERO, Instant::ZERO).1);
        }
        assert_eq!(waits, [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(trouble.shown(Instant::ZERO, Instant::ZERO).0.as_deref(), Some("list: away"));
        trouble.listed(Instant::ZERO, Ok(()));
        let next_start = Instant::from_millis(9_000);
        assert_eq!(trouble.shown(Instant::ZERO, next_start), (None, 9.0), "a start is waited for");
        trouble.listed(Instant::ZERO, Err(&"away".to_owned()));
        assert_eq!((trouble.shown(Instant::ZERO, next_start).1, trouble.failures), (2.0, 8));
    }

    #[test]
    fn a_failed_start_shows_until_something_succeeds() {
        let mut trouble = Trouble::new(Instant::ZERO);
        let failed = |stop_again| Failed { what: "no quota".to_owned(), stop_again };
        trouble.done(Err(failed(None)));
        let next_start = Instant::from_millis(20_000);
        assert_eq!(trouble.shown(Instant::ZERO, next_start), (Some("no quota".to_owned()), 20.0));
        trouble.done(Err(failed(Some(Instant::from_millis(60_000)))));
        let shown = |seconds: u64| trouble.shown(Instant::from_millis(1_000 * seconds), next_start);
        assert_eq!((shown(0).1, shown(90).1), (60.0, 0.0), "a stop has its own time");
        trouble.done(Ok(()));
        assert_eq!((trouble.shown(Instant::ZERO, Instant::ZERO).0, trouble.failures), (None, 2));
    }
}
