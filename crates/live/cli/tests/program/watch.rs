//! Tests of commands that follow a server until it ends.

use crate::running::{Running, Server, free, get, outcome, sarabande, until};
use std::io::{BufRead as _, BufReader, pipe};
use std::process::Stdio;

#[test]
fn a_watch_prints_the_status_again_after_the_server_ends() {
    let server = Server::start("watch", &format!("[pool.servers]\nmembers = [\"{}\"]", free()));
    let (reader, writer) = pipe().expect("a pipe");
    let mut watch = sarabande(&["status", "--watch", "--admin", &server.admin]);
    let mut watch = Running::start(watch.stdout(writer));
    let mut lines = BufReader::new(reader).lines().map(|line| line.expect("UTF-8"));
    let mut awaited = |text: &str| until(text, || lines.next().filter(|line| line.contains(text)));
    for _ in 0..2 {
        awaited("new calls go to ");
    }
    drop(server);
    awaited("nothing listens on ");
    assert!(watch.is_running(), "the server may come back");
}

#[test]
fn a_watch_without_a_server_ends_at_once() {
    let (code, _, errors) = outcome(&["status", "--watch", "--admin", &free().to_string()]);
    assert_eq!((code, errors.contains("nothing listens")), (Some(3), true), "{errors}");
}

#[test]
fn a_stop_waits_for_the_end_of_the_server() {
    for role in
        [format!("[pool.servers]\nmembers = [\"{}\"]", free()), format!("[proxy]\nnext = [\"{}\"]", free())]
    {
        let mut server = Server::start("stop", &role);
        let (code, out, errors) = server.ask(&["stop", "--wait"]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(out.ends_with("stopped\n"), "{out}");
        assert_eq!(server.process.wait(), Some(0));
        assert_eq!(server.ask(&["stop"]).0, Some(3), "no server is left to stop");
    }
}

/// A call that lasts longer than `[stop] wait` is cut, and `stop --wait` reports it.
#[test]
fn a_stop_that_cuts_calls_fails() {
    let member = free().to_string();
    let _answerer = Running::start(sarabande(&["load", "answer", "--listen", &member]).stdout(Stdio::null()));
    let mut server = Server::start("stop-cut", &format!("[pool.servers]\nmembers = [\"{member}\"]"));
    let target = server.sip.to_string();
    let call = ["load", "call", "--to", &target, "--rate", "50", "--calls", "2", "--hold", "1m"];
    let _caller = Running::start(sarabande(&call).stdout(Stdio::null()).stderr(Stdio::null()));
    until("two calls", || get(&server.admin, "/api/sessions").contains("\"active\":2").then_some(()));
    let (code, out, errors) = server.ask(&["stop", "--wait"]);
    assert_eq!(code, Some(4), "{out}{errors}");
    assert!(errors.contains("[stop] wait is over, and the server has ended with 2 calls"), "{errors}");
    assert_eq!(server.process.wait(), Some(0));
}
