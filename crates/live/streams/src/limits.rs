//! Limits of connections: in all, from one source, and new ones from one source in a second. All threads count
//! together.

use base::{Instant, Rate};
use route::{RateLimits, RateSettings, SourceLimit};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of a process, counted from acceptance to closing.
#[derive(Debug)]
pub struct ConnectionLimits {
    most: usize,
    most_per_source: usize,
    open: AtomicUsize,
    by_source: Mutex<HashMap<IpAddr, usize>>,
    /// New connections of each source, in fixed memory.
    new: Mutex<RateLimits>,
}

/// Limit that prevents a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LimitReached {
    /// The limit of all connections.
    All,
    /// The limit of its source.
    Source,
    /// The rate limit of its source.
    Rate,
}

/// Reservation of one connection, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    limits: Arc<ConnectionLimits>,
    source: Option<IpAddr>,
    /// Whether it counts among all connections.
    is_open: bool,
}

/// Source of an address: an IPv4 address, or an IPv6 network of 64 bits, which belongs to one host (RFC 4291 §2.5.1).
fn source_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Bits of an address that form a source, for IPv4 and IPv6.
const SOURCE_BITS: (u8, u8) = (32, 64);

impl ConnectionLimits {
    /// Makes limits of all connections, of those of one source, and of new ones of one source a second (twice as many
    /// at once). With 0 a second there is no such limit.
    pub fn new(most: usize, most_per_source: usize, new_per_second: u32) -> Arc<Self> {
        let rate = Rate { per_second: new_per_second, burst: new_per_second.saturating_mul(2) };
        let (v4, v6) = SOURCE_BITS;
        let address = (new_per_second > 0).then_some(SourceLimit { v4, v6, rate });
        let new = RateLimits::new(RateSettings { address, ..RateSettings::default() }, rand::random());
        let (open, by_source) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { most, most_per_source, open, by_source, new: Mutex::new(new) })
    }

    /// Makes a reservation that counts once its source is counted and it is [opened](ConnectionPlace::open).
    pub(crate) fn place(self: &Arc<Self>) -> ConnectionPlace {
        ConnectionPlace { limits: Arc::clone(self), source: None, is_open: false }
    }

    /// Makes a reservation for a connection to a configured server. It has no limit, since there are only so many
    /// servers.
    pub(crate) fn own_place(self: &Arc<Self>) -> ConnectionPlace {
        self.open.fetch_add(1, Ordering::Relaxed);
        ConnectionPlace { limits: Arc::clone(self), source: None, is_open: true }
    }
}

impl ConnectionPlace {
    /// Counts the connection among all.
    pub(crate) fn open(&mut self) -> Result<(), LimitReached> {
        if self.limits.open.fetch_add(1, Ordering::Relaxed) >= self.limits.most {
            self.limits.open.fetch_sub(1, Ordering::Relaxed);
            return Err(LimitReached::All);
        }
        self.is_open = true;
        Ok(())
    }

    /// Checks whether the source may open a connection now.
    pub(crate) fn begin(&self, now: Instant, source: IpAddr) -> Result<(), LimitReached> {
        let mut new = self.limits.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.pass(now, source).map_err(|_| LimitReached::Rate)
    }

    /// Counts the connection among those of its source.
    pub(crate) fn count(&mut self, source: IpAddr) -> Result<(), LimitReached> {
        let source = source_of(source);
        let mut by_source = self.limits.by_source.lock().unwrap_or_else(PoisonError::into_inner);
        let open = by_source.entry(source).or_default();
        if *open >= self.limits.most_per_source {
            return Err(LimitReached::Source);
        }
        *open += 1;
        self.source = Some(source);
        Ok(())
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        if self.is_open {
            self.limits.open.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(source) = self.source else { return };
        let mut by_source = self.limits.by_source.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = by_source.get_mut(&source) {
            *open -= 1;
            if *open == 0 {
                by_source.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(limits: &Arc<ConnectionLimits>, ip: &str) -> Result<ConnectionPlace, LimitReached> {
        let mut place = limits.place();
        place.count(ip.parse().unwrap())?;
        place.open()?;
        Ok(place)
    }

    #[test]
    fn connections_of_a_source_are_limited_and_released() {
        let limits = ConnectionLimits::new(4, 2, 0);
        let first = counted(&limits, "192.0.2.1").unwrap();
        let _second = counted(&limits, "192.0.2.1").unwrap();
        assert_eq!(counted(&limits, "192.0.2.1").unwrap_err(), LimitReached::Source);
        drop(first);
        let _third = counted(&limits, "192.0.2.1").unwrap();
        let _fourth = counted(&limits, "2001:db8::1").unwrap();
        let _fifth = counted(&limits, "2001:db8::ffff:1").unwrap();
        assert_eq!(limits.by_source.lock().unwrap().len(), 2, "a network of 64 bits is one source");
        assert_eq!(counted(&limits, "192.0.2.9").unwrap_err(), LimitReached::All);
        assert_eq!(limits.open.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn new_connections_of_a_source_are_limited_per_second() {
        let limits = ConnectionLimits::new(1_000, 1_000, 5);
        let count_admitted = |at: u64, ip: &str| {
            let ip = ip.parse().unwrap();
            let begin = || limits.place().begin(Instant::from_millis(at), ip).is_ok();
            (0..50).filter(|_| begin()).count()
        };
        assert_eq!(count_admitted(1_000, "192.0.2.1"), 10);
        assert_eq!((count_admitted(2_000, "192.0.2.1"), count_admitted(2_000, "192.0.2.2")), (5, 10));
        assert_eq!(
            (count_admitted(2_000, "2001:db8::1"), count_admitted(2_000, "2001:db8::2:1")),
            (10, 0),
            "one source"
        );
        assert_eq!(limits.open.load(Ordering::Relaxed), 0);
    }
}
