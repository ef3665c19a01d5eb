//! `docs/rfc/3261-22.md` and `docs/rfc/8760.md` against the marks in code and tests.

use testkit::rules::{Places, compare};

#[test]
fn the_pages_of_rules_and_the_marks_agree() {
    let code = &[("digest_auth/src", ""), ("wire/src/header", "wire/header/")];
    let tests =
        &[("digest_auth/tests", ""), ("digest_auth/src", "src/"), ("wire/src/header", "wire/header/")];
    let rules = compare(&["3261-22.md", "8760.md"], Places { code, tests });
    assert!(rules > 20, "the rows of the pages are recognised");
}
