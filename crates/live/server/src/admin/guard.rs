//! Refuses clients without a token, and web pages. A browser on the operator's machine reaches loopback, so any page in
//! it can send requests here. The page cannot read the answers, but a POST would take effect. The own page may send
//! only the POSTs that `[admin] page` allows.

use super::{page, token};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use config::{AdminPage, Bearer};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Local address of the connection; `None` if the connection is gone already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local(pub(super) Option<SocketAddr>);

/// Paths that an orchestrator may query without a token. Their answers reveal nothing else.
pub(super) const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Paths of the changes that the own page may make with `page = "drain"`.
const CHANGES: [&str; 2] = ["/api/drain", "/api/undrain"];

/// Rules of the guard.
#[derive(Clone)]
pub(super) struct Rules {
    /// Token that requests must carry; `None`: no token is needed.
    pub(super) token: Option<Arc<Bearer>>,
    pub(super) page: AdminPage,
}

/// Passes on requests that carry the token, if one is required, and do not come from a page of another site.
pub(super) async fn check(
    State(rules): State<Rules>,
    Extension(local): Extension<Local>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let shown = rules.token.map(|token| shows(&token, request.headers()));
    let refused = match local.0 {
        None => Some("the connection is gone\n"),
        // Other pages do not know the token. The own page may be reached by a name, or through a proxy.
        Some(_) if shown == Some(true) && rules.page == AdminPage::Drain => None,
        Some(local) => refusal(local, request.headers()),
    };
    let refused = refused.or_else(|| change(rules.page, request.method(), path, request.headers()));
    if let Some(why) = refused {
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let is_open = OPEN.contains(&path) || (rules.page != AdminPage::Off && page::has(path));
    let lacks_token = shown == Some(false);
    let mut answer = if lacks_token && !is_open {
        let ask = [(header::WWW_AUTHENTICATE, "Bearer")];
        (StatusCode::UNAUTHORIZED, ask, NO_TOKEN).into_response()
    } else {
        next.run(request).await
    };
    if lacks_token {
        // Closes the connection after one request. Otherwise a few clients without a token could occupy all
        // connections.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

const NO_TOKEN: &str = "a token is required, as `Authorization: Bearer TOKEN`: [admin] token of the configuration, \
    or the content \
                        of NAME.admin-token beside it or in the state directory of the service\n";

/// Whether a request has the token, by RFC 6750 §2.1.
fn shows(token: &Bearer, headers: &HeaderMap) -> bool {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let shown = fields.next().and_then(|field| {
        let (scheme, shown) = field.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(shown.trim_ascii())
    });
    fields.next().is_none() && shown.is_some_and(|shown| token::is_same(token, shown))
}

/// Returns why a page may not make this request. Browsers add an Origin to each request that can change something.
fn change(page: AdminPage, method: &Method, path: &str, headers: &HeaderMap) -> Option<&'static str> {
    let is_change = !method.is_safe() && headers.contains_key(header::ORIGIN);
    let is_allowed = page == AdminPage::Drain && CHANGES.contains(&path);
    (is_change && !is_allowed).then_some("[admin] page does not allow this change from a web page\n")
}

fn refusal(local: SocketAddr, headers: &HeaderMap) -> Option<&'static str> {
    // A listener on `[::]` sees IPv4 addresses as IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2).
    let local = SocketAddr::new(local.ip().to_canonical(), local.port());
    if headers.get_all(header::ORIGIN).iter().any(|origin| !is_own(local, origin.as_bytes())) {
        return Some("requests from web pages of other sites are refused\n");
    }
    // The host name of a page can resolve to 127.0.0.1, which makes the page count as this site. Its Host header still
    // has that name; a tool on this machine has no reason to use a name.
    let foreign = |host: &[u8]| host_of(host).is_none_or(|host| !is_plain(&host));
    let named = headers.get_all(header::HOST).iter().any(|host| foreign(host.as_bytes()));
    (local.ip().is_loopback() && named)
        .then_some("on loopback, the Host must be an IP address or localhost\n")
}

/// Returns whether an Origin is this listener: its address and port, or `localhost` for a loopback address.
fn is_own(local: SocketAddr, origin: &[u8]) -> bool {
    let Some(authority) = origin.strip_prefix(b"http://") else { return false };
    let localhost = format!("localhost:{}", local.port());
    authority == local.to_string().as_bytes()
        || (local.ip().is_loopback() && authority == localhost.as_bytes())
}

/// Returns the host of a Host header without port and IPv6 brackets.
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
    fn ipv4_mapped_loopback_counts_as_loopback() {
        let mapped = "[::ffff:127.0.0.1]:8060";
        assert!(refused(mapped, &[(header::HOST, "evil.example:8060")]));
        assert!(refused(mapped, &[(header::ORIGIN, "http://evil.example")]));
        for own in ["http://127.0.0.1:8060", "http://localhost:8060"] {
            assert!(!refused(mapped, &[(header::ORIGIN, own), (header::HOST, "127.0.0.1:8060")]), "{own}");
        }
    }

    #[test]
    fn the_token_comes_once_as_a_bearer() {
        let token = Bearer::parse("0123456789abcdef").unwrap();
        let shown = |fields: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::AUTHORIZATION, field.parse().unwrap());
            }
            shows(&token, &headers)
        };
        assert!(shown(&["Bearer 0123456789abcdef"]) && shown(&["bearer  0123456789abcdef "]));
        for wrong in ["", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer", "Bearer 0123456789abcdeg"] {
            assert!(!shown(&[wrong]), "{wrong}");
        }
        assert!(!shown(&[]) && !shown(&["Bearer wrong-but-first", "Bearer 0123456789abcdef"]));
    }

    #[test]
    fn requests_without_an_origin_pass() {
        assert!(!refused("127.0.0.1:8060", &[]));
    }
}
