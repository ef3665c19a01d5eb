//! The Java server that the benchmarks measure.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use crate::child::Child;
use crate::field::{TestSite, listens};
use crate::wait::until;

static BUILT: Once = Once::new();

/// A transaction-stateful server on the JAIN SIP stack, ended on drop.
#[derive(Debug)]
pub struct JavaServer {
    address: SocketAddr,
    _child: Child,
}

impl JavaServer {
    /// Builds it with Maven, and starts it at `host`.
    pub fn start(site: &TestSite, host: u8) -> Self {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/jain");
        BUILT.call_once(|| build(&project));
        let (address, target) = (site.sip(host), project.join("target"));
        let mut java = Command::new("java");
        java.args([
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
        ]);
        java.arg(format!("{}:{}/lib/*", target.join("classes").display(), target.display()));
        java.args(["sarabande.Answerer", &address.ip().to_string(), &address.port().to_string()]);
        java.args([&host.to_string(), "1"]);
        let child = Child::start(&format!("java-{host}"), site.folder(), &mut java);
        until("the server in Java has its address", || listens(address).then_some(()));
        Self { address, _child: child }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn build(project: &Path) {
    let pom: PathBuf = project.join("pom.xml");
    let made = Command::new("mvn").args(["-q", "-B", "-f"]).arg(&pom).arg("package").output();
    let made = made.unwrap_or_else(|error| panic!("mvn: {error}"));
    let output = String::from_utf8_lossy(&made.stdout);
    assert!(made.status.success(), "mvn -f {}: {output}", pom.display());
}
