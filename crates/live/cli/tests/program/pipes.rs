//! Commands whose reader goes away, or whose disk is full: they end without a panic, with the usual exit codes.

use crate::running::{Running, Server, folder, free, sarabande};
use std::fs::{self, File};
use std::io::{Read, Write as _, pipe};
use std::path::PathBuf;
use std::process::Stdio;

/// Exit code that a shell reports for a program killed by SIGPIPE (13).
const CLOSED: i32 = 128 + 13;

const SCENARIO: &str = "[run]\nduration = \"20s\"\nwarm_up = \"5s\"\n[host.core]\ncapacity = 100\n\
                        [calls.main]\npath = [\"core\"]\nrate = 20\nholding = \"1s\"\n";

fn scenario(test: &str) -> PathBuf {
    let file = folder(test).join("small.toml");
    fs::write(&file, SCENARIO).expect("the scratch folder can be written");
    file
}

/// Returns a pipe whose reader is closed.
fn closed() -> Stdio {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// Returns exit code and standard error of a command with this standard output.
fn with_output(arguments: &[&str], out: Stdio) -> (Option<i32>, String) {
    let (mut reader, writer) = pipe().expect("a pipe");
    let mut process = Running::start(sarabande(arguments).stdout(out).stderr(writer));
    let mut errors = String::new();
    reader.read_to_string(&mut errors).expect("the output is UTF-8");
    (process.wait(), errors)
}

/// Commands that print without a server.
fn printing(scenario: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["--help"],
        vec!["--version"],
        vec!["help", "sim"],
        vec!["check", "--help"],
        vec!["check", scenario],
        vec!["check", "--reference"],
        vec!["check", "--reference", "scenario"],
        vec!["check", "--schema"],
        vec!["completions", "bash"],
        vec!["sim", "list"],
        vec!["sim", "run", scenario],
        vec!["sim", "run", scenario, "--json"],
        vec!["sim", "run", scenario, "--vary", "calls.main.rate=10,20"],
        vec!["demo", "--seconds", "1.5", "--policy", "tlwl"],
    ]
}

/// Runs each command with a closed reader, with both outputs closed, and with a full disk.
fn try_all(commands: &[Vec<&str>]) {
    for command in commands {
        let (code, errors) = with_output(command, closed());
        assert_eq!(code, Some(CLOSED), "{command:?} with a closed reader: {errors}");
        assert!(!errors.contains("panicked") && !errors.contains("sarabande: "), "{command:?}: {errors}");
        let code = Running::start(sarabande(command).stdout(closed()).stderr(closed())).wait();
        assert_eq!(code, Some(CLOSED), "{command:?} with both outputs closed");
        let full = File::options().write(true).open("/dev/full").expect("a device of Linux");
        let (code, errors) = with_output(command, full.into());
        assert_eq!(code, Some(1), "{command:?} with a full disk: {errors}");
        assert!(errors.contains("cannot write to standard output: No space left"), "{command:?}: {errors}");
    }
}

#[test]
fn a_command_ends_silently_if_its_reader_goes_away() {
    let scenario = scenario("pipes");
    try_all(&printing(scenario.to_str().expect("a path in UTF-8")));
}

#[test]
fn commands_to_a_server_end_silently_if_their_reader_goes_away() {
    let member = free().to_string();
    let mut answerer =
        Running::start(sarabande(&["load", "answer", "--listen", &member]).stdout(closed()).stderr(closed()));
    let server = Server::start("pipes-server", &format!("[pool.servers]\nmembers = [\"{member}\"]"));
    let ask = |words: &[&'static str]| words.iter().copied().chain(["--admin", &server.admin]).collect();
    let commands: Vec<Vec<&str>> = vec![
        ask(&["status"]),
        ask(&["status", "--json"]),
        ask(&["status", "--watch"]),
        ask(&["explain", "--call-id", "x"]),
        ask(&["explain", "--call-id", "x", "--json"]),
        ask(&["reload"]),
        vec!["drain", &member, "--admin", &server.admin],
        vec!["drain", &member, "--wait", "--admin", &server.admin],
        vec!["drain", &member, "--undo", "--admin", &server.admin],
    ];
    try_all(&commands);
    let target = server.sip.to_string();
    try_all(&[vec!["load", "call", "--to", &target, "--rate", "50", "--calls", "5", "--hold", "10ms"]]);
    assert!(answerer.is_running(), "the answerer runs on without a reader of its output");
}

/// The reader of the summary may go away; the requested file is still written.
#[test]
fn files_are_written_before_the_output() {
    let scenario = scenario("pipes-files");
    let out = folder("pipes-files").join("out");
    let paths = [&scenario, &out].map(|path| path.to_str().expect("a path in UTF-8"));
    let (code, errors) = with_output(&["sim", "run", paths[0], "--out", paths[1]], closed());
    assert_eq!(code, Some(CLOSED), "{errors}");
    assert!(out.join("report.html").exists());
}

/// `sarabande check <(generate)`: the file can be read only once.
#[test]
fn a_pipe_can_be_checked() {
    let (reader, mut writer) = pipe().expect("a pipe");
    writer
        .write_all(b"[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.x]\nmembers = [\"127.0.0.2\"]\n")
        .expect("room");
    drop(writer);
    let output = sarabande(&["check", "/dev/stdin"]).stdin(reader).output().expect("it can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
