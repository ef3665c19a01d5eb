//! What systemd wants to know (`sd_notify(3)`): that the process is ready, and that it is the main process of the
//! service from now on, also where another one was it. Where a keeper is the main process, that one stays it.

use crate::command::run::keeper;

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells it, where there is somebody to be told.
///
/// # Errors
/// The socket that the environment names takes nothing.
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
