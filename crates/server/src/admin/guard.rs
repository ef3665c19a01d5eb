//! Keeps web pages out. A browser on the operator's machine reaches loopback, so any page that it shows could send
//! requests here: it cannot read the answers, but a POST would be obeyed.

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpListener;

/// The address that the client connected to; `None` when the connection is gone already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local(Option<SocketAddr>);

impl Connected<IncomingStream<'_, TcpListener>> for Local {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(stream.io().local_addr().ok())
    }
}

/// Passes on what comes from a tool, or from a page of this listener itself.
pub(super) async fn check(ConnectInfo(local): ConnectInfo<Local>, request: Request, next: Next) -> Response {
    match local.0.map(|local| refusal(local, request.headers())) {
        Some(None) => next.run(request).await,
        Some(Some(why)) => (StatusCode::FORBIDDEN, why).into_response(),
        None => StatusCode::FORBIDDEN.into_response(),
    }
}

fn refusal(local: SocketAddr, headers: &HeaderMap) -> Option<&'static str> {
    if headers.get_all(header::ORIGIN).iter().any(|origin| !is_own(local, origin.as_bytes())) {
        return Some("requests of other sites' pages are refused\n");
    }
    // A page can have its own host name resolve to 127.0.0.1 and then counts as this site. The Host header still
    // says that name, while a tool on this machine has no reason to use one.
    let foreign = |host: &[u8]| host_of(host).is_none_or(|host| !is_plain(&host));
    let named = headers.get_all(header::HOST).iter().any(|host| foreign(host.as_bytes()));
    (local.ip().is_loopback() && named)
        .then_some("on loopback, the Host must be an IP address or localhost\n")
}

/// Whether an Origin is the listener: its address and port, or `localhost` for a loopback address.
fn is_own(local: SocketAddr, origin: &[u8]) -> bool {
    let Some(authority) = origin.strip_prefix(b"http://") else { return false };
    let localhost = format!("localhost:{}", local.port());
    authority == local.to_string().as_bytes()
        || (local.ip().is_loopback() && authority == localhost.as_bytes())
}

/// The host of a Host header, without its port and without the brackets of IPv6.
fn host_of(header: &[u8]) -> Option<String> {
    let uri = Uri::try_from(header).ok()?;
    Some(uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned())
}

fn is_plain(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(local: &str, headers: &[(header::HeaderName, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.clone(), value.parse().unwrap());
        }
        refusal(local.parse().unwrap(), &map).is_some()
    }

    #[test]
    fn only_the_listeners_own_pages_may_send_requests() {
        let origin = |local, origin| refused(local, &[(header::ORIGIN, origin)]);
        assert!(!origin("127.0.0.1:8060", "http://127.0.0.1:8060"));
        assert!(!origin("127.0.0.1:8060", "http://localhost:8060"));
        assert!(!origin("[::1]:8060", "http://[::1]:8060"));
        assert!(!origin("10.0.0.1:8060", "http://10.0.0.1:8060"));
        for other in [
            "null",
            "http://127.0.0.1:8061",
            "http://127.0.0.1",
            "https://127.0.0.1:8060",
            "http://evil.example:8060",
            "http://127.0.0.1:8060.evil.example",
        ] {
            assert!(origin("127.0.0.1:8060", other), "{other}");
        }
        assert!(
            origin("10.0.0.1:8060", "http://localhost:8060"),
            "a page of another server on the same machine"
        );
    }

    #[test]
    fn a_page_whose_name_resolves_to_loopback_is_refused() {
        let host = |local, host| refused(local, &[(header::HOST, host)]);
        for good in ["127.0.0.1:8060", "localhost:8060", "localhost", "[::1]:8060", "127.0.0.1"] {
            assert!(!host("127.0.0.1:8060", good), "{good}");
        }
        assert!(host("127.0.0.1:8060", "evil.example:8060"));
        assert!(host("127.0.0.1:8060", "localhost.evil.example"));
        assert!(!host("10.0.0.1:8060", "sip-edge.example:8060"), "other addresses may have names");
    }

    #[test]
    fn tools_send_no_origin_and_pass() {
        assert!(!refused("127.0.0.1:8060", &[]));
    }
}
