//! A third-party TLS client: `openssl s_client`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::child::Child;
use crate::field::{TestSite, fresh};
use crate::wait::until;

/// Result of a connection.
#[derive(Debug)]
pub struct TlsExchange {
    /// Output of `openssl`: the server's certificate, the parameters of TLS, and the server's data.
    pub text: String,
}

impl TlsExchange {
    /// Connects with further options, sends a request, and waits for its final response or the end of the
    /// connection.
    pub fn with(site: &TestSite, to: SocketAddr, options: &[&str], request: &[u8]) -> Self {
        let folder = fresh(site.folder(), "s_client");
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &to.to_string(), "-ign_eof"]).args(options);
        let (mut child, mut input) = Child::start_with_input("openssl", &folder, &mut command);
        // It may have ended by then.
        let _ = input.write_all(request);
        until("the server answers or closes the connection", || {
            let is_answered = child.output().split("SIP/2.0 ").skip(1).any(|rest| !rest.starts_with('1'));
            (is_answered || child.ended().is_some()).then_some(())
        });
        Self { text: child.output() + &child.errors() }
    }

    /// Returns true if the server has answered with 200.
    pub fn is_answered(&self) -> bool {
        self.text.contains("SIP/2.0 200 ")
    }

    /// Checks that the output contains this text.
    pub fn says(&self, wanted: &str) {
        assert!(self.text.contains(wanted), "{wanted:?} in {}", self.text);
    }
}

/// Returns a path as an argument.
pub fn path_text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}
