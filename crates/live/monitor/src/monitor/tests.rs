//! Windows, their limits and their counts.

use super::*;
use base::Transport;
use testkit::TestRequest;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn monitor() -> Monitor {
    let servers = Servers::new(vec!["10.0.0.1:5060".parse().expect("an address")]);
    Monitor::new(MonitorSettings::new(servers, Pairing::Invite))
}

/// A call arrives at `came` and leaves `took` milliseconds later.
fn call(monitor: &mut Monitor, number: u64, came: u64, took: u64) -> Vec<WindowReport> {
    let [caller, server, callee] =
        ["10.0.0.2:5060", "10.0.0.1:5060", "10.0.0.3:5060"].map(|text| text.parse().expect("an address"));
    let request = TestRequest::new("INVITE", &number.to_string(), caller);
    let via = format!("SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK{number},{}", request.via);
    let mut reports = Vec::new();
    for (ms, from, to, bytes) in [
        (came, caller, server, request.bytes()),
        (came + took, server, callee, request.clone().via(&via).bytes()),
    ] {
        monitor.advance(at(ms), |report| reports.push(*report));
        monitor.message(&Captured { at: at(ms), from, to, transport: Transport::Udp, bytes: &bytes });
    }
    reports
}

#[test]
fn each_window_has_its_own_measurements() {
    let mut monitor = monitor();
    assert_eq!(monitor.deadline(), None);
    let mut reports = call(&mut monitor, 1, 5_300, 2);
    reports.extend(call(&mut monitor, 2, 5_400, 4));
    assert_eq!((reports.len(), monitor.deadline()), (0, Some(at(6_000))));
    // The latency belongs to the window in which it became known.
    let reports = call(&mut monitor, 3, 5_999, 10);
    let [report] = reports[..] else { panic!("{reports:?}") };
    assert_eq!((report.window.start, report.window.end, report.window.count), (at(5_000), at(6_000), 2));
    let latency = report.window.latency.expect("two");
    assert_eq!((latency.min, latency.max), (Duration::from_millis(2), Duration::from_millis(4)));
    assert_eq!((report.counts.requests, report.counts.measured, report.waiting), (3, 2, 1));
    let mut last = None;
    monitor.finish(at(6_500), |report| last = Some(*report));
    let last = last.expect("the window that was open");
    assert_eq!((last.window.start, last.window.end, last.window.count), (at(6_000), at(7_000), 1));
    assert_eq!((last.counts.requests, last.totals.requests, last.totals.messages), (0, 3, 6));
}

