//! Keys of `[listen]`, `[connections]` and `[tls]`.

use std::time::Duration;

use crate::kind::{
    Advertised, Bound, Choice, Count, DAY, FilePath, Flag, GIB, HOUR, MIB, NetworkText, PageOrigin, SECOND,
    ServedName, Size, Time,
};
use crate::setting::{Item, Setting, Short};
use crate::table::REQUIRED;
use crate::typed::SIP_PORT;
use base::Transport;
use node::LargeRequests;

const TLS_PORT: u16 = Transport::Tls.default_port();
const WS_PORT: u16 = Transport::Ws.default_port();
const WSS_PORT: u16 = Transport::Wss.default_port();

/// NATs keep a mapping for at least two minutes (RFC 4787 REQ-5), but some for 60 s only.
const KEEP_ALIVE: Duration = Duration::from_secs(25);

table! {
    /// Local addresses and names of this process, with at least one listener. A listener is an address, or a table that
    /// also has the advertised address. A reload does not change listeners.
    struct RawListen where { "allOf": [{ "anyOf": [
        { "required": ["udp"] },
        { "required": ["tcp"] },
        { "required": ["tls"] },
        { "required": ["ws"] },
        { "required": ["wss"] },
    ] }] } {
        /// UDP listeners.
        udp: Vec<Item<RawListener<SIP_PORT>>>,
        /// TCP listeners. One of them is the source of requests to members and next hops over TCP.
        tcp: Vec<Item<RawListener<SIP_PORT>>>,
        /// TLS listeners; the default port is 5061. They need `[[tls.certificates]]`. One of them is the source of
        /// requests to members and next hops over TLS.
        tls: Vec<Item<RawListener<TLS_PORT>>>,
        /// WebSocket listeners, for browsers (RFC 7118). They are not encrypted: use them for tests, or behind a web
        /// server that terminates TLS.
        ws: Vec<Item<RawListener<WS_PORT>>>,
        /// Secure WebSocket listeners; the default port is 443. They need `[[tls.certificates]]`.
        wss: Vec<Item<RawListener<WSS_PORT>>>,
        /// Host names, besides the addresses of the listeners, that mean this process in a Request-URI or Route. Set it
        /// if clients use a DNS name of this host.
        names: Vec<Setting<ServedName>>,
        /// Worker threads; 0: one for each core. Set it if other programs need the other cores. A reload does not
        /// change it.
        threads: Setting<Count<0, 1024>> = 0,
        /// Time between two keep-alives (OPTIONS) to a client that has registered over UDP behind a NAT, so that the NAT
        /// keeps its mapping; `"0s"`: none. A client that does not answer five of them gets no more until it registers
        /// again. Set it to less than half of the time after which NATs of your users remove a mapping.
        keep_alive: Setting<Time<0, HOUR>> = KEEP_ALIVE,
    }

    /// One listener.
    struct RawListener<PORT> {
        /// Local address and port. `0.0.0.0` or `[::]`: every local address of that family that exists at the start.
        bind: Option<Setting<Bound<PORT>>> => REQUIRED,
        /// Address and port that peers see in Via and Record-Route. Set it if this host is behind an address translator
        /// or a load balancer.
        advertise: Option<Setting<Advertised<PORT>>> => "the local address",
        /// Networks of load balancers whose connections begin with a PROXY header, version 1 or 2, with the address of
        /// the client. A connection from them without the header is closed. Not for UDP.
        proxy_protocol: Vec<Setting<NetworkText>>,
        /// Networks that may send new requests to this listener. With `allow` or `deny` here, the lists of `[access]`
        /// do not apply to it.
        allow: Vec<Setting<NetworkText>>,
        /// Networks that may not send new requests to this listener.
        deny: Vec<Setting<NetworkText>>,
    }

    /// Limits of connections over TCP, TLS and WebSocket, and the web pages that may open them. A reload changes
    /// `large_requests` only.
    struct RawConnections {
        /// Most connections at a time, over all threads. Above the limit a new connection replaces the oldest one that
        /// has sent no message, or is refused. There are fewer if the process may not open as many files (`LimitNOFILE`
        /// of systemd), which the log reports. Set it to the number of clients that you expect.
        most: Setting<Count<1, 10_000_000>> = 100_000,
        /// Most connections at a time from one IPv4 address, or one IPv6 network of 64 bits. Further ones are refused
        /// before TLS begins. Set it higher if many clients share an address behind a NAT.
        most_per_address: Setting<Count<1, 10_000_000>> = 100,
        /// New connections a second from one IPv4 address, or one IPv6 network of 64 bits; 0: no limit. Twice as many
        /// may come at once; further ones are refused before TLS begins. Hosts of members and next hops have no limit.
        /// Set it higher if many clients share an address behind a NAT.
        new_per_second: Setting<Count<0, 1_000_000>> = 50,
        /// Time without a message after which a connection is closed. It stays open, with keep-alives, if an
        /// established call, a binding or a subscription of its client depends on it; over WebSocket the client must
        /// answer them within this time. Set it lower if idle clients take too many connections.
        idle: Setting<Time<SECOND, DAY>> = Duration::from_mins(10),
        /// Longest time for the handshakes of TLS and WebSocket together, for a PROXY header, and for the rest of a
        /// message after its first byte. Set it higher for clients on slow networks.
        handshake: Setting<Time<SECOND, HOUR>> = Duration::from_secs(10),
        /// Most memory of all connections, for incomplete messages and unread data; each thread has an equal part, and
        /// at least 512 KiB. Above the limit the connections with the most data are closed, as is one whose peer leaves
        /// 256 KiB unread. Set it higher if many clients are slow.
        memory: Setting<Size<{ 16 * MIB }, { 64 * GIB }>> = 256 << 20,
        /// How a request of more than 1,300 bytes is sent to a member or next hop with UDP. `"tcp"`: over a connection
        /// from a TCP listener to the same address and port. If it fails, UDP is used, and TCP is tried again after a
        /// minute, later at least once an hour. `"udp"`: over UDP; many firewalls drop its fragments. Choose it if your
        /// servers do not listen on TCP.
        large_requests: Setting<Choice<LargeRequests>> = LargeRequests::default(),
        /// Web pages that may connect over WebSocket, by the `Origin` that browsers send (RFC 6455 §10.2), such as
        /// `"https://phone.example.com"`; `"*"`: all; empty: pages of the host that the browser connects to. Clients
        /// without an `Origin` may always connect. Set it if the page of your web phone is on another host.
        origins: Vec<Setting<PageOrigin>>,
    }

    /// Certificates of this process, and authorities whose certificates it accepts, for TLS 1.2 and 1.3. A reload reads
    /// the files again.
    struct RawTls {
        /// Certificates with their keys, at least one for a TLS or secure WebSocket listener. A client that names a
        /// host gets the certificate for this host. Other clients, and servers that request a certificate, get the
        /// first one.
        certificates: Vec<RawCertificate>,
        /// PEM file of the authorities that certify members, next hops, Redis and PostgreSQL. Set it if your servers
        /// have certificates of an authority of your own.
        authorities: Option<Setting<FilePath>> => "authorities that the system trusts",
        /// PEM file of the authorities that certify clients. If it is set, clients are asked for a certificate.
        client_authorities: Option<Setting<FilePath>> => "clients are not asked for a certificate",
        /// Whether a client without a certificate is refused. Needs `client_authorities`. Set it if all clients have
        /// certificates.
        require_client: Setting<Flag> = false,
        /// File for the secrets of connections, as NSS key log, with which Wireshark decrypts captured traffic. Set it
        /// for debugging only: everyone who reads the file can decrypt all calls.
        key_log: Option<Setting<FilePath>> => "none",
    }

    /// A certificate and its key.
    struct RawCertificate {
        /// PEM file: the certificate, then the intermediate certificates.
        chain: Option<Setting<FilePath>> => REQUIRED,
        /// PEM file with the private key, without a passphrase.
        key: Option<Setting<FilePath>> => REQUIRED,
    }
}

impl<const PORT: u16> Short for RawListener<PORT> {
    type Main = Bound<PORT>;

    fn main(&mut self) -> &mut Option<Setting<Bound<PORT>>> {
        &mut self.bind
    }
}
