//! Raw to typed: every value by its kind, then what values must hold together.
//!
//! Each function reads all of its keys before it gives up, so that one mistake hides no other.

mod admin;
mod listen;
pub(crate) mod pool;
mod proxy;
pub(crate) mod timers;
mod token;

use std::path::Path;

use crate::raw::RawConfig;
use crate::report::Report;
use crate::typed::{Config, Dns, Listen, Log, Role, Stop};

/// The typed configuration; `None` when something was reported.
pub(crate) fn check(raw: &RawConfig, directory: &Path, report: &mut Report<'_>) -> Option<Config> {
    let listen = listen::check(&raw.listen, report);
    let role = role(raw, &listen, report);
    let timers = timers::check(&raw.timers, report);
    let token = token::check(&raw.token, directory, report);
    let admin = admin::check(&raw.admin, directory, report);
    let level = report.read(&raw.log.level);
    let format = report.read(&raw.log.format);
    let wait = report.read(&raw.stop.wait);
    let refresh = report.read(&raw.dns.refresh);
    let servers: Vec<_> = raw.dns.servers.iter().filter_map(|server| report.read(server)).collect();
    if !report.is_clean() {
        return None;
    }
    Some(Config {
        listen,
        role: role?,
        timers: timers?,
        token: token?,
        admin: admin?,
        log: Log { level: level?, format: format? },
        stop: Stop { wait: wait? },
        dns: Dns { refresh: refresh?, servers },
    })
}

/// A pool or a proxy, and not both.
fn role(raw: &RawConfig, listen: &Listen, report: &mut Report<'_>) -> Option<Role> {
    let Some(proxy) = &raw.proxy else { return pool::check(&raw.pool, listen, report).map(Role::Pool) };
    let proxy = proxy::check(proxy, listen, report);
    if let Some(name) = raw.pool.keys().next() {
        let remedy = format!("expected either a pool or `proxy`, not both; remove this one or `pool.{name}`");
        report.key_problem("proxy", remedy);
        pool::check(&raw.pool, listen, report);
    }
    proxy.map(Role::Proxy)
}
