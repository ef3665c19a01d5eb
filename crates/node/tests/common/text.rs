//! Messages as the parties write them.

use std::net::SocketAddr;
use wire::build::{RequestBuilder, ResponseBuilder};

pub(crate) fn scanned(bytes: &[u8]) -> wire::Message<'_> {
    let message = wire::scan(bytes).unwrap_or_else(|e| panic!("{e:?}:\n{}", bytes.escape_ascii()));
    assert_eq!(message.fault(), None, "{}", bytes.escape_ascii());
    message
}

/// Text that has to be UTF-8 to be compared.
pub(crate) fn string(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A request to be written; [`Req::new`] fills in an INVITE-like default.
#[derive(Clone)]
pub(crate) struct Req {
    pub(crate) method: &'static str,
    pub(crate) uri: String,
    pub(crate) via: String,
    pub(crate) from_tag: String,
    pub(crate) to_tag: Option<String>,
    pub(crate) call_id: String,
    pub(crate) cseq: u32,
    pub(crate) max_forwards: Option<u32>,
    pub(crate) contact: SocketAddr,
    pub(crate) routes: Vec<String>,
    pub(crate) extra: Vec<(&'static str, String)>,
}

impl Req {
    /// Outside a dialog, from the user agent at `at`.
    pub(crate) fn new(method: &'static str, call_id: &str, at: SocketAddr) -> Self {
        Self {
            method,
            uri: "sip:bob@pool.example".to_owned(),
            via: format!("SIP/2.0/UDP {at};branch=z9hG4bK-{call_id}-1;rport"),
            from_tag: "alice".to_owned(),
            to_tag: None,
            call_id: call_id.to_owned(),
            cseq: 1,
            max_forwards: Some(70),
            contact: at,
            routes: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// The same transaction's CANCEL, or the ACK to its failure.
    pub(crate) fn same_branch(&self, method: &'static str, to_tag: Option<&str>) -> Self {
        Self { method, to_tag: to_tag.map(str::to_owned), extra: Vec::new(), ..self.clone() }
    }

    pub(crate) fn via(self, via: &str) -> Self {
        Self { via: via.to_owned(), ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.extra.push((name, value.to_owned()));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut request = RequestBuilder::new(&mut out, self.method, &self.uri).header("Via", &self.via);
        for route in &self.routes {
            request = request.header("Route", route);
        }
        if let Some(hops) = self.max_forwards {
            request = request.header("Max-Forwards", hops.to_string());
        }
        request = request.header("From", format!("<sip:alice@127.0.0.1>;tag={}", self.from_tag));
        request = match &self.to_tag {
            Some(tag) => request.header("To", format!("<sip:bob@pool.example>;tag={tag}")),
            None => request.header("To", "<sip:bob@pool.example>"),
        };
        request = request
            .header("Call-ID", &self.call_id)
            .header("CSeq", format!("{} {}", self.cseq, self.method))
            .header("Contact", format!("<sip:{}>", self.contact));
        for (name, value) in &self.extra {
            request = request.header(name, value);
        }
        request.finish(b"v=0\r\n");
        out
    }
}

/// The answer of the party at `contact` to a request that it got from `source`.
pub(crate) fn answer(request: &[u8], source: SocketAddr, status: u16, contact: SocketAddr) -> Vec<u8> {
    answer_with(request, source, status, contact, &[])
}

pub(crate) fn answer_with(
    request: &[u8],
    source: SocketAddr,
    status: u16,
    contact: SocketAddr,
    extra: &[(&'static str, &str)],
) -> Vec<u8> {
    let extra = extra.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    Resp { extra, ..Resp::new(status, contact) }.bytes_from(request, source)
}

/// A response to be written; [`Resp::new`] fills in what a callee at that address answers.
#[derive(Clone)]
pub(crate) struct Resp {
    pub(crate) status: u16,
    /// The To tag, where the request has none.
    pub(crate) tag: &'static str,
    /// A URI; none if empty.
    pub(crate) contact: String,
    /// The Record-Route values in place of the request's.
    pub(crate) routes: Option<Vec<String>>,
    pub(crate) extra: Vec<(&'static str, String)>,
}

impl Resp {
    pub(crate) fn new(status: u16, contact: SocketAddr) -> Self {
        Self { status, tag: "bob", contact: format!("sip:{contact}"), routes: None, extra: Vec::new() }
    }

    /// To a request from the first listener of the tests.
    pub(crate) fn bytes(&self, request: &[u8]) -> Vec<u8> {
        self.bytes_from(request, super::addr("127.0.0.1:5060"))
    }

    pub(crate) fn bytes_from(&self, request: &[u8], source: SocketAddr) -> Vec<u8> {
        let request = scanned(request);
        let mut out = Vec::new();
        let reply = ResponseBuilder::reply(&mut out, &request, source, self.status, "Whatever", self.tag);
        let mut reply = match &self.routes {
            None => reply.record_routes(&request),
            Some(routes) => routes.iter().fold(reply, |reply, route| reply.header("Record-Route", route)),
        };
        if !self.contact.is_empty() {
            reply = reply.header("Contact", format!("<{}>", self.contact));
        }
        self.extra.iter().fold(reply, |reply, (name, value)| reply.header(name, value)).finish(b"");
        out
    }
}

/// The Record-Route values of a message, topmost first, as Route values.
pub(crate) fn record_routes(bytes: &[u8]) -> Vec<String> {
    let value = |uri: &[u8]| format!("<{}>", string(uri));
    scanned(bytes).record_routes().map(|route| value(route.uri)).collect()
}

/// The same message with one text in it replaced, which must be there.
pub(crate) fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let text = string(bytes);
    assert!(text.contains(old), "{old} in {text}");
    text.replace(old, new).into_bytes()
}
