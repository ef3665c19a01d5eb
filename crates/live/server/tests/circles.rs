//! The files of this crate stand in layers: none needs one that needs it.

#[test]
fn no_files_need_each_other() {
    assert_eq!(testkit::circles::circles("server"), [""; 0]);
}
