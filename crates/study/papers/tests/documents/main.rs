//! docs/figures.md is of this simulator, and docs/evidence.md of that and of what was measured: each is made by one
//! command, and known to be out of date when results change.

mod evidence;
mod page;

use core::num::NonZero;
use papers::figures::{Effort, Entry, Options, all};
use papers::report::Figure;
use std::fs;
use std::path::{Path, PathBuf};

/// Set to `all`, it makes the page anew instead of looking whether it is up to date; set to names of figures with
/// commas between, it makes these anew and keeps the others, for changes that cannot have touched them.
const UPDATE: &str = "UPDATE_FIGURES";
/// Stands before the digest on the page.
const DIGEST: &str = "Digest of the simulator: ";
const FIGURES: &str = "../../../docs/figures.md";
/// Figures whose quick runs take seconds, or that are measured and not run.
const SHORT: [&str; 6] = ["mm1", "overload-7", "servartuka-1", "servartuka-2", "smace-7", "smace-8"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(here(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn make(entry: &Entry, effort: Effort) -> Figure {
    let options = Options { seed: 1, effort, threads: NonZero::new(2).expect("two is not zero") };
    entry.make(&options, &|_| {})
}

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, byte)
}

/// Lengths of quick runs, which the shortest runs do not show: the arguments of all calls of `scale` in the source of
/// the figures, and the lines that name [`Effort::Quick`].
fn quick_lengths(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            quick_lengths(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let lines = text.lines().filter(|line| line.contains("Effort::Quick"));
        found.extend(lines.map(|line| line.trim().to_owned()));
        for call in text.split(".scale(").skip(1) {
            let mut depth = 1;
            let is_inside = |c: &char| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                depth > 0
            };
            found.push(call.chars().take_while(is_inside).filter(|c| !c.is_whitespace()).collect());
        }
    }
}

fn is_short(entry: &Entry) -> bool {
    SHORT.contains(&entry.name)
}

/// The section of a figure on the page is that of a quick run.
fn assert_documented(entry: &Entry) {
    let (page, made) = (read(FIGURES), page::section(&make(entry, Effort::Quick)));
    let kept = page::kept(&page, entry.name).unwrap_or_default();
    let different = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
    assert!(kept == made, "docs/figures.md is out of date: {}: {different:#?}", entry.name);
}

/// Figures whose quick runs are short are compared as they are. Of the others the shortest runs are a snapshot, so that
/// a change of behaviour is a difference to read, and the page has the digest of that.
#[test]
fn the_page_of_figures_is_up_to_date() {
    // Verdicts of runs as short as these mean nothing; that they are what they were does.
    let shortest: String = all()
        .iter()
        .filter(|entry| !is_short(entry))
        .map(|entry| page::of_shortest(&make(entry, Effort::Least)))
        .collect();
    insta::assert_snapshot!("figures_of_the_shortest_runs", shortest);
    let mut lengths = Vec::new();
    quick_lengths(&here("src/figures"), &mut lengths);
    lengths.sort();
    let digest = format!("{:016x}", hash(&(shortest + &lengths.join("\n"))));
    if let Ok(wanted) = std::env::var(UPDATE) {
        let old = read(FIGURES);
        let section = |entry: &Entry| {
            if wanted == "all" || wanted.split(',').any(|name| name == entry.name) {
                eprintln!("{}", entry.name);
                return page::section(&make(entry, Effort::Quick));
            }
            let kept = page::kept(&old, entry.name);
            kept.unwrap_or_else(|| panic!("there is no {} yet; use {UPDATE}=all", entry.name)).to_owned()
        };
        let sections: Vec<_> = all().iter().map(|entry| (entry.name, section(entry))).collect();
        let page = page::page(&sections, &format!("{DIGEST}{digest}"));
        fs::write(here(FIGURES), page).expect("docs/ can be written");
    }
    assert!(
        read(FIGURES).contains(&format!("{DIGEST}{digest}\n")),
        "docs/figures.md is out of date; make it anew with `{UPDATE}=all cargo test --release -p papers --test \
         documents`, which takes a quarter of an hour"
    );
    all().iter().filter(|entry| is_short(entry)).for_each(assert_documented);
}

#[test]
#[ignore = "takes a quarter of an hour in a release build: of the nightly step"]
fn the_page_has_what_all_quick_runs_come_to() {
    for entry in all().iter().filter(|entry| !is_short(entry)) {
        println!("{}", entry.name);
        assert_documented(entry);
    }
}

/// docs/NAME.md where the name ends so, else docs/NAME/measured.md.
fn measured(name: &str) -> String {
    let path = here("../../../docs").join(name);
    let path = if path.extension().is_some() { path } else { path.join("measured.md") };
    fs::read_to_string(path).unwrap_or_default()
}

/// Every statement of the page of figures is on that of evidence, with the same verdict.
#[test]
fn the_page_of_evidence_is_up_to_date() {
    let path = "../../../docs/evidence.md";
    let page = evidence::page(&read(FIGURES), &read("tests/documents/live.txt"), &measured);
    if std::env::var("UPDATE_EVIDENCE").is_ok() {
        fs::write(here(path), &page).expect("docs/ can be written");
    }
    assert!(
        read(path) == page,
        "docs/evidence.md is out of date; make it anew with `UPDATE_EVIDENCE=1 cargo test -p papers --test documents`"
    );
}
