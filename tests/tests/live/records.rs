//! Calls with dialogs, and their records: one for each call, which no end of the process or the database loses.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sarabande_tests::{
    CallLoad, PostgresServer, RunningProxy, SippCaller, SippServer, TestSite, Tool, until,
};
use serde_json::Value;

/// Starts a proxy in front of this server. Returns it with the file of its records.
fn proxy(field: &TestSite, server: &SippServer, more: &str) -> (RunningProxy, PathBuf) {
    let file = field.folder().join("calls.jsonl");
    let tables = format!("forward = \"dialog\"\n[calls]\nrecords = \"{}\"\n{more}", file.display());
    (RunningProxy::with_threads(field, 1, &[server.address()], 2, &tables), file)
}

/// Returns the records in the file and in rotated ones.
fn records(file: &Path) -> Vec<Value> {
    let numbered = (1..100).map(|number| PathBuf::from(format!("{}.{number}", file.display())));
    let all = numbered.chain([file.to_owned()]).filter_map(|path| fs::read_to_string(path).ok());
    let text: String = all.collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("JSON: {line}"))).collect()
}

fn texts(records: &[Value], key: &str) -> BTreeSet<String> {
    records.iter().filter_map(|record| record[key].as_str()).map(str::to_owned).collect()
}

#[test]
fn each_call_has_one_record() {
    let field = TestSite::new("records");
    let server = SippServer::start(&field, "uas_reinvite", field.sip(11), 500);
    let (proxy, file) =
        proxy(&field, &server, "rotate = \"64KiB\"\nsession_expires = \"30m\"\nlongest = \"1h\"");
    let load = CallLoad { calls: 300, rate: 100, hold_ms: 300 };
    let caller = SippCaller::start(&field, "uac_reinvite", (field.sip(2), proxy.address()), load, &[]);
    caller.finish_clean();
    server.finish_clean();
    proxy.wait_until_idle();
    let all = records(&file);
    assert_eq!((all.len() as u64, texts(&all, "id").len() as u64), (load.calls, load.calls));
    assert!(file.with_extension("jsonl.1").exists(), "300 records are more than 64 KiB");
    for record in &all {
        let shown: Vec<_> = ["event", "cause", "ended_by", "pool"].map(|key| record[key].as_str()).into();
        assert_eq!(shown, [Some("ended"), Some("bye"), Some("caller"), Some("proxy")], "{record}");
        assert_eq!(record["peer"], field.sip(11).to_string());
        assert_eq!(record["attempts"], 1);
        let times = ["started", "rang", "answered", "ended"].map(|key| record[key].as_str());
        assert!(times.iter().all(Option::is_some) && times.is_sorted(), "{record}");
        assert!(record["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.3), "{record}");
    }
    let shown: Value = serde_json::from_str(&proxy.get("/api/proxy")).expect("JSON");
    let calls = &shown["calls"];
    assert_eq!((calls["answered"].as_u64(), calls["records_total"].as_u64()), (Some(0), Some(load.calls)));
    assert!(proxy.get("/metrics").contains(&format!("\nsarabande_call_records_total {}\n", load.calls)));
    proxy.stop();
}

/// An operator lists the calls in progress, of all threads.
#[test]
fn calls_in_progress_are_listed() {
    let field = TestSite::new("records-listed");
    let server = SippServer::start(&field, "uas_call", field.sip(11), 500);
    let (proxy, _) = proxy(&field, &server, "");
    let admin = format!("http://{}", proxy.admin());
    let run = |arguments: &[&str]| {
        let (status, output) = Tool::run(&field, &[&["calls"], arguments, &["--admin", &admin]].concat());
        (status.code(), output)
    };
    assert_eq!(run(&[]), (Some(4), String::new()));
    let load = CallLoad { calls: 20, rate: 100, hold_ms: 4_000 };
    let caller = SippCaller::start(
        &field,
        "uac_call",
        (field.sip(2), proxy.address()),
        load,
        &["-recv_timeout", "10000"],
    );
    let server_address = server.address().to_string();
    let (_, listed) = until("all calls are answered", || {
        let (code, output) = run(&["--member", &server_address, "--pool", "proxy"]);
        output.starts_with("20 calls\n").then_some((code, output))
    });
    let rows: Vec<_> = listed.lines().filter(|line| line.contains(" answered ")).collect();
    assert!(rows.len() == 20 && rows.iter().all(|row| row.contains(&server_address)), "{listed}");
    let call_id = rows[19].split_whitespace().next_back().expect("a Call-ID");
    assert!(run(&[call_id]).1.starts_with("1 call\n"), "{call_id}: {listed}");
    assert!(run(&["--limit", "5"]).1.starts_with("20 calls, the 5 oldest shown\n"));
    assert_eq!(run(&["--member", "127.0.0.1:1"]).0, Some(4), "{listed}");
    caller.finish_clean();
    server.finish_clean();
    proxy.wait_until_idle();
    assert_eq!(run(&[]).0, Some(4));
}

/// An operator ends calls, of all threads.
#[test]
fn an_operator_ends_calls() {
    let field = TestSite::new("records-ended");
    let server = SippServer::start(&field, "uas_callee_bye", field.sip(11), 60_000);
    let (proxy, file) = proxy(&field, &server, "longest = \"1h\"");
    let admin = format!("http://{}", proxy.admin());
    let run = |arguments: &[&str]| {
        Tool::run(&field, &[&["calls"], arguments, &["--admin", &admin]].concat()).0.code()
    };
    let load = CallLoad { calls: 8, rate: 100, hold_ms: 0 };
    let caller = SippCaller::start(&field, "uac_callee_bye", (field.sip(2), proxy.address()), load, &[]);
    caller.wait_until_answered();
    assert_eq!(run(&["--end", "unknown"]), Some(1));
    let listed: Value = serde_json::from_str(&proxy.get("/api/calls")).expect("JSON");
    for call in listed["calls"].as_array().expect("calls") {
        assert_eq!(run(&["--end", call["call_id"].as_str().expect("text")]), Some(0), "{call}");
    }
    caller.finish_clean();
    assert_eq!(run(&[]), Some(4), "no call is left");
    let causes: Vec<_> = records(&file).iter().map(|record| record["cause"].clone()).collect();
    assert_eq!(causes, vec!["operator"; 8]);
}

/// Each call whose end was acknowledged has a record, however often the proxy is killed.
#[test]
fn kill_loses_no_acknowledged_record() {
    let field = TestSite::new("records-kill");
    // A 200 to a BYE may be lost with the process: the server answers the BYE again for 64*T1 (RFC 3261 §17.2.2).
    let server = SippServer::start(&field, "uas_call", field.sip(11), 32_000);
    let (mut proxy, file) = proxy(&field, &server, "");
    let load = CallLoad { calls: 400, rate: 80, hold_ms: 700 };
    // A call whose INVITE is pending when the proxy is killed gets a 100 and nothing more. It fails, and no other call
    // does.
    let patience = ["-recv_timeout", "10000"];
    let ends = (field.sip(2), proxy.address());
    let caller = SippCaller::start(&field, "uac_call", ends, load, &patience);
    let mut found_again = 0;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(1200));
        proxy.kill_and_restart();
    }
    let ended = caller.finish().successful;
    until("all calls are written", || {
        let all = records(&file);
        found_again = all.iter().filter(|record| record["found_again"] == true).count();
        (texts(&all, "call_id").len() as u64 >= ended).then_some(())
    });
    assert!(ended > load.calls / 2, "{ended} calls");
    assert!(found_again > 0, "calls went on when the proxy was killed");
}

