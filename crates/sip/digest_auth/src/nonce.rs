//! Nonces that authenticate themselves: made with a key, and not stored.

use base::UnixTime;
use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::net::IpAddr;
use subtle::ConstantTimeEq;

use crate::algorithm::{push_hex, read_hex};

/// Secret for making nonces.
#[derive(Clone, Copy)]
pub struct NonceKey {
    /// Number of the key, written into its nonces, so that several keys can be in use while one replaces another.
    pub id: u8,
    /// 128 random bits.
    pub key: [u8; 16],
}

/// Keys in use.
#[derive(Clone)]
pub struct NonceKeys {
    /// Key for new nonces.
    pub newest: NonceKey,
    /// Former keys, whose nonces are still valid. Keep each for one lifetime of nonces.
    pub older: Vec<NonceKey>,
}

impl From<NonceKey> for NonceKeys {
    /// Only this key.
    fn from(newest: NonceKey) -> Self {
        Self { newest, older: Vec::new() }
    }
}

/// Addresses at which a nonce is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NonceScope {
    /// The address that it was sent to. For clients that reach this server directly, or always by the same proxy.
    #[default]
    Source,
    /// Any address. For servers behind several proxies: the server sees the proxy's address in place of the
    /// client's, so a client that comes by another proxy each time would be challenged each time. An attacker who
    /// forges a source address can then use a nonce sent to another address. So wrong answers of the attacker may count
    /// against a proxy or a neighbour. Accept requests only from the proxies' addresses.
    Anywhere,
}

/// Settings of nonces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonceSettings {
    /// Lifetime of a nonce.
    pub lifetime: Duration,
    /// Addresses at which it is valid.
    pub scope: NonceScope,
}

/// Length of a nonce before its MAC, in bytes: key, issuer, number, time, keyed hash of the source.
const HEAD: usize = 1 + 4 + 8 + 8 + 8;
const TAG: usize = 16;
/// Number of digits of a nonce.
const DIGITS: usize = 2 * (HEAD + TAG);

/// Data of a nonce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce {
    /// Number, which grows with each nonce of an issuer, so that no two of its nonces are equal.
    pub number: u64,
    /// Time at which it was made.
    pub issued: UnixTime,
}

/// Result of checking a nonce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NonceState {
    /// Made by this issuer, for this source, and not too old.
    Fresh(Nonce),
    /// Made by another issuer with one of our keys, for this source, and not too old; the other issuer may accept it.
    /// From this issuer the client only needs a new nonce with `stale=true`.
    Another,
    /// Made with one of our keys, but too old or for another source. The client only needs a new nonce with
    /// `stale=true`.
    Stale,
    /// Not made with one of our keys.
    Unknown,
}

/// Maker and verifier of nonces.
///
/// A nonce holds its issuer, its number and time, and a keyed hash of the address that it was sent to. A MAC covers all
/// of this (SipHash-2-4 with 128 bits). Consequences:
///
/// - A challenge costs no memory, so outsiders can request any number of challenges.
/// - A sender of a valid nonce has received it, except with [`NonceScope::Anywhere`]. A sender who forges source
///   addresses never has a fresh nonce. So wrong answers that [`Bans`](crate::Bans) counts against an address were sent
///   from this address. The address is that of the last hop, which may be a proxy.
/// - A nonce does not depend on realm and method; a client can use it until it is too old.
/// - Only its issuer accepts a nonce as fresh, since only the issuer knows which counts were used
///   ([`Replays`](crate::Replays)). At another issuer (another shard, another proxy, or the same one after a restart) a
///   client needs one more round trip. With the same keys its user is not asked for the password again.
///
/// Issuer numbers are chosen at random at each start, one for each shard of each process. If two shards had the same
/// number, nonces of one could be replayed at the other.
#[derive(Clone)]
pub struct Nonces {
    keys: NonceKeys,
    issuer: u32,
    next: u64,
    settings: NonceSettings,
}

impl Nonces {
    /// Longest time that a nonce of our own may be in the future, since clocks are sometimes set back a little.
    const AHEAD_MAX: Duration = Duration::from_secs(5);

    /// Makes nonces with this issuer number.
    pub fn new(keys: NonceKeys, issuer: u32, settings: NonceSettings) -> Self {
        Self { keys, issuer, next: 0, settings }
    }

    /// Changes keys and settings. Nonces stay valid if the new keys and settings allow them.
    pub fn configure(&mut self, keys: NonceKeys, settings: NonceSettings) {
        (self.keys, self.settings) = (keys, settings);
    }

