//! Datagrams that are no SIP.

use std::net::SocketAddr;

use sarabande_tests::{Agent, Balancer, Caller, Field, Load, Request, Settings, status, until};

use super::{SERVERS, finish_clean, servers};

/// The largest payload of a UDP datagram over IPv4.
const LARGEST: usize = 65_507;

/// One of each kind.
fn garbage(sender: SocketAddr) -> Vec<(&'static str, Vec<u8>)> {
    let invite = Request::new("INVITE", "cut-short").bytes(sender);
    let noise = (0..1200u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vec![
        ("empty", Vec::new()),
        ("keep-alive", b"\r\n\r\n".to_vec()),
        ("64 KiB", vec![b'A'; LARGEST]),
        ("binary", noise),
        ("zeros", vec![0; 500]),
        ("cut in the start line", invite[..20].to_vec()),
        ("cut before its Via", invite[..45].to_vec()),
    ]
}

/// Garbage of every kind is dropped and counted by reason; calls beside it are untouched.
#[test]
fn garbage_is_counted_and_disturbs_nobody() {
    const ROUNDS: u64 = 20;
    let field = Field::new("garbage");
    let servers = servers(&field, "uas_call", &SERVERS);
    let balancer = Balancer::start(&field, Settings::new(&field, &SERVERS));
    let load = Load { calls: 120, rate: 40, hold_ms: 500 };
    let caller = Caller::plain(&field, (field.sip(2), balancer.address()), load);
    until("calls run beside", || (balancer.calls() > 0).then_some(()));
    let agent = Agent::bind(field.sip(3));
    let before = balancer.drops();
    let kinds = garbage(agent.address());
    for _ in 0..ROUNDS {
        for (_, datagram) in &kinds {
            agent.send(balancer.address(), datagram);
        }
    }
    let grown = || {
        let mut now = balancer.drops();
        now.retain(|reason, count| {
            *count -= before.get(reason).copied().unwrap_or(0);
            *count > 0
        });
        now
    };
    let sent = ROUNDS * kinds.len() as u64;
    until("each garbage datagram is counted", || (grown().values().sum::<u64>() >= sent).then_some(()));
    println!("garbage by reason: {:?}", grown());
    // A request that ends in the middle of 64 KiB of header is readable enough for an answer.
    let mut large = Request::new("INVITE", "endless").bytes(agent.address());
    large.truncate(large.len() - 2);
    large.extend_from_slice(b"X-Endless: ");
    large.resize(LARGEST, b'x');
    agent.send(balancer.address(), &large);
    assert_eq!(status(&agent.final_response("endless")), Some(400));
    assert!(grown().len() >= 4, "the reasons tell the kinds apart: {:?}", grown());
    caller.finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, load.calls);
}
