//! Starts and stops servers of pools as the load changes. [`control::scale`] decides; this module drains members, calls
//! drivers and writes the log. `docs/scaling.md` describes it for users.
//!
//! - [`view`]: the state of a pool, from the control task and the shards,
//! - [`driver`]: drivers, which start and stop servers,
//! - [`task`]: observes a pool and carries decisions out.

mod driver;
mod task;
mod tell;
pub(crate) mod view;

use crate::figures::{ScaleView, ScaledServer};
use crate::handle::Handle;
use config::{Config, DriverConfig, PoolConfig, ScaleConfig, Workload};
use control::scale::{Advice, Fleet, ListedServer, Reconciler, ServerList, detection};
use shards::Clock;
use std::net::SocketAddr;
use task::{Decider, Task};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Default)]
pub(crate) struct Scaling {
    pools: Vec<Scaled>,
}

struct Scaled {
    /// Members and scale settings, kept to notice changes.
    config: PoolConfig,
    has_driver: bool,
    shown: watch::Receiver<ScaleView>,
    task: JoinHandle<()>,
    has_stopped: bool,
}

impl Drop for Scaled {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scaling {
    /// Scales the pools of this configuration from now on. An unchanged pool continues. For a changed pool, the running
    /// servers are determined again.
    pub(crate) fn renew(&mut self, config: &Config, clock: Clock, handle: &Handle) {
        let mut before = std::mem::take(&mut self.pools);
        for pool in &config.pools {
            let Some(scale) = &pool.scale else { continue };
            let place = before.iter().position(|scaled| scaled.config.settings.name == pool.settings.name);
            let known = place.map(|place| before.swap_remove(place));
            self.pools.push(match known {
                Some(known) if known.config == *pool && !known.has_stopped => known,
                _ => Scaled::start(pool, scale, clock, handle),
            });
        }
    }

    /// Ends all scaling. Running servers are kept.
    pub(crate) fn stop(&mut self) {
        for scaled in &mut self.pools {
            scaled.task.abort();
            scaled.has_stopped = true;
        }
    }

    pub(crate) fn views(&self) -> Vec<ScaleView> {
        self.pools.iter().map(|scaled| scaled.shown.borrow().clone()).collect()
    }

    /// Returns whether this process drains and undrains members of the pool.
    pub(crate) fn drains(&self, pool: &str) -> bool {
        self.started().any(|scaled| scaled.config.settings.name == pool)
    }

    /// Returns whether this member is expected not to answer, because its server does not run or is being stopped. Also
    /// `true` while the running servers of its pool are not known.
    pub(crate) fn expects_down(&self, address: SocketAddr, pools: &[String]) -> bool {
        self.started().any(|scaled| {
            let shown = scaled.shown.borrow();
            if !shown.ready {
                return pools.contains(&scaled.config.settings.name);
            }
            let is_off = |server: &ScaledServer| server.address == Some(address) && !runs(server);
            shown.servers.iter().any(is_off)
        })
    }

    /// Returns whether no server of this pool is expected to answer, since none is known to run.
    pub(crate) fn expects_none(&self, pool: &str) -> bool {
        let mut scaled = self.started().filter(|scaled| scaled.config.settings.name == pool);
        scaled.any(|scaled| !scaled.shown.borrow().servers.iter().any(runs))
    }

    /// Returns the pools whose servers this process starts and stops.
    fn started(&self) -> impl Iterator<Item = &Scaled> {
        self.pools.iter().filter(|scaled| scaled.has_driver && !scaled.has_stopped)
    }
}

impl Scaled {
    fn start(pool: &PoolConfig, scale: &ScaleConfig, clock: Clock, handle: &Handle) -> Self {
        let driver = driver::driver(&pool.settings.name, scale);
        let (now, has_driver) = (clock.now(), driver.is_some());
        let decider = match driver {
            Some(driver) => {
                let fleet = Fleet::new(
                    now,
                    scale.settings.clone(),
                    server_list(pool, scale),
                    detection(&pool.settings.probes, &pool.settings.health),
                );
                Decider::Fleet(Box::new(Reconciler::new(now, fleet)), driver)
            }
            None => Decider::Advice(Box::new(Advice::new(now, scale.settings.clone()))),
        };
        let empty = ScaleView {
            pool: pool.settings.name.clone(),
            driver: scale.driver.name().to_owned(),
            ..ScaleView::default()
        };
        let (sender, shown) = watch::channel(empty);
        let task = Task {
            pool: pool.settings.name.clone(),
            driver_name: scale.driver.name(),
            clock,
            handle: handle.clone(),
            step: scale.step(),
            timeout: scale.timeout(),
            decider,
            shown: sender,
        };
        Self { config: pool.clone(), has_driver, shown, task: tokio::spawn(task.run()), has_stopped: false }
    }
}

/// Returns whether a server is expected to answer.
fn runs(server: &ScaledServer) -> bool {
    ["ready", "draining"].contains(&&*server.state)
}

/// Returns the servers that may run.
fn server_list(pool: &PoolConfig, scale: &ScaleConfig) -> ServerList {
    let mut names = pool.members.iter().map(|member| member.address.to_string());
    match &scale.driver {
        DriverConfig::Kubernetes(kubernetes) if matches!(kubernetes.workload, Workload::Deployment(_)) => {
            ServerList::Found { name: names.next().unwrap_or_default(), addresses: Vec::new() }
        }
        _ => {
            let listed = |(name, text): (String, &String)| ListedServer { name, text: text.clone() };
            ServerList::Listed(names.zip(&scale.texts).map(listed).collect())
        }
    }
}
