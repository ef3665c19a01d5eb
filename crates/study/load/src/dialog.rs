//! A dialog, as an agent needs it to send requests within it (RFC 3261 §12).

use base::Transport;
use std::net::{IpAddr, SocketAddr};
use wire::{Host, Message, NameAddr, SipUri};

/// State of a dialog at one party: the parts of its requests that INVITE and 2xx determine. Takes some 300 bytes.
#[derive(Debug)]
pub(crate) struct Dialog {
    /// Destination of its requests.
    pub(crate) next_hop: SocketAddr,
    /// Request-URI, then the Route and To lines, then the remote tag.
    text: Box<[u8]>,
    lines_at: u32,
    tag_at: u32,
}

/// Returns the Contact's URI; `None` if it is missing or not a SIP URI.
pub(crate) fn contact<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let contact = message.header("Contact").and_then(NameAddr::parse)?;
    SipUri::parse(contact.uri).is_ok().then_some(contact.uri)
}

impl Dialog {
    /// Returns the caller's dialog from the 2xx (RFC 3261 §12.1.2). `uri` replaces an unusable Contact. Requests go to
    /// `fallback` when the next URI has a host name, because an agent does not resolve names. If the fallback is an
    /// `outbound` proxy, requests without a route set go there as well.
    pub(crate) fn of_caller(response: &Message<'_>, uri: &str, fallback: SocketAddr, outbound: bool) -> Self {
        // The route set is the Record-Route in reverse order.
        let mut routes: Vec<_> = response.record_routes().map(|route| route.uri).collect();
        routes.reverse();
        let target = contact(response).unwrap_or(uri.as_bytes());
        let is_outbound = outbound && routes.is_empty();
        let dialog = Self::new(target, routes, response.to(), response.to_tag(), fallback);
        // RFC 3261 §12.2.1.1 allows "a default outbound proxy not represented in the route set".
        if is_outbound { Self { next_hop: fallback, ..dialog } } else { dialog }
    }

    /// Returns the callee's dialog from the INVITE's Contact and a message with its From and Record-Route (RFC 3261
    /// §12.1.1).
    pub(crate) fn of_callee(message: &Message<'_>, target: &[u8], fallback: SocketAddr) -> Self {
        let routes = message.record_routes().map(|route| route.uri).collect();
        Self::new(target, routes, message.from(), message.from_tag(), fallback)
    }

    fn new<'a>(
        target: &'a [u8],
        mut routes: Vec<&'a [u8]>,
        remote: &[u8],
        tag: Option<&[u8]>,
        fallback: SocketAddr,
    ) -> Self {
        let next_hop = address(routes.first().copied().unwrap_or(target)).unwrap_or(fallback);
        // RFC 3261 §12.2.1.1: a first route without `lr` becomes the Request-URI, and the target goes to the end.
        let strict = routes.first().is_some_and(|route| !is_loose(route));
        let mut text = Vec::with_capacity(384);
        if strict {
            text.extend_from_slice(routes.remove(0));
            routes.push(target);
        } else {
            text.extend_from_slice(target);
        }
        let lines_at = text.len() as u32;
        for route in routes {
            for part in [b"Route: <", route, b">\r\n"] {
                text.extend_from_slice(part);
            }
        }
        for part in [b"To: ", remote, b"\r\n"] {
            text.extend_from_slice(part);
        }
        let tag_at = text.len() as u32;
        text.extend_from_slice(tag.unwrap_or_default());
        Self { next_hop, text: text.into_boxed_slice(), lines_at, tag_at }
    }

    /// The Request-URI.
    pub(crate) fn uri(&self) -> &[u8] {
        &self.text[..self.lines_at as usize]
    }

    /// The Route and To header lines.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.text[self.lines_at as usize..self.tag_at as usize]
    }

    /// Whether this tag is the tag of the dialog's remote party.
    pub(crate) fn has_remote_tag(&self, tag: Option<&[u8]>) -> bool {
        self.remote_tag() == tag.unwrap_or_default()
    }

    /// Tag of the remote party; empty if it has none.
    pub(crate) fn remote_tag(&self) -> &[u8] {
        &self.text[self.tag_at as usize..]
    }
}

fn is_loose(uri: &[u8]) -> bool {
    SipUri::parse(uri).is_ok_and(|uri| uri.param("lr").is_some())
}

