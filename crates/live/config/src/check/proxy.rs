//! `[proxy]`

use super::listen::{is_own, no_listener, serves};
use super::{pool, timers};
use crate::raw::RawProxy;
use crate::report::Report;
use crate::typed::{Listen, PoolConfig, PoolOrigin};
use ::proxy::ProxyTimers;
use control::{Address, MemberSettings};
use node::{ProxyLimits, ProxySettings};
use transaction::Timers;

/// Alternates are counted in a byte, and no request can wait for more.
const MOST: usize = 64;

/// Name of the pool of its next hops.
pub(super) const POOL: &str = "proxy";

/// Returns the pool of the next hops, if there are any, and the settings of transactions. `needs_hops`: there is no
/// other target for requests.
pub(super) fn check(
    raw: Option<&RawProxy>,
    needs_hops: bool,
    listen: &Listen,
    timers: Option<timers::Timers>,
    report: &mut Report<'_>,
) -> Option<(Option<PoolConfig>, ProxySettings)> {
    let defaults = RawProxy::default();
    let is_there = raw.is_some();
    let raw = raw.unwrap_or(&defaults);
    let mut next: Vec<MemberSettings> = Vec::new();
    if raw.next.is_empty() && is_there && needs_hops {
        report.missing("proxy.next", "expected at least one next hop: next = [\"10.0.0.1:5060\"]");
    }
    for (index, setting) in raw.next.iter().enumerate() {
        let Some(peer) = setting.value() else { continue };
        if index >= MOST {
            report.conflict(setting, format!("expected at most {MOST} next hops"));
        }
        let member = MemberSettings::new(Address::Socket(peer));
        if next.contains(&member) {
            report.conflict(setting, "expected each next hop once; remove this one");
        }
        if !listen.listeners.is_empty() && !serves(&listen.listeners, peer) {
            report.conflict(setting, no_listener(peer));
        }
        if is_own(&listen.listeners, peer) {
            let remedy =
                "expected another SIP element; this is a listener of this process, and calls would loop";
            report.conflict(setting, remedy);
        }
        next.push(member);
    }
    pool::check_invite_timeout(&raw.invite_timeout, (raw.forward.value(), None), report);
    pool::check_stays(&raw.record_route, raw.forward.value(), report);
    let timers = timers?;
    let transaction = Timers { t1: timers.t1, ..Timers::default() };
    let limits = ProxyLimits {
        transactions: raw.max_transactions.value()? as usize,
        memory: raw.max_memory.value()?,
        ..ProxyLimits::default()
    };
    let settings = ProxySettings { timers: ProxyTimers { transaction, c: timers.c }, limits };
    let way = (raw.forward.value()?, raw.record_route.value()?, raw.invite_timeout.value()?);
    let pool = || pool::of_hops(POOL, PoolOrigin::Proxy, next.clone(), way, timers);
    Some(((!next.is_empty()).then(pool), settings))
}
