//! Tables for a terminal.

use comfy_table::{CellAlignment, Table, TableComponent, presets};
use load::Times;

/// An empty table: names to the left, figures to the right.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for part in [TableComponent::HeaderLines, TableComponent::MiddleHeaderIntersections] {
        table.set_style(part, '─');
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let alignment = if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
        column.set_cell_alignment(alignment);
    }
    table
}

/// Microseconds as milliseconds, with as many digits as are significant.
pub(crate) fn milliseconds(micros: u64) -> String {
    let time = micros as f64 / 1e3;
    match micros {
        ..10_000 => format!("{time:.2}"),
        10_000..1_000_000 => format!("{time:.1}"),
        _ => format!("{time:.0}"),
    }
}

/// A percentile in milliseconds, or a dash without measurements.
pub(crate) fn percentile(times: &Times, percent: f64) -> String {
    if times.count() == 0 { "-".to_owned() } else { milliseconds(times.percentile_us(percent)) }
}

/// A table with a row for each distribution of times, in milliseconds.
pub(super) fn times(rows: &[(&str, &Times)]) -> Table {
    let mut table = table(&["ms", "count", "min", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"]);
    for (name, times) in rows {
        let mut row = vec![(*name).to_owned(), times.count().to_string()];
        row.push(percentile(times, 0.0));
        row.push(if times.count() == 0 { "-".to_owned() } else { milliseconds(times.mean_us() as u64) });
        row.extend([50.0, 90.0, 95.0, 99.0, 99.9, 100.0].map(|percent| percentile(times, percent)));
        table.add_row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_about_three_digits() {
        let shown = [7, 9_994, 10_000, 123_456, 2_345_678].map(milliseconds);
        assert_eq!(shown, ["0.01", "9.99", "10.0", "123.5", "2346"]);
    }
}
