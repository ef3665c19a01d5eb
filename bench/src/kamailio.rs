//! Kamailio as started by the benchmarks.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::scratch::Scratch;

/// Returns the command of Kamailio with this configuration, address, folder name, number of children and megabytes of
/// shared memory.
pub(crate) fn kamailio(
    program: &Path,
    scratch: &Scratch,
    name: &str,
    config: &str,
    address: SocketAddr,
    (children, megabytes): (usize, u32),
) -> Result<Command> {
    let file = scratch.write(&format!("{name}/kamailio.cfg"), config)?;
    let mut kamailio = Command::new(program);
    // -DD: children, but no daemon.
    kamailio.args(["-DD", "-E", "-x", "fm", "-m", &megabytes.to_string(), "-M", "16"]);
    kamailio.args(["-n", &children.to_string()]);
    kamailio.arg("-f").arg(file).arg("-Y").arg(scratch.path().join(name));
    kamailio.args(["-l", &format!("udp:{address}")]);
    Ok(kamailio)
}

/// Gives a dispatcher its list of servers.
pub(crate) fn dispatch(
    kamailio: &mut Command,
    scratch: &Scratch,
    servers: impl IntoIterator<Item = SocketAddr>,
) -> Result<()> {
    // Set, address, flags, priority, attributes: call load needs a unique id for each server.
    let line = |(index, server)| format!("1 sip:{server} 0 0 duid=s{index}\n");
    let list: String = servers.into_iter().enumerate().map(line).collect();
    let list = scratch.write("dispatcher.list", &list)?;
    kamailio.arg("-A").arg(format!("LIST=\"{}\"", list.display()));
    Ok(())
}
