//! A Kamailio of a test.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
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
        Self::with(site, host, "udp", &format!("sip:{next}"), &config())
    }

    /// The same over TCP, on both sides. Requests of callers within dialogs go to `next` as well: SIPp's Contacts do
    /// not say TCP. On loopback a connection would leave from 127.0.0.1, whoever opens it.
    pub fn over_tcp(site: &TestSite, host: u8, next: SocketAddr) -> Self {
        let text = std::fs::read_to_string(config()).expect("the configuration is there");
        let text =
            text.replace("disable_tcp=yes", &format!("tcp_children=1\ntcp_source_ipv4={}", site.ip(host)));
        let (before, after) = text.split_once("\t\tt_relay();").expect("it relays within dialogs");
        let file = site.folder().join(format!("kamailio-{host}.cfg"));
        std::fs::write(&file, format!("{before}\t\t$du = HOP;\n\t\tt_relay();{after}"))
            .expect("the scratch folder can be written");
        Self::with(site, host, "tcp", &format!("sip:{next};transport=tcp"), &file)
    }

    /// The same over UDP, which hands copies of all its messages to `collector` by HEP.
    pub fn with_hep(site: &TestSite, host: u8, next: SocketAddr, collector: SocketAddr) -> Self {
        let text = std::fs::read_to_string(config()).expect("the configuration is there");
        let settings = [
            ("duplicate_uri", format!("\"sip:{collector}\"")),
            ("trace_mode", "1".to_owned()),
            ("trace_on", "1".to_owned()),
            ("trace_to_database", "0".to_owned()),
            ("hep_mode_on", "1".to_owned()),
            ("hep_version", "3".to_owned()),
        ];
        let settings = settings.map(|(name, value)| format!("modparam(\"siptrace\", \"{name}\", {value})\n"));
        let more = format!("loadmodule \"siptrace.so\"\n{}\nrequest_route {{", settings.concat());
        let file = site.folder().join(format!("kamailio-{host}.cfg"));
        std::fs::write(&file, text.replacen("request_route {", &more, 1))
            .expect("the scratch folder can be written");
        Self::with(site, host, "udp", &format!("sip:{next}"), &file)
    }

    fn with(site: &TestSite, host: u8, transport: &str, next: &str, config: &Path) -> Self {
        let address = site.sip(host);
        let folder = site.folder().join(format!("kamailio-{host}"));
        std::fs::create_dir_all(&folder).expect("the scratch folder can be written");
        let mut command = Command::new("kamailio");
        command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
        command.args(["-DD", "-E", "-m", "64", "-M", "8", "-n", "1", "-f"]).arg(config);
        command.arg("-Y").arg(&folder).arg("-l").arg(format!("{transport}:{address}"));
        command.arg("-A").arg(format!("HOP=\"{next}\""));
        let child = Child::start("kamailio", &folder, &mut command);
        let is_taken = || match transport {
            "udp" => UdpSocket::bind(address).is_err(),
            _ => TcpStream::connect(address).is_ok(),
        };
        until("Kamailio has its address", || is_taken().then_some(()));
        Self { address, child }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The configuration of the benchmarks.
fn config() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/kamailio/proxy.cfg")
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
