//! Nonces that prove themselves: made with a key, kept nowhere.

use base::UnixTime;
use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::net::IpAddr;
use subtle::ConstantTimeEq;

use crate::algorithm::{push_hex, read_hex};

/// A secret that nonces are made with.
#[derive(Clone, Copy)]
pub struct NonceKey {
    /// Which key a nonce was made with, so that several can be in use while one takes the place of another.
    pub id: u8,
    /// 128 bits that nobody can guess.
    pub key: [u8; 16],
}

/// The secrets in use.
#[derive(Clone)]
pub struct NonceKeys {
    /// The one that nonces are made with.
    pub newest: NonceKey,
    /// Former ones, whose nonces are still good. Leave each in for a lifetime.
    pub older: Vec<NonceKey>,
}

impl From<NonceKey> for NonceKeys {
    /// One alone.
    fn from(newest: NonceKey) -> Self {
        Self { newest, older: Vec::new() }
    }
}

/// Where a nonce is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NonceScope {
    /// At the address that it was sent to. Right where clients reach this server directly, or always by the same
    /// proxy.
    #[default]
    Source,
    /// At any address. For servers behind several proxies, which see the proxy's address in place of the client's: a
    /// client that comes by another one each time would be asked anew each time. Then who forges a source address can
    /// use a nonce that was sent to another one, so wrong answers can be made to count against a proxy or a
    /// neighbour: take requests from the proxies' addresses alone.
    Anywhere,
}

/// How nonces are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceSettings {
    /// How long a nonce lives.
    pub lifetime: Duration,
    /// Where it is good.
    pub scope: NonceScope,
}

/// Bytes of a nonce before its authentication: key, issuer, number, time, keyed hash of the source.
const HEAD: usize = 1 + 4 + 8 + 8 + 8;
const TAG: usize = 16;
/// Digits of a nonce.
const DIGITS: usize = 2 * (HEAD + TAG);

/// What a nonce is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce {
    /// Numbers of one issuer only go up, so no two of its nonces are the same.
    pub number: u64,
    /// When it was made.
    pub issued: UnixTime,
}

/// What is to be thought of a nonce that comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NonceState {
    /// Made here, for this source, not long ago.
    Fresh(Nonce),
    /// Made with one of our keys, for this source, not long ago, by another issuer, who may take it. From here a new
    /// one with `stale=true` is all that the client needs.
    Another,
    /// Made with one of our keys, but too old or for another source. A new one with `stale=true` is all that the
    /// client needs.
    Stale,
    /// Nobody with one of our keys made it.
    Unknown,
}

/// Makes and judges nonces.
///
/// A nonce says who made it, with which number and when, has a keyed hash of the address that it was sent to, and
/// bears a MAC of all this (SipHash-2-4 with 128 bits). From this follows:
///
/// - A challenge costs no memory, so strangers can ask for as many as they like.
/// - Who answers a nonce has received it, but for [`NonceScope::Anywhere`]: a sender who forges source addresses
///   never has a fresh one, and what [`Bans`](crate::Bans) counts against an address was sent from there. The address
///   is that of the last hop, which may be a proxy.
/// - A nonce does not depend on realm and method; a client can use it until it is too old.
/// - Only the issuer takes it for fresh, since only the issuer knows which counts it has seen
///   ([`Replays`](crate::Replays)). With another issuer (another shard, another proxy, the same after a restart), a
///   client pays one more round trip. With the same keys that goes without asking its user for the password.
///
/// Issuer numbers are chosen at random at each start, one for each shard of each process. If two had the same, each
/// could be made to take what was sent to the other.
#[derive(Clone)]
pub struct Nonces {
    keys: NonceKeys,
    issuer: u32,
    next: u64,
    settings: NonceSettings,
}

impl Nonces {
    /// How far in the future a nonce of our own may be: clocks are set back a little now and then.
    const AHEAD_MAX: Duration = Duration::from_secs(5);

    /// With the number of this issuer.
    pub fn new(keys: NonceKeys, issuer: u32, settings: NonceSettings) -> Self {
        Self { keys, issuer, next: 0, settings }
    }

