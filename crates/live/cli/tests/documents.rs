//! The documents for developers name files that exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the crates by their names.
fn crates(root: &Path) -> BTreeMap<String, PathBuf> {
    let folders = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let all = folders(&root.join("crates")).into_iter().flat_map(|group| {
        let within = folders(&group);
        within.into_iter().chain([group])
    });
    let named = |path: PathBuf| Some((path.file_name()?.to_str()?.to_owned(), path));
    all.filter(|path| path.join("Cargo.toml").exists()).filter_map(named).collect()
}

/// A path in a document begins with the name of a crate, or with a folder at the top.
#[test]
fn every_file_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let crates = crates(&root);
    let mut checked = 0;
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions.md"] {
        let text = fs::read_to_string(root.join(document)).expect("a document");
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_file =
                quoted.ends_with('/') || Path::new(quoted).extension().is_some_and(|end| end == "rs");
            let Some((name, path)) = quoted.split_once('/').filter(|_| is_file) else { continue };
            let Some(folder) = crates.get(name) else { continue };
            checked += 1;
            let exists = [folder.join("src").join(path), folder.join(path)].iter().any(|file| file.exists());
            assert!(exists, "{document}: {quoted}");
        }
    }
    assert!(checked > 80, "{checked} paths were found");
}
