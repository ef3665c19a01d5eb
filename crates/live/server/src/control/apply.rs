//! Turns the configuration into the settings of the core, at start and on reload.

use super::Control;
use ::control::{ControlInput, ControlSettings, MemberSettings};
use balance::{PolicyKind, PoolId};
use base::{Peer, Transport};
use config::{
    Admin, ChangeError, Config, HepConfig, Listen, Listener, MemberChange, PoolConfig, PoolOrigin,
    RegistrarConfig,
};
use node::{Port, Ports, RegistrarSettings, Routes, ShardSettings, TokenKey, Tokens};
use route::{Access, Table};
use shards::listen::listener_of;
use shards::{Command, Mirror, Records, Stores};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Returns the settings of the control plane. `ports` are the addresses at which the process listens.
pub(super) fn settings(
    config: &Config,
    ports: &Ports,
    tokens: Tokens,
    epoch_unix: u64,
    stores: Option<&Stores>,
) -> ControlSettings {
    let members = |(id, pool): (PoolId, &PoolConfig)| -> Vec<_> {
        let of_it = |member: &MemberSettings| MemberSettings { pool: id, ..member.clone() };
        pool.members.iter().map(of_it).collect()
    };
    let listeners: Vec<_> = ports.iter().map(|port| port.local).collect();
    ControlSettings {
        pools: config.pools.iter().map(|pool| pool.settings.clone()).collect(),
        members: (0..).map(PoolId).zip(&config.pools).flat_map(members).collect(),
        shards: ShardSettings {
            // If all members are next hops, one of them may know the dialog.
            forwards_orphans: config.pools.first().is_some_and(|pool| pool.origin != PoolOrigin::Table),
            epoch_unix,
            tell_failures: shards::tells_failures(),
            tokens: Arc::new(tokens),
            sessions: sessions(config),
            routes: Arc::new(Routes {
                table: Table::new(config.routes.clone(), &listeners),
                access: ports.iter().map(|port| access(config, port)).collect(),
            }),
            rates: config.rates.clone(),
            overload: config.overload.clone(),
            registrar: config
                .registrar
                .as_ref()
                .zip(stores)
                .map(|(registrar, stores)| home(registrar, stores)),
            limits: config.transactions.limits,
            distribution: config.distribution.clone(),
            dialogs: config.calls.as_ref().map(|calls| Arc::new(calls.dialogs.clone())),
            large_requests: config.connections.large_requests,
            keep_alive: config.listen.keep_alive,
        },
        own_names: own_names(config),
        token_lifetime: config.token.lifetime,
        refresh: config.dns.refresh,
        stop_wait: config.stop.wait,
    }
}

/// Returns the session settings of all pools. The pools of the file have the same pause.
fn sessions(config: &Config) -> balance::SessionSettings {
    let Some(first) = config.pool().or(config.pools.first()) else {
        return balance::SessionSettings::default();
    };
    // Only this policy uses weights, and all pools that have it use the same weights.
    let weighs = |pool: &&PoolConfig| pool.settings.policy == PolicyKind::Tlwl;
    let weights = &config.table_pools().find(weighs).unwrap_or(first).sessions.weights;
    let rests = config.table_pools().map(|pool| pool.settings.health.max_rest);
    balance::SessionSettings {
        weights: *weights,
        // The limit of each pool is applied where health is judged.
        max_rest: rests.max().unwrap_or(first.sessions.max_rest),
        hold_failures: config.table_pools().any(|pool| pool.sessions.hold_failures),
        ..first.sessions.clone()
    }
}

fn access(config: &Config, port: &Port) -> Access {
    let index = listener_of(&config.listen.listeners, port);
    index.and_then(|index| config.access.get(index).cloned()).unwrap_or_default()
}

/// Returns the tokens of this configuration. `key` is used if it names no key.
pub(crate) fn tokens(config: &Config, key: [u8; 16]) -> Tokens {
    let token = &config.token;
    let previous: Vec<_> = token.previous_keys.iter().map(|&key| TokenKey(key)).collect();
    Tokens::new(TokenKey(token.key.unwrap_or(key)), &previous, token.lifetime)
}

