//! SIPp as caller and as server.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::child::Child;
use crate::field::{TestSite, fresh, listens};
use crate::stats::Stats;
use crate::wait::until;

/// SIPp gives up after this; it then still exits in good order, with calls missing from its account.
const LIMIT: Duration = Duration::from_secs(100);

/// How long a server may take to let its calls end; those that ended last are remembered for `linger_ms` more.
const LAST_CALLS: Duration = Duration::from_mins(1);

/// How many calls, how fast, how long.
#[derive(Debug, Clone, Copy)]
pub struct CallLoad {
    /// Calls in all.
    pub calls: u64,
    /// Calls begun a second.
    pub rate: u64,
    /// How long the scenario's pauses last, in milliseconds.
    pub hold_ms: u64,
}

/// A SIPp that answers calls, and the address it listens at.
#[derive(Debug)]
pub struct SippServer {
    address: SocketAddr,
    child: Child,
}

/// A SIPp that makes a bounded number of calls.
#[derive(Debug)]
pub struct SippCaller {
    calls: u64,
    child: Child,
}

/// Scenarios that SIPp brings along.
const STOCK: [&str; 2] = ["uas", "uac"];

/// Has a SIPp use one TCP connection.
const OVER_TCP: [&str; 2] = ["-t", "t1"];

/// Options that every SIPp of these tests is started with.
fn sipp(field: &TestSite, scenario: &str, address: SocketAddr, linger_ms: u64) -> Command {
    let mut command = Command::new("sipp");
    if STOCK.contains(&scenario) {
        command.args(["-sn", scenario]);
    } else {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        command.arg("-sf").arg(folder.join(scenario).with_extension("xml"));
    }
    // Without -bind_local a server listens at every address of the machine.
    command.args(["-i", &address.ip().to_string(), "-p", &address.port().to_string(), "-bind_local"]);
    // Each has its control socket at an own address: the default port is shared by all. IPv4 only in 3.6.1.
    let control: IpAddr = if address.is_ipv4() { address.ip() } else { field.ip(253) };
    command.args(["-ci", &control.to_string(), "-cp", &control_port(address).to_string()]);
    command.args(["-nostdin", "-trace_err", "-trace_stat", "-stf", "stat.csv", "-fd", "1", "-trace_counts"]);
    // A starved machine is no reason to give up.
    command.args(["-watchdog_minor_threshold", "600000", "-watchdog_major_threshold", "600000"]);
    command.args(["-d", &linger_ms.to_string()]);
    command
}

fn control_port(address: SocketAddr) -> u16 {
    address.port() + 3000
}

impl SippServer {
    /// Starts a server at `address` that runs `scenarios/SCENARIO.xml`, or SIPp's own `uas`, and waits until it
    /// listens. An ended call is remembered for `linger_ms`, to answer retransmissions.
    pub fn start(field: &TestSite, scenario: &str, address: SocketAddr, linger_ms: u64) -> Self {
        Self::start_with(field, scenario, address, linger_ms, &[])
    }

    /// A server for plain calls over TCP; see [`SippServer::start`].
    pub fn over_tcp(field: &TestSite, host: u8) -> Self {
        Self::start_with(field, "uas_call", field.sip(host), 500, &OVER_TCP)
    }

    fn start_with(
        field: &TestSite,
        scenario: &str,
        address: SocketAddr,
        linger_ms: u64,
        extra: &[&str],
    ) -> Self {
        let folder = fresh(field.folder(), &format!("server-{address}"));
        let mut command = sipp(field, scenario, address, linger_ms);
        // A retransmission is told by From, To, Call-ID and CSeq. By default it would have to be the same to the
        // byte, but what a proxy records in the route may differ from one second to the next.
        command.args(["-rtcheck", "loose"]).args(extra);
        let mut child = Child::start("sipp", &folder, &mut command);
        until(&format!("SIPp listens at {address}"), || {
            assert_eq!(child.ended(), None, "SIPp at {address} has ended");
            listens(address).then_some(())
        });
        Self { address, child }
    }

    /// A server for plain calls; see [`SippServer::start`].
    pub fn plain(field: &TestSite, host: u8) -> Self {
        Self::start(field, "uas_call", field.sip(host), 500)
    }

