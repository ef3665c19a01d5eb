//! `docs/rfc/3261-10.md`, `3327.md` and `5626.md` against the marks in code and tests.

use testkit::rules::{Places, compare};

#[test]
fn the_pages_of_rules_and_the_marks_agree() {
    let places =
        Places { code: &[("location/src", "")], tests: &[("location/tests", ""), ("location/src", "src/")] };
    assert!(
        compare(&["3261-10.md", "3327.md", "5626.md"], places) > 25,
        "the rows of the pages are recognised"
    );
}