/// Returns the shards' settings of the registrar. It offers only digest algorithms for which the users have hashes.
fn home(registrar: &RegistrarConfig, stores: &Stores) -> Arc<RegistrarSettings> {
    let mut home = registrar.settings.clone();
    if let Some(authentication) = &mut home.authentication {
        let digest = &mut authentication.digest;
        digest.offer = stores.offer(&digest.realm, registrar.algorithms.as_ref());
    }
    Arc::new(home)
}

/// Splits names of the forms `host` and `host:port`, including the domains of users.
fn own_names(config: &Config) -> Vec<(String, Option<u16>)> {
    let domains = config.registrar.iter().flat_map(|registrar| &registrar.settings.registrar.domains);
    let domains = domains.map(|domain| String::from_utf8_lossy(domain).into_owned());
    let names = config.listen.names.iter().cloned().chain(domains.filter(|domain| !domain.starts_with('[')));
    names
        .map(|name| match name.rsplit_once(':') {
            Some((host, port)) => (host.to_owned(), port.parse().ok()),
            None => (name, None),
        })
        .collect()
}

/// Returns changed keys that take effect only after a restart.
fn fixed(new: &Config, old: &Config) -> Vec<String> {
    let changed = [
        ("[proxy] timer_c or [timers] t1", new.transactions.timers != old.transactions.timers),
        ("[listen] threads", new.listen.threads != old.listen.threads),
        ("[connections]", new.connections != old.connections),
        ("[admin] listen", new.admin.listen != old.admin.listen),
        ("[admin] token", new.admin.token != old.admin.token),
        ("[admin] page", new.admin.page != old.admin.page),
        ("[log] format", new.log.format != old.log.format),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key.to_owned());
    fixed_listeners(&new.listen, &old.listen).chain(changed).collect()
}

/// Returns the keys of the transports whose listeners have changed.
fn fixed_listeners(new: &Listen, old: &Listen) -> impl Iterator<Item = String> {
    let of = |listen: &Listen, transport| -> Vec<Listener> {
        listen.listeners.iter().filter(|listener| listener.transport == transport).cloned().collect()
    };
    let changed = Transport::ALL.into_iter().filter(move |&one| of(new, one) != of(old, one));
    changed.map(|transport| format!("[listen] {}", transport.name().to_ascii_lowercase()))
}

/// Returns the access list of each listener of this process, after `new` was read. A listener that is no longer in the
/// file stays, with its lists, until the next start.
fn access_of(running: &Config, new: &Config) -> Vec<Access> {
    let of = |(index, listener): (usize, &Listener)| {
        let is_it = |other: &Listener| (other.transport, other.bind) == (listener.transport, listener.bind);
        let place = new.listen.listeners.iter().position(is_it);
        let kept = || running.access.get(index).cloned().unwrap_or_default();
        place.and_then(|place| new.access.get(place).cloned()).unwrap_or_else(kept)
    };
    running.listen.listeners.iter().enumerate().map(of).collect()
}

/// Result of a reload for one resource.
enum Renewal<T> {
    Kept,
    /// A new resource, or `None` if the configuration no longer has one.
    Other(Option<Arc<T>>),
}

/// Resources that a reload opens before it changes anything.
struct Renewed {
    stores: Renewal<Stores>,
    records: Option<Arc<Records>>,
    /// A listener at a new address.
    capacity: Option<TcpListener>,
}

impl Control {
    /// Opens all resources that a reload needs, and reads users in a file again. Nothing else changes.
    fn renew(&self, config: &Config) -> Result<Renewed, String> {
        let capacity = self.renewed_capacity(config)?;
        let records = self.renewed_records(config)?;
        let stores = self.renewed_stores(config).map_err(|error| format!("[registrar] {error}"))?;
        Ok(Renewed { stores, records, capacity })
    }

    fn take_renewed(&mut self, Renewed { stores, records, capacity }: Renewed, config: &Config) {
        if let Renewal::Other(stores) = stores {
            self.stores = stores;
            for worker in &self.workers {
                worker.send(Command::Stores(self.stores.clone()));
            }
        }
        if let Some(records) = records {
            self.records = Some(records);
            for worker in &self.workers {
                worker.send(Command::Records(self.records.clone()));
            }
        }
        self.renew_capacity(config, capacity);
    }

