//! The guide to the simulator, as its readers follow it.

use sarabande_tests::{Field, Tool};
use std::fs;
use std::path::Path;

/// The picture in docs/will-my-cluster-survive.md is the one that its command draws; `UPDATE_DOCS=1` writes it anew.
#[test]
fn the_guide_shows_what_its_command_draws() {
    let field = Field::new("guide");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (scenario, page) = (root.join("examples/scenarios/survive.toml"), root.join("docs/survive.svg"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
    let [scenario, folder] = [&scenario, &out].map(|path| path.to_str().expect("a path in UTF-8"));
    let (status, output) = Tool::run(&field, &["sim", "run", scenario, "--out", folder]);
    assert!(status.success(), "{status}\n{output}");
    let drawn = fs::read_to_string(out.join("survivea.svg")).expect("the first plot");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &drawn).expect("docs can be written");
    }
    assert!(
        fs::read_to_string(page).expect("a picture") == drawn,
        "run UPDATE_DOCS=1 cargo test -p sarabande-tests guide"
    );
}
