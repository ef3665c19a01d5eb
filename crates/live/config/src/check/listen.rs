//! `[listen]`, `[connections]` and `[tls]`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::access;
use crate::kind::FilePath;
use crate::raw::{RawCertificate, RawConnections, RawListen, RawListener, RawTls};
use crate::report::Report;
use crate::setting::{Item, Setting, given};
use crate::typed::{CertificateFiles, Connections, Listen, Listener, Tls};
use base::{Peer, Transport};

/// Returns the table. If a listener is wrong, `listeners` is empty, so that members are not compared with an incomplete
/// list.
pub(super) fn check(raw: &RawListen, report: &mut Report<'_>) -> Listen {
    let listeners = listeners(raw, report);
    let names = names(raw, report);
    let threads = raw.threads.value().unwrap_or(0) as usize;
    let keep_alive = raw.keep_alive.value().unwrap_or_default();
    Listen { listeners, names, threads, keep_alive }
}

/// Returns all listeners; none if one is wrong.
fn listeners(raw: &RawListen, report: &mut Report<'_>) -> Vec<Listener> {
    let mut found = Found { listeners: Vec::new(), is_right: true };
    found.of(Transport::Udp, &raw.udp, report);
    found.of(Transport::Tcp, &raw.tcp, report);
    found.of(Transport::Tls, &raw.tls, report);
    found.of(Transport::Ws, &raw.ws, report);
    found.of(Transport::Wss, &raw.wss, report);
    if found.listeners.is_empty() && found.is_right {
        let in_file = Transport::ALL.map(key).into_iter().find(|key| report.has(key));
        let empty = in_file.unwrap_or_else(|| key(Transport::Udp));
        report.missing(&empty, "expected at least one listener: udp = [\"0.0.0.0:5060\"]");
    }
    if found.is_right { found.listeners } else { Vec::new() }
}

/// The listeners that were read so far.
struct Found {
    listeners: Vec<Listener>,
    is_right: bool,
}

impl Found {
    /// Reads the listeners of a transport.
    fn of<const PORT: u16>(
        &mut self,
        transport: Transport,
        raw: &[Item<RawListener<PORT>>],
        report: &mut Report<'_>,
    ) {
        let mut advertised = Vec::new();
        for (index, Item(RawListener { bind, advertise, proxy_protocol, .. })) in raw.iter().enumerate() {
            let address = advertise.as_ref().and_then(Setting::value);
            advertised.extend(advertise.as_ref().zip(address));
            let proxied = format!("{}[{index}].proxy_protocol", key(transport));
            if transport == Transport::Udp && report.has(&proxied) {
                let remedy =
                    "a PROXY header begins a connection, and UDP has no connections; remove this key";
                report.key_problem(&proxied, remedy);
            }
            let Some(setting) = bind else {
                let (path, port) = (key(transport), transport.default_port());
                let remedy =
                    format!("expected a local address: {{ bind = \"0.0.0.0:{port}\", advertise = ... }}");
                report.missing(&format!("{path}[{index}].bind"), remedy);
                self.is_right = false;
                continue;
            };
            let Some(bind) = setting.value() else {
                self.is_right = false;
                continue;
            };
            if let Some(remedy) = self.listeners.iter().find_map(|other| other.excludes(transport, bind)) {
                report.conflict(setting, remedy);
                self.is_right = false;
            }
            let proxy_protocol = access::networks(proxy_protocol);
            self.listeners.push(Listener { transport, bind, advertise: address, proxy_protocol });
        }
        if !self.is_right {
            return;
        }
        // A peer answers to an advertised address in its family.
        for (setting, address) in advertised {
            let peer = Peer::new(transport, address);
            if !serves(&self.listeners, peer) {
                report.conflict(setting, no_listener(peer));
            }
        }
    }
}

impl Listener {
    /// Returns why another listener cannot be bound to `bind` beside this one; `None` if it can.
    fn excludes(&self, transport: Transport, bind: SocketAddr) -> Option<String> {
        let is_same = self.bind == bind;
        if self.transport == transport {
            let remedy = "expected each address once; remove this one or change its port";
            return is_same.then(|| remedy.to_owned());
        }
        let is_within = self.bind.port() == bind.port()
            && self.bind.is_ipv4() == bind.is_ipv4()
            && (self.bind.ip().is_unspecified() || bind.ip().is_unspecified());
        let is_shared = self.transport.is_reliable() && transport.is_reliable() && (is_same || is_within);
        is_shared.then(|| {
            let (key, other) = (key(self.transport), self.bind);
            format!("`{key}` already uses this port, at {other}, and all transports but UDP use TCP ports; change \
                    one of the ports")
        })
    }
}

/// The key of the listeners of a transport.
fn key(transport: Transport) -> String {
    format!("listen.{}", name(transport))
}

/// Name of a transport in keys.
fn name(transport: Transport) -> String {
    transport.name().to_ascii_lowercase()
}

/// Whether a listener of the peer's transport and family exists.
pub(super) fn serves(listeners: &[Listener], peer: Peer) -> bool {
    listeners.iter().any(|listener| {
        listener.transport == peer.transport && listener.bind.is_ipv4() == peer.address.is_ipv4()
    })
}

