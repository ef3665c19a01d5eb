//! The machines as a table, compared with the one in the repository: a change of behaviour is a diff to read.

const UPDATE: &str = "UPDATE_DOCS";

#[test]
fn the_table_of_the_machines_is_the_one_in_the_repository() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines.txt");
    let table = transaction::table();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, &table).expect("the repository can be written to");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == table, "{path} is old: run with {UPDATE}=1 and read the difference");
}
