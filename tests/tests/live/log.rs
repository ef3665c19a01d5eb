//! Faults of the log, which must not affect the traffic.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::pipe::fcntl_getpipe_size;
use sarabande_tests::{
    Agent, AgentRequest, AnsweringAgent, CallLoad, RunningBalancer, SippCaller, SippServer, StreamClient,
    TestSettings, TestSite, status, until,
};

use super::{SERVERS, SOME, finish_clean, servers};

/// Checks that calls succeed, a reload works, and lost lines of the log are counted.
fn works_without_its_log(field: &TestSite, log: Stdio) -> RunningBalancer {
    let servers = servers(field, "uas_call", &SERVERS);
    let mut balancer =
        RunningBalancer::launch_with_log_to(field, TestSettings::new(field, &SERVERS), Some(log));
    until("every member takes calls", || balancer.members().iter().all(|m| m.accepting).then_some(()));
    SippCaller::plain(field, (field.sip(2), balancer.address()), SOME).finish_clean();
    balancer.reload_by_request(|_| {});
    SippCaller::plain(field, (field.sip(2), balancer.address()), SOME).finish_clean();
    balancer.wait_until_idle();
    finish_clean(servers, 2 * SOME.calls);
    assert_eq!(balancer.ended(), None);
    balancer
}

/// Checks that a stop ends the process with success.
fn stops(mut balancer: RunningBalancer) {
    balancer.terminate();
    let status = balancer.wait();
    assert!(status.success(), "{status}");
}

/// Each write fails as on a full disk (ENOSPC, full(4)).
#[test]
fn a_full_disk_does_not_stop_the_balancer() {
    let field = TestSite::new("log-full");
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let balancer = works_without_its_log(&field, full.into());
    assert!(balancer.metric("sarabande_log_lines_lost_total") > 0.0);
    stops(balancer);
}

/// The reader of the log has gone.
#[test]
fn a_closed_log_pipe_does_not_stop_the_balancer() {
    let field = TestSite::new("log-closed");
    let (reader, writer) = pipe().expect("a pipe can be made");
    drop(reader);
    let balancer = works_without_its_log(&field, writer.into());
    assert!(balancer.metric("sarabande_log_lines_lost_total") > 0.0);
    stops(balancer);
}

/// Returns a pipe that is full.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe can be made");
    let room = fcntl_getpipe_size(&writer).expect("a pipe has a size");
    writer.write_all(&vec![b'.'; room]).expect("as much as it holds");
    (reader, writer)
}

/// The reader of the log hangs: calls, the admin interface and the stop still work.
#[test]
fn a_stalled_log_reader_does_not_block_the_balancer() {
    let field = TestSite::new("log-stalled");
    let (_reader, writer) = full_pipe();
    stops(works_without_its_log(&field, writer.into()));
}

/// The reader of the log goes away and another one comes: logging continues, and the number of lost lines is logged.
#[test]
fn the_log_reports_the_number_of_lost_lines() {
    let field = TestSite::new("log-back");
    let _server = SippServer::plain(&field, 11);
    let path = field.folder().join("log.fifo");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a named pipe can be made");
    // Opens without waiting for the other end.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag");
    let read = || File::options().read(true).custom_flags(nonblocking).open(&path).expect("it is there");
    let reader = read();
    let writer = File::options().write(true).open(&path).expect("it has a reader");
    let balancer =
        RunningBalancer::launch_with_log_to(&field, TestSettings::new(&field, &[11]), Some(writer.into()));
    drop(reader);
    let lost = || balancer.metric("sarabande_log_lines_lost_total");
    until("a line is lost", || {
        balancer.post("/api/reload");
        (lost() > 0.0).then_some(())
    });
    let mut reader = read();
    let mut text = Vec::new();
    until("the log reports lost lines", || {
        balancer.post("/api/reload");
        // An empty pipe is an error too.
        let _ = reader.read_to_end(&mut text);
        String::from_utf8_lossy(&text).contains("log lines were lost").then_some(())
    });
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("configuration reloaded"), "later lines are written: {text}");
}

