//! The commands of the guide to the simulator.

use sarabande_tests::{TestSite, Tool};
use std::fs;
use std::path::Path;

/// Checks that the picture in docs/will-my-cluster-survive.md is what its command draws. `UPDATE_DOCS=1` writes it
/// anew.
#[test]
fn the_guide_shows_what_its_command_draws() {
    let field = TestSite::new("guide");
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

/// The command that stands above its output in the guide.
const VARIED: &str = "    $ sarabande sim run steady.toml --vary calls.main.rate=200..320/20\n";

/// Checks that the table in docs/will-my-cluster-survive.md is what its command prints. `UPDATE_DOCS=1` writes it anew.
#[test]
fn the_guide_shows_what_its_command_prints() {
    let field = TestSite::new("guide-table");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let scenario =
        fs::read_to_string(root.join("examples/scenarios/survive.toml")).expect("the example is there");
    let (steady, _) = scenario.split_once("[[fault]]").expect("its fault comes last");
    let file = field.write("steady.toml", steady);
    let file = file.to_str().expect("a path in UTF-8");
    let (status, output) = Tool::run(&field, &["sim", "run", file, "--vary", "calls.main.rate=200..320/20"]);
    assert!(status.success(), "{status}\n{output}");
    let printed = output.lines().fold(String::new(), |page, line| page + "    " + line.trim_end() + "\n");
    let path = root.join("docs/will-my-cluster-survive.md");
    let page = fs::read_to_string(&path).expect("the guide is there");
    let (before, rest) = page.split_once(VARIED).expect("the guide shows the command");
    let (_, after) = rest.split_once("\n\n").expect("there is a text after it");
    let right = format!("{before}{VARIED}{printed}\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &right).expect("docs can be written");
    }
    let shown = fs::read_to_string(&path).expect("the guide is there");
    assert!(shown == right, "run UPDATE_DOCS=1 cargo test -p sarabande-tests guide");
}
