//! Pieces of text that several commands print.

use comfy_table::{CellAlignment, Table};

/// Makes `column` a column of words, and narrows all, so that names and addresses fit.
pub(super) fn word_column(table: &mut Table, column: usize) {
    for (index, each) in table.column_iter_mut().enumerate() {
        each.set_padding((u16::from(index > 0), 0));
        if index == column {
            each.set_cell_alignment(CellAlignment::Left);
        }
    }
}

/// A duration in its two largest units.
pub(super) fn span(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {}s", seconds % 60),
        3600..86_400 => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// `1 call`, `2 calls`, `2 branches`.
pub(super) fn plural(count: u64, noun: &str) -> String {
    let end = match noun {
        _ if count == 1 => "",
        noun if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{end}")
}

/// Replaces control characters, which a client may send and a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units() {
        let shown = [0.9, 59.9, 60.0, 3_599.0, 3_600.0, 86_399.0, 90_000.0].map(span);
        assert_eq!(shown, ["0s", "59s", "1m 0s", "59m 59s", "1h 0m", "23h 59m", "1d 1h"]);
    }
}
