//! From the configuration to what the core works with, at start and on reload.

use super::Control;
use crate::shards::listen::toward;
use crate::shards::{self, Command};
use crate::token_time::TokenTime;
use balance::policy::by_name;
use balance::{HealthSettings, OutlierSettings, Policy, Weights};
use base::{Flow, Instant};
use config::{Config, Listen, Orphans, Proxy};
use node::{Key, ProxyLimits, ProxySettings, Tokens};
use std::sync::Arc;
use wire::Method;

pub(crate) fn health(config: &Config) -> HealthSettings {
    match config.pool() {
        Some(pool) => HealthSettings {
            regular: pool.probe.enabled,
            fall: pool.probe.fall,
            rise: pool.probe.rise,
            slow_start: pool.slow_start,
            max_rest: pool.max_rest,
            forget_after: pool.forget_after,
            outlier: OutlierSettings {
                enabled: pool.outlier.enabled,
                interval: pool.outlier.interval,
                min_answers: pool.outlier.min_answers,
                ejection: pool.outlier.ejection,
                max_ejection: pool.outlier.max_ejection,
            },
        },
        // A proxy has no members.
        None => HealthSettings { regular: false, ..HealthSettings::default() },
    }
}

/// `shard` of `shards` starts its turns at another node than the others.
pub(crate) fn policy(config: &Config, shard: usize, shards: usize) -> Box<dyn Policy> {
    let start = shard * config.members().len() / shards.max(1);
    // That of a proxy, which asks none.
    let name = config.pool().map_or("round-robin", |pool| pool.policy.name());
    by_name(name, start).expect("the configuration names policies that there are")
}

/// What one of `shards` shards of a balancer is set up with.
pub(crate) fn books(config: &Config, shards: usize) -> balance::Settings {
    let mut weights = Weights::default();
    if let Some(config::Policy::Tlwl { weights: configured }) = config.pool().map(|pool| &pool.policy) {
        for (name, &weight) in configured {
            weights.set(Method::parse(name.as_bytes()), weight);
        }
    }
    let (timers, health) = (&config.timers, health(config));
    balance::Settings {
        weights,
        transaction_timeout: timers.t1 * 64,
        invite_timeout: timers.invite,
        call_lifetime: timers.call,
        linger: timers.linger,
        max_rest: health.max_rest,
        hold_failures: health.outlier.enabled,
        max_sessions: share(config.pool().map_or(0, |pool| pool.max_sessions), shards),
    }
}

/// `stopping`: new calls are refused, and the process has ended by then.
pub(crate) fn pipeline(config: &Config, epoch_unix: u64, stopping: Option<Instant>) -> node::Settings {
    let orphans = match config.pool().map(|pool| pool.orphans) {
        None | Some(Orphans::Reject481) => node::Orphans::Reject,
        Some(Orphans::Balance) => node::Orphans::Balance,
        Some(Orphans::Drop) => node::Orphans::Drop,
    };
    let tell_failures = shards::tells_failures();
    node::Settings { orphans, epoch_unix, stopping, tell_failures }
}

/// What one of `shards` shards of a proxy is set up with.
pub(crate) fn proxy(config: &Config, proxy: &Proxy, shards: usize) -> ProxySettings {
    let timers = transaction::Timers { t1: config.timers.t1, ..transaction::Timers::default() };
    ProxySettings { core: proxy::Settings { timers, timer_c: proxy.timer_c }, limits: limits(proxy, shards) }
}

/// Of memory, so that a shard takes a request of any length while it is empty: 256 times the longest datagram.
const SHARD_MEMORY_MIN: usize = 16 << 20;

/// A shard's share.
fn limits(proxy: &Proxy, shards: usize) -> ProxyLimits {
    ProxyLimits {
        transactions: share(proxy.max_transactions, shards),
        memory: share(proxy.max_memory, shards).max(SHARD_MEMORY_MIN),
    }
}

fn share(all: usize, shards: usize) -> usize {
    all.div_ceil(shards.max(1))
}

/// The tokens of this configuration; `key` stands in where it names none.
pub(crate) fn tokens(config: &Config, key: [u8; 16], time: &TokenTime) -> Tokens {
    let token = &config.token;
    let previous: Vec<_> = token.previous_keys.iter().map(|&key| Key(key)).collect();
    let tokens = Tokens::new(Key(token.key.unwrap_or(key)), &previous, token.lifetime);
    tokens.with_other_clock(time.other_ahead())
}

/// `host` and `host:port` forms, taken apart.
pub(crate) fn own_names(names: &[String]) -> Vec<(String, Option<u16>)> {
    names
        .iter()
        .map(|name| match name.rsplit_once(':') {
            Some((host, port)) => (host.to_owned(), port.parse().ok()),
            None => (name.clone(), None),
        })
        .collect()
}

