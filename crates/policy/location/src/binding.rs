//! A binding: one contact of an address-of-record.

use crate::registrar::address;
use base::{Connection, Flow, Transport, UnixTime};
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use wire::NameAddr;

/// How far in the future a binding may have been updated. A clock that was set back by more than this says nothing
/// about the binding, which then counts as expired. An hour is a usual interval: so a binding lasts at most that much
/// longer than it was granted, and a clock that is corrected by an hour loses none.
const AHEAD_MAX: Duration = Duration::from_hours(1);

/// For how long a binding that was updated then, for so many seconds, is still good.
pub(crate) fn remaining(updated: UnixTime, expires: u32, now: UnixTime) -> Duration {
    if updated.saturating_since(now) > AHEAD_MAX {
        return Duration::ZERO;
    }
    let granted = Duration::from_secs(expires.into());
    // A clock that was set back a little shows no more than was granted.
    (updated + granted).saturating_since(now).min(granted)
}

/// Where a REGISTER came from: for clients behind a NAT, whose Contact nobody else can reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// What carried it.
    pub transport: Transport,
    /// The sender as seen here.
    pub peer: SocketAddr,
    /// The address of ours that it was sent to: only from there does the NAT let anything back in.
    pub local: SocketAddr,
    /// The connection that it came by, by which requests go to its sender (RFC 5626 §6); `None` over UDP.
    pub connection: Option<Connection>,
}

impl Source {
    /// Of a REGISTER that came by this flow, to this address of ours.
    pub const fn of(flow: Flow, local: SocketAddr) -> Self {
        Self { transport: flow.transport, peer: flow.peer, local, connection: flow.connection }
    }
}

/// A contact address with what its REGISTER said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The contact URI.
    pub uri: Box<[u8]>,
    /// Its parameters but for `q` and `expires`, each with a semicolon before it, such as
    /// `;+sip.instance="<urn:...>"`.
    pub params: Box<[u8]>,
    /// Preference in thousandths, 0 to 1000.
    pub q: u16,
    /// When it was added or refreshed last.
    pub updated: UnixTime,
    /// For how many seconds from then on it is good.
    pub expires: u32,
    /// Call-ID of the REGISTER that added or refreshed it last.
    pub call_id: Box<[u8]>,
    /// CSeq number of that REGISTER.
    pub cseq: u32,
    /// The path vector: values of Path with commas between, topmost first; empty without (RFC 3327 §5.3).
    pub path: Box<[u8]>,
    /// Where the REGISTER came from, if its contact cannot be reached otherwise.
    pub source: Option<Source>,
}

impl Binding {
    /// The address that its user registered from: where the REGISTER came from; else the first element of its path,
    /// or the contact itself. `None` where these have names.
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

    /// The address of the contact itself; `None` where it has a name.
    pub fn contact_address(&self) -> Option<IpAddr> {
        address(&self.uri).map(|(ip, _)| ip)
    }

    /// The instance of its user agent (RFC 5626 §4.1), without quotes.
    pub fn instance(&self) -> Option<&[u8]> {
        crate::outbound::instance(&self.params)
    }

    /// From when on it is good no more.
    pub fn expires_at(&self) -> UnixTime {
        self.updated + Duration::from_secs(self.expires.into())
    }

    /// For how long it is still good; zero when it is no more, or was updated more than an hour after `now`, as when
    /// the clock was set back.
    pub fn remaining(&self, now: UnixTime) -> Duration {
        remaining(self.updated, self.expires, now)
    }

    /// Whether it is good at this time.
    pub fn is_live(&self, now: UnixTime) -> bool {
        !self.remaining(now).is_zero()
    }

    /// The same in whole seconds, rounded up, so that what is live has at least one.
    pub fn remaining_secs(&self, now: UnixTime) -> u64 {
        let remaining = self.remaining(now);
        remaining.as_secs() + u64::from(remaining.subsec_nanos() > 0)
    }
}
