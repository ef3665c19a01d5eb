//! Messages to systemd (`sd_notify(3)`): the process is ready, and is the main process of the service, also after a
//! takeover. If there is a keeper, the keeper stays the main process.

use crate::command::run::keeper;

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends the messages, if the environment names a socket.
///
/// # Errors
/// The socket cannot be written.
pub(crate) fn ready() -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let text = match keeper::pid() {
        Some(_) => "READY=1".to_owned(),
        None => format!("READY=1\nMAINPID={}", std::process::id()),
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(|_| ())
}
