//! The files of this crate stand in layers: none needs one that needs it. Methods stand with their types.

#[test]
fn no_files_need_each_other() {
    assert_eq!(testkit::circles::circles("cli"), [""; 0]);
}

#[test]
fn methods_stand_with_their_types() {
    assert_eq!(testkit::strays::strays("cli"), [""; 0]);
}

#[test]
fn no_file_has_more_than_two_bool_parameters() {
    assert_eq!(testkit::parameters::bool_parameters("cli", 2), [""; 0]);
}
