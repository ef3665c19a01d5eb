//! The wall clock of the machine is set, and the process restarted, while calls stand.

use sarabande_tests::{CallLoad, RunningBalancer, SippCaller, TestSettings, TestSite, until};

use super::{SERVERS, finish_clean, servers};

const ESTABLISHED: CallLoad = CallLoad { calls: 30, rate: 100, hold_ms: 5000 };

/// Calls that stand while the process is killed and started again with a clock that is `ahead` by so much
/// (`faketime(1)`) end properly, and so do new ones.
fn calls_survive_a_clock_set(name: &str, ahead: &str) {
    let field = TestSite::new(name);
    let servers = servers(&field, "uas_reinvite", &SERVERS);
    let mut balancer = RunningBalancer::start(&field, TestSettings::new(&field, &SERVERS));
    let ends = (field.sip(2), balancer.address());
    let caller = SippCaller::start(&field, "uac_reinvite", ends, ESTABLISHED, &[]);
    until("every call is answered", || (caller.stats().received("200") >= ESTABLISHED.calls).then_some(()));
    balancer.kill_and_restart_at(Some(ahead));
    until("the log tells", || balancer.log().contains("system's clock").then_some(()));
    caller.finish_clean();
    let caller = SippCaller::start(&field, "uac_reinvite", ends, ESTABLISHED, &[]);
    until("every call is answered", || (caller.stats().received("200") >= ESTABLISHED.calls).then_some(()));
    // And right again: the calls that were made by the wrong clock stand.
    balancer.kill_and_restart_at(None);
    caller.finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, 2 * ESTABLISHED.calls);
}

#[test]
fn calls_survive_a_clock_set_back_by_minutes() {
    calls_survive_a_clock_set("clock-back", "-2m");
}

#[test]
fn calls_survive_a_clock_set_back_by_years() {
    calls_survive_a_clock_set("clock-past", "-3000d");
}

#[test]
fn calls_survive_a_clock_set_far_ahead() {
    calls_survive_a_clock_set("clock-ahead", "+3000d");
}
