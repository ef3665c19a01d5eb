//! Live tests: real SIPp callers and servers, and the real `sarabande` between them.
//!
//! One binary, so that a few tests at a time share the machine. SIPp counts a call as failed if it gets a message of an
//! unknown call. A test with [`SippServer::finish_clean`] therefore shows that all messages of each dialog reached the
//! server that answered the INVITE.

mod admin;
mod browser;
mod calls;
mod change;
mod demo;
mod examples;
mod failure;
mod guide;
mod hep;
mod hostile_streams;
mod init;
mod log;
mod monitor;
mod names;
mod nat;
mod options;
mod outliers;
mod overload;
mod package;
mod page;
mod probes;
mod proxy;
mod queue;
mod recipes;
mod records;
mod registrar;
mod restart;
mod routes;
mod scale;
mod sharing;
mod simulated;
mod strangers;
mod stream_faults;
mod takeover;
mod third_parties;
mod tls;
mod torture;
mod trace;
mod transports;

use sarabande_tests::{CallLoad, RunningBalancer, SippCaller, SippServer, Stats, TestSettings, TestSite};

/// Default hosts of a site's servers.
const SERVERS: [u8; 3] = [11, 12, 13];

/// A few dozen calls in a second.
const SOME: CallLoad = CallLoad { calls: 60, rate: 100, hold_ms: 300 };

/// Starts servers that run `scenario`.
fn servers(field: &TestSite, scenario: &str, hosts: &[u8]) -> Vec<SippServer> {
    hosts.iter().map(|host| SippServer::start(field, scenario, field.sip(*host), 500)).collect()
}

/// Ends the servers, and checks that no call failed and that they had `calls` together.
fn finish_clean(servers: Vec<SippServer>, calls: u64) -> Vec<Stats> {
    let stats: Vec<Stats> = servers.into_iter().map(SippServer::finish_clean).collect();
    assert_eq!(stats.iter().map(Stats::calls).sum::<u64>(), calls, "calls at the servers: {stats:?}");
    stats
}

/// Three servers behind a balancer, dropped in this order.
struct Scene {
    balancer: RunningBalancer,
    servers: Vec<SippServer>,
    field: TestSite,
    scenario: &'static str,
}

impl Scene {
    /// Callers run `uac_SCENARIO`, servers `uas_SCENARIO`.
    fn new(name: &str, scenario: &'static str) -> Self {
        Self::with_threads(name, scenario, 0)
    }

    /// The same with this many threads of the balancer; 0: one for each core.
    fn with_threads(name: &str, scenario: &'static str, threads: usize) -> Self {
        let field = TestSite::new(name);
        let servers = servers(&field, &format!("uas_{scenario}"), &SERVERS);
        let settings = TestSettings { threads, ..TestSettings::new(&field, &SERVERS) };
        Self { balancer: RunningBalancer::start(&field, settings), servers, field, scenario }
    }

    /// Starts calls from this host.
    fn call(&self, host: u8, load: CallLoad) -> SippCaller {
        let ends = (self.field.sip(host), self.balancer.address());
        SippCaller::start(&self.field, &format!("uac_{}", self.scenario), ends, load, &[])
    }

    /// Starts calls, and waits until all are answered.
    fn established(&self, load: CallLoad) -> SippCaller {
        let caller = self.call(2, load);
        caller.wait_until_answered();
        caller
    }

    /// Checks that all leases have ended, and that the servers had `calls`, none of which failed.
    fn finish_clean(self, calls: u64) {
        self.balancer.wait_until_idle();
        finish_clean(self.servers, calls);
    }
}

/// `uac_NAME` calls three `uas_NAME` through a balancer. Every call succeeds at both ends, and all leases end.
fn scenario(name: &'static str, load: CallLoad) {
    let scene = Scene::new(name, name);
    scene.call(2, load).finish_clean();
    scene.finish_clean(load.calls);
}
