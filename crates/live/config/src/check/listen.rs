//! `[listen]`

use std::net::SocketAddr;

use crate::raw::RawListen;
use crate::report::Report;
use crate::setting::{Entry, Setting};
use crate::typed::{Listen, UdpListener};

/// The table, with `udp` empty when a listener is wrong: members are then not held against the others.
pub(super) fn check(raw: &RawListen, report: &mut Report<'_>) -> Listen {
    let udp = listeners(raw, report);
    let names = names(raw, report);
    let threads = raw.threads.value().unwrap_or(0) as usize;
    let receive_buffer = raw.receive_buffer.value().unwrap_or(0);
    Listen { udp, names, threads, receive_buffer }
}

/// All listeners, or none when one is wrong.
fn listeners(raw: &RawListen, report: &mut Report<'_>) -> Vec<UdpListener> {
    if raw.udp.is_empty() {
        report.missing("listen.udp", "expected at least one listener: udp = [\"0.0.0.0:5060\"]");
    }
    let mut udp: Vec<UdpListener> = Vec::new();
    let mut advertised = Vec::new();
    for (index, entry) in raw.udp.iter().enumerate() {
        let (bind, advertise) = match entry {
            Entry::Plain(bind) => (Some(bind), None),
            Entry::Table(table) => (table.bind.as_ref(), table.advertise.as_ref()),
        };
        let address = advertise.and_then(Setting::value);
        advertised.extend(advertise.zip(address));
        let Some(setting) = bind else {
            let path = format!("listen.udp[{index}].bind");
            report.missing(&path, "expected a local address: { bind = \"0.0.0.0:5060\", advertise = ... }");
            continue;
        };
        match setting.value() {
            Some(bind) if udp.iter().any(|other| other.bind == bind) => {
                report.conflict(setting, "expected each address once; remove this one or change its port");
            }
            Some(bind) => udp.push(UdpListener { bind, advertise: address }),
            None => {}
        }
    }
    if udp.len() < raw.udp.len() {
        return Vec::new();
    }
    // Whoever answers to an advertised address does so in its family.
    for (setting, address) in advertised {
        if !serves(&udp, address) {
            report.conflict(setting, no_listener(address));
        }
    }
    udp
}

/// Whether a listener of the address's family exists.
pub(super) fn serves(udp: &[UdpListener], address: SocketAddr) -> bool {
    udp.iter().any(|listener| listener.bind.is_ipv4() == address.is_ipv4())
}

/// Whether `address` is one of the listeners'. A loopback address is certainly one of those that a wildcard stands
/// for.
pub(super) fn is_own(udp: &[UdpListener], address: SocketAddr) -> bool {
    udp.iter().any(|listener| {
        let wildcard = listener.bind.ip().is_unspecified() && address.ip().is_loopback();
        listener.bind == address
            || listener.advertise == Some(address)
            || (wildcard
                && listener.bind.port() == address.port()
                && listener.bind.is_ipv4() == address.is_ipv4())
    })
}

pub(super) fn no_listener(address: SocketAddr) -> String {
    let (family, wildcard) = if address.is_ipv4() { ("IPv4", "0.0.0.0:5060") } else { ("IPv6", "[::]:5060") };
    format!(
        "there is no {family} listener to send from; remove this address or add \"{wildcard}\" to `listen.udp`"
    )
}

pub(super) fn no_such_listener(udp: &[UdpListener]) -> String {
    let all: Vec<_> = udp.iter().map(|listener| listener.bind.to_string()).collect();
    format!("there is no such listener; `listen.udp` has {}", all.join(", "))
}

fn names(raw: &RawListen, report: &mut Report<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for setting in &raw.names {
        match setting.value() {
            Some(name) if names.contains(&name) => {
                report.conflict(setting, "expected each name once; remove this one");
            }
            Some(name) => names.push(name),
            None => {}
        }
    }
    names
}
