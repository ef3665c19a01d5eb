//! Latency monitor: properties of any packets in any order.

use base::{Instant, Transport};
use core::net::SocketAddr;
use core::time::Duration;
use monitor::{Captured, LinkLayer, Monitor, MonitorSettings, Pairing, Servers, WindowReport, file, hep};

const WAYS: [&str; 6] = ["invite", "provisional", "final", "final:BYE", "header:Call-ID", "time"];
const LINKS: [LinkLayer; 5] =
    [LinkLayer::Ip, LinkLayer::Ethernet, LinkLayer::Cooked, LinkLayer::Cooked2, LinkLayer::Loopback];
/// Size of the table of pending requests: small, so that it fills soon.
const TABLE: usize = 8;

/// Reads `data` as operations of a capture. Each is a kind, the time since the last, a length, and that many bytes.
pub fn capture(data: &[u8]) {
    run(data);
    // These results are not used. The readers only must not panic.
    let _ = hep::read(data);
    let _ = file::read(data, |_, _, _| {});
}

/// Runs the operations and returns the last window.
fn run(data: &[u8]) -> WindowReport {
    let Some((&way, mut rest)) = data.split_first() else { return WindowReport::default() };
    let pairing: Pairing = WAYS[usize::from(way) % WAYS.len()].parse().expect("the constants are ways");
    let server: SocketAddr = ([127, 0, 0, 1], 5060).into();
    let settings =
        MonitorSettings { table: TABLE, ..MonitorSettings::new(Servers::new(vec![server]), pairing) };
    let mut monitor = Monitor::new(settings);
    let mut last = WindowReport::default();
    let mut now = Instant::from_millis(1);
    while let [kind, wait, length, more @ ..] = rest {
        let bytes = &more[..usize::from(*length).min(more.len())];
        rest = &more[bytes.len()..];
        // Up to a minute, mostly much less.
        now += Duration::from_millis(u64::from(*wait & 31) << (*wait >> 5).min(11));
        monitor.advance(now, |report| last = check(&last, report));
        if kind & 0x40 != 0 {
            monitor.set_clock(now);
            monitor.tick(kind & 0x80 == 0, |report| last = check(&last, report));
        }
        match kind % 8 {
            0 => {
                let _ = monitor.hep(now, bytes);
            }
            1 | 2 => {
                let peer = SocketAddr::new([127, 0, 0, 2].into(), 5060);
                let (from, to) = if kind % 8 == 1 { (peer, server) } else { (server, peer) };
                monitor.message(&Captured { at: now, from, to, transport: Transport::Udp, bytes });
            }
            link => monitor.packet(now, LINKS[usize::from(link) - 3], bytes),
        }
    }
    monitor.finish(now, |report| last = check(&last, report));
    last
}

/// Checks a window against the previous one, and returns it.
fn check(before: &WindowReport, report: &WindowReport) -> WindowReport {
    let WindowReport { window, counts, totals, waiting, oldest, is_late: _ } = report;
    assert!(window.start >= before.window.end && window.end > window.start);
    assert_eq!(window.count, counts.measured, "each latency is one of a request that is counted");
    assert_eq!(window.latency.is_some(), window.count > 0);
    if let Some(latency) = window.latency {
        let order =
            [latency.min, latency.median, latency.p95, latency.p99, latency.max].map(|time| time.as_nanos());
        assert!(order.is_sorted(), "{latency:?}");
        assert!(latency.min <= latency.mean && latency.mean <= latency.max, "{latency:?}");
    }
    assert_eq!(totals.since(&before.totals), *counts);
    assert!(*waiting <= TABLE && (*waiting > 0 || oldest.is_none()));
    // Each request was measured, refused, unanswered or evicted, or is still waiting.
    let settled = totals.measured + totals.refused + totals.unanswered + *waiting as u64;
    assert!(settled <= totals.requests && totals.requests <= settled + totals.evicted, "{report:?}");
    *report
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::TestRequest;

    /// One operation of a capture: random bytes, or a valid message.
    fn operation() -> impl Strategy<Value = Vec<u8>> {
        let noise = prop::collection::vec(any::<u8>(), 0..60);
        let message = (0..12_u8, 0..3_u8, any::<bool>()).prop_map(|(call, method, passed_on)| {
            let method = ["INVITE", "BYE", "OPTIONS"][usize::from(method)];
            let at = "127.0.0.2:5060".parse().expect("an address");
            let request = TestRequest {
                contact: String::new(),
                body: "",
                ..TestRequest::new(method, &call.to_string(), at)
            };
            let via = request.via.clone();
            let request =
                if passed_on { request.via(&format!("SIP/2.0/UDP h;branch=b,{via}")) } else { request };
            request.text().replace("Max-Forwards: 70\r\n", "").into_bytes()
        });
        (any::<u8>(), 0..120_u8, prop_oneof![noise, message.clone(), message]).prop_map(
            |(kind, wait, bytes)| {
                let kind = if bytes.len() > 60 { kind % 2 + 1 } else { kind };
                let length = bytes.len().min(255);
                [&[kind, wait, length as u8], &bytes[..length]].concat()
            },
        )
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_have_their_named_effects() {
        for (name, requests, measured) in [
            ("invite", 1, 1),
            ("time", 1, 1),
            ("packets", 1, 1),
            ("tcp", 1, 1),
            ("fragments", 1, 0),
            ("hep", 1, 0),
        ] {
            let totals = run(&crate::seed("capture", name)).totals;
            assert_eq!((totals.requests, totals.measured), (requests, measured), "{name}: {totals:?}");
        }
    }

    proptest! {
        #[test]
        fn any_capture_leaves_the_counts_in_order(way in 0..6_u8, operations in prop::collection::vec(operation(), 0..80)) {
            capture(&[vec![way], operations.concat()].concat());
        }

        #[test]
        fn any_bytes_are_a_capture(data in prop::collection::vec(any::<u8>(), 0..400)) {
            capture(&data);
        }
    }
}
