//! No request is forwarded without a ticket of the gate: code that tries does not compile.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// A module added to a copy of this crate: the text before and after the code of its function. Each fault needs other
/// imports and parameters, so unused ones are allowed.
const ADDED: &str = "node/src/forward/stateful/added.rs";
const BEFORE: &str = "#![allow(unused)]
use super::{received::Received, transactions::Stateful};
use crate::{admission::{Novelty, Ticket, TicketCounts}, forward::onward::Onward, step::Step};
use wire::Message;
fn added(
    to: Onward<'_>, step: &mut Step<'_>, message: &Message<'_>, ticket: Ticket,
    by: &mut Stateful, received: Received, counts: &mut TicketCounts,
) {";
const AFTER: &str = "}";

/// Sends a request without a transaction, and one with a transaction.
const FAULTLESS: &str =
    "to.send(step.site, message, step.out, &ticket); by.forward(step, message, None, received, ticket);";

/// Code with one fault each, and the number of the compiler's error.
const FAULTS: [(&str, &str); 6] = [
    // There is no ticket.
    ("to.send(step.site, message, step.out);", "E0061"),
    ("by.forward(step, message, None, received);", "E0061"),
    ("by.receive(step, message, None, received);", "E0624"),
    // The ticket has ended.
    ("ticket.pass(); to.send(step.site, message, step.out, &ticket);", "E0382"),
    // The gate has not given it.
    ("let ticket = Ticket { novelty: Novelty::New, count: None };", "E0451"),
    ("let ticket = counts.give(Novelty::New);", "E0624"),
];

#[test]
fn no_request_is_forwarded_without_a_ticket() {
    let workspace = copy_of_crate().expect("a copy of the crate");
    assert_eq!(errors(&workspace, FAULTLESS), [""; 0]);
    for (fault, code) in FAULTS {
        let errors = errors(&workspace, fault);
        let is_expected = errors.first().is_some_and(|error| error.contains(&format!("error[{code}]")));
        let is_there = errors.iter().all(|error| error.starts_with(ADDED));
        assert!(is_expected && is_there, "{fault} {code}: {errors:#?}");
    }
}

/// Copies the sources to their own workspace, and declares the added module.
fn copy_of_crate() -> io::Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.join("../../..").canonicalize()?;
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tickets");
    if copy.join("node").exists() {
        fs::remove_dir_all(copy.join("node"))?;
    }
    fs::create_dir_all(copy.join("node"))?;
    Command::new("cp").arg("-R").arg(package.join("src")).arg(copy.join("node")).status()?;
    let parent = copy.join("node/src/forward/stateful/mod.rs");
    fs::write(&parent, fs::read_to_string(&parent)? + "mod added;\n")?;
    // The test crates depend on this crate.
    let manifest = fs::read_to_string(package.join("Cargo.toml"))?;
    fs::write(copy.join("node/Cargo.toml"), manifest.split("[dev-dependencies]").next().unwrap_or_default())?;
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let (_, shared) = manifest.split_once("[workspace.package]").expect("the shared settings of packages");
    let shared = shared.replace("path = \"", &format!("path = \"{}/", root.display()));
    let manifest =
        format!("[workspace]\nresolver = \"3\"\nmembers = [\"node\"]\n\n[workspace.package]{shared}");
    fs::write(copy.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    Ok(copy)
}

/// Returns the compiler's errors for this code in the function.
fn errors(workspace: &Path, code: &str) -> Vec<String> {
    fs::write(workspace.join(ADDED), [BEFORE, code, AFTER].concat()).expect("the folder is there");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--offline", "--quiet", "--lib", "--message-format", "short"]);
    cargo.current_dir(workspace).env("CARGO_TARGET_DIR", workspace.join("target"));
    let output = cargo.output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stderr);
    let errors = text.lines().filter(|line| line.contains("error"));
    errors.filter(|line| !line.starts_with("error: could not compile")).map(str::to_owned).collect()
}
