//! A DNS server for one zone of a test, written from RFC 1035 alone. It shares no code with the resolver under test.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use crate::worker::{GLANCE, Worker};

/// Data of a record.
#[derive(Debug, Clone)]
pub enum Data {
    /// A or AAAA.
    Address(IpAddr),
    /// SRV (RFC 2782).
    Service {
        /// Lower values are tried first.
        priority: u16,
        /// Relative share among records of equal priority.
        weight: u16,
        /// Port of the service on the target.
        port: u16,
        /// Name of the host.
        target: String,
    },
    /// NAPTR (RFC 2915) of the flag `s`, without a regular expression.
    Pointer {
        /// Lower values come first.
        order: u16,
        /// Within one order, lower values come first.
        preference: u16,
        /// Such as `SIP+D2T`.
        service: String,
        /// Name with SRV records.
        replacement: String,
    },
}

type Zone = Arc<Mutex<BTreeMap<String, Vec<Data>>>>;

/// Answers over UDP until it is dropped.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    zone: Zone,
    _worker: Worker,
}

/// Record types (RFC 1035 §3.2.2, RFC 3596, RFC 2782, RFC 2915).
const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const NAPTR: u16 = 35;
const INTERNET: u16 = 1;
/// Response codes (RFC 1035 §4.1.1).
const NO_ERROR: u16 = 0;
const NO_SUCH_NAME: u16 = 3;
/// A response, authoritative, recursion desired and available.
const FLAGS: u16 = 0x8580;
const HEADER: usize = 12;

impl NameServer {
    /// Serves an empty zone at `address`.
    pub fn start(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("DNS at {address}: {error}"));
        socket.set_read_timeout(Some(GLANCE)).expect("a glance is not zero");
        let zone = Zone::default();
        let of_worker = Arc::clone(&zone);
        let worker = Worker::start(move || {
            let mut buffer = [0; 1_500];
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            let zone = of_worker.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(reply) = answer(&zone, &buffer[..length]) {
                // The resolver may have gone.
                let _ = socket.send_to(&reply, from);
            }
        });
        Self { address, zone, _worker: worker }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the records of `name`.
    pub fn set(&self, name: &str, data: &[Data]) {
        let mut zone = self.zone.lock().unwrap_or_else(PoisonError::into_inner);
        zone.insert(name.to_owned(), data.to_vec());
    }

    /// Replaces the records of `name` by these addresses.
    pub fn set_addresses(&self, name: &str, addresses: &[IpAddr]) {
        let data: Vec<_> = addresses.iter().map(|address| Data::Address(*address)).collect();
        self.set(name, &data);
    }
}

/// Returns the response; `None` if the query cannot be answered.
fn answer(zone: &BTreeMap<String, Vec<Data>>, query: &[u8]) -> Option<Vec<u8>> {
    let (name, end) = read_name(query)?;
    let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
    let question = query.get(HEADER..end + 4)?;
    let known = zone.get(&name);
    let records: Vec<_> = known.into_iter().flatten().filter_map(|data| record(data, kind)).collect();
    let code = if known.is_some() { NO_ERROR } else { NO_SUCH_NAME };
    let mut reply = query[..2].to_vec();
    // One question and the answers. There is no EDNS, which says that it is not supported (RFC 6891 §7).
    for word in [FLAGS | code, 1, records.len() as u16, 0, 0] {
        reply.extend_from_slice(&word.to_be_bytes());
    }
    reply.extend_from_slice(question);
    for data in records {
        // The name of the question, as a pointer (RFC 1035 §4.1.4).
        for word in [0xc000 | HEADER as u16, kind, INTERNET] {
            reply.extend_from_slice(&word.to_be_bytes());
        }
        // TTL 0, so that it is asked again at once.
        reply.extend_from_slice(&0_u32.to_be_bytes());
        reply.extend_from_slice(&(data.len() as u16).to_be_bytes());
        reply.extend_from_slice(&data);
    }
    Some(reply)
}

/// Returns the data of a record if it has this type.
fn record(data: &Data, kind: u16) -> Option<Vec<u8>> {
    match (data, kind) {
        (Data::Address(IpAddr::V4(ip)), A) => Some(ip.octets().to_vec()),
        (Data::Address(IpAddr::V6(ip)), AAAA) => Some(ip.octets().to_vec()),
        (Data::Service { priority, weight, port, target }, SRV) => {
            let mut bytes: Vec<u8> =
                [priority, weight, port].iter().flat_map(|word| word.to_be_bytes()).collect();
            push_name(target, &mut bytes);
            Some(bytes)
        }
        (Data::Pointer { order, preference, service, replacement }, NAPTR) => {
            let mut bytes: Vec<u8> = [order, preference].iter().flat_map(|word| word.to_be_bytes()).collect();
            for text in ["s", service, ""] {
                bytes.push(text.len() as u8);
                bytes.extend_from_slice(text.as_bytes());
            }
            push_name(replacement, &mut bytes);
            Some(bytes)
        }
        _ => None,
    }
}

fn push_name(name: &str, bytes: &mut Vec<u8>) {
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
}

/// Returns the name of the question in lower case, and its end.
fn read_name(query: &[u8]) -> Option<(String, usize)> {
    let (mut at, mut labels) = (HEADER, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        let label = query.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
    }
}
