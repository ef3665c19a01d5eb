//! `sarabande load` as callers and as servers, over TCP and TLS.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::balancer::binary;
use crate::carrier::Carrier;
use crate::certificates::Certificate;
use crate::child::Child;
use crate::field::{TestSite, fresh};
use crate::wait::{until, within};

/// Longest time for the last calls. It bounds a hang: an unanswered request is given up after 32 s.
const LAST_CALLS: Duration = Duration::from_mins(2);

/// Counts of one side; see `load::results` for their meaning.
#[derive(Debug, Clone)]
pub struct LoadResults(Value);

impl LoadResults {
    fn read(file: &Path, of: impl Fn(&Value) -> &Value) -> Self {
        let text = fs::read_to_string(file).expect("the results are written at the end");
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        Self(of(&value).clone())
    }

    /// Returns a count.
    pub fn count(&self, key: &str) -> u64 {
        let Self(value) = self;
        value["results"][key].as_u64().unwrap_or_else(|| panic!("number {key:?} in {value}"))
    }

    /// Returns the sum of a count by status.
    pub fn sum(&self, key: &str) -> u64 {
        let Self(value) = self;
        let counts = value["results"][key].as_object().unwrap_or_else(|| panic!("counts {key:?} in {value}"));
        counts.values().filter_map(Value::as_u64).sum()
    }
}

/// A server that answers every call.
#[derive(Debug)]
pub struct LoadServer {
    address: SocketAddr,
    child: Child,
    file: PathBuf,
}

impl LoadServer {
    /// Starts a server at `host`, and waits until it listens.
    pub fn start(site: &TestSite, carrier: &Carrier, host: u8) -> Self {
        Self::showing(site, carrier, host, carrier.certificate(site, host).as_ref())
    }

    /// The same with this certificate instead of its own.
    pub fn showing(site: &TestSite, carrier: &Carrier, host: u8, certificate: Option<&Certificate>) -> Self {
        let address = carrier.at(site, host);
        let folder = fresh(site.folder(), &format!("load-server-{host}"));
        let file = folder.join("results.json");
        let mut command = Command::new(binary());
        command.args(["load", "answer", "--listen", &address.to_string(), "--json"]).arg(&file);
        let child = Child::start("load", &folder, command.args(carrier.options(certificate)));
        until("the server takes calls", || child.errors().contains("takes calls on").then_some(()));
        Self { address, child, file }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it with SIGKILL: its port is closed, its connections are reset, its calls are forgotten.
    pub fn kill(mut self) {
        self.child.kill();
    }

    /// Stops it with SIGSTOP: its connections stay open without answers.
    pub fn freeze(&mut self) {
        self.child.signal(Signal::STOP);
    }

    /// Continues it, ends it, and returns its counts.
    pub fn finish(mut self) -> LoadResults {
        self.child.signal(Signal::CONT);
        self.child.signal(Signal::INT);
        self.child.wait();
        LoadResults::read(&self.file, |value| &value["servers"][0])
    }

    /// The same as [`LoadServer::finish`], and checks that it got no request of another server's call.
    pub fn finish_clean(self) -> LoadResults {
        let address = self.address;
        let results = self.finish();
        assert_eq!(results.count("wrong_server"), 0, "at {address}: {results:?}");
        results
    }
}

/// Callers that make a given number of calls.
#[derive(Debug)]
pub struct LoadCaller {
    child: Child,
    file: PathBuf,
    calls: u64,
}

impl LoadCaller {
    /// Starts `calls` calls over some connections, evenly, `rate` a second, each `hold` long.
    pub fn start(
        site: &TestSite,
        carrier: &Carrier,
        (from, to): (IpAddr, SocketAddr),
        (calls, rate): (u64, u32),
        hold: &str,
    ) -> Self {
        let folder = fresh(site.folder(), &format!("load-caller-{from}"));
        let file = folder.join("results.json");
        let mut command = Command::new(binary());
        command.args([
            "load",
            "call",
            "--to",
            &to.to_string(),
            "--listen",
            &format!("{from}:0"),
            "--hold",
            hold,
        ]);
        command.args(["--calls", &calls.to_string(), "--rate", &rate.to_string(), "--arrivals", "constant"]);
        command.args(["--connections", "4", "--json"]).arg(&file).args(carrier.options(None));
        Self { child: Child::start("load", &folder, &mut command), file, calls }
    }

    /// Waits until all calls have ended, and returns the counts.
    pub fn finish(mut self) -> LoadResults {
        within(LAST_CALLS, "all calls are over", || self.child.ended());
        LoadResults::read(&self.file, |value| value)
    }

    /// The same as [`LoadCaller::finish`], and checks that every call succeeded, at one server each.
    pub fn finish_clean(self) -> LoadResults {
        let calls = self.calls;
        let results = self.finish();
        let counts = ["calls_completed", "wrong_server"].map(|key| results.count(key));
        assert_eq!(counts, [calls, 0], "{results:?}");
        results
    }
}