    /// Other keys and settings. Nonces stay good as far as those have it.
    pub fn configure(&mut self, keys: NonceKeys, settings: NonceSettings) {
        (self.keys, self.settings) = (keys, settings);
    }

    /// How long a nonce lives.
    pub fn lifetime(&self) -> Duration {
        self.settings.lifetime
    }

    /// The keyed hash of where a nonce is good; no source has the address of zeros.
    fn place(&self, key: &NonceKey, source: IpAddr) -> [u8; 8] {
        let place = match self.settings.scope {
            NonceScope::Source => address(source),
            NonceScope::Anywhere => [0; 16],
        };
        let mut out = [0; 8];
        out.copy_from_slice(&mac(key, &place)[..8]);
        out
    }

    /// A new nonce for a client at `source`.
    pub fn issue(&mut self, date: UnixTime, source: IpAddr) -> Vec<u8> {
        let key = &self.keys.newest;
        let mut head = [0; HEAD];
        head[0] = key.id;
        head[1..5].copy_from_slice(&self.issuer.to_be_bytes());
        head[5..13].copy_from_slice(&self.next.to_be_bytes());
        head[13..21].copy_from_slice(&date.as_millis().to_be_bytes());
        head[21..].copy_from_slice(&self.place(key, source));
        self.next += 1;
        let mut out = Vec::with_capacity(DIGITS);
        push_hex(&head, &mut out);
        push_hex(&mac(key, &head), &mut out);
        out
    }

    /// Judges what a client at `source` sends as its nonce.
    pub fn judge(&self, date: UnixTime, source: IpAddr, text: &[u8]) -> NonceState {
        let mut bytes = [0; HEAD + TAG];
        if text.len() != DIGITS || read_hex(text, &mut bytes).is_none() {
            return NonceState::Unknown;
        }
        let (head, given) = bytes.split_at(HEAD);
        let fits = |key: &&NonceKey| key.id == head[0] && bool::from(mac(key, head).ct_eq(given));
        let Some(key) = std::iter::once(&self.keys.newest).chain(&self.keys.older).find(fits) else {
            return NonceState::Unknown;
        };
        let field = &head[5..];
        let number = |at: usize| field[at..at + 8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let issued = UnixTime::from_millis(number(8));
        let nonce = Nonce { number: number(0), issued };
        let is_own = head[1..5] == self.issuer.to_be_bytes();
        let is_here = self.place(key, source) == head[21..];
        let is_old = date.saturating_since(issued) > self.settings.lifetime;
        let is_ahead = issued.saturating_since(date) > Self::AHEAD_MAX;
        match is_here && !is_old && !is_ahead {
            true if !is_own => NonceState::Another,
            true if nonce.number < self.next => NonceState::Fresh(nonce),
            _ => NonceState::Stale,
        }
    }
}

/// SipHash-2-4 with 128 bits. What it is used for tells the lengths of the two inputs apart, and the hash covers the
/// length.
fn mac(key: &NonceKey, input: &[u8]) -> [u8; TAG] {
    let mut hasher = SipHasher24::new_with_key(&key.key);
    hasher.write(input);
    hasher.finish128().as_bytes()
}

/// An IPv4 address that a socket for both families shows as IPv6 is the IPv4 address.
pub(crate) fn address(source: IpAddr) -> [u8; 16] {
    match source.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: NonceKey = NonceKey { id: 1, key: [1; 16] };
    const NEW: NonceKey = NonceKey { id: 2, key: [2; 16] };
    const SETTINGS: NonceSettings =
        NonceSettings { lifetime: Duration::from_mins(5), scope: NonceScope::Source };

    fn both() -> NonceKeys {
        NonceKeys { newest: NEW, older: vec![OLD] }
    }

    fn at(secs: u64) -> UnixTime {
        UnixTime::from_secs(1_700_000_000 + secs)
    }

    fn source() -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    #[test]
    fn a_nonce_lives_for_its_lifetime_at_its_source() {
        let mut nonces = Nonces::new(NEW.into(), 7, SETTINGS);
        let first = nonces.issue(at(0), source());
        let second = nonces.issue(at(0), source());
        assert_ne!(first, second);
        let judge = |secs, from: &str| nonces.judge(at(secs), from.parse().unwrap(), &second);
        assert_eq!(judge(300, "192.0.2.1"), NonceState::Fresh(Nonce { number: 1, issued: at(0) }));
        assert_eq!(judge(300, "::ffff:192.0.2.1"), judge(300, "192.0.2.1"));
        assert_eq!(judge(301, "192.0.2.1"), NonceState::Stale);
        assert_eq!(judge(1, "192.0.2.2"), NonceState::Stale, "the client has moved, or a source is forged");
    }

    #[test]
    fn where_several_proxies_are_before_it_a_nonce_is_good_at_each() {
        let settings = NonceSettings { scope: NonceScope::Anywhere, ..SETTINGS };
        let mut nonces = Nonces::new(NEW.into(), 7, settings);
        let nonce = nonces.issue(at(0), source());
        for from in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
            assert!(
                matches!(nonces.judge(at(1), from.parse().unwrap(), &nonce), NonceState::Fresh(_)),
                "{from}"
            );
        }
        assert_eq!(nonces.judge(at(301), source(), &nonce), NonceState::Stale);
    }

