//! A Kamailio of a test.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::certificates::Authority;
use crate::child::Child;
use crate::field::{TestSite, listens};
use crate::tls_client::path_text;
use crate::wait::until;

/// Port of SIP over TLS (RFC 3261 §19.1.2).
const TLS_PORT: u16 = 5061;

/// Kamailio as a transaction-stateful, record-routing proxy in front of one next hop; ended on drop.
#[derive(Debug)]
pub struct KamailioProxy {
    address: SocketAddr,
    child: Child,
}

impl KamailioProxy {
    /// Starts it at `host` with next hop `next`, with the configuration that the benchmarks measure.
    pub fn start(site: &TestSite, host: u8, next: SocketAddr) -> Self {
        Self::with(site, host, &["udp"], &format!("sip:{next}"), &config())
    }

    /// The same over TCP on both sides. Requests of callers within dialogs go to `next` too, since SIPp's Contacts do
    /// not say TCP. The source address is set, as connections would leave from 127.0.0.1 on loopback.
    pub fn over_tcp(site: &TestSite, host: u8, next: SocketAddr) -> Self {
        let text = std::fs::read_to_string(config()).expect("the configuration is there");
        let text =
            text.replace("disable_tcp=yes", &format!("tcp_children=1\ntcp_source_ipv4={}", site.ip(host)));
        let (before, after) = text.split_once("\t\tt_relay();").expect("it relays within dialogs");
        let text = format!("{before}\t\t$du = HOP;\n\t\tt_relay();{after}");
        let file = site.write(&format!("kamailio-{host}.cfg"), text);
        Self::with(site, host, &["tcp"], &format!("sip:{next};transport=tcp"), &file)
    }

    /// The same between UDP and TLS. It sends to the URI `next`. On both sides it shows its certificate, and requires
    /// one issued by `authority`.
    pub fn over_tls(site: &TestSite, host: u8, next: &str, authority: &Authority) -> Self {
        let own = authority.issue(&format!("kamailio-{host}"), &format!("IP:{}", site.ip(host)));
        let settings = [
            ("certificate", format!("{:?}", path_text(&own.chain))),
            ("private_key", format!("{:?}", path_text(&own.key))),
            ("ca_list", format!("{:?}", path_text(&authority.file()))),
            ("tls_method", "\"TLSv1.2+\"".to_owned()),
            ("verify_certificate", "1".to_owned()),
            ("require_certificate", "1".to_owned()),
        ];
        let file = with_module(site, host, "tls", &settings, |text| {
            text.replace(
                "disable_tcp=yes",
                &format!("enable_tls=yes\ntcp_children=1\ntcp_source_ipv4={}", site.ip(host)),
            )
        });
        Self::with(site, host, &["udp", "tls"], next, &file)
    }

    /// The same over UDP, with copies of all its messages to `collector` by HEP.
    pub fn with_hep(site: &TestSite, host: u8, next: SocketAddr, collector: SocketAddr) -> Self {
        let settings = [
            ("duplicate_uri", format!("\"sip:{collector}\"")),
            ("trace_mode", "1".to_owned()),
            ("trace_on", "1".to_owned()),
            ("trace_to_database", "0".to_owned()),
            ("hep_mode_on", "1".to_owned()),
            ("hep_version", "3".to_owned()),
        ];
        let file = with_module(site, host, "siptrace", &settings, |text| text);
        Self::with(site, host, &["udp"], &format!("sip:{next}"), &file)
    }

    /// Starts it at `host` with this configuration.
    pub fn with_text(site: &TestSite, host: u8, text: &str) -> Self {
        let file = site.write(&format!("kamailio-{host}.cfg"), text);
        Self::with(site, host, &["udp"], "", &file)
    }

    fn with(site: &TestSite, host: u8, transports: &[&str], next: &str, config: &Path) -> Self {
        let address = site.sip(host);
        let folder = site.folder().join(format!("kamailio-{host}"));
        let mut command = Command::new("kamailio");
        command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
        command
            .args(["-DD", "-E", "-m", "64", "-M", "8", "-n", "1", "-f"])
            .arg(config)
            .arg("-Y")
            .arg(&folder);
        let at = |transport: &str| match transport {
            "tls" => SocketAddr::new(address.ip(), TLS_PORT),
            _ => address,
        };
        for transport in transports {
            command.arg("-l").arg(format!("{transport}:{}", at(transport)));
        }
        command.arg("-A").arg(format!("HOP=\"{next}\""));
        let child = Child::start("kamailio", &folder, &mut command);
        let is_taken = |transport: &&str| match *transport {
            "udp" => listens(address),
            stream => TcpStream::connect(at(stream)).is_ok(),
        };
        until("Kamailio has its addresses", || transports.iter().all(is_taken).then_some(()));
        Self { address, child }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Writes the benchmarks' configuration with another module, its parameters, and a further change. Returns the path.
fn with_module(
    site: &TestSite,
    host: u8,
    module: &str,
    settings: &[(&str, String)],
    change: impl FnOnce(String) -> String,
) -> PathBuf {
    let text = change(std::fs::read_to_string(config()).expect("the configuration is there"));
    let lines = settings.iter().map(|(name, value)| format!("modparam(\"{module}\", \"{name}\", {value})\n"));
    let more = format!("loadmodule \"{module}.so\"\n{}\nrequest_route {{", lines.collect::<String>());
    site.write(&format!("kamailio-{host}.cfg"), text.replacen("request_route {", &more, 1))
}

/// Returns the path of the benchmarks' configuration.
fn config() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/kamailio/proxy.cfg")
}

impl Drop for KamailioProxy {
    fn drop(&mut self) {
        // It ends its children, which `kill -9` would leave.
        self.child.end(Signal::TERM);
    }
}