/// Keys with another value than before that the process does not follow.
fn fixed(new: &Config, old: &Config) -> Vec<String> {
    let core = |config: &Config| {
        let proxy = config.proxy()?;
        Some((proxy.timer_c, config.timers.t1))
    };
    let changed = [
        ("[proxy] or [pool]", new.pool().is_some() != old.pool().is_some()),
        ("[proxy] timer_c or [timers] t1", core(new).zip(core(old)).is_some_and(|(new, old)| new != old)),
        ("[listen] udp", new.listen.udp != old.listen.udp),
        ("[listen] threads", new.listen.threads != old.listen.threads),
        ("[listen] receive_buffer", new.listen.receive_buffer != old.listen.receive_buffer),
        ("[admin] listen", new.admin.listen != old.admin.listen),
        ("[admin] token", new.admin.token != old.admin.token),
        ("[log] level", new.log.level != old.log.level),
        ("[log] format", new.log.format != old.log.format),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key.to_owned()).collect()
}

impl Control {
    /// The next hops of a proxy, and the listeners that lead there.
    pub(crate) fn hops(&self) -> Vec<Flow> {
        let next = self.config.proxy().map_or(&[][..], |proxy| &proxy.next);
        next.iter().filter_map(|&address| toward(&self.binds, address)).collect()
    }

    /// Until when new calls are refused, if they are. Where another process takes them, this one gets none.
    fn refuses_until(&self) -> Option<Instant> {
        let since = self.stopping.filter(|_| self.succeeded.is_none());
        since.map(|since| since + self.config.stop.wait)
    }

    pub(super) fn send_pipeline(&self) {
        let settings = pipeline(&self.config, self.epoch_unix, self.refuses_until());
        for worker in &self.workers {
            worker.send(Command::Pipeline(settings));
        }
    }

    pub(super) fn send_tokens(&self) {
        let tokens = tokens(&self.config, self.secret, &self.token_time);
        for worker in &self.workers {
            worker.send(Command::Tokens(Box::new(tokens.clone())));
        }
    }

    /// Reads the configuration again and takes over what can change while calls go on. Returns what cannot.
    pub(super) fn reload(&mut self) -> Result<Vec<String>, String> {
        let path = self.path.clone().ok_or("this process was started without a file")?;
        let mut config = config::load(&path).map_err(|errors| {
            for problem in errors.to_string().lines() {
                tracing::error!("reload refused: {problem}");
            }
            errors.to_string()
        })?;
        let fixed = fixed(&config, &self.config);
        // Kept in full, so that the next reload still sees what the process does not follow.
        let names = core::mem::take(&mut config.listen.names);
        config.listen = Listen { names, ..self.config.listen.clone() };
        (config.admin, config.log) = (self.config.admin.clone(), self.config.log.clone());
        if config.pool().is_some() != self.config.pool().is_some() {
            config.role = self.config.role.clone();
        }
        self.take_over(config);
        for what in &fixed {
            tracing::warn!("{what} changed in the file: takes effect with the next start");
        }
        tracing::info!(path = %path.display(), "configuration reloaded");
        Ok(fixed)
    }

    pub(super) fn take_over(&mut self, config: Config) {
        let policy = |config: &Config| config.pool().map(|pool| pool.policy.clone());
        let policy_changed = policy(&config) != policy(&self.config);
        let token_changed = config.token != self.config.token;
        self.config = config;
        let config = &self.config;
        self.secret = config.token.key.unwrap_or(self.secret);
        self.cluster.set_settings(health(config));
        self.probes.set_config(config);
        for (shard, worker) in self.workers.iter().enumerate() {
            worker.send(Command::Books(books(config, self.workers.len())));
            // A new policy object starts its turns and averages anew: only when it is another one.
            if policy_changed {
                worker.send(Command::Policy(self::policy(config, shard, self.workers.len())));
            }
        }
        if token_changed {
            self.send_tokens();
        }
        let config = &self.config;
        self.send_pipeline();
        if let Some(proxy) = config.proxy() {
            let (hops, limits): (Arc<[_]>, _) = (self.hops().into(), limits(proxy, self.workers.len()));
            for worker in &self.workers {
                worker.send(Command::Hops(Arc::clone(&hops), limits));
            }
        }
        let mut topology = node::Topology::clone(&self.topology);
        topology.names = own_names(&config.listen.names);
        self.topology = Arc::new(topology);
        self.renew_resolver();
        self.names.keep_only(self.config.members());
        self.update_members();
        // Names may have changed without a change of the nodes.
        self.told = u64::MAX;
        self.reloaded = true;
    }
}
