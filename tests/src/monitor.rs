//! A monitor beside a server.

use std::net::SocketAddr;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::balancer::binary;
use crate::child::Child;
use crate::field::TestSite;
use crate::wait::until;

/// A running `sarabande monitor`, killed on drop.
#[derive(Debug)]
pub struct RunningMonitor {
    child: Child,
}

/// Measured windows, each a line of JSON.
#[derive(Debug)]
pub struct Measured {
    windows: Vec<Value>,
}

impl RunningMonitor {
    /// Starts it with these options, and waits until it measures.
    pub fn start(site: &TestSite, name: &str, options: &[&str]) -> Self {
        let mut monitor = Self { child: command(site, name, options) };
        until("the monitor measures", || {
            assert_eq!(monitor.child.ended(), None, "the monitor has ended: {}", monitor.errors());
            monitor.errors().contains("measuring ").then_some(())
        });
        monitor
    }

    /// Runs it until it ends by itself. Returns its measurements and its errors.
    pub fn run(site: &TestSite, name: &str, options: &[&str]) -> (Measured, String) {
        let mut monitor = Self { child: command(site, name, options) };
        monitor.child.wait();
        (monitor.measured(), monitor.errors())
    }

    /// Returns its standard error.
    pub fn errors(&self) -> String {
        self.child.errors()
    }

    /// Returns its HTTP address.
    pub fn http(&self) -> SocketAddr {
        let errors = self.errors();
        let (_, rest) = errors.split_once("metrics at http://").expect("it says where");
        rest.split('/').next().and_then(|address| address.parse().ok()).expect("an address")
    }

    /// Returns its measurements so far.
    pub fn measured(&self) -> Measured {
        let text = self.child.output();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        Measured { windows: whole.map(|line| serde_json::from_str(line).expect("JSON")).collect() }
    }

    /// Ends it with SIGINT, like Ctrl-C.
    pub fn finish(mut self) -> Measured {
        self.child.signal(Signal::INT);
        assert!(self.child.wait().success(), "{}", self.errors());
        self.measured()
    }
}

fn command(site: &TestSite, name: &str, options: &[&str]) -> Child {
    let folder = site.folder().join(format!("monitor-{name}"));
    Child::start("monitor", &folder, Command::new(binary()).args(["monitor", "--json"]).args(options))
}

impl Measured {
    /// Returns the sum of this count over all windows.
    pub fn sum(&self, name: &str) -> u64 {
        let count = |window: &Value| window[name].as_u64().unwrap_or_else(|| panic!("{name} in {window}"));
        self.windows.iter().map(count).sum()
    }

    /// Returns minimum, median, 95th percentile and maximum in milliseconds, of each window that has any.
    pub fn latencies(&self) -> Vec<[f64; 4]> {
        let with = self.windows.iter().filter(|window| !window["latency_ms"].is_null());
        let figure = |window: &Value, name| window["latency_ms"][name].as_f64().expect("a number");
        with.map(|window| ["min", "median", "p95", "max"].map(|name| figure(window, name))).collect()
    }
}
