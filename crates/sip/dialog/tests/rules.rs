//! `docs/rfc/3261-12.md` and `docs/rfc/4028.md` against the marks in code and tests.

use testkit::rules::{Places, compare};

#[test]
fn the_pages_of_rules_and_the_marks_agree() {
    let places = Places {
        code: &[("dialog/src", ""), ("node/src/forward/stateful", "node/")],
        tests: &[("dialog/src", "src/"), ("node/tests", "node/")],
    };
    assert!(compare(&["3261-12.md", "4028.md"], places) > 20, "the rows of the pages are recognised");
}
