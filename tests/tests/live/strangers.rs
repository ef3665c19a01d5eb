//! Datagrams that are not SIP.

use sarabande_tests::{
    Agent, AgentRequest, CallLoad, RunningBalancer, SippCaller, TestSettings, TestSite, show, status, until,
};

use super::{SERVERS, finish_clean, servers};

/// The largest payload of a UDP datagram over IPv4.
const LARGEST: usize = 65_507;

/// Returns the sum of the counters with this `reason` label.
fn counted(balancer: &RunningBalancer, reason: &str) -> u64 {
    let (page, label) = (balancer.get("/metrics"), format!("reason=\"{reason}\""));
    let samples = page.lines().filter(|line| !line.starts_with('#') && line.contains(&label));
    samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Garbage of any size is dropped or refused, and counted by its reason. Calls beside it are not affected.
#[test]
fn garbage_is_counted_and_affects_no_call() {
    const ROUNDS: u64 = 20;
    let field = TestSite::new("garbage");
    let servers = servers(&field, "uas_call", &SERVERS);
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &SERVERS));
    let load = CallLoad { calls: 120, rate: 40, hold_ms: 500 };
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    until("calls run beside", || (balancer.calls() > 0).then_some(()));
    let agent = Agent::bind(field.sip(3));
    let invite = show(&AgentRequest::new("INVITE", "garbage").bytes(agent.address()));
    let from = invite.lines().find(|line| line.starts_with("From:")).expect("a From");
    let kinds = [
        ("empty", Vec::new()),
        ("keep_alive", b"\r\n\r\n".to_vec()),
        ("not_sip", vec![b'A'; LARGEST]),
        ("no_via", b"OPTIONS sip:a SIP/2.0\r\nCall-ID: a\r\n\r\n".to_vec()),
        ("Duplicate From", invite.replacen(from, &format!("{from}\r\n{from}"), 1).into_bytes()),
    ];
    // They arrive faster than they are read: a copy of a waiting datagram is counted as a copy.
    let copies = counted(&balancer, "copy");
    let before = kinds.each_ref().map(|(reason, _)| counted(&balancer, reason));
    for (_, datagram) in kinds.iter().cycle().take(kinds.len() * ROUNDS as usize) {
        agent.send(balancer.address(), datagram);
    }
    let reasons =
        || kinds.iter().zip(before).map(|((reason, _), before)| counted(&balancer, reason) - before);
    let all = kinds.len() as u64 * ROUNDS;
    let is_counted = || reasons().sum::<u64>() + counted(&balancer, "copy") - copies == all;
    until("each datagram is counted", || is_counted().then_some(()));
    assert!(reasons().all(|count| (1..=ROUNDS).contains(&count)), "{:?}", reasons().collect::<Vec<_>>());

    // A request that ends in the middle of 64 KiB of header is readable enough for a response.
    let mut large = AgentRequest::new("INVITE", "endless").bytes(agent.address());
    large.truncate(large.len() - 2);
    large.extend_from_slice(b"X-Endless: ");
    large.resize(LARGEST, b'x');
    agent.send(balancer.address(), &large);
    assert_eq!(status(&agent.final_response("endless")), Some(400));
    assert_eq!(counted(&balancer, "Header Without End"), 1);
    caller.finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, load.calls);
}