/// Whether `peer` is one of the listeners. A loopback address always belongs to a wildcard.
pub(super) fn is_own(listeners: &[Listener], peer: Peer) -> bool {
    let address = peer.address;
    listeners.iter().filter(|listener| listener.transport == peer.transport).any(|listener| {
        let wildcard = listener.bind.ip().is_unspecified() && address.ip().is_loopback();
        listener.bind == address
            || listener.advertise == Some(address)
            || (wildcard
                && listener.bind.port() == address.port()
                && listener.bind.is_ipv4() == address.is_ipv4())
    })
}

pub(super) fn no_listener(peer: Peer) -> String {
    let (family, wildcard) = if peer.address.is_ipv4() { ("IPv4", "0.0.0.0") } else { ("IPv6", "[::]") };
    let (key, port) = (key(peer.transport), peer.transport.default_port());
    // An address without a transport means UDP.
    let transport = match peer.transport {
        Transport::Udp => String::new(),
        other => format!(" {}", other.name()),
    };
    format!(
        "there is no {family}{transport} listener to send from; remove this address or add \"{wildcard}:{port}\" to `{key}`"
    )
}

/// Text for a name without a listener; its addresses may be of either family.
pub(super) fn no_listener_of(transport: Transport) -> String {
    let (key, port) = (key(transport), transport.default_port());
    format!(
        "there is no {} listener to send from; remove this name or add \"0.0.0.0:{port}\" to `{key}`",
        transport.name()
    )
}

pub(super) fn no_such_listener(listeners: &[Listener]) -> String {
    let of = |transport: Transport| {
        let of_it = listeners.iter().filter(move |listener| listener.transport == transport);
        let all: Vec<_> = of_it.map(|listener| listener.bind.to_string()).collect();
        (!all.is_empty()).then(|| format!("`{}` has {}", key(transport), all.join(", ")))
    };
    let all: Vec<_> = Transport::ALL.into_iter().filter_map(of).collect();
    format!("there is no such listener; {}", all.join("; "))
}

/// Text for a transport without a listener.
pub(super) fn no_such_transport(listeners: &[Listener]) -> String {
    let is_there = |transport: &Transport| listeners.iter().any(|one| one.transport == *transport);
    let there = Transport::ALL.into_iter().filter(is_there);
    let all: Vec<_> = there.map(|transport| format!("\"{}\"", name(transport))).collect();
    format!("there is no such listener: `[listen]` has {} only; remove this one", all.join(", "))
}

pub(super) fn connections(raw: &RawConnections) -> Option<Connections> {
    Some(Connections {
        most: raw.most.value()? as usize,
        most_per_address: raw.most_per_address.value()? as usize,
        new_per_second: raw.new_per_second.value()?,
        idle: raw.idle.value()?,
        handshake: raw.handshake.value()?,
        memory: raw.memory.value()?,
        large_requests: raw.large_requests.value()?,
        origins: raw.origins.iter().map(Setting::value).collect::<Option<_>>()?,
    })
}

/// Reads `[tls]`, which needs a certificate if a listener shows one. `None` if something was reported.
#[expect(clippy::option_option, reason = "`None`: the table is wrong; `Some(None)`: it is absent")]
pub(super) fn tls(
    raw: Option<&RawTls>,
    listeners: &[Listener],
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<Option<Tls>> {
    if raw.is_none_or(|raw| raw.certificates.is_empty()) {
        let mut shows = listeners.iter().map(|one| one.transport);
        if let Some(transport) = shows.find(|one| matches!(one, Transport::Tls | Transport::Wss)) {
            let remedy = format!(
                "a {} listener needs a certificate: add [[tls.certificates]] with `chain` and `key`",
                transport.name()
            );
            report.key_problem(&key(transport), remedy);
        }
    }
    let Some(raw) = raw else { return Some(None) };
    let path = |setting: Option<&Setting<FilePath>>| {
        given(setting).map(|path| path.map(|path| directory.join(path)))
    };
    let certificates: Vec<_> =
        (0..).zip(&raw.certificates).map(|(index, raw)| certificate(index, raw, directory, report)).collect();
    if raw.require_client.value() == Some(true) && raw.client_authorities.is_none() {
        let remedy =
            "no authority is trusted to certify clients; set `client_authorities`, or remove this key";
        report.conflict(&raw.require_client, remedy);
    }
    Some(Some(Tls {
        certificates: certificates.into_iter().collect::<Option<_>>()?,
        authorities: path(raw.authorities.as_ref())?,
        client_authorities: path(raw.client_authorities.as_ref())?,
        require_client: raw.require_client.value()?,
        key_log: path(raw.key_log.as_ref())?,
    }))
}

fn certificate(
    index: usize,
    raw: &RawCertificate,
    directory: &Path,
    report: &mut Report<'_>,
) -> Option<CertificateFiles> {
    let mut path = |key: &str, setting: Option<&Setting<FilePath>>| -> Option<PathBuf> {
        if setting.is_none() {
            let remedy =
                "expected both files: { chain = \"sip.example.com.pem\", key = \"sip.example.com.key\" }";
            report.missing(&format!("tls.certificates[{index}].{key}"), remedy);
        }
        Some(directory.join(setting?.value()?))
    };
    let (chain, key) = (path("chain", raw.chain.as_ref()), path("key", raw.key.as_ref()));
    Some(CertificateFiles { chain: chain?, key: key? })
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