/// The file has reached its size limit (`ulimit -f`), and may grow again later.
#[test]
fn a_file_size_limit_does_not_stop_the_balancer() {
    let field = TestSite::new("log-limit");
    let _server = SippServer::plain(&field, 11);
    let mut balancer = RunningBalancer::launch(&field, TestSettings::new(&field, &[11]));
    balancer.limit_files(Some(balancer.log().len() as u64 + 10));
    until("a line is lost", || {
        balancer.post("/api/reload");
        (balancer.metric("sarabande_log_lines_lost_total") > 0.0).then_some(())
    });
    balancer.limit_files(None);
    until("the log reports lost lines", || {
        balancer.post("/api/reload");
        balancer.log().contains("log lines were lost").then_some(())
    });
    assert_eq!(balancer.ended(), None);
}

/// Every call is answered 503: the log says so, but not for each call.
#[test]
fn a_repeated_cause_is_logged_rarely() {
    let field = TestSite::new("log-flood");
    let unwell = |message: &[u8]| Some(if is_invite(message) { "503 Unwell" } else { "200 OK" });
    let _server = AnsweringAgent::saying(field.sip(11), unwell);
    let balancer = RunningBalancer::start(&field, TestSettings::new(&field, &[11]));
    let load = CallLoad { calls: 3_000, rate: 1_000, hold_ms: 0 };
    let refused = SippCaller::plain(&field, (field.sip(2), balancer.address()), load).finish();
    assert_eq!(refused.failed, load.calls, "{refused:?}");
    let log = balancer.log();
    let lines = log.lines().filter(|line| line.contains("503")).count();
    assert!((1..100).contains(&lines), "{lines} lines about 503:\n{log}");
}

/// The log says that no member is left, and that calls are refused for it. At level `debug` it gives the reason of each
/// failed call and each failed connection.
#[test]
fn the_log_says_why_calls_and_connections_fail() {
    let field = TestSite::new("log-debug");
    let decline = |message: &[u8]| Some(if is_invite(message) { "603 Decline" } else { "200 OK" });
    let server = AnsweringAgent::saying(field.sip(11), decline);
    let mut settings = TestSettings::new(&field, &[11]);
    settings.log = vec!["level = \"debug\""];
    settings.listen_more.push(format!("tcp = [\"{}\"]", field.sip(1)));
    let balancer = RunningBalancer::start(&field, settings);
    let agent = Agent::bind(field.sip(2));
    let call = |call_id: &str, lines: &[&str]| {
        let mut invite = AgentRequest::new("INVITE", call_id);
        invite.lines = lines.iter().map(|&line| line.to_owned()).collect();
        agent.send(balancer.address(), &invite.bytes(agent.address()));
        status(&agent.final_response(call_id))
    };
    let has_line = |parts: &[&str]| {
        let has_line = |line: &str| parts.iter().all(|part| line.contains(part));
        until(&format!("a line with {parts:?}"), || balancer.log().lines().any(has_line).then_some(()));
    };
    assert_eq!(call("declined", &[]), Some(603));
    has_line(&[
        "DEBUG answered by the next hop: 603",
        "INVITE",
        "declined",
        &format!("from={}", field.sip(11)),
    ]);
    assert_eq!(call("extended", &["Proxy-Require: nothing-known"]), Some(420));
    has_line(&["DEBUG answered here: 420 Bad Extension", "extended", &format!("from={}", agent.address())]);
    let mut client = StreamClient::connect(field.ip(2), field.sip(1));
    client.send(b"no SIP\r\n").expect("it is connected");
    has_line(&["DEBUG the bytes do not begin like a SIP message", &format!("from={}", client.address())]);
    drop(server);
    until("the member is dead", || balancer.members().iter().all(|m| !m.accepting).then_some(()));
    has_line(&["ERROR no member is alive"]);
    assert_eq!(call("homeless", &[]), Some(503));
    has_line(&["ERROR no member takes new calls", &format!("{} unreachable", field.sip(11))]);
    has_line(&["DEBUG answered here: 503 No Server Available", "homeless"]);
}

fn is_invite(message: &[u8]) -> bool {
    message.starts_with(b"INVITE ")
}