    /// Lifetime of a nonce.
    pub fn lifetime(&self) -> Duration {
        self.settings.lifetime
    }

    /// Keyed hash of the address at which a nonce is valid. All zeros, which no source has, stand for any address.
    fn place(&self, key: &NonceKey, source: IpAddr) -> [u8; 8] {
        let place = match self.settings.scope {
            NonceScope::Source => address(source),
            NonceScope::Anywhere => [0; 16],
        };
        let mut out = [0; 8];
        out.copy_from_slice(&mac(key, &place)[..8]);
        out
    }

    /// Makes a nonce for a client at `source`.
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

    /// Checks the nonce that a client at `source` sends.
    pub fn check(&self, date: UnixTime, source: IpAddr, text: &[u8]) -> NonceState {
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

/// SipHash-2-4 with 128 bits. Its two kinds of input differ in length, and the hash covers the length.
fn mac(key: &NonceKey, input: &[u8]) -> [u8; TAG] {
    let mut hasher = SipHasher24::new_with_key(&key.key);
    hasher.write(input);
    hasher.finish128().as_bytes()
}

/// Maps an IPv4 address that a dual-stack socket shows as IPv6 to the IPv4 address.
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
        let judge = |secs, from: &str| nonces.check(at(secs), from.parse().unwrap(), &second);
        assert_eq!(judge(300, "192.0.2.1"), NonceState::Fresh(Nonce { number: 1, issued: at(0) }));
        assert_eq!(judge(300, "::ffff:192.0.2.1"), judge(300, "192.0.2.1"));
        assert_eq!(judge(301, "192.0.2.1"), NonceState::Stale);
        assert_eq!(judge(1, "192.0.2.2"), NonceState::Stale, "the client has moved, or a source is forged");
    }

    #[test]
    fn behind_several_proxies_a_nonce_is_valid_at_each() {
        let settings = NonceSettings { scope: NonceScope::Anywhere, ..SETTINGS };
        let mut nonces = Nonces::new(NEW.into(), 7, settings);
        let nonce = nonces.issue(at(0), source());
        for from in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
            assert!(
                matches!(nonces.check(at(1), from.parse().unwrap(), &nonce), NonceState::Fresh(_)),
                "{from}"
            );
        }
        assert_eq!(nonces.check(at(301), source(), &nonce), NonceState::Stale);
    }

    #[test]
    fn nonces_from_the_future_are_not_fresh() {
        let mut nonces = Nonces::new(NEW.into(), 7, SETTINGS);
        let nonce = nonces.issue(at(100), source());
        assert!(matches!(nonces.check(at(96), source(), &nonce), NonceState::Fresh(_)));
        assert_eq!(nonces.check(at(90), source(), &nonce), NonceState::Stale);
        // A nonce of an earlier process with the same issuer number.
        let reborn = Nonces::new(NEW.into(), 7, SETTINGS);
        assert_eq!(reborn.check(at(100), source(), &nonce), NonceState::Stale);
    }

    #[test]
    fn a_key_is_replaced_by_another() {
        let mut nonces = Nonces::new(OLD.into(), 7, SETTINGS);
        let nonce = nonces.issue(at(0), source());
        nonces.configure(both(), SETTINGS);
        assert!(matches!(nonces.check(at(1), source(), &nonce), NonceState::Fresh(_)));
        let newer = nonces.issue(at(1), source());
        nonces.configure(NEW.into(), SETTINGS);
        assert_eq!(nonces.check(at(1), source(), &nonce), NonceState::Unknown);
        assert!(matches!(nonces.check(at(1), source(), &newer), NonceState::Fresh(_)));
        let other = Nonces::new(NEW.into(), 8, SETTINGS);
        assert_eq!(other.check(at(1), source(), &newer), NonceState::Another);
        assert_eq!(other.check(at(400), source(), &newer), NonceState::Stale, "from any issuer");
        assert_eq!(other.check(at(1), "192.0.2.2".parse().unwrap(), &newer), NonceState::Stale);
        let foreign = NonceKey { id: NEW.id, key: [9; 16] };
        assert_eq!(
            Nonces::new(foreign.into(), 7, SETTINGS).check(at(1), source(), &newer),
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
            assert_eq!(nonces.check(at(1), source(), &forged), NonceState::Unknown, "digit {place}");
        }
        for bad in [
            &b""[..],
            &nonce[..DIGITS - 1],
            &nonce[..DIGITS - 2],
            &[nonce.clone(), vec![b'0'; 2]].concat(),
            &[b'x'; DIGITS],
        ] {
            assert_eq!(nonces.check(at(1), source(), bad), NonceState::Unknown);
        }
    }
}
