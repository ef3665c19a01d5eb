//! Messages as the parties write them, and as the scanner reads them.

use std::net::SocketAddr;

#[allow(unused_imports, reason = "each test file uses its part of it")]
pub(crate) use testkit::{TestRequest as Req, TestResponse as Resp, record_routes, replaced, text as string};

pub(crate) fn scanned(bytes: &[u8]) -> wire::Message<'_> {
    let message = wire::scan(bytes).unwrap_or_else(|e| panic!("{e:?}:\n{}", bytes.escape_ascii()));
    assert_eq!(message.fault(), None, "{}", bytes.escape_ascii());
    message
}

/// Returns the response of the party at `contact` to a request from `source`.
pub(crate) fn answer(request: &[u8], source: SocketAddr, status: u16, contact: SocketAddr) -> Vec<u8> {
    answer_with(request, source, status, contact, &[])
}

pub(crate) fn answer_with(
    request: &[u8],
    source: SocketAddr,
    status: u16,
    contact: SocketAddr,
    fields: &[(&str, &str)],
) -> Vec<u8> {
    let response = Resp::new(status, contact);
    fields
        .iter()
        .fold(response, |response, (name, value)| response.with(name, value))
        .bytes_from(request, source)
}
