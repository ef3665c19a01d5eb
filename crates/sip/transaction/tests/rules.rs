//! `docs/rfc/3261-17.md` against the marks in code and tests: every rule has both, every mark has its rule, and the
//! page names the places where they are. `UPDATE_DOCS=1` writes those anew.

use std::path::{Path, PathBuf};
use testkit::rules::{Places, compare, folder_of};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn the_page_of_rules_and_the_marks_agree() {
    let places = Places {
        code: &[("transaction/src", ""), ("wire/src", "wire/")],
        tests: &[("transaction/tests", "")],
    };
    assert!(compare(&["3261-17.md"], places) > 50, "the rows of the page are recognised");
}

/// What `3261-16.md` names: files of the code, and tests as `module::function` or `module::*`.
#[test]
fn the_page_of_the_proxy_names_what_there_is() {
    let page = std::fs::read_to_string(repository().join("docs/rfc/3261-16.md")).expect("a page");
    let roots = ["node/src", "wire/src", "wire", "wire/src/header", "proxy/src"].map(folder_of);
    let (mut files, mut named) = (0, 0);
    for quoted in page.split('`').skip(1).step_by(2) {
        if let Some((module, function)) = quoted.split_once("::") {
            let places = match module {
                "bytes" => vec![folder_of("node/tests/proxy.rs")],
                "live" => vec![repository().join("tests/tests/live/proxy.rs")],
                "forks" => vec![folder_of("node/tests/forking.rs")],
                "names" => vec![repository().join("tests/tests/live/names.rs")],
                _ => ["node", "proxy", "balance"]
                    .map(|of| folder_of(&format!("{of}/tests/{module}.rs")))
                    .to_vec(),
            };
            let mut texts = places.iter().filter_map(|place| std::fs::read_to_string(place).ok());
            let wanted = format!("fn {function}(");
            assert!(texts.any(|text| function == "*" || text.contains(&wanted)), "{quoted} is no test");
            named += 1;
        } else if Path::new(quoted).extension().is_some_and(|extension| extension == "rs") {
            let name = quoted.strip_prefix("wire/").or(quoted.strip_prefix("proxy/")).unwrap_or(quoted);
            let mut places = roots.iter().map(|root| root.join(name)).chain([repository().join(quoted)]);
            assert!(places.any(|place| place.exists()), "{quoted} is no file");
            files += 1;
        }
    }
    assert!(files > 20 && named > 30, "{files} files and {named} tests are recognised");
}
