//! Tests of completions and manual pages, which are made from the arguments.

use crate::running::{folder, outcome};
use std::fs;
use std::process::{Command, Stdio};

/// The commands that `--help` lists.
fn commands() -> Vec<String> {
    let (_, help, _) = outcome(&["--help"]);
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    // A line that is indented deeper continues the description above it.
    let names = list.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("    "));
    names.map(|line| line.split_whitespace().next().expect("a name").to_owned()).collect()
}

#[test]
fn every_command_and_option_is_in_a_manual_page() {
    let folder = folder("manual").join("man1");
    let path = folder.to_str().expect("a path in UTF-8");
    let (code, _, errors) = outcome(&["man", path]);
    assert_eq!(code, Some(0), "{errors}");
    let page = |name: &str| fs::read_to_string(folder.join(name)).expect("a page");
    let whole = page("sarabande.1");
    assert!(whole.contains("load balancer") && whole.contains(".SH \"EXIT STATUS\""), "{whole}");
    for command in commands().iter().filter(|command| *command != "help") {
        assert!(whole.contains(&format!("sarabande\\-{command}(1)")), "{command} in {whole}");
        assert!(page(&format!("sarabande-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(page("sarabande-drain.1").contains("\\-\\-wait"));
    assert!(page("sarabande-sim-run.1").contains("\\-\\-vary"), "subcommands have pages, too");
}

#[test]
fn a_directory_that_cannot_be_created_is_named() {
    let file = folder("manual-file").join("file");
    fs::write(&file, "").expect("the file can be written");
    let below = file.join("man1");
    let (code, _, errors) = outcome(&["man", below.to_str().expect("a path in UTF-8")]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("file/man1: cannot be written: "), "{errors}");
}

/// Calls the completion function as bash does: with the words so far, for the words that may follow.
#[test]
fn bash_completes_commands_and_options() {
    let (code, script, errors) = outcome(&["completions", "bash"]);
    assert_eq!(code, Some(0), "{errors}");
    let file = folder("completions").join("sarabande.bash");
    fs::write(&file, script).expect("the file can be written");
    let complete = |words: &[&str]| {
        let script_text = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _sarabande sarabande '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
            file.display(),
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let output =
            Command::new("bash").args(["--norc", "-c", &script_text]).stderr(Stdio::inherit()).output();
        let output = String::from_utf8(output.expect("bash is there").stdout).expect("UTF-8");
        output.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut offered = complete(&["sarabande", "''"]);
    offered.retain(|word| !word.starts_with('-'));
    offered.sort();
    let mut there = commands();
    there.sort();
    assert_eq!(offered, there);
    assert_eq!(complete(&["sarabande", "dra"]), ["drain"]);
    assert!(complete(&["sarabande", "status", "--"]).contains(&"--watch".to_owned()));
}

#[test]
fn each_shell_has_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script, errors) = outcome(&["completions", shell]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(script.contains("undo") && script.contains("drain"), "{shell}: {script}");
    }
    assert_eq!(outcome(&["completions", "csh"]).0, Some(2));
}
