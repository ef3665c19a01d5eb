//! Checks that docs/evidence/figures.md and the data in docs/evidence/figures are up to date with the simulator, and
//! the page's last column with the measurements of running programs.

mod live;
mod page;

use core::num::NonZero;
use papers::figures::{Effort, Entry, FigureOptions, Shared, all};
use papers::report::Figure;
use std::fs;
use std::path::{Path, PathBuf};

/// Set to `all`, it rewrites the page instead of checking it. Set to names of figures, separated by commas, it rewrites
/// only these figures, for changes that cannot affect the others. Set to `live`, it rewrites the column of running
/// programs.
const UPDATE: &str = "UPDATE_FIGURES";
/// Precedes the digest on the page.
const DIGEST: &str = "Digest of the simulator: ";
const FIGURES: &str = "../../../docs/evidence/figures.md";
const DATA: &str = "../../../docs/evidence/figures/";
/// Figures whose quick runs take seconds, or that are measured and not simulated.
const SHORT: [&str; 6] = ["mm1", "overload-7", "servartuka-1", "servartuka-2", "smace-7", "smace-8"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(here(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Makes figures with one effort, which share runs.
fn maker(effort: Effort) -> impl Fn(&Entry) -> Figure {
    let options = FigureOptions { seed: 1, effort, threads: NonZero::new(2).expect("two is not zero") };
    let shared = Shared::default();
    move |entry| entry.make(&options, &shared, &|_| {})
}

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, byte)
}

/// Lengths of quick runs, which the shortest runs do not show: all calls of `scale` in the source of the figures, up
/// to the next semicolon.
fn quick_lengths(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            quick_lengths(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let calls = text.split(".scale(").skip(1).filter_map(|call| call.split(';').next());
        found.extend(calls.map(|call| call.split_whitespace().collect::<String>()));
    }
}

fn is_short(entry: &Entry) -> bool {
    SHORT.contains(&entry.name)
}

/// Checks that the page's sections of these figures, and their data, equal those of quick runs.
fn assert_documented(are: impl Fn(&Entry) -> bool) {
    let (page, make, live) = (read(FIGURES), maker(Effort::Quick), live());
    for entry in all().iter().filter(|entry| are(entry)) {
        println!("{}", entry.name);
        let figure = make(entry);
        let made = page::with_live(&page::section(&figure), entry.name, &live);
        let kept = page::kept(&page, entry.name).unwrap_or_default();
        let different = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
        assert!(kept == made, "docs/evidence/figures.md is out of date: {}: {different:#?}", entry.name);
        for data in page::data(&figure) {
            assert!(read(&format!("{DATA}{}", data.name)) == data.csv, "{} is out of date", data.name);
        }
    }
}

/// Results of running programs, with the numbers in docs/evidence.
fn live() -> Vec<live::Live> {
    live::live(&read("tests/documents/live.txt"), &|name| read(&format!("../../../docs/evidence/{name}.md")))
}

/// Figures with short quick runs are compared directly. For the others, the shortest runs are a snapshot, so that a
/// change of behaviour is a readable difference, and the page has the snapshot's digest.
#[test]
fn the_page_of_figures_is_up_to_date() {
    // Verdicts of such short runs are not meaningful, but any change of them is.
    let make = maker(Effort::Least);
    let long = all().iter().filter(|entry| !is_short(entry));
    let shortest: String = long.map(|entry| page::of_shortest(&make(entry))).collect();
    insta::assert_snapshot!("figures_of_the_shortest_runs", shortest);
    let mut lengths = Vec::new();
    quick_lengths(&here("src/figures"), &mut lengths);
    lengths.sort();
    let digest = format!("{:016x}", hash(&(shortest + &lengths.join("\n"))));
    let digest = format!("{DIGEST}{digest}");
    let wanted = std::env::var(UPDATE).ok();
    let (old, make, live) = (read(FIGURES), maker(Effort::Quick), live());
    let section = |entry: &Entry| {
        let is_wanted = |names: &String| names == "all" || names.split(',').any(|name| name == entry.name);
        if !wanted.as_ref().is_some_and(is_wanted) {
            let kept = page::kept(&old, entry.name);
            return kept
                .unwrap_or_else(|| panic!("there is no {} yet; use {UPDATE}=all", entry.name))
                .to_owned();
        }
        eprintln!("{}", entry.name);
        let figure = make(entry);
        for data in page::data(&figure) {
            fs::write(here(&format!("{DATA}{}", data.name)), data.csv).expect("docs/ can be written");
        }
        page::section(&figure)
    };
    let section = |entry: &'static Entry| (entry.name, page::with_live(&section(entry), entry.name, &live));
    let page = page::page(&all().iter().map(section).collect::<Vec<_>>(), &digest);
    if wanted.is_some() {
        fs::write(here(FIGURES), &page).expect("docs/ can be written");
    }
    let documented = read(FIGURES);
    assert!(
        documented.contains(&digest),
        "docs/evidence/figures.md is out of date; make it anew with `{UPDATE}=all cargo test --release -p papers --test \
         documents`, which takes four minutes"
    );
    assert!(documented == page, "docs/evidence/figures.md is out of date; make it anew with `{UPDATE}=live`");
    assert_documented(is_short);
}

#[test]
#[ignore = "takes four minutes in a release build: of the nightly step"]
fn the_page_has_what_all_quick_runs_come_to() {
    assert_documented(|entry| !is_short(entry));
}
