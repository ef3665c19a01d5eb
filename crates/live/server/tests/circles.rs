//! The files of this crate stand in layers: none needs one that needs it. Methods stand with their types.

/// Known steps of circles: methods of the control task stand beside the certificates that they read. The list may only
/// become shorter.
const KNOWN: [&str; 2] = ["control needs control::certificates", "control::certificates needs control"];

#[test]
fn no_files_need_each_other() {
    assert_eq!(testkit::circles::circles("server"), KNOWN);
}

#[test]
fn methods_stand_with_their_types() {
    assert_eq!(testkit::strays::strays("server"), [""; 0]);
}

#[test]
fn no_file_has_more_than_two_bool_parameters() {
    assert_eq!(testkit::parameters::bool_parameters("server", 2), [""; 0]);
}
