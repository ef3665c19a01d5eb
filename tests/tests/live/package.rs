//! The Debian package, made from the program under test.

use sarabande_tests::{TestSite, program};
use std::path::Path;
use std::process::Command;

/// Installation, upgrade with an edited configuration, removal and purge. `fakeroot` makes this possible for every
/// user, and shows the owners of the files to the script.
#[test]
fn the_package_is_installed_upgraded_and_purged() {
    let field = TestSite::new("package");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("package.sh");
    let output = Command::new("fakeroot").arg(script).arg(program()).arg(field.folder()).output();
    let output = output.expect("the package fakeroot is installed: ./test.sh packages");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
