//! From raw to typed: compares values that depend on each other, and makes the types of the other crates.
//!
//! Each value has already been read by its kind, so one mistake does not hide another.

mod access;
mod actions;
mod admin;
mod agreement;
mod calls;
mod capacity;
mod conditions;
mod distribution;
mod hep;
mod listen;
mod overload;
pub(crate) mod pool;
mod proxy;
mod queue;
mod registrar;
mod routes;
mod scale;
mod site;
pub(crate) mod timers;
mod token;

use std::path::Path;

use crate::members::ambiguous_name;
use crate::raw::{RawConfig, RawPool};
use crate::report::Report;
use crate::setting::Setting;
use crate::structure::{in_order, join};
use crate::typed::{Config, Dns, Listen, Log, PoolConfig, RegistrarConfig, Stop};
use ::route::Rule;
use node::ProxySettings;
use routes::Around;
use site::Site;
use timers::Timers;

/// Returns the typed configuration; `None` if something was reported.
pub(crate) fn check(raw: &RawConfig, directory: &Path, report: &mut Report<'_>) -> Option<Config> {
    let listen = listen::check(&raw.listen, report);
    let connections = listen::connections(&raw.connections);
    let tls = listen::tls(raw.tls.as_ref(), &listen.listeners, directory, report);
    let authorities = tls.iter().flatten().find_map(|tls| tls.authorities.clone());
    let site = Site { directory, authorities };
    let timers = timers::check(&raw.timers, raw.proxy.as_ref(), report);
    let registrar = raw.registrar.as_ref().and_then(|raw| registrar::check(raw, &listen, &site, report));
    let targets = targets(raw, &listen, timers, registrar.as_ref(), report);
    let pools = targets.as_ref().map_or(&[][..], |targets| &targets.pools);
    if let (Some(targets), Some(registrar)) = (&targets, &registrar) {
        registrar::report_stateless_targets(&targets.routes, registrar, report);
    }
    let distribution = distribution::check(raw, (pools, registrar.as_ref()), report);
    let calls = calls::check(raw, (pools, registrar.as_ref(), distribution.as_ref()), &site, report);
    let access = access::check(raw, report);
    let overload = overload::check(&raw.overload, report);
    let token = token::check(&raw.token, directory, report);
    let admin = admin::check(&raw.admin, directory, report);
    let capacity =
        raw.capacity.as_ref().and_then(|raw| capacity::check(raw, admin.as_ref(), pools, directory, report));
    let hep = raw.hep.as_ref().and_then(|raw| hep::check(raw, report));
    let servers: Vec<_> = raw.dns.servers.iter().filter_map(Setting::value).collect();
    if !report.is_clean() {
        return None;
    }
    let Targets { pools, transactions, routes } = targets?;
    let (access, rates) = access?;
    Some(Config {
        listen,
        connections: connections?,
        tls: tls?,
        pools,
        transactions,
        distribution,
        calls,
        routes,
        registrar,
        access,
        rates,
        overload: overload?,
        token: token?,
        admin: admin?,
        capacity,
        hep,
        log: Log { level: raw.log.level.value()?, format: raw.log.format.value()? },
        stop: Stop { wait: raw.stop.wait.value()? },
        dns: Dns { refresh: raw.dns.refresh.value()?, servers },
    })
}

/// Pools and rules.
struct Targets {
    pools: Vec<PoolConfig>,
    transactions: ProxySettings,
    routes: Vec<Rule>,
}

/// Without routes there is a pool or a proxy; with routes, any number of pools.
fn targets(
    raw: &RawConfig,
    listen: &Listen,
    timers: Option<Timers>,
    registrar: Option<&RegistrarConfig>,
    report: &mut Report<'_>,
) -> Option<Targets> {
    let tables = in_order("pool", &raw.pool, report);
    let mut pool = |(name, path, raw): &(&str, String, &RawPool)| {
        pool::check((*name, path), raw, listen, timers, report)
    };
    let pools: Vec<_> = tables.iter().map(&mut pool).collect();
    let needs_hops = raw.pool.is_empty() && raw.route.is_empty() && raw.registrar.is_none();
    let proxy = proxy::check(raw.proxy.as_ref(), needs_hops, listen, timers, report);
    let has_hops = raw.proxy.as_ref().is_some_and(|proxy| !proxy.next.is_empty());
    let mut names: Vec<String> = tables.iter().map(|(name, ..)| (*name).to_owned()).collect();
    if has_hops && names.iter().any(|name| name == proxy::POOL) {
        let remedy =
            "the next hops of `proxy` are a pool of this name; choose another name, or remove `proxy.next`";
        report.key_problem(&join("pool", proxy::POOL), remedy);
    }
    if raw.route.is_empty() {
        check_alone(raw, &names, has_hops, report);
    }
    names.extend(has_hops.then(|| proxy::POOL.to_owned()));
    // Rules refer to pools by index. The name of a wrong pool is still known.
    let mut pools: Vec<PoolConfig> = pools.into_iter().collect::<Option<_>>().unwrap_or_default();
    scale::report_shared_members(&pools, report);
    let (hops, transactions) = proxy.unzip();
    pools.extend(hops.flatten());
    let refusal = raw.access.refuse.value().unwrap_or_default();
    let has_registrar = raw.registrar.is_some();
    let has_users = raw.registrar.as_ref().is_some_and(|registrar| registrar.users.is_some());
    let around = Around { listen, timers, names, refusal, has_registrar, has_users };
    let mut routes = routes::check(&raw.route, &around, &mut pools, report);
    if let (true, Some(registrar)) = (raw.route.is_empty(), registrar) {
        routes = Some(registrar::usual_rules(registrar));
    }
    if let Some((pool, remedy)) = ambiguous_name(&pools) {
        report.key_problem(&format!("{}.members", join("pool", &pool)), remedy);
    }
    agreement::check(&pools, |name| raw.pool.get(name), report);
    Some(Targets { pools, transactions: transactions?, routes: routes? })
}

/// Checks that without routes there is exactly one target for all requests.
fn check_alone(raw: &RawConfig, names: &[String], has_proxy: bool, report: &mut Report<'_>) {
    if let (Some(_), Some(name)) = (&raw.registrar, names.first()) {
        let remedy = format!(
            "no [[route]] decides which requests go to this pool and which to users: add a route with location = \
             true, and a route with pool = \"{name}\""
        );
        return report.key_problem(&join("pool", name), remedy);
    }
    if let (Some(_), true) = (&raw.registrar, has_proxy) {
        let remedy = "no [[route]] decides which requests go to the next hops and which to users: add a route with \
                      location = true, and a route with pool = \"proxy\"";
        return report.key_problem("proxy.next", remedy);
    }
    if raw.registrar.is_some() {
        return;
    }
    if names.is_empty() && raw.proxy.is_none() {
        let remedy = "expected a pool: a table [pool.servers] with members = [\"10.0.0.1:5060\"]; a [proxy]; or a \
             [registrar]";
        report.missing("pool", remedy);
    }
    if let (true, Some(name)) = (has_proxy, names.first()) {
        let remedy = format!(
            "expected either a pool or `proxy`, or a [[route]] for each; remove `proxy` or `pool.{name}`, or add \
            routes"
        );
        report.key_problem("proxy", remedy);
    }
    for name in names.iter().skip(1) {
        let remedy = format!(
            "there are several pools, and no [[route]] decides which requests go to this pool: add a route with pool \
             = \"{name}\" and a route for `{}`; or remove this pool",
            join("pool", &names[0])
        );
        report.key_problem(&join("pool", name), remedy);
    }
}
