//! HTTP as far as the admin interface needs it: one request and one response for each connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response of the admin interface.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Body, as text.
    pub body: String,
}

/// Sends `method path` to `address`. HTTP/1.0, so that the body ends where the connection does.
///
/// # Errors
/// Fails without a connection, or without a response in 10 s.
pub fn request(address: SocketAddr, method: &str, path: &str) -> io::Result<Reply> {
    request_with(address, method, path, &format!("Host: {address}\r\n"))
}

/// The same with these header fields, each with its line end.
///
/// # Errors
/// Fails without a connection, or without a response in 10 s.
pub fn request_with(address: SocketAddr, method: &str, path: &str, fields: &str) -> io::Result<Reply> {
    let limit = Duration::from_secs(10);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    write!(stream, "{method} {path} HTTP/1.0\r\n{fields}Content-Length: 0\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status =
        head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Reply { status, body: body.to_owned() })
}