    /// Opens the stores of users and bindings if their place has changed.
    fn renewed_stores(&self, config: &Config) -> Result<Renewal<Stores>, String> {
        let places = |config: &Config| {
            config.registrar.as_ref().map(|registrar| (registrar.users.clone(), registrar.store.clone()))
        };
        if places(config) == places(&self.config) {
            return self.reload_users(config).map(|()| Renewal::Kept);
        }
        let store = |config: &Config| config.registrar.as_ref().map(|registrar| registrar.store.clone());
        let before = self.stores.as_deref().zip(self.config.registrar.as_ref());
        let start = |registrar| Stores::start(registrar, self.path.as_deref(), before);
        let stores = config.registrar.as_ref().map(start).transpose()?.map(Arc::new);
        if store(config) != store(&self.config) && self.stores.is_some() {
            tracing::warn!(
                "[registrar] store was changed: bindings of the previous store are not found until the users \
                 register again"
            );
        }
        Ok(Renewal::Other(stores))
    }

    /// Opens the destination of call records if it has changed.
    fn renewed_records(&self, config: &Config) -> Result<Option<Arc<Records>>, String> {
        let place = |config: &Config| {
            config.calls.as_ref().map(|calls| (calls.records.clone(), calls.rotate, calls.keep))
        };
        if place(config) == place(&self.config) {
            if let Some(records) = &self.records {
                records.retry();
            }
            return Ok(None);
        }
        // Calls in progress are still recorded at the previous place if records are switched off.
        let Some(calls) = &config.calls else { return Ok(None) };
        Records::start(calls, self.path.as_deref(), self.records.as_deref()).map(Arc::new).map(Some)
    }

    /// Starts or ends the copies for a collector if its settings are others than `before`.
    pub(super) fn renew_mirror(&mut self, before: Option<&HepConfig>) {
        let hep = self.config.hep.as_ref();
        if hep == before {
            return;
        }
        let start = |hep| Mirror::start(hep, &self.ports, self.mirror.as_deref()).map(Arc::new);
        self.mirror = hep.map(start).transpose().unwrap_or_else(|error| {
            tracing::error!("[hep] no messages are copied: {error}");
            None
        });
        for worker in &self.workers {
            worker.send(Command::Mirror(self.mirror.clone()));
        }
    }

    fn reload_users(&self, config: &Config) -> Result<(), String> {
        match (&self.stores, &config.registrar) {
            (Some(stores), Some(registrar)) => stores.reload(registrar),
            _ => Ok(()),
        }
    }

    /// Reads the configuration again and takes over all settings that can change while calls are in progress. Returns
    /// the keys that need a restart.
    pub(super) fn reload(&mut self) -> Result<Vec<String>, String> {
        let path = self.path.clone().ok_or("this process was started without a file")?;
        let mut config = config::load(&path).map_err(|errors| {
            for problem in errors.to_string().lines() {
                tracing::error!("reload refused: {problem}");
            }
            errors.to_string()
        })?;
        let renewed = self.renew(&config).inspect_err(|error| tracing::error!("reload refused: {error}"))?;
        self.renew_certificates(&config).map_err(|error| {
            tracing::error!("reload refused: {error}");
            error.to_string()
        })?;
        self.take_renewed(renewed, &config);
        let fixed = fixed(&config, &self.config);
        // The whole configuration is kept, so that the next reload still sees the keys that need a restart.
        config.access = access_of(&self.config, &config);
        let Listen { names, keep_alive, .. } = config.listen;
        config.listen = Listen { names, keep_alive, ..self.config.listen.clone() };
        config.connections = self.config.connections.clone();
        if config.log.level != self.config.log.level && !crate::log::set_level(config.log.level) {
            tracing::warn!("[log] level changed in the file, but RUST_LOG or --log-level sets the level");
        }
        let member_histograms = config.admin.member_histograms;
        config.admin = Admin { member_histograms, ..self.config.admin.clone() };
        config.log.format = self.config.log.format;
        let in_new_file = self.config.differences(&config);
        for change in self.unsaved().into_iter().filter(|change| in_new_file.contains(change)) {
            tracing::info!(change, "a change of members ends: the file was read again");
        }
        self.take_over(config);
        self.file = None;
        for key in &fixed {
            tracing::warn!("{key} changed in the file: takes effect with the next start");
        }
        tracing::info!(path = %path.display(), "configuration reloaded");
        Ok(fixed)
    }

