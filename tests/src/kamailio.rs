//! A Kamailio of a test.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::child::Child;
use crate::field::TestSite;
use crate::wait::until;

/// Kamailio as a transaction-stateful, record-routing proxy in front of one hop; ended when dropped.
#[derive(Debug)]
pub struct KamailioProxy {
    address: SocketAddr,
    child: Child,
}

impl KamailioProxy {
    /// Starts one at `host` that sends to `next`, with the configuration that the benchmarks measure.
    pub fn start(site: &TestSite, host: u8, next: SocketAddr) -> Self {
        let address = site.sip(host);
        let folder = site.folder().join(format!("kamailio-{host}"));
        std::fs::create_dir_all(&folder).expect("the scratch folder can be written");
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/kamailio/proxy.cfg");
        let mut command = Command::new("kamailio");
        command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
        command.args(["-DD", "-E", "-m", "64", "-M", "8", "-n", "1", "-f"]).arg(config);
        command.arg("-Y").arg(&folder).arg("-l").arg(format!("udp:{address}"));
        command.arg("-A").arg(format!("HOP=\"sip:{next}\""));
        let child = Child::start("kamailio", &folder, &mut command);
        until("Kamailio has its address", || UdpSocket::bind(address).is_err().then_some(()));
        Self { address, child }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for KamailioProxy {
    fn drop(&mut self) {
        // It ends its children, which `kill -9` would leave.
        self.child.signal(Signal::TERM);
        for _ in 0..100 {
            if self.child.ended().is_some() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