/// A database gets each record once, after an outage those of that time too. No call waits for it.
#[test]
fn a_database_gets_each_record_once() {
    let field = TestSite::new("records-database");
    let mut database = PostgresServer::start(&field, 21);
    let server = SippServer::plain(&field, 11);
    let tables = format!("forward = \"dialog\"\n[calls]\nrecords = \"{}\"\nanswers = true", database.url());
    let mut proxy = RunningProxy::with_threads(&field, 1, &[server.address()], 2, &tables);
    let load = CallLoad { calls: 300, rate: 100, hold_ms: 200 };
    let caller = SippCaller::plain(&field, (field.sip(2), proxy.address()), load);
    std::thread::sleep(Duration::from_millis(700));
    database.kill();
    caller.finish_clean();
    until("the outage is reported", || {
        proxy.get("/api/proxy").contains("records_trouble\":\"").then_some(())
    });
    // Pending records are not lost with the process.
    proxy.kill_and_restart();
    database.restart();
    let count =
        |what: &str| database.try_execute(&format!("SELECT {what} FROM call_records")).unwrap_or_default();
    let wanted = format!("{}", 2 * load.calls);
    until("all records are there", || (count("count(*)") == wanted).then_some(()));
    assert_eq!(count("count(DISTINCT id), count(answered), min(cause), max(status)"), "300|600|bye|200");
    proxy.stop();
    server.finish_clean();
}
