//! Error texts of sockets that cannot listen.

use std::io;
use std::net::SocketAddr;

/// Error that names the address, the reason and a remedy; `taken` is the remedy if the address is in use.
pub fn cannot_listen(address: SocketAddr, error: &io::Error, taken: &str) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => taken,
        io::ErrorKind::AddrNotAvailable => "`ip addr` lists the addresses of this machine",
        // capabilities(7), ip(7): net.ipv4.ip_unprivileged_port_start.
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            "a port below 1024 requires root, or the capability CAP_NET_BIND_SERVICE; otherwise choose a higher port"
        }
        _ => return io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")),
    };
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_address_is_reported_with_its_remedy() {
        let error_text = |address: &str, kind: io::ErrorKind| {
            cannot_listen(address.parse().unwrap(), &kind.into(), "taken").to_string()
        };
        assert!(error_text("127.0.0.1:80", io::ErrorKind::PermissionDenied).contains("CAP_NET_BIND_SERVICE"));
        assert!(
            !error_text("127.0.0.1:5060", io::ErrorKind::PermissionDenied).contains("CAP_NET_BIND_SERVICE")
        );
        assert!(error_text("127.0.0.1:80", io::ErrorKind::AddrInUse).ends_with("; taken"));
        assert!(error_text("192.0.2.1:80", io::ErrorKind::AddrNotAvailable).contains("ip addr"));
    }
}
