//! The random tester as a program.

use std::fs::File;
use std::process::{Command, Output};

fn tester(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swarm"));
    command.args(arguments);
    command
}

fn printed(output: &Output) -> String {
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && errors.is_empty(), "{text}{errors}");
    text.into_owned()
}

#[test]
fn seeds_are_run_and_one_is_shown() {
    let many = printed(&tester(&["--seeds", "2", "--seed", "3", "--jobs", "2"]).output().unwrap());
    assert!(many.starts_with("2 seeds: ") && many.trim_end().ends_with("changes and failures"), "{many}");
    let shown = printed(&tester(&["--seed", "3", "--verbose"]).output().unwrap());
    let last = shown.trim_end().lines().last().unwrap();
    assert!(last.starts_with("seed 3 holds: ") && shown.lines().count() > 20, "{shown}");
}

#[test]
fn a_scenario_is_run_on_bytes() {
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/short.toml");
    let text =
        "[run]\nduration = \"10s\"\n[host.core]\ncapacity = 100\n[calls.main]\npath = [\"core\"]\nrate = 5\n";
    std::fs::write(file, text).unwrap();
    let output = tester(&["--scenario", file]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("calls_completed"), "{output:?}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for arguments in [&["--seeds", "1"][..], &["--verbose"][..]] {
        let full = File::options().write(true).open("/dev/full").expect("a device of Linux");
        let output = tester(arguments).stdout(full).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("No space left"), "{arguments:?}: {errors}");
    }
}
