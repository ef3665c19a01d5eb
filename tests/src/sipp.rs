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

/// Time limit of SIPp. It then still exits in good order, with calls missing from its statistics.
const LIMIT: Duration = Duration::from_secs(100);

/// Longest time of a server to end its calls. The last ones are remembered for another `linger_ms`.
const LAST_CALLS: Duration = Duration::from_mins(1);

/// Number, rate and length of calls.
#[derive(Debug, Clone, Copy)]
pub struct CallLoad {
    /// Calls in all.
    pub calls: u64,
    /// Calls a second.
    pub rate: u64,
    /// Pauses of the scenario in milliseconds.
    pub hold_ms: u64,
}

/// A SIPp that answers calls, and its address.
#[derive(Debug)]
pub struct SippServer {
    address: SocketAddr,
    child: Child,
}

/// A SIPp that makes a given number of calls.
#[derive(Debug)]
pub struct SippCaller {
    calls: u64,
    child: Child,
}

/// Built-in scenarios of SIPp.
const STOCK: [&str; 2] = ["uas", "uac"];

/// Makes SIPp use one TCP connection.
const OVER_TCP: [&str; 2] = ["-t", "t1"];

/// Returns the command with the options of every SIPp in these tests.
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
    // The control socket gets an address of its own, since all share the default port. IPv4 only in 3.6.1.
    let control: IpAddr = if address.is_ipv4() { address.ip() } else { field.ip(253) };
    command.args(["-ci", &control.to_string(), "-cp", &control_port(address).to_string()]);
    command.args(["-nostdin", "-trace_err", "-trace_stat", "-stf", "stat.csv", "-fd", "1", "-trace_counts"]);
    // A slow machine must not make it give up.
    command.args(["-watchdog_minor_threshold", "600000", "-watchdog_major_threshold", "600000"]);
    command.args(["-d", &linger_ms.to_string()]);
    command
}

fn control_port(address: SocketAddr) -> u16 {
    address.port() + 3000
}

impl SippServer {
    /// Starts a server at `address` with `scenarios/SCENARIO.xml`, or SIPp's own `uas`, and waits until it listens. It
    /// answers retransmissions of an ended call for `linger_ms`.
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
        // Retransmissions are identified by From, To, Call-ID and CSeq. By default they must have equal bytes, but a
        // proxy's Record-Route may change from one second to the next.
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

    /// SIPp's own server: its responses have no Record-Route, and it answers no OPTIONS.
    pub fn stock(field: &TestSite, host: u8) -> Self {
        Self::start(field, STOCK[0], field.sip(host), 0)
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its statistics so far, which SIPp writes once a second.
    pub fn stats(&self) -> Stats {
        Stats::read(self.child.folder())
    }

    /// Kills it with SIGKILL: the address is closed, calls are forgotten.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Stops it with SIGSTOP: the address stays open without answers.
    pub fn freeze(&mut self) {
        self.child.signal(Signal::STOP);
    }

    /// Waits for its calls, ends it and returns its statistics.
    pub fn finish(mut self) -> Stats {
        self.child.signal(Signal::USR1);
        self.child.wait_within(LAST_CALLS);
        self.stats()
    }

    /// The same as [`SippServer::finish`], and checks that no call failed: each was complete, and no message came for
    /// an unknown call.
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
    /// Starts the calls of `load` with `scenarios/SCENARIO.xml` or SIPp's own `uac`, from `from` to `to`. `extra` are
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
        // The default limit of simultaneous calls would delay new ones if calls are long.
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

    /// Returns its statistics so far, which SIPp writes once a second.
    pub fn stats(&self) -> Stats {
        Stats::read(self.child.folder())
    }

    /// Waits until every call is answered.
    pub fn wait_until_answered(&self) {
        until("every call is answered", || (self.stats().received("200") >= self.calls).then_some(()));
    }

    /// Returns true if all its calls have ended.
    pub fn ended(&mut self) -> bool {
        self.child.ended().is_some()
    }

    /// Waits until all calls have ended, and returns the statistics.
    pub fn finish(mut self) -> Stats {
        self.wait()
    }

    /// The same as [`SippCaller::finish`], and checks that every call succeeded.
    pub fn finish_clean(mut self) -> Stats {
        let stats = self.wait();
        if (stats.successful, stats.failed) != (self.calls, 0) {
            self.child.print_logs();
            panic!("of {} calls {} succeeded, {} failed", self.calls, stats.successful, stats.failed);
        }
        stats
    }

    /// Begins no more calls, waits for the running ones, checks that all succeeded, and returns their number.
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
