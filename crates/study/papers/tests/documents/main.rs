//! docs/figures.md is of this simulator, and docs/evidence.md of that and of what was measured: each is made by one
//! command, and known to be out of date when anything changes that it was made from.

mod evidence;
mod page;

use core::num::NonZero;
use papers::figures::{Effort, Entry, Options, all};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Set to `all`, it makes the page anew instead of looking whether it is up to date; set to names of figures with
/// commas between, it makes these anew and keeps the others, for changes that cannot have touched them.
const UPDATE: &str = "UPDATE_FIGURES";
/// Stands before the digest on the page.
const DIGEST: &str = "Digest of the simulator: ";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// All files of a folder and of those in it.
fn files(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found.insert(path, text);
        }
    }
}

/// FNV-1a, 64 bits.
fn hash(lines: impl Iterator<Item = String>) -> u64 {
    let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    lines.fold(0xcbf2_9ce4_8422_2325, |hash, line| line.bytes().chain([b'\n']).fold(hash, byte))
}

/// Of what the page is made from. How the simulator behaves is in the snapshots of the figures' shortest runs, which
/// other tests compare with this build; what is run for a figure, and what is checked, in the source of the figures.
/// Comments and spaces do not count.
fn digest() -> String {
    let mut found = BTreeMap::new();
    files(&here("src/figures"), &mut found);
    for snapshot in ["elastic", "overload", "servartuka", "tlwl"] {
        let path = here(&format!(
            "tests/snapshots/figures_{snapshot}__the_figures_of_short_runs_are_those_in_the_repository.snap"
        ));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        found.insert(path, text);
    }
    let words = |line: &str| line.split_whitespace().collect::<String>();
    let lines = found.values().flat_map(|text| text.lines()).map(words);
    format!("{:016x}", hash(lines.filter(|line| !line.is_empty() && !line.starts_with("//"))))
}

#[test]
fn the_page_of_figures_is_up_to_date() {
    let (path, digest) = (here("../../../docs/figures.md"), digest());
    if let Ok(wanted) = std::env::var(UPDATE) {
        let threads = NonZero::new(2).expect("two is not zero");
        let options = Options { seed: 1, effort: Effort::Quick, threads };
        let old = fs::read_to_string(&path).unwrap_or_default();
        let section = |entry: &Entry| {
            if wanted == "all" || wanted.split(',').any(|name| name == entry.name) {
                eprintln!("{}", entry.name);
                return page::section(&entry.make(&options, &|_| {}));
            }
            let kept = page::kept(&old, entry.name);
            kept.unwrap_or_else(|| panic!("there is no {} yet; use {UPDATE}=all", entry.name)).to_owned()
        };
        let sections: Vec<_> = all().iter().map(|entry| (entry.name, section(entry))).collect();
        fs::write(&path, page::page(&sections, &format!("{DIGEST}{digest}"))).expect("docs/ can be written");
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page.contains(&format!("{DIGEST}{digest}\n")),
        "docs/figures.md is out of date; make it anew with `{UPDATE}=all cargo test --release -p papers --test \
         documents`, which takes a quarter of an hour"
    );
}

/// docs/NAME.md where the name ends so, else docs/NAME/measured.md.
fn measured(name: &str) -> String {
    let path = here("../../../docs").join(name);
    let path = if path.extension().is_some() { path } else { path.join("measured.md") };
    fs::read_to_string(path).unwrap_or_default()
}

/// What estimated weights are compared with is what the same page has measured.
#[test]
fn weights_are_compared_with_the_prices_of_the_page() {
    let cell = |place, row, column| evidence::cell(place, row, column, &measured);
    let compared = cell("cluster/weights", "java", "INVITE by BYE, measured");
    assert_eq!(compared, cell("cluster/costs", "java | whole", "INVITE by BYE"));
}

/// Every statement of the page of figures is on that of evidence, with the same verdict.
#[test]
fn the_page_of_evidence_is_up_to_date() {
    let read = |path: &str| fs::read_to_string(here(path)).unwrap_or_default();
    let path = "../../../docs/evidence.md";
    let figures = read("../../../docs/figures.md");
    let page = evidence::page(&figures, &read("tests/documents/live.txt"), &measured);
    if std::env::var("UPDATE_EVIDENCE").is_ok() {
        fs::write(here(path), &page).expect("docs/ can be written");
    }
    assert!(
        read(path) == page,
        "docs/evidence.md is out of date; make it anew with `UPDATE_EVIDENCE=1 cargo test -p papers --test documents`"
    );
}

#[test]
fn the_digest_is_of_words_not_of_spaces() {
    let of = |text: &str| hash(text.lines().map(|line| line.split_whitespace().collect::<String>()));
    assert_eq!(of("let a = 1;\nb"), of("  let a=1;\n\tb"));
    assert_ne!(of("let a = 1;"), of("let a = 2;"));
}
