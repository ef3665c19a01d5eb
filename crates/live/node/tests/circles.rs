//! How the files of this crate depend on each other: in layers, of which none needs one that needs it.

use testkit::circles::{circles, circles_with_calls};
use testkit::parameters::{bool_parameters, tuple_parameters};
use testkit::strays::strays;

#[test]
fn no_files_need_each_other() {
    assert_eq!(circles("node"), [""; 0]);
    assert_eq!(circles_with_calls("node"), [""; 0]);
}

#[test]
fn methods_stand_with_their_types_and_parameters_have_names() {
    assert_eq!(strays("node"), [""; 0]);
    assert_eq!(tuple_parameters("node"), [""; 0]);
    assert_eq!(bool_parameters("node", 2), [""; 0]);
}