    /// A server as SIPp has it with it: its answers have no Record-Route, and it answers no OPTIONS.
    pub fn stock(field: &TestSite, host: u8) -> Self {
        Self::start(field, STOCK[0], field.sip(host), 0)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has counted so far; SIPp writes once a second.
    pub fn stats(&self) -> Stats {
        Stats::read(self.child.folder())
    }

    /// `kill -9`: the address is closed, calls are forgotten.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Stops it as a hang does: the address stays open, nothing answers.
    pub fn freeze(&mut self) {
        self.child.signal(Signal::STOP);
    }

    /// Lets its calls end, ends it and returns its account.
    pub fn finish(mut self) -> Stats {
        self.child.signal(Signal::USR1);
        self.child.wait_within(LAST_CALLS);
        self.stats()
    }

    /// As [`SippServer::finish`], and insists that no call failed: every call that it was given was complete,
    /// and no message came for a call that was not its own.
    pub fn finish_clean(mut self) -> Stats {
        self.child.signal(Signal::USR1);
        self.child.wait_within(LAST_CALLS);
        let stats = self.stats();
        if (stats.failed, stats.current) != (0, 0) {
            self.child.print_logs();
            panic!("at {} {} calls failed, {} hang: {stats:?}", self.address, stats.failed, stats.current);
        }
        stats
    }
}

impl SippCaller {
    /// Starts the calls of `load`, by `scenarios/SCENARIO.xml` or SIPp's own `uac`, from `from` to `to`. `extra` are
    /// further options of SIPp.
    pub fn start(
        field: &TestSite,
        scenario: &str,
        (from, to): (SocketAddr, SocketAddr),
        load: CallLoad,
        extra: &[&str],
    ) -> Self {
        let folder = fresh(field.folder(), &format!("caller-{from}"));
        let mut command = sipp(field, scenario, from, load.hold_ms);
        command.arg(to.to_string()).args(["-m", &load.calls.to_string(), "-r", &load.rate.to_string()]);
        // The default limit of simultaneous calls would slow the arrivals of long ones down.
        command.args(["-l", &load.calls.to_string(), "-timeout", &LIMIT.as_secs().to_string()]).args(extra);
        if !extra.contains(&"contact") {
            command.args(["-key", "contact", &from.to_string()]);
        }
        Self { calls: load.calls, child: Child::start("sipp", &folder, &mut command) }
    }

    /// Plain calls over one TCP connection; see [`SippCaller::start`].
    pub fn over_tcp(field: &TestSite, ends: (SocketAddr, SocketAddr), load: CallLoad) -> Self {
        Self::start(field, "uac_call", ends, load, &OVER_TCP)
    }

    /// Plain calls; see [`SippCaller::start`].
    pub fn plain(field: &TestSite, ends: (SocketAddr, SocketAddr), load: CallLoad) -> Self {
        Self::start(field, "uac_call", ends, load, &[])
    }

    /// What it has counted so far; SIPp writes once a second.
    pub fn stats(&self) -> Stats {
        Stats::read(self.child.folder())
    }

    /// Waits until it has seen every call answered.
    pub fn wait_until_answered(&self) {
        until("every call is answered", || (self.stats().received("200") >= self.calls).then_some(()));
    }

    /// Whether all its calls are over.
    pub fn ended(&mut self) -> bool {
        self.child.ended().is_some()
    }

    /// Waits until all calls are over and returns its account.
    pub fn finish(mut self) -> Stats {
        self.wait()
    }

    /// As [`SippCaller::finish`], and insists that every call succeeded.
    pub fn finish_clean(mut self) -> Stats {
        let stats = self.wait();
        if (stats.successful, stats.failed) != (self.calls, 0) {
            self.child.print_logs();
            panic!("of {} calls {} succeeded, {} failed", self.calls, stats.successful, stats.failed);
        }
        stats
    }

    /// Begins no more calls, waits for those that run, insists that every one succeeded, and returns how many there
    /// were.
    pub fn end_clean(mut self) -> u64 {
        self.child.signal(Signal::USR1);
        self.calls = self.wait().created;
        self.finish_clean().successful
    }

    fn wait(&mut self) -> Stats {
        self.child.wait_within(LIMIT + Duration::from_secs(20));
        self.stats()
    }
}
