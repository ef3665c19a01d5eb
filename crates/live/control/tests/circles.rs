//! The files of this crate stand in layers: none needs one that needs it. Methods stand with their types.

#[test]
fn no_files_need_each_other() {
    assert_eq!(testkit::circles::circles("control"), [""; 0]);
}

#[test]
fn methods_stand_with_their_types() {
    assert_eq!(testkit::strays::strays("control"), [""; 0]);
}
