//! What each statement of the papers comes to is asserted: `verdicts.txt` has the verdict of every one, as short runs
//! with seed 1 give it. A verdict that changes is a change of what we say, to be made there by hand.
//!
//! - Always: docs/figures.md says the same, of all figures, and figures whose short runs take seconds are run.
//! - In the nightly step: all are run (`--ignored`).

use core::num::NonZero;
use papers::figures::{Effort, Entry, Options, all, find};
use papers::report::ClaimVerdict;
use std::fs;
use std::path::Path;

/// Figures whose short runs take seconds, or that are measured and not run.
const SHORT: [&str; 6] = ["mm1", "overload-7", "servartuka-1", "servartuka-2", "smace-7", "smace-8"];

/// A verdict and the statement that it is about.
type Verdict = (String, String);

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Those that are asserted: below the name of each figure a line a statement, the verdict and a colon before it.
fn asserted(figure: &str) -> Vec<Verdict> {
    let text = file("tests/verdicts.txt");
    let lines = text.lines().skip_while(|line| *line != figure).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let verdict = |line: &str| {
        let (verdict, statement) = line.split_once(": ").expect("a verdict stands before a colon");
        (verdict.trim().to_owned(), statement.to_owned())
    };
    lines.map(verdict).collect()
}

/// Those of a run.
fn found(entry: &Entry) -> Vec<Verdict> {
    let options =
        Options { seed: 1, effort: Effort::Quick, threads: NonZero::new(2).expect("two is not zero") };
    let figure = entry.make(&options, &|_| {});
    let verdict = |verdict: &ClaimVerdict| match verdict {
        ClaimVerdict::Holds => "holds",
        ClaimVerdict::Fails => "fails",
        ClaimVerdict::Open => "open",
        ClaimVerdict::OutOfReach(_) => "out of reach",
    };
    let claims = figure.claims.iter();
    claims.map(|claim| (verdict(&claim.verdict).to_owned(), claim.statement.clone())).collect()
}

/// Those of docs/figures.md, whose rows are made as `| verdict | statement (source) | measured |`.
fn documented(figure: &str) -> Vec<Verdict> {
    let page = file("../../../docs/figures.md");
    let section = page.split("\n## ").find(|section| section.lines().next() == Some(figure));
    let section = section.unwrap_or_else(|| panic!("docs/figures.md has no {figure}"));
    let rows = section.lines().skip_while(|line| !line.starts_with("| verdict |")).skip(2);
    let row = |line: &str| {
        let mut cells = line.split(" | ");
        let verdict = cells.next().expect("a row has cells").trim_start_matches("| ").replace('*', "");
        let statement = cells.next().expect("a row has a statement");
        let (statement, _) = statement.rsplit_once(" (").expect("it ends with its source");
        (verdict, statement.to_owned())
    };
    rows.take_while(|line| line.starts_with("| ")).map(row).collect()
}

#[track_caller]
fn assert_same(figure: &str, of: &str, verdicts: &[Verdict]) {
    let asserted = asserted(figure);
    assert!(!asserted.is_empty(), "tests/verdicts.txt has no {figure}");
    for (verdict, expected) in verdicts.iter().zip(&asserted) {
        assert_eq!(verdict, expected, "{figure}, {of}");
    }
    assert_eq!(verdicts.len(), asserted.len(), "{figure}, {of}: as many statements");
}

#[test]
fn the_page_of_figures_says_what_is_asserted() {
    for entry in all() {
        assert_same(entry.name, "docs/figures.md", &documented(entry.name));
    }
}

#[test]
fn short_runs_come_to_the_verdicts_that_are_asserted() {
    for name in SHORT {
        assert_same(name, "run", &found(find(name).expect("it is listed")));
    }
}

#[test]
#[ignore = "takes a quarter of an hour in a release build: of the nightly step"]
fn all_runs_come_to_the_verdicts_that_are_asserted() {
    for entry in all().iter().filter(|entry| !SHORT.contains(&entry.name)) {
        println!("{}", entry.name);
        assert_same(entry.name, "run", &found(entry));
    }
}
