//! A balancer in a process of its own, which can be restarted.

use crate::command::demo::stage::{ANY, Folder, configuration_text, free_port};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the start of a process.
const START: Duration = Duration::from_secs(20);

/// A balancer. Dropping it kills its processes.
pub(super) struct Balancer {
    pub(super) address: SocketAddr,
    folder: Folder,
    /// Socket to which a process reports that it serves (`sd_notify(3)`).
    ready: UnixDatagram,
    processes: Vec<Child>,
}

impl Balancer {
    /// Starts a balancer with these keys of its pool. `name` is the name of its folder.
    pub(super) async fn start(name: &str, pool: &str, members: &[SocketAddr]) -> Result<Self> {
        let (address, folder) = (free_port(ANY.ip())?, Folder::new(name)?);
        std::fs::write(folder.0.join("demo.toml"), text(address, pool, members))?;
        let ready = UnixDatagram::bind(folder.0.join("ready"))?;
        ready.set_nonblocking(true)?;
        let mut balancer = Self { address, folder, ready, processes: Vec::new() };
        balancer.launch().await?;
        Ok(balancer)
    }

    /// Kills all processes.
    pub(super) fn kill(&mut self) {
        for mut process in self.processes.drain(..) {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts a process, and waits until it serves. It takes over from a process that runs already.
    pub(super) async fn launch(&mut self) -> Result<()> {
        let program = std::env::current_exe().context("the path of this program cannot be found")?;
        let mut command = Command::new(program);
        command.arg("run").arg(self.folder.0.join("demo.toml"));
        command.env("NOTIFY_SOCKET", self.folder.0.join("ready"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(command.spawn().context("the balancer cannot be started")?);
        let (start, last) = (Instant::now(), self.processes.len() - 1);
        while self.ready.recv(&mut [0; 256]).is_err() {
            if let Some(status) = self.processes[last].try_wait()? {
                bail!("the balancer has ended with {status}");
            }
            if start.elapsed() > START {
                bail!("the balancer does not start");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Text of the configuration.
pub(super) fn text(address: SocketAddr, pool: &str, members: &[SocketAddr]) -> String {
    let members: Vec<_> = members.iter().map(ToString::to_string).collect();
    configuration_text(address, &format!("[pool.demo]\nmembers = {members:?}\n{pool}\n"))
}
