//! Rules of the repository. The files of large crates have no circular dependencies, each page of `docs/evidence/rfc/`
//! agrees with the marks in code and tests, documents name only existing files and tests, and their links lead to
//! existing pages and headings. `UPDATE_DOCS=1` rewrites the places of the marks in the pages.

use std::fs;
use std::path::{Path, PathBuf};
use testkit::circles::{circles, circles_with_calls};
use testkit::names::shared_names;
use testkit::parameters::{bool_parameters, tuple_parameters};
use testkit::rules::{Places, compare, find_folder, folder_of};
use testkit::strays::strays;

/// Known steps of circles: methods of the control task are in the same file as the certificates that they read. The
/// list may only become shorter.
const KNOWN: [&str; 2] = ["control needs control::certificates", "control::certificates needs control"];

/// No two files depend on each other. Methods are in the files of their types.
#[test]
fn files_stand_in_layers() {
    for name in ["cli", "control", "node", "shards"] {
        assert_eq!(circles(name), [""; 0]);
    }
    assert_eq!(circles("server"), KNOWN);
    assert_eq!(circles_with_calls("node"), [""; 0]);
    for name in ["cli", "control", "node", "server", "shards"] {
        assert_eq!(strays(name), [""; 0]);
    }
    for name in ["cli", "node", "server", "shards"] {
        assert_eq!(bool_parameters(name, 2), [""; 0]);
    }
    assert_eq!(tuple_parameters("node"), [""; 0]);
}

/// A bare name stands for one public type wherever a crate can see it.
#[test]
fn public_types_have_names_of_their_own() {
    assert_eq!(shared_names(), [""; 0]);
}

/// Every rule has a mark in code and in a test, every mark has a rule, and the page lists the places.
#[test]
fn the_pages_of_rules_and_the_marks_agree() {
    let transactions = Places {
        code: &[("transaction/src", ""), ("wire/src", "wire/")],
        tests: &[("transaction/tests", "")],
    };
    let dialogs = Places {
        code: &[("dialog/src", ""), ("node/src/forward/stateful", "node/")],
        tests: &[("dialog/src", "src/"), ("node/tests", "node/")],
    };
    let registrar =
        Places { code: &[("location/src", "")], tests: &[("location/tests", ""), ("location/src", "src/")] };
    let authentication = Places {
        code: &[("digest_auth/src", ""), ("wire/src/header", "wire/header/")],
        tests: &[("digest_auth/tests", ""), ("digest_auth/src", "src/"), ("wire/src/header", "wire/header/")],
    };
    for (pages, places, least) in [
        (&["3261-17.md"][..], transactions, 50),
        (&["3261-12.md", "4028.md"], dialogs, 20),
        (&["3261-10.md", "3327.md", "5626.md"], registrar, 25),
        (&["3261-22.md", "8760.md"], authentication, 20),
    ] {
        assert!(compare(pages, places) > least, "the rows of {pages:?} are recognised");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn page(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pieces of a page in backticks, fenced blocks included.
fn code(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// Whether a test of this name exists: `module::function`, or `module::*` for any function of a file.
fn is_test(module: &str, function: &str) -> bool {
    let places = match module {
        "bytes" => vec![folder_of("node/tests/proxy.rs")],
        "live" => vec![repository().join("tests/tests/live/proxy.rs")],
        "forks" => vec![folder_of("node/tests/forking.rs")],
        "names" => vec![repository().join("tests/tests/live/names.rs")],
        _ => ["node", "proxy", "balance"].map(|of| folder_of(&format!("{of}/tests/{module}.rs"))).to_vec(),
    };
    let mut texts = places.iter().filter_map(|place| fs::read_to_string(place).ok());
    texts.any(|text| function == "*" || text.contains(&format!("fn {function}(")))
}

/// `3261-16.md` names existing files of the code, and in each row of a table an existing test or the random tester.
#[test]
fn the_page_of_the_proxy_names_existing_files_and_tests() {
    let page = page(&repository().join("docs/evidence/rfc/3261-16.md"));
    let roots = ["node/src", "wire/src", "wire", "wire/src/header", "proxy/src"].map(folder_of);
    let (mut files, mut named) = (0, 0);
    for quoted in code(&page) {
        if let Some((module, function)) = quoted.split_once("::") {
            assert!(is_test(module, function), "{quoted} is not a test");
            named += 1;
        } else if Path::new(quoted).extension().is_some_and(|extension| extension == "rs") {
            let name = quoted.strip_prefix("wire/").or(quoted.strip_prefix("proxy/")).unwrap_or(quoted);
            let mut places = roots.iter().map(|root| root.join(name)).chain([repository().join(quoted)]);
            assert!(places.any(|place| place.exists()), "{quoted} is not a file");
            files += 1;
        }
    }
    assert!(files > 20 && named > 30, "{files} files and {named} tests are recognised");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.contains("| --- |"));
    for row in rows.filter(|row| !row.starts_with("| rule |")) {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        assert!(tests.contains("::") || ["`random`", "above"].iter().any(|it| tests.contains(it)), "{row}");
    }
}

/// Checks paths in the developer documents. Each begins with the name of a crate.
#[test]
fn every_file_that_is_named_exists() {
    let mut checked = 0;
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions.md"] {
        for quoted in code(&page(&repository().join(document))) {
            let is_file =
                quoted.ends_with('/') || Path::new(quoted).extension().is_some_and(|end| end == "rs");
            let Some((name, path)) = quoted.split_once('/').filter(|_| is_file) else { continue };
            let Some(folder) = find_folder(name) else { continue };
            checked += 1;
            let exists = [folder.join("src").join(path), folder.join(path)].iter().any(|file| file.exists());
            assert!(exists, "{document}: {quoted}");
        }
    }
    assert!(checked > 80, "{checked} paths were found");
}

/// Adds all pages in a folder, apart from build output, installed packages and hidden folders.
fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
            add_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// The anchors of a page's headings, as GitHub makes them: lower case, hyphens for blanks, no other punctuation, and a
/// number if a heading is repeated.
fn anchors(page: &str) -> Vec<String> {
    let mut slugs: Vec<String> = Vec::new();
    let mut is_fenced = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        let Some((level, title)) = line.split_once(' ').filter(|_| !is_fenced) else { continue };
        if level.is_empty() || !level.trim_start_matches('#').is_empty() {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let earlier = slugs.iter().filter(|other| **other == slug).count();
        anchors.push(if earlier == 0 { slug.clone() } else { format!("{slug}-{earlier}") });
        slugs.push(slug);
    }
    anchors
}

/// Checks all links within the repository.
#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut pages = Vec::new();
    add_pages(&repository(), &mut pages);
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for path in pages {
        let text = page(&path);
        let plain = text.split('`').step_by(2).flat_map(|piece| piece.split("](").skip(1));
        let targets = plain.filter_map(|rest| rest.split([')', ' ']).next());
        for target in targets.filter(|target| !target.contains(':')) {
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            if !file.exists() || !(anchor.is_empty() || anchors(&page(&file)).iter().any(|it| it == anchor)) {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(checked > 400, "{checked} links were found");
}