    /// Returns the changes of members that are not in the file.
    pub(super) fn unsaved(&self) -> Vec<String> {
        self.file.as_ref().map(|file| self.config.differences(file)).unwrap_or_default()
    }

    /// Changes the members of a pool as a reload of a changed file would. Returns the members that the change concerns.
    pub(super) fn change_member(
        &mut self,
        pool: &str,
        change: &MemberChange,
    ) -> Result<Vec<Peer>, ChangeError> {
        let config = self.config.with_member_change(pool, change)?;
        tracing::info!(pool, ?change, "an operator changes the members; the file is unchanged");
        self.file.get_or_insert_with(|| Box::new(self.config.clone()));
        self.take_over(config);
        let member = change.member();
        let meant = self.core.meant(member, config::member_address(member).ok().as_ref());
        Ok(meant.unwrap_or_default().into_iter().map(|(_, peer)| peer).collect())
    }

    pub(super) fn take_over(&mut self, config: Config) {
        let before = std::mem::replace(&mut self.config, config).hep;
        self.renew_mirror(before.as_ref());
        self.secret = self.config.token.key.unwrap_or(self.secret);
        let is_other_resolver = self.renew_resolver();
        let tokens = tokens(&self.config, self.secret);
        let settings =
            Box::new(settings(&self.config, &self.ports, tokens, self.epoch_unix, self.stores.as_deref()));
        self.take(ControlInput::Settings { settings, is_other_resolver });
        self.carry_out();
        if !self.core.is_stopping() {
            self.renew_scaling();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    const ROUTES: &str = "[pool.core]\nmembers = [\"10.0.0.1\"]\npolicy = \"cjsq\"\nmax_rest = \"20s\"\n\
                          outlier = false\n\
                          [pool.out]\nmembers = [\"10.0.0.2\"]\npolicy = \"tlwl-2\"\nmax_rest = \"30s\"\n\
                          [[route]]\nname = \"core\"\npool = \"core\"\nuser = \"1\"\n[[route]]\npool = \"out\"\n";

    fn parsed(text: &str) -> Config {
        config::parse(text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn ports(addresses: &[&str]) -> Ports {
        addresses.iter().map(|text| Port::udp(text.parse().unwrap())).collect::<Vec<_>>().into()
    }

    fn settings_of(config: &Config, addresses: &[&str]) -> ControlSettings {
        let tokens = Tokens::new(TokenKey([1; 16]), &[], Duration::from_hours(1));
        settings(config, &ports(addresses), tokens, 0, None)
    }

    fn admits(settings: &ControlSettings, listener: usize, ip: &str) -> bool {
        settings.shards.routes.access[listener].admits(ip.parse().unwrap())
    }

    /// The first listener of the file is a wildcard, and stands for three addresses of the machine.
    #[test]
    fn lists_and_routes_follow_the_listeners() {
        let text = "[listen]\nudp = [\"0.0.0.0:5060\", { bind = \"127.0.0.2:5060\", allow = [\"10.7.0.0/16\"] }, \
                    { bind = \"[::1]:5060\", deny = [\"::/0\"] }]\n[access]\ndeny = [\"10.9.0.0/16\"]\n";
        let routes = ROUTES.replace("user = \"1\"", "listener = \"127.0.0.2:5060\"");
        let config = parsed(&format!("{text}{routes}"));
        let addresses = ["127.0.0.1:5060", "127.0.0.2:5060", "192.0.2.1:5060", "[::1]:5060"];
        let settings = settings_of(&config, &addresses);
        for wild in [0, 2] {
            assert!(admits(&settings, wild, "192.0.2.9") && !admits(&settings, wild, "10.9.0.1"), "{wild}");
        }
        assert!(admits(&settings, 1, "10.7.0.1") && !admits(&settings, 1, "192.0.2.9"));
        assert!(!admits(&settings, 3, "2001:db8::1"));
        let same = Table::new(config.routes.clone(), &addresses.map(|address| address.parse().unwrap()));
        assert_eq!(settings.shards.routes.table, same, "a condition on a listener holds for the second one");
        let other = Table::new(config.routes.clone(), &[addresses[1].parse().unwrap()]);
        assert_ne!(settings.shards.routes.table, other);
    }

    /// Two transports may have the same address.
    #[test]
    fn lists_follow_the_transport() {
        let text = "[listen]\nudp = [{ bind = \"127.0.0.1:5060\", deny = [\"10.7.0.0/16\"] }]\n\
                    tcp = [{ bind = \"127.0.0.1:5060\", deny = [\"10.8.0.0/16\"] }]\n";
        let config = parsed(&format!("{text}{ROUTES}"));
        let at = "127.0.0.1:5060".parse().unwrap();
        let admits =
            |transport, ip: &str| access(&config, &Port::new(transport, at, at)).admits(ip.parse().unwrap());
        assert!(!admits(Transport::Udp, "10.7.0.1") && admits(Transport::Udp, "10.8.0.1"));
        assert!(admits(Transport::Tcp, "10.7.0.1") && !admits(Transport::Tcp, "10.8.0.1"));
        let without = parsed(&format!("{}{ROUTES}", &text[..text.find("tcp").unwrap()]));
        assert_eq!(fixed(&without, &config), ["[listen] tcp"]);
    }

    #[test]
    fn shared_session_settings_serve_every_pool() {
        let config = parsed(&format!("[listen]\nudp = [\"0.0.0.0:5060\"]\n{ROUTES}"));
        let sessions = settings_of(&config, &["127.0.0.1:5060"]).shards.sessions;
        let out = config.table_pools().nth(1).unwrap();
        assert_eq!(sessions.weights, out.sessions.weights, "the weights of the pool whose policy uses work");
        assert_eq!(sessions.max_rest, Duration::from_secs(30));
        assert!(sessions.hold_failures);
    }

    #[test]
    fn a_reload_changes_pools_routes_access_and_rates() {
        let old = parsed(&format!("[listen]\nudp = [\"127.0.0.1:5060\"]\n{ROUTES}"));
        let more = "[pool.more]\nmembers = [\"10.0.0.3\"]\n[[route]]\npool = \"more\"\nuser = \"1\"\n";
        let lists = "[access]\ndeny = [\"10.9.0.0/16\"]\nrate = { per_address = 5 }\n";
        let new = parsed(&format!("[listen]\nudp = [\"127.0.0.1:5060\"]\n{lists}{more}"));
        assert_eq!(fixed(&new, &old), Vec::<String>::new());
        assert_eq!(fixed(&old, &new), Vec::<String>::new());
    }

    #[test]
    fn a_changed_list_applies_to_a_running_listener() {
        let listen = |text: &str| parsed(&format!("[listen]\nudp = [{text}]\n{ROUTES}"));
        let old = listen("\"127.0.0.1:5060\", { bind = \"127.0.0.2:5060\", deny = [\"10.2.0.0/16\"] }");
        // One listener is gone, one is new, and one has another list, which takes effect without a restart.
        let new = listen(
            "{ bind = \"127.0.0.3:5060\", deny = [\"10.3.0.0/16\"] }, \
             { bind = \"127.0.0.1:5060\", deny = [\"10.1.0.0/16\"] }",
        );
        assert_eq!(fixed(&new, &old), ["[listen] udp"]);
        let access = access_of(&old, &new);
        let denies = |index: usize, ip: &str| !access[index].admits(ip.parse().unwrap());
        assert_eq!(access.len(), 2);
        assert!(denies(0, "10.1.0.1") && !denies(0, "10.3.0.1"), "{access:?}");
        assert!(denies(1, "10.2.0.1") && !denies(1, "10.3.0.1"), "{access:?}");
    }
}
