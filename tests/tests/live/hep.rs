//! Copies of messages for a HEP collector.

use super::SOME;
use monitor::hep;
use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, RunningBalancer, RunningMonitor, SippCaller, SippServer,
    TestSettings, TestSite, status, until, value,
};
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};

fn collector(field: &TestSite) -> SocketAddr {
    SocketAddr::new(field.ip(9), 9060)
}

/// The monitor measures the balancer by its copies: no message is missing, and addresses and times are right.
#[test]
fn every_message_is_copied() {
    let field = TestSite::new("hep-all");
    let server = SippServer::plain(&field, 11);
    let (to, address) = (collector(&field).to_string(), field.sip(1).to_string());
    let monitor = RunningMonitor::start(&field, "hep", &["--server", &address, "--hep", &to]);
    let mut settings = TestSettings::new(&field, &[11]);
    settings.tables = format!("[hep]\nto = \"udp:{to}\"\n");
    let balancer = RunningBalancer::start(&field, settings);
    SippCaller::plain(&field, (field.sip(2), balancer.address()), SOME).finish_clean();
    assert_eq!(server.finish_clean().calls(), SOME.calls);
    // A call has INVITE, 180, 200, ACK, BYE and 200 on both legs, and a 100 of the balancer.
    let least = 13 * SOME.calls;
    until("all copies are sent", || {
        (balancer.metric("sarabande_hep_sent_total") >= least as f64).then_some(())
    });
    assert!(balancer.metric("sarabande_hep_lost_total") < 0.5);
    let measured = monitor.finish();
    assert_eq!((measured.sum("measured"), measured.sum("unmatched")), (SOME.calls, 0), "{measured:?}");
    assert_eq!((measured.sum("not_hep"), measured.sum("wrong_time")), (0, 0), "{measured:?}");
}

/// Only the failed call is copied, from its first message on. The copies wait for a collector that starts late.
#[test]
fn only_failed_calls_are_copied() {
    let field = TestSite::new("hep-failed");
    let _server = AnsweringAgent::saying(field.sip(11), |message| {
        let is_bad = value(message, "Call-ID").as_deref() == Some("bad");
        Some(if is_bad { "486 Busy Here" } else { "200 OK" })
    });
    let mut settings = TestSettings::new(&field, &[11]);
    let to = collector(&field);
    settings.tables = format!("[hep]\nto = \"tcp:{to}\"\ncalls = \"failed\"\nid = 7\nnode = \"edge\"\n");
    let balancer = RunningBalancer::start(&field, settings);
    let agent = Agent::bind(field.sip(2));
    for (call_id, expected) in [("good", 200), ("bad", 486)] {
        agent.send(balancer.address(), &AgentRequest::new("INVITE", call_id).bytes(agent.address()));
        assert_eq!(status(&agent.final_response(call_id)), Some(expected));
    }
    let (mut stream, _) = TcpListener::bind(to).expect("a free port").accept().expect("a connection");
    let mut bytes = Vec::new();
    let mut seen = Vec::new();
    while seen.len() < 6 {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).expect("copies");
        assert!(length > 0, "the connection was closed after {seen:?}");
        bytes.extend_from_slice(&part[..length]);
        while let Some(length) = bytes.get(4..6).map(|two| usize::from(u16::from_be_bytes([two[0], two[1]])))
            && bytes.len() >= length
        {
            let packet: Vec<u8> = bytes.drain(..length).collect();
            let copy = hep::read(&packet).expect("HEP");
            assert_eq!(value(copy.bytes, "Call-ID").as_deref(), Some("bad"));
            // The correlation ID of both legs, and the sender.
            for chunk in [&b"\0\0\0\x11\0\x09bad"[..], b"\0\0\0\x0c\0\x0a\0\0\0\x07", b"\0\0\0\x13\0\x0aedge"]
            {
                assert!(packet.windows(chunk.len()).any(|there| there == chunk), "{chunk:?}");
            }
            let start: Vec<_> = copy.bytes.split(|byte| *byte == b' ').take(2).collect();
            let start = if start[0] == b"SIP/2.0" { start[1] } else { start[0] };
            let copy = (String::from_utf8_lossy(start).into_owned(), copy.from, copy.to);
            // The 486 is retransmitted if the collector is slow, since the caller sends no ACK.
            if !seen.contains(&copy) {
                seen.push(copy);
            }
        }
    }
    let (caller, here, server) = (agent.address(), balancer.address(), field.sip(11));
    let expected = [
        ("INVITE", caller, here),
        ("100", here, caller),
        ("INVITE", here, server),
        ("486", server, here),
        ("ACK", here, server),
        ("486", here, caller),
    ];
    let mut sorted: Vec<_> = seen.iter().map(|(start, from, to)| (&**start, *from, *to)).collect();
    assert_eq!(sorted.first(), Some(&expected[0]), "{seen:?}");
    let mut expected = expected.to_vec();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
}
