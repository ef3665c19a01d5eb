//! Error messages of the commands: the problem, its place, and the remedy.

use crate::running::{Server, folder, outcome};
use std::fs;

const POOL: &str = "[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.servers]\nmembers = [\"127.0.0.2:5060\"]\n";
const SCENARIO: &str = "[host.core]\ncapacity = 100\n[calls.main]\npath = [\"core\"]\nrate = 20\n";

/// Returns the error message of these arguments.
fn error(arguments: &[&str]) -> String {
    let (code, _, errors) = outcome(arguments);
    assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {code:?} {errors}");
    errors
}

fn file(name: &str, text: &[u8]) -> String {
    let file = folder("errors").join(name);
    fs::write(&file, text).expect("the scratch folder can be written");
    file.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn a_file_of_another_kind_is_refused_with_its_command() {
    let (pool, scenario) = (file("pool.toml", POOL.as_bytes()), file("scenario.toml", SCENARIO.as_bytes()));
    for arguments in [vec!["run", &scenario], vec!["status", "--config", &scenario]] {
        assert!(error(&arguments).contains(&format!("`sarabande sim run {scenario}`")), "{arguments:?}");
    }
    for more in [vec![], vec!["--vary", "calls.main.rate=1,2"]] {
        let arguments = [vec!["sim", "run", &pool], more].concat();
        assert!(error(&arguments).contains(&format!("`sarabande run {pool}`")), "{arguments:?}");
    }
}

/// A start would refuse the file, so `check` must do so as well.
#[test]
fn check_reports_a_damaged_stored_key() {
    let pool = file("keyed.toml", POOL.as_bytes());
    assert_eq!(outcome(&["check", &pool]).0, Some(0), "without a key, a key will be made");
    for bad in [&b"too short"[..], &[0xff; 32], b""] {
        file("keyed.token-key", bad);
        let output = error(&["check", &pool]);
        assert!(output.contains("keyed.token-key does not hold 32 hexadecimal digits"), "{output}");
        assert_eq!(error(&["run", &pool]).contains("keyed.token-key"), output.contains("keyed.token-key"));
    }
    file("keyed.token-key", b"000102030405060708090a0b0c0d0e0f\n");
    assert_eq!(outcome(&["check", &pool]).0, Some(0));
}

#[test]
fn every_option_refuses_an_ipv6_address_without_brackets() {
    for arguments in [
        vec!["load", "call", "--rate", "1", "--to", "::1:5060"],
        vec!["load", "call", "--rate", "1", "--to", "[::1]:5060", "--listen", "::1:5070"],
        vec!["load", "answer", "--listen", "::1:5070"],
        vec!["explain", "--call-id", "x", "--from", "::1:5070"],
        vec!["status", "--admin", "::1:8060"],
        vec!["status", "--admin", "http://::1:8060"],
    ] {
        let output = error(&arguments);
        assert!(output.contains("needs brackets") && output.contains("[::1]:"), "{arguments:?}: {output}");
    }
}

/// A month at this rate takes hours, so the directory is checked before the run.
#[test]
fn an_unwritable_directory_is_reported_before_the_run() {
    let long = file("long.toml", format!("[run]\nduration = \"30d\"\n{SCENARIO}").as_bytes());
    let out = format!("{long}/out");
    for more in [vec![], vec!["--vary", "calls.main.rate=1,2"]] {
        let output = error(&[vec!["sim", "run", &long, "--out", &out], more].concat());
        assert!(output.contains("long.toml/out: cannot be written: Not a directory"), "{output}");
    }
    let output = error(&["sim", "figures", "--out", &out]);
    assert!(output.contains("cannot be written"), "{output}");
}

#[test]
fn a_next_hop_can_be_drained() {
    let server = Server::start("errors-proxy", "[proxy]\nnext = [\"127.0.0.2:5060\"]");
    let (code, _, output) = server.ask(&["drain", "127.0.0.2:5060"]);
    assert_eq!(code, Some(0), "{output}");
    let (code, _, output) = server.ask(&["drain", "127.0.0.3:5060"]);
    assert!(code == Some(1) && output.contains("there are: 127.0.0.2:5060"), "{output}");
}

/// All errors are reported together.
#[test]
fn a_missing_file_of_users_is_reported_with_other_errors() {
    let text = "[listen]\nudp = [\"127.0.0.1:5060\"]\nsctp = [\"127.0.0.1:5060\"]\n\
                [registrar]\ndomains = [\"example.com\"]\nusers = \"not-there\"\n";
    let output = error(&["check", &file("users-missing.toml", text.as_bytes())]);
    assert!(output.contains("not for SCTP"), "{output}");
    assert!(output.contains("[registrar] users: ") && output.contains("not-there"), "{output}");
}

#[test]
fn run_takes_its_file_as_other_commands_do() {
    let wrong = file("run-config.toml", b"nonsense");
    for arguments in [["run", &wrong].to_vec(), ["run", "--config", &wrong].to_vec()] {
        assert!(error(&arguments).contains("run-config.toml:1:"), "{arguments:?}");
    }
    assert!(error(&["run"]).contains("<FILE>"));
}

/// Both figures are of measured data, so nothing is simulated. Some statements of `servartuka-1` fail, none of
/// `smace-7`.
#[test]
fn a_figure_with_a_failed_statement_exits_with_4() {
    let out = folder("figures");
    let out = out.to_str().expect("a path in UTF-8");
    let (code, output, errors) = outcome(&["sim", "figure", "servartuka-1", "--quick", "--out", out]);
    assert!(code == Some(4) && output.contains("FAILS"), "{code:?} {output}");
    assert!(errors.contains("statements that fail: "), "{errors}");
    let (code, output, _) = outcome(&["sim", "figure", "smace-7", "--quick", "--out", out]);
    assert!(code == Some(0) && !output.contains("FAILS"), "{code:?} {output}");
}
