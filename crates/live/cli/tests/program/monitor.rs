//! Tests of `sarabande monitor --report` beside a balancer: both processes are killed and restarted.

use crate::running::{Running, Server, folder, free, outcome, sarabande, until};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const KEY: &str = "30313233343536373839616263646566";

/// Returns the error message of a monitor that does not start with these options.
fn refused(more: &[&str]) -> String {
    let (code, out, errors) = outcome(&[&["monitor", "--server", "127.0.0.1:5060"], more].concat());
    assert!(matches!(code, Some(1 | 2)) && out.is_empty(), "{more:?}: {code:?} {out} {errors}");
    errors
}

#[test]
fn options_are_checked() {
    let folder = folder("monitor-options");
    let key = folder.join("capacity.key");
    fs::write(&key, "too short").expect("the scratch folder can be written");
    let key = key.to_str().expect("a path in UTF-8");
    let hep = ["--hep", "127.0.0.1:0"];
    let report = [&hep[..], &["--report", "127.0.0.1:8061"]].concat();
    for (more, part) in [
        (vec!["--report", "127.0.0.1"], "write HOST:PORT"),
        (vec!["--report", ":8061"], "write HOST:PORT"),
        (vec!["--report", "edge:0"], "write HOST:PORT"),
        (vec!["--report", "::1:8061"], "needs brackets"),
        (vec!["--threshold", "1"], "us, ms, s"),
        (vec!["--threshold", "0s"], "a time above 0"),
        (vec!["--threshold", "1ms", "--law", "other"], "proven or smace"),
        (vec!["--threshold", "1ms", "--maximum", "0"], "1 or more"),
        (vec!["--threshold", "1ms", "--maximum", "nan"], "1 or more"),
        (vec!["--threshold", "1ms", "--capacity-start", "600"], "more than --maximum 500"),
        (vec!["--threshold", "1ms", "--pair", "final"], "--pair"),
        (vec!["--maximum", "100"], "--threshold 1ms"),
        (vec!["--as", "10.0.0.1"], "--report"),
        (vec!["--key-file", key], "--report"),
        ([&report[..], &["--as", "0.0.0.0:5060"]].concat(), "address of the server in the configuration"),
        ([&report[..], &["--as", "two words"]].concat(), "write an address"),
        (report.clone(), "SARABANDE_CAPACITY_KEY"),
        ([&report[..], &["--key-file", "/nowhere.key"]].concat(), "/nowhere.key: cannot be read"),
        ([&report[..], &["--key-file", key]].concat(), "does not hold 16 bytes"),
        (vec!["--report", "127.0.0.1:8061", "--read", "/nowhere.pcap"], "--read"),
    ] {
        let errors = refused(&more);
        assert!(errors.contains(part), "{more:?}: {errors}");
    }
    // Invalid arguments on any machine.
    for more in [
        &["--maximum", "100"][..],
        &["--threshold", "1ms", "--capacity-start", "600"],
        &["--threshold", "1ms", "--pair", "final"],
        &["--report", "127.0.0.1:8061", "--pair", "final"],
    ] {
        let (code, ..) = outcome(&[&["monitor", "--server", "127.0.0.1:5060"], more].concat());
        assert_eq!(code, Some(2), "{more:?}");
    }
    let mut command = sarabande(&["monitor", "--server", "127.0.0.1:5060"]);
    let output =
        command.args(&report).env("SARABANDE_CAPACITY_KEY", "too short").output().expect("the program runs");
    let errors = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(errors.contains("the environment variable SARABANDE_CAPACITY_KEY does not hold"), "{errors}");
    assert!(!errors.contains("too short"), "the key is not printed: {errors}");
}

/// A monitor whose output goes to a file.
struct Monitor {
    _process: Running,
    said: PathBuf,
}

impl Monitor {
    fn start(name: &str, folder: &Path, command: &mut Command) -> Self {
        let said = folder.join(format!("{name}.err"));
        let file = |path: &Path| File::create(path).expect("the scratch folder can be written");
        let out = file(&folder.join(format!("{name}.out")));
        Self { _process: Running::start(command.stdout(out).stderr(file(&said))), said }
    }

    /// How often the output contains this text.
    fn count_of(&self, text: &str) -> usize {
        fs::read_to_string(&self.said).expect("the output is text").matches(text).count()
    }
}

/// Returns the capacity of this member that the balancer knows.
fn known(server: &Server, member: &str) -> Option<f64> {
    let (_, out, _) = server.ask(&["status", "--json"]);
    let status: Value = serde_json::from_str(&out).ok()?;
    let all = status["capacity"]["members"].as_array()?;
    all.iter().find(|each| each["member"] == member)?["capacity"].as_f64()
}

/// Either process may be killed and restarted. A wrong key is refused, and does not end the monitor.
#[test]
fn a_monitor_reports_after_a_restart_of_either_side() {
    let (member, listen) = (free().to_string(), free().to_string());
    let folder = folder("monitor-report");
    let role = format!(
        "[pool.servers]\nmembers = [\"{member}\"]\n[capacity]\nlisten = \"{listen}\"\nkeys.\"*\" = \"{KEY}\""
    );
    let monitor = |name: &str, key: &str, start: &str| {
        let hep = free().to_string();
        let mut command =
            sarabande(&["monitor", "--server", &member, "--hep", &hep, "--json", "--window", "100ms"]);
        command.args(["--report", &listen, "--capacity-start", start]).env("SARABANDE_CAPACITY_KEY", key);
        Monitor::start(name, &folder, &mut command)
    };
    let server = Server::start("monitor-report-a", &role);
    let stranger = monitor("stranger", "31313233343536373839616263646566", "400");
    until("the monitor without the right key is refused", || {
        (stranger.count_of("wrong_code") == 1).then_some(())
    });
    assert_eq!(known(&server, &member), None);
    drop(stranger);

    let first = monitor("first", KEY, "123.5");
    let is = |server: &Server, capacity: f64| {
        until("the balancer knows", || known(server, &member).filter(|known| (known - capacity).abs() < 1e-9))
    };
    is(&server, 123.5);
    let (_, shown, _) = server.ask(&["status"]);
    assert!(
        shown.contains("\ncapacity: 1 monitor, ") && shown.contains(" can take 123.5 calls/s"),
        "{shown}"
    );
    assert_eq!(first.count_of("is not told"), 0);
    drop(server);
    until("the monitor has printed it", || (first.count_of("gets no capacity updates") == 1).then_some(()));
    let server = Server::start("monitor-report-b", &role);
    is(&server, 123.5);
    until("the monitor has printed it", || {
        (first.count_of("gets capacity updates again") == 1).then_some(())
    });
    assert_eq!(first.count_of("gets no capacity updates"), 1, "one line for several attempts");

    drop(first);
    let second = monitor("second", KEY, "77");
    is(&server, 77.0);
    assert_eq!(second.count_of("is not told"), 0);
}
