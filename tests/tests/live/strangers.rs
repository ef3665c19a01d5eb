//! Datagrams that are no SIP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, CallLoad, RunningBalancer, SippCaller, TestSettings, TestSite,
    status, until, value,
};

use super::{SERVERS, finish_clean, servers};

/// The largest payload of a UDP datagram over IPv4.
const LARGEST: usize = 65_507;

/// One of each kind, and the reason that it is counted under: those at the top are dropped, those below answered.
fn garbage(sender: SocketAddr) -> Vec<(&'static str, Vec<u8>)> {
    let invite = AgentRequest::new("INVITE", "cut-short").bytes(sender);
    let noise = (0..1200u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let no_via: Vec<u8> = b"OPTIONS sip:a SIP/2.0\r\nCall-ID: a\r\n\r\n".to_vec();
    let twice = |name: &str| {
        let text = String::from_utf8(invite.clone()).expect("ASCII");
        let line = text.lines().find(|line| line.starts_with(name)).expect("a header line").to_owned();
        text.replacen(&line, &format!("{line}\r\n{line}"), 1).into_bytes()
    };
    vec![
        ("empty", Vec::new()),
        ("keep_alive", b"\r\n\r\n".to_vec()),
        ("not_sip", vec![b'A'; LARGEST]),
        ("not_sip", noise),
        ("not_sip", vec![0; 500]),
        ("not_sip", invite[..20].to_vec()),
        ("no_via", no_via),
        ("Duplicate From", twice("From:")),
        ("Duplicate To", twice("To:")),
        ("Duplicate Call-ID", twice("Call-ID:")),
        ("Duplicate CSeq", twice("CSeq:")),
        ("Duplicate Max-Forwards", twice("Max-Forwards:")),
        ("Duplicate Content-Length", twice("Content-Length:")),
    ]
}

/// Garbage of every kind is dropped or refused, and counted by its reason; calls beside it are untouched.
#[test]
fn garbage_is_counted_and_disturbs_nobody() {
    const ROUNDS: u64 = 20;
    let field = TestSite::new("garbage");
    let servers = servers(&field, "uas_call", &SERVERS);
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &SERVERS));
    let load = CallLoad { calls: 120, rate: 40, hold_ms: 500 };
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    until("calls run beside", || (balancer.calls() > 0).then_some(()));
    let agent = Agent::bind(field.sip(3));
    let before = balancer.drops();
    let kinds = garbage(agent.address());
    for _ in 0..ROUNDS {
        for (_, datagram) in &kinds {
            agent.send(balancer.address(), datagram);
        }
    }
    let counted = |now: &BTreeMap<String, u64>, reason: &str| {
        let of = |counts: &BTreeMap<String, u64>| counts.get(reason).copied().unwrap_or(0);
        of(now) - of(&before)
    };
    let mut sent: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, _) in &kinds {
        *sent.entry(*reason).or_default() += ROUNDS;
    }
    // They come faster than they are read: a copy of what waits still is counted as that.
    let total = |now: &BTreeMap<String, u64>| {
        sent.keys().map(|reason| counted(now, reason)).sum::<u64>() + counted(now, "copy")
    };
    let all: u64 = sent.values().sum();
    until("each garbage datagram is counted", || (total(&balancer.drops()) >= all).then_some(()));
    let now = balancer.drops();
    assert_eq!(total(&now), all);
    for (&reason, &count) in &sent {
        assert!((1..=count).contains(&counted(&now, reason)), "{reason}");
    }
    // A request that ends in the middle of 64 KiB of header is readable enough for an answer.
    let mut large = AgentRequest::new("INVITE", "endless").bytes(agent.address());
    large.truncate(large.len() - 2);
    large.extend_from_slice(b"X-Endless: ");
    large.resize(LARGEST, b'x');
    agent.send(balancer.address(), &large);
    assert_eq!(status(&agent.final_response("endless")), Some(400));
    let refused = counted(&balancer.drops(), "Header Without End");
    assert_eq!(refused, 1);
    caller.finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, load.calls);
}

/// An ACK of a call that nobody knows goes to every member, but not a flood of them; calls beside it are untouched.
#[test]
fn acknowledgements_of_nothing_do_not_flood_the_members() {
    const MEMBERS: u8 = 5;
    const FLOOD: usize = 5_000;
    // What one source may cause of a thread that has just begun: so many datagrams at once, and so many a second.
    const BURST: usize = 2_500;
    let field = TestSite::new("acknowledgements");
    let hosts: Vec<u8> = (11..11 + MEMBERS).collect();
    let of_the_flood = Arc::new(AtomicUsize::new(0));
    let servers: Vec<AnsweringAgent> = hosts
        .iter()
        .map(|host| {
            let count = Arc::clone(&of_the_flood);
            AnsweringAgent::start(field.sip(*host), move |message| {
                if value(message, "Call-ID").is_some_and(|id| id.starts_with("nothing-")) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                true
            })
        })
        .collect();
    let balancer =
        RunningBalancer::start(&field, TestSettings { threads: 1, ..TestSettings::new(&field, &hosts) });
    let load = CallLoad { calls: 120, rate: 40, hold_ms: 500 };
    let caller = SippCaller::plain(&field, (field.sip(2), balancer.address()), load);
    until("calls run beside", || (balancer.calls() > 0).then_some(()));
    let agent = Agent::bind(field.sip(3));
    let limited = || balancer.drops().get("search_limit").copied().unwrap_or(0) as usize;
    let begun = Instant::now();
    let mut sent = 0;
    while sent < FLOOD {
        for _ in 0..100 {
            agent.send(
                balancer.address(),
                &AgentRequest::new("ACK", &format!("nothing-{sent}")).bytes(agent.address()),
            );
            sent += 1;
        }
        // Not faster than they are read: what the kernel throws away shows nothing.
        let arrived = || limited() + of_the_flood.load(Ordering::Relaxed) / usize::from(MEMBERS);
        until("the ACKs arrive", || (arrived() + 100 >= sent).then_some(()));
    }
    let most = BURST * (2 + begun.elapsed().as_secs() as usize) + usize::from(MEMBERS);
    let got = of_the_flood.load(Ordering::Relaxed);
    assert!((BURST..=most).contains(&got), "{got} of {FLOOD} ACKs for {MEMBERS} members, at most {most}");
    caller.finish_clean();
    balancer.wait_until_idle();
    drop(servers);
}