/// Address of a URI with a numeric host (RFC 3263 §4.1 and §4.2 without DNS).
fn address(uri: &[u8]) -> Option<SocketAddr> {
    let uri = SipUri::parse(uri).ok()?;
    let maddr = uri.param("maddr").flatten().and_then(Host::parse);
    let ip = match maddr.unwrap_or(uri.host) {
        Host::V4(ip) => IpAddr::V4(ip),
        Host::V6(ip) => IpAddr::V6(ip),
        Host::Name(_) => return None,
    };
    let transport = uri.param("transport").flatten().and_then(Transport::parse).unwrap_or_default();
    Some(SocketAddr::new(ip, uri.port.unwrap_or(transport.default_port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns Request-URI, Route and To lines, and next hop for a 2xx with the given header lines.
    fn dialog(lines: &str) -> (String, String, SocketAddr) {
        dialog_by(false, lines)
    }

    /// Like `dialog`, with or without an outbound proxy.
    fn dialog_by(outbound: bool, lines: &str) -> (String, String, SocketAddr) {
        let text = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@h>;tag=1\r\n\
             To: \"B\" <sip:b@h>;tag=2\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let response = wire::scan(text.as_bytes()).unwrap();
        let dialog = Dialog::of_caller(&response, "sip:b@h", "192.0.2.99:5099".parse().unwrap(), outbound);
        assert!(dialog.has_remote_tag(Some(b"2")) && !dialog.has_remote_tag(Some(b"3")));
        let [uri, lines] =
            [dialog.uri(), dialog.lines()].map(|part| String::from_utf8_lossy(part).into_owned());
        (uri, lines.replace("\r\n", "|"), dialog.next_hop)
    }

    const TO: &str = "To: \"B\" <sip:b@h>;tag=2|";

    fn expected(uri: &str, routes: &str, next_hop: &str) -> (String, String, SocketAddr) {
        (uri.to_owned(), format!("{routes}{TO}"), next_hop.parse().unwrap())
    }

    #[test]
    fn without_routes_requests_go_to_the_contact() {
        let found = dialog("Contact: \"B, C\" <sip:b@192.0.2.1:5070;x=y>;q=1\r\n");
        assert_eq!(found, expected("sip:b@192.0.2.1:5070;x=y", "", "192.0.2.1:5070"));
        let found = dialog("m: sip:b@[2001:db8::1]\r\n");
        assert_eq!(found, expected("sip:b@[2001:db8::1]", "", "[2001:db8::1]:5060"));
        let found = dialog("m: <sip:b@192.0.2.1;transport=tls>\r\n");
        assert_eq!(found, expected("sip:b@192.0.2.1;transport=tls", "", "192.0.2.1:5061"));
        let found = dialog("Contact: <sip:b@example.com;maddr=192.0.2.2>\r\n");
        assert_eq!(found, expected("sip:b@example.com;maddr=192.0.2.2", "", "192.0.2.2:5060"));
    }

    #[test]
    fn an_outbound_proxy_gets_requests_without_a_route() {
        let found = dialog_by(true, "Contact: <sip:b@192.0.2.1:5070>\r\n");
        assert_eq!(found, expected("sip:b@192.0.2.1:5070", "", "192.0.2.99:5099"));
        let routed = "Record-Route: <sip:192.0.2.3;lr>\r\nContact: <sip:b@192.0.2.1:5070>\r\n";
        assert_eq!(dialog_by(true, routed), dialog(routed));
    }

    #[test]
    fn an_unusable_contact_is_replaced() {
        assert_eq!(dialog(""), expected("sip:b@h", "", "192.0.2.99:5099"));
        // A fold within the brackets would end the request line.
        assert_eq!(dialog("Contact: <sip:b@h\r\n Evil: x>\r\n"), expected("sip:b@h", "", "192.0.2.99:5099"));
    }

    #[test]
    fn the_route_set_is_the_record_route_reversed() {
        let found = dialog(
            "Record-Route: <sip:192.0.2.3;lr>, <sip:p@192.0.2.4:5064;lr;t=1>\r\nContact: <sip:b@192.0.2.1>\r\n\
             Record-Route: <sip:192.0.2.5:5065;lr>\r\n",
        );
        let routes =
            "Route: <sip:192.0.2.5:5065;lr>|Route: <sip:p@192.0.2.4:5064;lr;t=1>|Route: <sip:192.0.2.3;lr>|";
        assert_eq!(found, expected("sip:b@192.0.2.1", routes, "192.0.2.5:5065"));
    }

    #[test]
    fn a_strict_router_takes_the_request_uri() {
        let found =
            dialog("Record-Route: <sip:192.0.2.3;lr>, <sip:192.0.2.4>\r\nContact: <sip:b@192.0.2.1>\r\n");
        let routes = "Route: <sip:192.0.2.3;lr>|Route: <sip:b@192.0.2.1>|";
        assert_eq!(found, expected("sip:192.0.2.4", routes, "192.0.2.4:5060"));
    }
}
