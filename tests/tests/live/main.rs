//! Live tests: real SIPp callers and servers, and the real `sarabande` between them.
//!
//! One binary, so that tests of all kinds share the machine a few at a time. A server that is given a message of
//! a call that it does not know fails that call in its own account: wherever a test calls
//! [`SippServer::finish_clean`], it shows that ACK, BYE and all the rest of each dialog reached the server that
//! answered the INVITE.

mod admin;
mod browser;
mod calls;
mod change;
mod demo;
mod examples;
mod failure;
mod guide;
mod hostile_streams;
mod log;
mod monitor;
mod names;
mod options;
mod outliers;
mod overload;
mod probes;
mod proxy;
mod queue;
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
mod transports;

use sarabande_tests::{CallLoad, RunningBalancer, SippCaller, SippServer, Stats, TestSettings, TestSite};

/// The hosts of a field that are servers, where a test doesn't say otherwise.
const SERVERS: [u8; 3] = [11, 12, 13];

/// A few dozen calls in a second.
const SOME: CallLoad = CallLoad { calls: 60, rate: 100, hold_ms: 300 };

/// Starts servers that run `scenario`.
fn servers(field: &TestSite, scenario: &str, hosts: &[u8]) -> Vec<SippServer> {
    hosts.iter().map(|host| SippServer::start(field, scenario, field.sip(*host), 500)).collect()
}

/// Ends the servers, insists that none had a failed call, and that they had `calls` together.
fn finish_clean(servers: Vec<SippServer>, calls: u64) -> Vec<Stats> {
    let stats: Vec<Stats> = servers.into_iter().map(SippServer::finish_clean).collect();
    assert_eq!(stats.iter().map(Stats::calls).sum::<u64>(), calls, "calls at the servers: {stats:?}");
    stats
}

/// `uac_NAME` calls three `uas_NAME` through a balancer: every call succeeds at both ends, all leases end.
fn scenario(name: &str, load: CallLoad) {
    let field = TestSite::new(name);
    let servers = servers(&field, &format!("uas_{name}"), &SERVERS);
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &SERVERS));
    let ends = (field.sip(2), balancer.address());
    SippCaller::start(&field, &format!("uac_{name}"), ends, load, &[]).finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, load.calls);
}
