//! A binding: one contact of an address-of-record.

use base::{Transport, UnixTime};
use core::time::Duration;
use std::net::SocketAddr;

/// Where a REGISTER came from: for clients behind a NAT, whose Contact nobody else can reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// What carried it.
    pub transport: Transport,
    /// The sender as seen here.
    pub peer: SocketAddr,
    /// The address of ours that it was sent to: only from there does the NAT let anything back in.
    pub local: SocketAddr,
}

/// A contact address with what its REGISTER said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The contact URI.
    pub uri: Box<[u8]>,
    /// Its parameters but for `q` and `expires`, each with a semicolon before it, such as `;+sip.instance="<urn:...>"`.
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
    /// From when on it is good no more.
    pub fn expires_at(&self) -> UnixTime {
        self.updated + Duration::from_secs(self.expires.into())
    }

    /// For how long it is still good, zero when it is no more.
    pub fn remaining(&self, now: UnixTime) -> Duration {
        // A clock that was set back makes no binding longer than it was granted.
        self.expires_at().saturating_since(now).min(Duration::from_secs(self.expires.into()))
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
