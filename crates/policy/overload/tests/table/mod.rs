//! Table of `docs/evidence/overload-laws.md`, made by the harness; `UPDATE_DOCS=1` rewrites it.

use crate::harness::*;

const LAWS: [(&str, &str); 9] = [
    ("none", "none"),
    ("bang-bang", "none"),
    ("occupancy", "none"),
    ("delay", "none"),
    ("none", "loss"),
    ("none", "rate"),
    ("none", "window"),
    ("delay", "rate"),
    ("delay", "window"),
];
const TIMES: [f64; 5] = [1.2, 2.0, 5.0, 10.0, 20.0];

fn table() -> String {
    let mut text = String::from("| local | feedback | 1.2x | 2x | 5x | 10x | 20x |\n");
    text += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for (local, feedback) in LAWS {
        let cells = TIMES.map(|times| {
            let steps = [(0.0, 140.0), (40.0, CAPACITY * times), (80.0, 140.0)];
            let seconds = run(plan(local, feedback, &steps, 120.0), 1);
            let (good, wait) = (goodput(&seconds[60..80]), wait_max(&seconds[40..80]).as_millis());
            format!("{:.0}, {wait}", 100.0 * good / CAPACITY)
        });
        text += &["|", local, "|", feedback, "|", &cells.join(" | "), "|"].join(" ");
        text.push('\n');
    }
    text
}

#[test]
fn the_table_in_the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/evidence/overload-laws.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, rest) = page.split_once("<!-- measured -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let right = format!("{head}<!-- measured -->\n{}<!-- end -->{tail}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &right).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == right, "run UPDATE_DOCS=1 cargo test -p overload");
}