    #[test]
    fn nonces_from_the_future_are_not_fresh() {
        let mut nonces = Nonces::new(NEW.into(), 7, SETTINGS);
        let nonce = nonces.issue(at(100), source());
        assert!(matches!(nonces.judge(at(96), source(), &nonce), NonceState::Fresh(_)));
        assert_eq!(nonces.judge(at(90), source(), &nonce), NonceState::Stale);
        // One that a former life with the same issuer would have made.
        let reborn = Nonces::new(NEW.into(), 7, SETTINGS);
        assert_eq!(reborn.judge(at(100), source(), &nonce), NonceState::Stale);
    }

    #[test]
    fn keys_take_turns() {
        let mut nonces = Nonces::new(OLD.into(), 7, SETTINGS);
        let nonce = nonces.issue(at(0), source());
        nonces.configure(both(), SETTINGS);
        assert!(matches!(nonces.judge(at(1), source(), &nonce), NonceState::Fresh(_)));
        let newer = nonces.issue(at(1), source());
        nonces.configure(NEW.into(), SETTINGS);
        assert_eq!(nonces.judge(at(1), source(), &nonce), NonceState::Unknown);
        assert!(matches!(nonces.judge(at(1), source(), &newer), NonceState::Fresh(_)));
        let other = Nonces::new(NEW.into(), 8, SETTINGS);
        assert_eq!(other.judge(at(1), source(), &newer), NonceState::Another);
        assert_eq!(other.judge(at(400), source(), &newer), NonceState::Stale, "whoever made it");
        assert_eq!(other.judge(at(1), "192.0.2.2".parse().unwrap(), &newer), NonceState::Stale);
        let foreign = NonceKey { id: NEW.id, key: [9; 16] };
        assert_eq!(
            Nonces::new(foreign.into(), 7, SETTINGS).judge(at(1), source(), &newer),
            NonceState::Unknown
        );
    }

    #[test]
    fn no_bit_of_a_nonce_can_be_changed() {
        let mut nonces = Nonces::new(both(), 7, SETTINGS);
        let nonce = nonces.issue(at(0), source());
        for place in 0..nonce.len() {
            let mut forged = nonce.clone();
            forged[place] = if forged[place] == b'0' { b'1' } else { b'0' };
            assert_eq!(nonces.judge(at(1), source(), &forged), NonceState::Unknown, "digit {place}");
        }
        for bad in [
            &b""[..],
            &nonce[..DIGITS - 1],
            &nonce[..DIGITS - 2],
            &[nonce.clone(), vec![b'0'; 2]].concat(),
            &[b'x'; DIGITS],
        ] {
            assert_eq!(nonces.judge(at(1), source(), bad), NonceState::Unknown);
        }
    }
}
