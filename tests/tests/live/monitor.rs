//! The monitor beside a real Kamailio: its counts equal those of SIPp at both ends.

use sarabande_tests::{
    CallLoad, KamailioProxy, Measured, RunningMonitor, SippCaller, SippServer, TestSite, http, until,
};

const LOAD: CallLoad = CallLoad { calls: 80, rate: 60, hold_ms: 300 };

/// Checks that this many INVITEs were measured, and no packet was lost.
fn check(measured: &Measured, invites: u64) {
    for (name, count) in [("requests", invites), ("measured", invites)] {
        assert_eq!(measured.sum(name), count, "{name}: {measured:?}");
    }
    for name in ["refused", "unanswered", "unmatched", "dropped", "truncated", "stream_gaps", "not_sip"] {
        assert_eq!(measured.sum(name), 0, "{name}: {measured:?}");
    }
    let latencies = measured.latencies();
    assert!(!latencies.is_empty());
    for [min, median, p95, max] in latencies {
        // No latency is zero, and no call here waited for a retransmission.
        assert!(0.0 < min && min <= median && median <= p95 && p95 <= max, "{min} {median} {p95} {max}");
    }
}

/// Calls with re-INVITEs through Kamailio over UDP are measured live, and from the capture file written meanwhile, with
/// several ways of pairing.
#[test]
fn a_proxy_is_measured_over_udp() {
    let field = TestSite::new("monitor-udp");
    let server = SippServer::start(&field, "uas_reinvite", field.sip(11), 500);
    let proxy = KamailioProxy::start(&field, 3, server.address());
    let address = proxy.address().to_string();
    let file = field.folder().join("calls.pcap");
    let file = file.to_str().expect("a path in UTF-8");
    let options = ["--server", &address, "--write", file, "--listen", "127.0.0.1:0", "--window", "200ms"];
    let monitor = RunningMonitor::start(&field, "live", &options);
    let provisional = ["--server", &address, "--pair", "provisional", "--interface", "lo"];
    let first_answers = RunningMonitor::start(&field, "provisional", &provisional);
    SippCaller::start(&field, "uac_reinvite", (field.sip(2), proxy.address()), LOAD, &[]).finish_clean();
    assert_eq!(server.finish_clean().calls(), LOAD.calls);
    let invites = 2 * LOAD.calls;
    until("the last window is over", || (monitor.measured().sum("measured") == invites).then_some(()));
    let get = |path| http::request(monitor.http(), "GET", path).expect("an answer").body;
    assert!(get("/metrics").contains(&format!("\nsarabande_monitor_measured_total {invites}\n")));
    assert!(get("/api/windows").contains(&format!("\"servers\":[\"{address}\"]")));
    check(&monitor.finish(), invites);
    check(&first_answers.finish(), invites);

    let read = |name: &str, pairing: &str| {
        let options = ["--server", &address, "--read", file, "--pair", pairing];
        RunningMonitor::run(&field, name, &options)
    };
    let (measured, errors) = read("read", "invite");
    assert_eq!(errors, "");
    check(&measured, invites);
    check(&read("read-final", "final:BYE").0, LOAD.calls);
    check(&read("read-header", "header:Call-ID").0, LOAD.calls);
    check(&read("read-time", "time").0, LOAD.calls);
}

#[test]
fn a_proxy_is_measured_over_tcp() {
    let field = TestSite::new("monitor-tcp");
    let server = SippServer::over_tcp(&field, 11);
    let proxy = KamailioProxy::over_tcp(&field, 3, server.address());
    let file = field.folder().join("calls.pcap");
    let file = file.to_str().expect("a path in UTF-8");
    let address = proxy.address().to_string();
    let monitor = RunningMonitor::start(&field, "live", &["--server", &address, "--write", file]);
    SippCaller::over_tcp(&field, (field.sip(2), proxy.address()), LOAD).finish_clean();
    assert_eq!(server.finish_clean().calls(), LOAD.calls);
    check(&monitor.finish(), LOAD.calls);
    let (measured, errors) = RunningMonitor::run(&field, "read", &["--server", &address, "--read", file]);
    assert_eq!(errors, "");
    check(&measured, LOAD.calls);
}

/// Without permission to capture: Kamailio itself sends copies of its messages.
#[test]
fn a_proxy_is_measured_by_hep() {
    let field = TestSite::new("monitor-hep");
    let server = SippServer::plain(&field, 11);
    let collector = field.ip(9).to_string() + ":9060";
    let address = field.sip(3).to_string();
    let monitor = RunningMonitor::start(&field, "hep", &["--server", &address, "--hep", &collector]);
    let collector = collector.parse().expect("an address");
    let proxy = KamailioProxy::with_hep(&field, 3, server.address(), collector);
    SippCaller::plain(&field, (field.sip(2), proxy.address()), LOAD).finish_clean();
    assert_eq!(server.finish_clean().calls(), LOAD.calls);
    let measured = monitor.finish();
    check(&measured, LOAD.calls);
    assert_eq!((measured.sum("not_hep"), measured.sum("wrong_time")), (0, 0));
}

/// Errors are reported with a remedy.
#[test]
fn impossible_measurements_are_reported() {
    let field = TestSite::new("monitor-errors");
    let errors_of = |name: &str, options: &[&str]| RunningMonitor::run(&field, name, options).1;
    let server = ["--server", "127.0.0.1:5060"];
    let no_interface = errors_of("interface", &[&server[..], &["--interface", "nowhere0"]].concat());
    assert!(no_interface.contains("no interface nowhere0"), "{no_interface}");
    let no_server = errors_of("no_server", &["--port", "1"]);
    assert!(no_server.contains("nothing listens at port 1") && no_server.contains("--server"), "{no_server}");
    let no_file = errors_of("file", &[&server[..], &["--read", "/nowhere.pcap"]].concat());
    assert!(no_file.contains("/nowhere.pcap: cannot be opened"), "{no_file}");
    let no_capture = errors_of("no-capture", &[&server[..], &["--read", "/proc/self/status"]].concat());
    assert!(no_capture.contains("not a capture file"), "{no_capture}");
    let no_owner = errors_of("no-owner", &["--read", "/nowhere.pcap"]);
    assert!(no_owner.contains("--server"), "{no_owner}");
}
