//! `[listen]`, `[connections]` and `[tls]` as they are written.

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

table! {
    /// Where the balancer listens and what it is called. It needs one listener at least. An item of a list of
    /// listeners is an address, or a table that also says what to advertise. A reload does not change listeners.
    struct RawListen where { "allOf": [{ "anyOf": [
        { "required": ["udp"] },
        { "required": ["tcp"] },
        { "required": ["tls"] },
        { "required": ["ws"] },
        { "required": ["wss"] },
    ] }] } {
        /// UDP listeners.
        udp: Vec<Item<RawListener<SIP_PORT>>>,
        /// TCP listeners. Requests to members and next hops over TCP leave by the address of one, too.
        tcp: Vec<Item<RawListener<SIP_PORT>>>,
        /// TLS listeners; the usual port is 5061. They need `[[tls.certificates]]`. Requests to members and next hops
        /// over TLS leave by the address of one, too.
        tls: Vec<Item<RawListener<TLS_PORT>>>,
        /// WebSocket listeners, for browsers (RFC 7118). What passes is not encrypted: for tests, and behind a
        /// web server that ends TLS.
        ws: Vec<Item<RawListener<WS_PORT>>>,
        /// Secure WebSocket listeners; the usual port is 443. They need `[[tls.certificates]]`.
        wss: Vec<Item<RawListener<WSS_PORT>>>,
        /// Host names that mean this balancer when they stand in a Request-URI or Route. The listeners'
        /// own addresses always do.
        names: Vec<Setting<ServedName>>,
        /// Worker threads; 0 = one a core.
        /// A reload does not change it.
        threads: Setting<Count<0, 1024>> = 0,
    }

    /// One listener.
    struct RawListener<PORT> {
        /// Local address and port; `0.0.0.0` or `[::]` = every local address of that
        /// family that is there at the start.
        bind: Option<Setting<Bound<PORT>>> => REQUIRED,
        /// Address and port that peers see in Via and Record-Route, for a host behind an address translator or
        /// a load balancer.
        advertise: Option<Setting<Advertised<PORT>>> => "the local address",
        /// Not of UDP: networks of load balancers whose connections begin with a PROXY header, version 1 or 2: whom it
        /// names counts as the client. A connection from there without one is closed.
        proxy_protocol: Vec<Setting<NetworkText>>,
        /// Networks that may begin anything here, instead of those of `[access]`; with `deny`, of which the same
        /// holds.
        allow: Vec<Setting<NetworkText>>,
        /// Networks that may not.
        deny: Vec<Setting<NetworkText>>,
    }

    /// What connections over TCP, TLS and WebSocket may take, and which web pages may open them.
    struct RawConnections {
        /// Most connections at a time, over all threads. Beyond it a new one takes the place of the oldest that has
        /// sent no message, or is refused. Each takes a descriptor of the process: where its hard limit is too low
        /// (`LimitNOFILE` of systemd), there are fewer connections, and the log says so at the start.
        /// A reload does not change it.
        most: Setting<Count<1, 10_000_000>> = 100_000,
        /// Most connections at a time that come from one IPv4 address, or from one IPv6 network of 64 bits. Beyond it
        /// new ones are refused, before TLS begins.
        /// A reload does not change it.
        most_per_address: Setting<Count<1, 10_000_000>> = 100,
        /// New connections a second that one IPv4 address, or one IPv6 network of 64 bits, may begin; twice as many may
        /// come at once. Beyond it new ones are refused, before TLS begins. 0 = any number. Hosts of members and next
        /// hops may begin any number.
        /// A reload does not change it.
        new_per_second: Setting<Count<0, 1_000_000>> = 50,
        /// Time without a message after which a connection is closed. One that an established call, a binding or a
        /// subscription of its client depends on stays open and gets keep-alives; over WebSocket it is closed if the
        /// client does not answer them for so long.
        /// A reload does not change it.
        idle: Setting<Time<SECOND, DAY>> = Duration::from_mins(10),
        /// Longest time for the handshakes of TLS and WebSocket together, for a PROXY header, and for the rest of a
        /// message that has begun.
        /// A reload does not change it.
        handshake: Setting<Time<SECOND, HOUR>> = Duration::from_secs(10),
        /// Most bytes that all connections hold together: of messages that have not come whole, and of what waits for
        /// peers. Each thread has an equal part of it, but never less than 512 KiB. Beyond it the connections that hold
        /// the most are closed. One whose peer leaves 256 KiB unread is closed as well.
        /// A reload does not change it.
        memory: Setting<Size<{ 16 * MIB }, { 64 * GIB }>> = 256 << 20,
        /// What carries a request of more than 1,300 bytes to a member or next hop on UDP: `"tcp"` = a connection to the
        /// same address and port, from a listener of TCP, and UDP where nobody takes the connection, which is tried
        /// again a minute later, then less and less often, once an hour at least; `"udp"` = UDP, whose fragments many
        /// firewalls drop.
        large_requests: Setting<Choice<LargeRequests>> = LargeRequests::default(),
        /// Web pages that may connect over WebSocket, by the `Origin` that browsers send (RFC 6455 §10.2), such as
        /// `"https://phone.example.com"`; `"*"` = all pages. Without any, those of the host that the browser connects
        /// to. Clients that are no browsers send no `Origin`, and may connect.
        /// A reload does not change it.
        origins: Vec<Setting<PageOrigin>>,
    }

    /// Certificates, and whose certificates are believed. TLS 1.2 and 1.3 are spoken. A reload reads the files again.
    struct RawTls {
        /// Certificates with their keys, one at least where there is a listener of TLS or secure WebSocket. A client
        /// that names a host gets the certificate that is for it, and otherwise the first one. The first one is also
        /// shown to servers that ask for one.
        certificates: Vec<RawCertificate>,
        /// Certificates, in PEM, of those who are trusted to vouch for members, next hops, Redis
        /// and PostgreSQL.
        authorities: Option<Setting<FilePath>> => "those that the system trusts",
        /// Certificates, in PEM, of those who are trusted to vouch for clients: clients are asked for a certificate.
        client_authorities: Option<Setting<FilePath>> => "clients are not asked",
        /// Whether a client without a certificate is refused. Needs `client_authorities`.
        require_client: Setting<Flag> = false,
        /// File to which the secrets of connections are added, as NSS key logs have them, so that Wireshark can
        /// decrypt what passes. Whoever reads it can read all calls.
        key_log: Option<Setting<FilePath>> => "none",
    }

    /// A certificate and its key.
    struct RawCertificate {
        /// File in PEM: the certificate, then the intermediate ones that vouch for it.
        chain: Option<Setting<FilePath>> => REQUIRED,
        /// File in PEM with the private key, without a passphrase.
        key: Option<Setting<FilePath>> => REQUIRED,
    }
}

impl<const PORT: u16> Short for RawListener<PORT> {
    type Main = Bound<PORT>;

    fn main(&mut self) -> &mut Option<Setting<Bound<PORT>>> {
        &mut self.bind
    }
}
