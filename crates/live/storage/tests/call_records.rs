//! Call records in a real PostgreSQL database: revisions of a call, a user who may not create the table.

use sarabande_tests::{PostgresServer, TestSite, until};
use std::fs;
use storage::RecordDatabase;

/// The line of a record that ends a call.
fn line(id: &str, revision: u64, more: &str) -> Vec<u8> {
    format!("{{\"id\":\"{id}\",\"event\":\"ended\",\"revision\":{revision},{more}}}\n").into_bytes()
}

const ANSWERED: &str = "\"final\":false,\"answered\":\"2026-01-01T00:00:00Z\",\"ended\":\"2026-01-01T00:00:10Z\",\
    \"seconds\":10,\"uri\":\"sip:b@x\",\"cause\":\"bye\",\"bye_status\":481,\"ended_by\":\"caller\",\"reason\":\"R\"";
const REOPENED: &str = "\"final\":false,\"answered\":\"2026-01-01T00:00:00Z\",\"ended\":\"2026-01-01T00:01:00Z\",\
    \"seconds\":60,\"uri\":\"sip:b@x\",\"cause\":\"reopened\"";
/// After a restart the time of the answer is unknown.
const FOUND: &str = "\"final\":true,\"ended\":\"2026-01-01T01:00:00Z\",\"cause\":\"bye\",\"bye_status\":200,\
    \"ended_by\":\"callee\",\"found_again\":true";

#[test]
fn a_later_revision_replaces_an_earlier_one() {
    let site = TestSite::new("call-records");
    let server = PostgresServer::start(&site, 1);
    let spool = site.folder().join("records");
    let mut records =
        RecordDatabase::start(&server.url(), None, &spool).expect("the database of records starts");
    let mut add = |lines: &[Vec<u8>]| records.add(&mut lines.concat()).expect("there is room");
    let shown = |id: &str| {
        let columns = "seconds, uri, cause, bye_status, ended_by, reason, final";
        // The table is missing until the database is connected.
        let found = server.try_execute(&format!("SELECT {columns} FROM call_records WHERE id = '{id}'"));
        found.unwrap_or_else(|error| error)
    };
    // First several records of one call in one statement, then single records, of which some repeat an earlier
    // revision.
    add(&[line("a", 5, ANSWERED), line("b", 6, ANSWERED), line("a", 7, REOPENED), line("a", 9, FOUND)]);
    until("the last record is there", || (shown("a") == "3600|sip:b@x|bye|200|callee||t").then_some(()));
    assert_eq!(shown("b"), "10|sip:b@x|bye|481|caller|R|f");
    for (revision, fields) in [(8, REOPENED), (9, ANSWERED), (5, ANSWERED)] {
        add(&[line("a", revision, fields)]);
    }
    add(&[line("b", 10, REOPENED)]);
    until("b is reopened", || (shown("b") == "60|sip:b@x|reopened||||f").then_some(()));
    assert_eq!(shown("a"), "3600|sip:b@x|bye|200|callee||t");
    assert_eq!(server.execute("SELECT count(*) FROM call_records"), "2");
    assert_eq!(records.status(), storage::RecordDatabaseStatus::default());
}

/// No record is lost, and the operator is told the remedy.
#[test]
fn without_the_right_to_create_the_table_the_statement_is_reported() {
    let site = TestSite::new("call-records-owner");
    let server = PostgresServer::start(&site, 1);
    server.execute("CREATE USER writer PASSWORD 'secret'");
    let url = server.url();
    let (_, place) = url.split_once('@').expect("user and host");
    let mut records = RecordDatabase::start(
        &format!("postgres://writer:secret@{place}"),
        None,
        &site.folder().join("records"),
    )
    .expect("the database of records starts");
    records.add(&mut line("a", 5, ANSWERED)).expect("there is room");
    let mut trouble = String::new();
    until("the fault is reported", || {
        trouble = records.status().trouble?;
        Some(())
    });
    assert!(trouble.contains("permission denied"), "{trouble}");
    let (_, statement) = trouble.split_once("run: ").expect("a statement");
    server.execute(&format!("{statement}; GRANT INSERT, SELECT, UPDATE ON call_records TO writer"));
    until("the record is there", || {
        (server.execute("SELECT count(*) FROM call_records WHERE id = 'a'") == "1").then_some(())
    });
    until("the fault is over", || records.status().trouble.is_none().then_some(()));
    assert!(!fs::exists(site.folder().join("records/refused")).expect("the folder can be read"));
}