#[test]
fn empty_windows_are_reported_but_not_without_end() {
    let mut monitor = monitor();
    call(&mut monitor, 1, 500, 1);
    let reports = call(&mut monitor, 2, 10_500, 1);
    assert_eq!(
        reports.iter().map(|report| report.window.count).collect::<Vec<_>>(),
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    let century = 100 * 365 * 86_400_000;
    let reports = call(&mut monitor, 3, century + 250, 1);
    assert_eq!(reports.len() as u64, EMPTY_MAX);
    assert_eq!(monitor.deadline(), Some(at(century + 1_000)));
    assert_eq!(reports[0].totals.unanswered, 0);
}

#[test]
fn time_that_goes_backwards_is_tolerated() {
    let mut monitor = monitor();
    call(&mut monitor, 1, 5_000, 1);
    assert!(call(&mut monitor, 2, 1_000, 1).is_empty());
    let mut counts = Vec::new();
    monitor.advance(at(6_000), |report| counts.push((report.window.count, report.counts.requests)));
    assert_eq!(counts, [(2, 2)]);
    let mut last = 0;
    monitor.advance(Instant::from_nanos(u64::MAX), |report| last = report.window.count);
    assert_eq!(last, 0);
}

#[test]
fn lost_packets_and_other_protocols_are_counted() {
    let mut monitor = monitor();
    call(&mut monitor, 1, 0, 1);
    let to = "10.0.0.1:5060".parse().expect("an address");
    for bytes in [
        &b"\r\n\r\n"[..],
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h\r\n\r\n",
    ] {
        monitor.message(&Captured { at: at(2), from: to, to, transport: Transport::Udp, bytes });
    }
    monitor.dropped(7);
    assert_eq!(monitor.hep(at(2), b"HEP1"), Err(HepError::NotHep3));
    let mut counts = Counts::default();
    monitor.finish(at(3), |report| counts = report.counts);
    assert_eq!((counts.not_sip, counts.not_hep, counts.dropped), (1, 1, 7));
    assert_eq!((counts.messages, counts.requests, counts.malformed), (3, 1, 1));
    assert!(counts.all().any(|(name, _, count)| (name, count) == ("dropped", 7)));
}

/// Reports of a monitor of 150 calls a second, each with 2 ms, in 40 s. It looks every 5 ms, reads at most `most`
/// messages each time, and stands still for `stopped` ms after 10 s. Windows of HEP end `by_clock` only.
fn stopped_for(stopped: u64, most: usize, by_clock: bool) -> Vec<WindowReport> {
    const LAST: u64 = 40_000;
    let mut monitor = Monitor { is_by_clock: by_clock, ..monitor() };
    let mut messages = Vec::new();
    for number in 0..LAST * 150 / 1_000 {
        let [caller, server, callee] =
            ["10.0.0.2:5060", "10.0.0.1:5060", "10.0.0.3:5060"].map(|text| text.parse().expect("an address"));
        let request = TestRequest::new("INVITE", &number.to_string(), caller);
        let via = format!("SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK{number},{}", request.via);
        // No call is in progress at the end of a window.
        let came = number * 1_000 / 150 + 1;
        messages.push((came, caller, server, request.bytes()));
        messages.push((came + 2, server, callee, request.clone().via(&via).bytes()));
    }
    messages.sort_by_key(|(at, ..)| *at);
    let mut reports = Vec::new();
    let mut unread = messages.into_iter().peekable();
    monitor.advance(at(0), |report| reports.push(*report));
    for now in (0..LAST).step_by(5).filter(|now| !(10_300..10_300 + stopped).contains(now)) {
        monitor.set_clock(at(now));
        let mut read = 0;
        while read < most
            && let Some((stamp, from, to, bytes)) = unread.next_if(|(stamp, ..)| *stamp <= now)
        {
            if !by_clock {
                monitor.advance(at(stamp), |report| reports.push(*report));
            }
            monitor.message(&Captured { at: at(stamp), from, to, transport: Transport::Udp, bytes: &bytes });
            read += 1;
        }
        monitor.tick(read < most, |report| reports.push(*report));
    }
    reports
}

#[test]
fn a_stopped_monitor_reports_correct_or_late_windows() {
    for (stopped, most, by_clock) in [5_000, 13_000]
        .into_iter()
        .flat_map(|stopped| [(8, false), (8, true), (100_000, true)].map(|(most, by)| (stopped, most, by)))
    {
        let reports = stopped_for(stopped, most, by_clock);
        let case = format!("stopped for {stopped} ms, {most} at once, {by_clock}");
        assert!(reports.len() >= 39, "{case}");
        for pair in reports.windows(2) {
            assert_eq!(pair[0].window.end, pair[1].window.start, "{case}: a window is missing or repeated");
        }
        let on_time: Vec<_> = reports.iter().filter(|report| !report.is_late).collect();
        // By the clock a window ends 20 ms late, in which three more calls may arrive.
        assert!(on_time.iter().all(|report| report.window.count <= 153), "{case}: {on_time:#?}");
        // Waiting messages are read five times as fast as they arrived.
        assert!(on_time.len() as u64 >= 38 - stopped * 5 / 4 / 1_000, "{case}: {}", on_time.len());
        let late = reports.len() - on_time.len();
        assert!(late as u64 >= stopped / 1_000, "{case}: {late} are late");
        if !by_clock {
            assert!(reports.iter().all(|report| report.window.count == 150), "{case}: {reports:#?}");
        }
    }
    for by_clock in [false, true] {
        assert!(stopped_for(0, 8, by_clock).iter().all(|report| !report.is_late), "{by_clock}");
    }
}

/// More messages arrive than are ever read.
#[test]
fn windows_end_during_an_unread_flood() {
    let mut monitor = Monitor { is_by_clock: true, ..monitor() };
    let mut reports = Vec::new();
    monitor.advance(at(0), |report| reports.push(*report));
    for now in (0..10_000).step_by(10) {
        monitor.set_clock(at(now));
        monitor.tick(false, |report| reports.push(*report));
    }
    assert_eq!(reports.len(), 8, "{reports:#?}");
    assert!(reports.iter().all(|report| report.is_late), "{reports:#?}");
}

#[test]
fn a_clock_that_was_set_back_makes_one_window_late() {
    let mut monitor = monitor();
    let mut reports = Vec::new();
    for now in [100_000, 101_050, 102_050, 40_500, 41_050, 42_050] {
        monitor.set_clock(at(now));
        monitor.advance(at(now), |report| reports.push(*report));
        monitor.tick(true, |report| reports.push(*report));
    }
    let seen: Vec<_> = reports.iter().map(|report| (report.window.end, report.is_late)).collect();
    assert_eq!(
        seen,
        [(at(101_000), false), (at(102_000), false), (at(41_000), true), (at(42_000), false)],
        "{reports:#?}"
    );
    // An old packet does not mean that the clock was set back, if the clock goes on.
    monitor.advance(at(10_000), |report| panic!("{report:?}"));
    assert_eq!(monitor.deadline(), Some(at(43_000)));
}

/// Its packets have their own times, but other events during the stop are unknown.
#[test]
fn a_window_that_contains_a_stop_is_late() {
    let reports = stopped_for(400, 1_000, false);
    let late: Vec<_> =
        reports.iter().filter(|report| report.is_late).map(|report| report.window.start).collect();
    assert_eq!(late, [at(10_000)]);
    let mut monitor = monitor();
    call(&mut monitor, 1, 500, 1);
    monitor.dropped(1);
    // Two messages arrived, and one was lost.
    let mut late = Vec::new();
    monitor.advance(at(3_000), |report| late.push(report.is_late));
    assert_eq!(late, [true, false, false], "packets are missing");
}

#[test]
fn a_hung_server_is_not_idle() {
    let mut monitor = monitor();
    let mut reports = call(&mut monitor, 1, 200, 1);
    // A single lost request: later ones were answered.
    for (number, came) in [(2, 300), (3, 1_400), (4, 2_400)] {
        let (caller, server) = ("10.0.0.2:5060".parse().unwrap(), "10.0.0.1:5060".parse().unwrap());
        monitor.advance(at(came), |report| reports.push(*report));
        let request = TestRequest::new("INVITE", &number.to_string(), caller);
        let captured = Captured {
            at: at(came),
            from: caller,
            to: server,
            transport: Transport::Udp,
            bytes: &request.bytes(),
        };
        monitor.message(&captured);
        if number == 2 {
            reports.extend(call(&mut monitor, 9, 310, 1));
        }
    }
    monitor.advance(at(4_000), |report| reports.push(*report));
    let seen: Vec<_> = reports.iter().map(|report| (report.waiting, report.oldest)).collect();
    let ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(seen, [(1, None), (2, None), (3, ms(1_600)), (3, ms(2_600))]);
}
