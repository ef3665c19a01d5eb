//! Numbers and tables for people.

use clap::ValueEnum;
use comfy_table::{Table, presets::ASCII_MARKDOWN};

/// Returns the median of `values` (for an even number the mean of the middle two); NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Formats a number with this many digits; NaN as a dash.
pub fn number(value: f64, digits: usize) -> String {
    if value.is_nan() { "-".to_owned() } else { format!("{value:.digits$}") }
}

/// Returns the name of a value on the command line, in files and in tables.
pub fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

/// An empty table.
pub fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert!(median(&[]).is_nan());
        assert_eq!([median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])].map(|m| (m * 10.0) as i64), [20, 25]);
    }
}
