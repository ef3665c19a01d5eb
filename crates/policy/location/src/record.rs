//! All bindings of an address-of-record, encoded as a store keeps them.

use crate::binding::remaining;
use crate::{Binding, Source};
use base::{Connection, Transport, UnixTime};
use core::num::NonZeroU32;
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// First byte of a record: version of the encoding.
const FORM: u8 = 2;

/// Bindings of an address-of-record as bytes, the same for every store. Numbers are big-endian:
///
/// ```text
/// record   form (2)  count (2)  binding*
/// binding  updated (8, ms)  expires (4, s)  cseq (4)  q (2)  source  uri  params  call-id  path
/// source   0 | family (1, 4 or 6)  transport (1)  peer (4 or 16) port (2)  local (4 or 16) port (2)
///          connection (4, 0 for none)
/// others   length (2)  bytes
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BindingsRecord(Box<[u8]>);

impl BindingsRecord {
    /// Encodes bindings; `None` if there are none, or a part has more than 65,535 bytes.
    pub fn of(bindings: &[Binding]) -> Option<Self> {
        let count = u16::try_from(bindings.len()).ok().filter(|count| *count > 0)?;
        let mut out = vec![FORM];
        out.extend_from_slice(&count.to_be_bytes());
        for binding in bindings {
            out.extend_from_slice(&binding.updated.as_millis().to_be_bytes());
            out.extend_from_slice(&binding.expires.to_be_bytes());
            out.extend_from_slice(&binding.cseq.to_be_bytes());
            out.extend_from_slice(&binding.q.to_be_bytes());
            push_source(binding.source.as_ref(), &mut out);
            for text in [&binding.uri, &binding.params, &binding.call_id, &binding.path] {
                out.extend_from_slice(&u16::try_from(text.len()).ok()?.to_be_bytes());
                out.extend_from_slice(text);
            }
        }
        Some(Self(out.into()))
    }

    /// Restores a record from the bytes of a store; `None` if they are not a record.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read(bytes)?;
        Some(Self(bytes.into()))
    }

    /// Bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// All bindings, including expired ones.
    pub fn bindings(&self) -> Vec<Binding> {
        read(&self.0).unwrap_or_default()
    }

    /// Number of bindings.
    pub fn len(&self) -> usize {
        self.0.get(1..3).map_or(0, |count| usize::from(u16::from_be_bytes([count[0], count[1]])))
    }

    /// Always false: a record has a binding.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Expiry time of the binding that expires last.
    pub fn expires_at(&self) -> UnixTime {
        let ends = self.lives().map(|(updated, expires)| updated + Duration::from_secs(expires.into()));
        ends.max().unwrap_or_default()
    }

    /// Whether one of its bindings is valid at this time ([`Binding::is_live`]). Copies nothing.
    pub fn is_live(&self, now: UnixTime) -> bool {
        self.lives().any(|(updated, expires)| !remaining(updated, expires, now).is_zero())
    }

    /// Update time and lifetime in seconds of each binding.
    fn lives(&self) -> impl Iterator<Item = (UnixTime, u32)> {
        let mut reader = Reader(self.0.get(3..).unwrap_or_default());
        core::iter::from_fn(move || reader.life())
    }
}

