//! `[proxy]`

use std::net::SocketAddr;

use super::listen::{is_own, no_listener, serves};
use crate::raw::RawProxy;
use crate::report::Report;
use crate::typed::{Listen, Proxy};

/// Alternates are counted in a byte, and nobody waits for more.
const MOST: usize = 64;

pub(super) fn check(raw: &RawProxy, listen: &Listen, report: &mut Report<'_>) -> Option<Proxy> {
    let mut next: Vec<SocketAddr> = Vec::new();
    if raw.next.is_empty() {
        report.missing("proxy.next", "expected at least one next hop: next = [\"10.0.0.1:5060\"]");
    }
    for (index, setting) in raw.next.iter().enumerate() {
        let Some(address) = report.read(setting) else { continue };
        if index >= MOST {
            report.conflict(setting, format!("expected at most {MOST} next hops"));
        }
        if next.contains(&address) {
            report.conflict(setting, "expected each next hop once; remove this one");
        }
        if !listen.udp.is_empty() && !serves(&listen.udp, address) {
            report.conflict(setting, no_listener(address));
        }
        if is_own(&listen.udp, address) {
            let remedy =
                "expected another element; this is the proxy's own listener, and calls would go in circles";
            report.conflict(setting, remedy);
        }
        next.push(address);
    }
    let timer_c = report.read(&raw.timer_c);
    let max_transactions = report.read(&raw.max_transactions);
    let max_memory = report.read(&raw.max_memory);
    Some(Proxy {
        next,
        timer_c: timer_c?,
        max_transactions: max_transactions? as usize,
        max_memory: max_memory?,
    })
}
