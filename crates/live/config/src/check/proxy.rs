//! `[proxy]`

use super::listen::{is_own, no_listener, serves};
use super::timers;
use crate::raw::RawProxy;
use crate::report::Report;
use crate::typed::{Listen, ProxyConfig};
use ::proxy::ProxyTimers;
use balance::PoolId;
use base::Peer;
use control::{Address, MemberSettings};
use node::{ProxyLimits, ProxySettings};
use transaction::Timers;

/// Alternates are counted in a byte, and nobody waits for more.
const MOST: usize = 64;

/// The pool that its next hops are.
pub(super) const POOL: &str = "proxy";

/// The next hops, if there are any, and the settings of all that is forwarded with transactions. `needs_hops`: there
/// is nothing else that requests could go to.
pub(super) fn check(
    raw: Option<&RawProxy>,
    needs_hops: bool,
    listen: &Listen,
    timers: Option<timers::Timers>,
    report: &mut Report<'_>,
) -> Option<(Option<ProxyConfig>, ProxySettings)> {
    let defaults = RawProxy::default();
    let is_there = raw.is_some();
    let raw = raw.unwrap_or(&defaults);
    let mut next: Vec<Peer> = Vec::new();
    if raw.next.is_empty() && is_there && needs_hops {
        report.missing("proxy.next", "expected at least one next hop: next = [\"10.0.0.1:5060\"]");
    }
    for (index, setting) in raw.next.iter().enumerate() {
        let Some(peer) = setting.value() else { continue };
        if index >= MOST {
            report.conflict(setting, format!("expected at most {MOST} next hops"));
        }
        if next.contains(&peer) {
            report.conflict(setting, "expected each next hop once; remove this one");
        }
        if !listen.listeners.is_empty() && !serves(&listen.listeners, peer) {
            report.conflict(setting, no_listener(peer));
        }
        if is_own(&listen.listeners, peer) {
            let remedy =
                "expected another element; this is the proxy's own listener, and calls would go in circles";
            report.conflict(setting, remedy);
        }
        next.push(peer);
    }
    super::pool::check_invite_timeout(&raw.invite_timeout, (raw.forward.value(), None), report);
    let timers::Timers { t1, c, .. } = timers?;
    let timers = ProxyTimers { transaction: Timers { t1, ..Timers::default() }, c };
    let limits = ProxyLimits {
        transactions: raw.max_transactions.value()? as usize,
        memory: raw.max_memory.value()?,
        ..ProxyLimits::default()
    };
    let settings = ProxySettings { timers, limits };
    let proxy = ProxyConfig {
        next,
        forward: raw.forward.value()?,
        record_route: raw.record_route.value()?,
        invite_timeout: raw.invite_timeout.value()?,
        settings,
    };
    Some(((!proxy.next.is_empty()).then_some(proxy), settings))
}

/// The next hops as the members of a pool.
pub(super) fn members(proxy: &ProxyConfig) -> Vec<MemberSettings> {
    let member = |next: &Peer| MemberSettings {
        address: Address::Socket(*next),
        capacity: 1.0,
        max_calls: 0,
        max_rate: 0,
        pool: PoolId::default(),
    };
    proxy.next.iter().map(member).collect()
}