/// Writes a source. An IPv6 socket shows IPv4 peers as IPv6 addresses, but both addresses of a source are written in
/// one family.
fn push_source(source: Option<&Source>, out: &mut Vec<u8>) {
    let Some(source) = source else { return out.push(0) };
    let sockets = [source.peer, source.local];
    let transport = Transport::ALL.iter().position(|known| *known == source.transport).unwrap_or(0) as u8;
    let v4 = sockets.map(|socket| match socket.ip().to_canonical() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    let is_v4 = v4.iter().all(Option::is_some);
    out.extend_from_slice(&[if is_v4 { 4 } else { 6 }, transport]);
    for (socket, v4) in sockets.iter().zip(v4) {
        match (is_v4, v4, socket.ip()) {
            (true, Some(address), _) => out.extend_from_slice(&address.octets()),
            (_, _, IpAddr::V4(address)) => out.extend_from_slice(&address.to_ipv6_mapped().octets()),
            (_, _, IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
        }
        out.extend_from_slice(&socket.port().to_be_bytes());
    }
    let connection = source.connection.map_or(0, |Connection(number)| number.get());
    out.extend_from_slice(&connection.to_be_bytes());
}

fn read(bytes: &[u8]) -> Option<Vec<Binding>> {
    let mut reader = Reader(bytes);
    if reader.number(1)? != u64::from(FORM) {
        return None;
    }
    let count = reader.number(2)?;
    // The count in the record reserves no memory, so a wrong count does no harm: a binding has at least 27 bytes.
    let bindings: Option<Vec<_>> = (0..count).map(|_| reader.binding()).collect();
    bindings.filter(|bindings| reader.0.is_empty() && !bindings.is_empty())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, length: usize) -> Option<u64> {
        Some(self.take(length)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    fn text(&mut self) -> Option<Box<[u8]>> {
        let length = self.number(2)? as usize;
        Some(self.take(length)?.into())
    }

    fn socket(&mut self, family: u8) -> Option<SocketAddr> {
        let address = match family {
            4 => Ipv4Addr::from_bits(self.number(4)? as u32).into(),
            _ => Ipv6Addr::from(<[u8; 16]>::try_from(self.take(16)?).ok()?).into(),
        };
        Some(SocketAddr::new(address, self.number(2)? as u16))
    }

    /// Reads a source of this family, whose byte has been read.
    fn source(&mut self, family: u8) -> Option<Source> {
        if family != 4 && family != 6 {
            return None;
        }
        let transport = *Transport::ALL.get(self.number(1)? as usize)?;
        let (peer, local) = (self.socket(family)?, self.socket(family)?);
        let connection = NonZeroU32::new(self.number(4)? as u32).map(Connection);
        Some(Source { transport, peer, local, connection })
    }

    /// Reads update time and lifetime of the next binding; skips the rest.
    fn life(&mut self) -> Option<(UnixTime, u32)> {
        let life = (UnixTime::from_millis(self.number(8)?), self.number(4)? as u32);
        // CSeq and q.
        self.take(4 + 2)?;
        let source = match self.number(1)? {
            0 => 0,
            4 => 1 + 2 * (4 + 2) + 4,
            _ => 1 + 2 * (16 + 2) + 4,
        };
        self.take(source)?;
        for _ in 0..4 {
            let length = self.number(2)? as usize;
            self.take(length)?;
        }
        Some(life)
    }

    fn binding(&mut self) -> Option<Binding> {
        let updated = UnixTime::from_millis(self.number(8)?);
        let (expires, cseq, q) = (self.number(4)? as u32, self.number(4)? as u32, self.number(2)? as u16);
        let source = match self.number(1)? {
            0 => None,
            family => Some(self.source(family as u8)?),
        };
        let (uri, params, call_id, path) = (self.text()?, self.text()?, self.text()?, self.text()?);
        (q <= 1000).then_some(Binding { uri, params, q, updated, expires, call_id, cseq, path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Box<[u8]>> {
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Into::into)
    }

    fn socket() -> impl Strategy<Value = SocketAddr> {
        (any::<bool>(), any::<u128>(), any::<u16>()).prop_map(|(is_v6, bits, port)| {
            let v4 = Ipv4Addr::from_bits(bits as u32);
            SocketAddr::new(if is_v6 { Ipv6Addr::from_bits(bits | 1 << 127).into() } else { v4.into() }, port)
        })
    }

    fn binding() -> impl Strategy<Value = Binding> {
        let connection = any::<u32>().prop_map(|number| NonZeroU32::new(number % 1_000).map(Connection));
        let parts = (0..5_usize, socket(), socket(), connection);
        let source = prop::option::of(parts.prop_map(|(transport, peer, local, connection)| {
            // A source has two addresses of one family. If the families differ, the socket shows IPv4 as IPv6.
            let local = if peer.is_ipv4() == local.is_ipv4() { local } else { peer };
            Source { transport: Transport::ALL[transport], peer, local, connection }
        }));
        let numbers = (any::<u64>(), any::<u32>(), any::<u32>(), 0..=1000_u16);
        ((text(), text(), text(), text()), numbers, source).prop_map(
            |((uri, params, call_id, path), (updated, expires, cseq, q), source)| {
                let updated = UnixTime::from_millis(updated);
                Binding { uri, params, q, updated, expires, call_id, cseq, path, source }
            },
        )
    }

    proptest! {
        #[test]
        fn written_records_are_read_back(bindings in prop::collection::vec(binding(), 1..5)) {
            let record = BindingsRecord::of(&bindings).unwrap();
            prop_assert_eq!(record.bindings(), bindings.clone());
            prop_assert_eq!(record.len(), bindings.len());
            let lives: Vec<_> = bindings.iter().map(|binding| (binding.updated, binding.expires)).collect();
            prop_assert_eq!(record.lives().collect::<Vec<_>>(), lives);
            prop_assert_eq!(BindingsRecord::from_bytes(record.as_bytes()), Some(record.clone()));
            for end in 0..record.as_bytes().len() {
                prop_assert_eq!(BindingsRecord::from_bytes(&record.as_bytes()[..end]), None);
            }
        }

        #[test]
        fn any_bytes_are_a_record_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = FORM;
            }
            if let Some(record) = BindingsRecord::from_bytes(&bytes) {
                prop_assert_eq!(BindingsRecord::of(&record.bindings()).map(|again| again.bindings()), Some(record.bindings()));
            }
        }
    }

    #[test]
    fn an_empty_list_makes_no_record() {
        assert_eq!(BindingsRecord::of(&[]), None);
        assert_eq!(BindingsRecord::from_bytes(&[FORM, 0, 0]), None);
        assert_eq!(BindingsRecord::from_bytes(&[FORM, 0xff, 0xff]), None);
        assert_eq!(BindingsRecord::from_bytes(&[]), None);
    }
}
