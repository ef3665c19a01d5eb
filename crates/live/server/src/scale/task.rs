//! The task that scales one pool. It observes the pool every few seconds and carries decisions out.

use super::driver::Driver;
use super::tell::tell;
use crate::ask::ScaleWish;
use crate::figures::{ScaleDecisions, ScaleView, ScaledServer};
use crate::handle::Handle;
use base::Instant;
use control::scale::{Advice, DriverServer, Fleet, ListNews, Listing, Order, PoolView, Reconciler};
use elastic::scale::ServerId;
use shards::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// A driver has its own time-out. Its answer is awaited for this much longer at most.
const BEYOND: Duration = Duration::from_secs(5);

enum Done {
    Started(DriverServer, Result<(), String>),
    Stopped(DriverServer, Result<(), String>),
    Listed(Instant, Result<Listing, String>),
}

/// Makes the decisions about a pool.
pub(super) enum Decider {
    /// Decides about servers that a driver starts and stops.
    Fleet(Box<Reconciler>, Arc<dyn Driver>),
    /// Only recommends a number of servers.
    Advice(Box<Advice>),
}

pub(super) struct Task {
    pub(super) pool: String,
    pub(super) driver_name: &'static str,
    pub(super) clock: Clock,
    pub(super) handle: Handle,
    pub(super) step: Duration,
    pub(super) timeout: Duration,
    pub(super) decider: Decider,
    pub(super) shown: watch::Sender<ScaleView>,
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
                    // The control task no longer answers while the server ends.
                    let Ok(view) = self.handle.pool_view(&self.pool).await else { return };
                    if let Some(view) = view {
                        self.look(&view, &mut jobs);
                    }
                }
                Some(done) = jobs.join_next() => {
                    // A panic of a driver is a bug, but must not end the process.
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
            Decider::Fleet(reconciler, _) => reconciler.look(view, &mut orders),
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
            (Order::List, Decider::Fleet(_, driver)) => {
                let (driver, at) = (Arc::clone(driver), view.now);
                jobs.spawn(async move { Done::Listed(at, within(limit, driver.list()).await) });
            }
            (Order::Start(_) | Order::Stop(_) | Order::List, Decider::Advice(_)) => {}
        }
    }

    fn done(&mut self, done: Done) {
        let Decider::Fleet(reconciler, _) = &mut self.decider else { return };
        let (now, pool) = (self.clock.now(), &self.pool);
        match done {
            Done::Started(server, result) => {
                if let Err(error) = &result {
                    let server = reconciler.fleet().name(ServerId(server.index));
                    tracing::warn!(pool, server, error, "scale: a server could not be started");
                }
                reconciler.on_started(now, &server, result);
            }
            Done::Stopped(server, result) => {
                let name = reconciler.fleet().name(ServerId(server.index));
                match &result {
                    Ok(()) => tracing::info!(pool, server = name, "scale: a server has been stopped"),
                    Err(error) => {
                        tracing::warn!(pool, server = name, error, "scale: a server could not be stopped");
                    }
                }
                reconciler.on_stopped(now, &server, result);
            }
            Done::Listed(at, result) => match reconciler.on_listed(now, at, result) {
                Some(ListNews::Again) => tracing::info!(pool, "scale: the driver answers again"),
                Some(ListNews::Fails(error)) => {
                    tracing::warn!(
                        pool,
                        error,
                        "scale: the driver cannot list the running servers; calls continue"
                    );
                }
                None => {}
            },
        }
    }

    fn show(&self, view: &PoolView) {
        let now = view.now;
        let base = ScaleView {
            pool: self.pool.clone(),
            driver: self.driver_name.to_owned(),
            ..ScaleView::default()
        };
        let (outlook, base) = match &self.decider {
            Decider::Fleet(reconciler, _) => {
                let (fleet, trouble) = (reconciler.fleet(), reconciler.trouble());
                let (trouble_text, retry_seconds) = trouble.shown(now, fleet.outlook.scaler.next_start());
                let of_driver = ScaleView {
                    ready: fleet.knows(now),
                    servers: servers(fleet, view),
                    unlisted: fleet.unlisted(),
                    driver_failures_total: trouble.failures(),
                    trouble: trouble_text,
                    retry_seconds,
                    ..base
                };
                (&fleet.outlook, of_driver)
            }
            Decider::Advice(advice) => (&advice.outlook, ScaleView { ready: true, ..base }),
        };
        let shown = ScaleView {
            rate: outlook.scaler.rate(),
            capacity: outlook.capacity(view),
            wanted: outlook.wanted(),
            least: outlook.settings.least,
            most: outlook.settings.most,
            cluster_latency: outlook.cluster_latency,
            short: outlook.short,
            decisions: ScaleDecisions::new(outlook.decisions),
            ..base
        };
        let utilisation = if shown.capacity > 0.0 { shown.rate / shown.capacity } else { 0.0 };
        self.shown.send_replace(ScaleView { utilisation, ..shown });
    }
}

async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(format!("no answer for {limit:?}")))
}

fn servers(fleet: &Fleet, view: &PoolView) -> Vec<ScaledServer> {
    let rows: Vec<_> = fleet.outlook.scaler.rows().collect();
    let mut ids: Vec<_> = fleet.server_list().ids().chain(rows.iter().map(|row| row.id)).collect();
    ids.sort_unstable();
    ids.dedup();
    let server = |id: ServerId| {
        let members = fleet.server_list().members(id, view);
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
