//! Commands that look at a server for as long as it lives.

use crate::running::{Server, free, outcome, sarabande, until};
use std::io::{BufRead as _, BufReader, pipe};

#[test]
fn a_watch_without_a_terminal_tells_line_by_line_what_changes() {
    let server = Server::start("watch", &format!("[pool.servers]\nmembers = [\"{}\"]", free()));
    let (reader, writer) = pipe().expect("a pipe");
    let mut watch = sarabande(&["status", "--watch", "--admin", &server.admin]);
    let mut watch = crate::running::Running::start(watch.stdout(writer));
    let mut lines = BufReader::new(reader).lines().map(|line| line.expect("UTF-8"));
    let first = lines.next().expect("a line at once");
    assert!(first.starts_with("   0 s  new calls go to ") && first.contains("of 1 member: "), "{first}");
    let mut awaited = |what: &str| until(what, || lines.next().filter(|line| line.contains(what)));
    drop(server);
    awaited("nothing listens on ");
    assert!(watch.is_running(), "the server may come back");
}

#[test]
fn a_watch_of_nobody_ends_at_once() {
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
        assert_eq!(server.ask(&["stop"]).0, Some(3), "nobody is left to be stopped");
    }
}
