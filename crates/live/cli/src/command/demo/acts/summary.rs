//! The last screen: the results, and the next steps.

use super::Played;
use crate::command::load::table;
use comfy_table::{CellAlignment, ContentArrangement};

/// Columns of the text.
const WIDTH: u16 = 80;

const NEXT: &str = r#"Next, for your own servers, write a file pool.toml:

  listen.udp = ["0.0.0.0:5060"]
  pool.servers.members = ["10.0.0.1:5060", "10.0.0.2:5060"]

and run: sarabande check pool.toml && sarabande run pool.toml
More to see: sarabande demo elastic, sarabande demo proxy, docs/README.md"#;

/// Text of the results.
pub(super) fn text(played: &Played) -> String {
    let mut parts = Vec::new();
    if !played.verdicts.is_empty() {
        let mut verdicts = table::table(&["act", "measured in this run"]);
        verdicts.set_width(WIDTH).set_content_arrangement(ContentArrangement::Dynamic);
        for (act, verdict) in &played.verdicts {
            verdicts.add_row([act.to_string(), verdict.clone()]);
        }
        if let Some(column) = verdicts.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        parts.push(verdicts.to_string());
    }
    if let Some(act) = played.quit {
        parts
            .push(format!("Interrupted in act {act}: this act and the following ones are not counted here."));
    }
    parts.push(NEXT.to_owned());
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_and_the_next_steps_fit_on_one_screen() {
        let verdicts = (1..=5).map(|act| (act, "9".repeat(2 * WIDTH as usize - 20))).collect();
        let text = text(&Played { verdicts, ..Played::default() });
        assert!(
            text.lines().count() < 24 && text.lines().all(|line| line.chars().count() <= WIDTH.into()),
            "{text}"
        );
        let file: Vec<_> = NEXT.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(config::parse(&file.join("\n"), "pool.toml").unwrap().members().len(), 2);
    }
}
