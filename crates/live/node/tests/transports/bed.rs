//! A shard with a port of each transport.

use crate::common::*;
use balance::PolicyKind;
use base::Connection;
use core::num::NonZeroU32;

/// The ports, in the order of their transports.
pub(crate) const PORTS: [&str; 5] =
    ["127.0.0.1:5060", "127.0.0.1:5060", "127.0.0.1:5061", "127.0.0.1:8080", "127.0.0.1:8443"];

/// The host of the clients.
pub(crate) const CLIENT: &str = "127.0.9.1:40001";

/// A port of each transport.
pub(crate) fn ports() -> Vec<Port> {
    Transport::ALL
        .into_iter()
        .zip(PORTS.map(addr))
        .map(|(transport, at)| Port::new(transport, at, at))
        .collect()
}

/// The flow to a node of this transport.
pub(crate) fn node(transport: Transport, address: &str) -> Flow {
    let listener = Transport::ALL.iter().position(|known| *known == transport).expect("one of them") as u16;
    Flow { transport, listener, peer: addr(address), connection: None }
}

/// The flow of a client: by this connection, unless it is 0.
pub(crate) fn client(transport: Transport, address: &str, connection: u32) -> Flow {
    Flow { connection: NonZeroU32::new(connection).map(Connection), ..node(transport, address) }
}

/// A request of the client at the other end of this flow.
pub(crate) fn request(method: &str, call_id: &str, flow: Flow) -> Req {
    let (name, at) = (flow.transport.name(), flow.peer);
    let request = Req::new(method, call_id, at);
    match flow.transport {
        Transport::Udp => request,
        // A browser does not know its own address (RFC 7118 §5).
        Transport::Ws | Transport::Wss => Req {
            contact: "sip:alice@df7jal23ls0d.invalid;transport=ws".to_owned(),
            via: format!("SIP/2.0/{name} df7jal23ls0d.invalid;branch=z9hG4bK-{call_id}-{method}"),
            ..request
        },
        Transport::Tcp | Transport::Tls => Req {
            contact: format!("sip:alice@{at}{}", flow.transport.uri_param()),
            via: format!("SIP/2.0/{name} {at};branch=z9hG4bK-{call_id}-{method}"),
            ..request
        },
    }
}

/// Returns the receiver's response, with this Contact.
pub(crate) fn answer(sent: &Sent, status: u16, contact: &str) -> Vec<u8> {
    let response = Resp { contact: contact.to_owned(), ..Resp::new(status, sent.to) };
    response.bytes_from(&sent.bytes, addr(PORTS[usize::from(sent.listener)]))
}

/// A shard with a port of each transport, and with these members of one pool in this mode.
pub(crate) fn shard(service: Service, members: &[Flow]) -> testbed::Bed {
    shard_with(&Transport::ALL, service, members)
}

/// The same with ports of these transports only.
pub(crate) fn shard_with(transports: &[Transport], service: Service, members: &[Flow]) -> testbed::Bed {
    let mut ports = ports();
    ports.retain(|port| transports.contains(&port.transport));
    let names = ["proxy.example", "pool.example"];
    let mut setup = testbed::shard_setup_of(ports, &names, Tokens::new(KEY, &[], LIFETIME));
    (setup.settings.forwards_orphans, setup.settings.limits) = (true, LIMITS);
    setup.pools = [PoolSetup::new(service, PolicyKind::Hash, Members::All)].into();
    testbed::set_members(&mut setup, members);
    testbed::Bed::new(setup)
}
