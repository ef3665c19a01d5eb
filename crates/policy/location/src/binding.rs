//! Binding: one contact of an address-of-record.

use crate::registrar::address;
use base::{Connection, Flow, Transport, UnixTime};
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use wire::NameAddr;

/// Largest time by which the last update of a binding may lie in the future. If the clock was set back by more, the
/// binding counts as expired.
///
/// One hour is a usual interval. So a binding lasts at most one hour longer than granted, and a correction of the clock
/// by an hour loses no binding.
const AHEAD_MAX: Duration = Duration::from_hours(1);

/// Remaining lifetime of a binding updated at `updated` for `expires` seconds.
pub(crate) fn remaining(updated: UnixTime, expires: u32, now: UnixTime) -> Duration {
    if updated.saturating_since(now) > AHEAD_MAX {
        return Duration::ZERO;
    }
    let granted = Duration::from_secs(expires.into());
    // After a small correction of the clock, at most the granted time remains.
    (updated + granted).saturating_since(now).min(granted)
}

/// Source of a REGISTER: used for clients behind a NAT, whose Contact cannot be reached from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Transport.
    pub transport: Transport,
    /// Address of the sender as seen here.
    pub peer: SocketAddr,
    /// Local address that received the REGISTER. The NAT lets packets in only from this address.
    pub local: SocketAddr,
    /// Connection by which the REGISTER came, used for requests to the sender (RFC 5626 §6); `None` over UDP.
    pub connection: Option<Connection>,
}

impl Source {
    /// Source of a REGISTER received by this flow at this local address.
    pub const fn of(flow: Flow, local: SocketAddr) -> Self {
        Self { transport: flow.transport, peer: flow.peer, local, connection: flow.connection }
    }
}

/// Contact address with the data of its REGISTER.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Contact URI.
    pub uri: Box<[u8]>,
    /// Contact parameters without `q` and `expires`, each preceded by a semicolon, such as
    /// `;+sip.instance="<urn:...>"`.
    pub params: Box<[u8]>,
    /// Preference in thousandths, 0 to 1000.
    pub q: u16,
    /// Time of the last addition or refresh.
    pub updated: UnixTime,
    /// Lifetime in seconds from `updated`.
    pub expires: u32,
    /// Call-ID of the last REGISTER that added or refreshed it.
    pub call_id: Box<[u8]>,
    /// CSeq number of this REGISTER.
    pub cseq: u32,
    /// Path vector: values of Path joined by commas, topmost first; empty if there is none (RFC 3327 §5.3).
    pub path: Box<[u8]>,
    /// Source of the REGISTER, if requests must be sent to it instead of the contact.
    pub source: Option<Source>,
}

impl Binding {
    /// IP address of the user: the source of the REGISTER if it is stored. Otherwise it is the address of the first
    /// element of the path, and without a path the address of the contact. `None` if this is a host name.
    pub fn origin(&self) -> Option<IpAddr> {
        if let Some(source) = &self.source {
            return Some(source.peer.ip().to_canonical());
        }
        let uri = if self.path.is_empty() {
            Some(&*self.uri)
        } else {
            NameAddr::parse(&self.path).map(|at| at.uri)
        };
        address(uri?).map(|(ip, _)| ip)
    }

    /// IP address of the contact; `None` if it is a host name.
    pub fn contact_address(&self) -> Option<IpAddr> {
        address(&self.uri).map(|(ip, _)| ip)
    }

    /// Whether its REGISTER came from another host than the contact URI names, such as a NAT.
    pub fn is_behind_nat(&self) -> bool {
        let source = self.source.map(|source| source.peer.ip().to_canonical());
        source.is_some() && self.contact_address().is_some_and(|ip| Some(ip) != source)
    }

    /// Instance ID of its user agent (RFC 5626 §4.1), without quotes.
    pub fn instance(&self) -> Option<&[u8]> {
        crate::outbound::instance(&self.params)
    }

    /// Expiry time.
    pub fn expires_at(&self) -> UnixTime {
        self.updated + Duration::from_secs(self.expires.into())
    }

    /// Remaining lifetime. Zero if the binding has expired, or if it was updated more than an hour after `now` (the
    /// clock was set back).
    pub fn remaining(&self, now: UnixTime) -> Duration {
        remaining(self.updated, self.expires, now)
    }

    /// Whether it is valid at this time.
    pub fn is_live(&self, now: UnixTime) -> bool {
        !self.remaining(now).is_zero()
    }

    /// Remaining lifetime in seconds, rounded up, so that a valid binding has at least one.
    pub fn remaining_secs(&self, now: UnixTime) -> u64 {
        let remaining = self.remaining(now);
        remaining.as_secs() + u64::from(remaining.subsec_nanos() > 0)
    }
}
