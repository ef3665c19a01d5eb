//! Figures, for people and for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::caller::RunOutcome;
use crate::process::processors;

/// The middle one of `values` (the mean of the two, of an even number); NaN of none.
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

/// Least and most.
pub fn spread(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.into_iter().fold(ends, |(least, most), value| (least.min(value), most.max(value)))
}

/// A number with so many digits; a dash where there is none.
pub fn number(value: f64, digits: usize) -> String {
    if value.is_nan() { "-".to_owned() } else { format!("{value:.digits$}") }
}

/// The name of a value on the command line, in files and in tables.
pub fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

/// An empty table.
pub fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    table
}

/// What became of the calls of a run.
pub fn outcome(outcome: &RunOutcome) -> Value {
    json!({
        "calls_started": outcome.started,
        "calls_completed": outcome.completed,
        "calls_refused": outcome.refused,
        "calls_without_180": outcome.unrung,
        "requests_misrouted": outcome.misrouted,
        "invites_per_server": outcome.invites,
        "round_trip_us": quantiles(&outcome.round_trips),
        "driver_late_us_max": micros(outcome.late_ns_max),
    })
}

/// Percentiles that are reported, by name.
pub const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

fn quantiles(nanos: &Histogram<u64>) -> Value {
    QUANTILES
        .iter()
        .map(|(name, q)| ((*name).to_owned(), json!(micros(nanos.value_at_quantile(*q)))))
        .collect()
}

/// Microseconds of nanoseconds.
pub fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// The machine that was measured on.
pub fn machine() -> Value {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "processor": model.trim_start_matches([' ', '\t', ':']),
        "processors": processors(),
        "kernel": kernel.trim(),
    })
}

/// Writes `value` to `file`.
pub fn write(file: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// A histogram as text: a line a step of 1, 2, 5, 10... microseconds, its count and a bar.
pub fn bars(nanos: &Histogram<u64>) -> String {
    const WIDTH: f64 = 50.0;
    let mut rows = Vec::new();
    let mut low = 0;
    for high in (0..7).flat_map(|power| [1, 2, 5].map(|digit| digit * 1_000 * 10_u64.pow(power))) {
        rows.push((low, high, nanos.count_between(low, high - 1)));
        low = high;
    }
    let used = rows.iter().position(|row| row.2 > 0).unwrap_or(0);
    let end = rows.iter().rposition(|row| row.2 > 0).map_or(used, |last| last + 1);
    let most = rows.iter().map(|row| row.2).max().unwrap_or(0).max(1);
    let line = |(low, high, count): &(u64, u64, u64)| {
        let bar = "#".repeat((*count as f64 / most as f64 * WIDTH).ceil() as usize);
        format!("{:>9} - {:>9} us {count:>9} {bar}\n", low / 1_000, high / 1_000)
    };
    rows[used..end].iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert!(median(&[]).is_nan());
        assert_eq!([median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])].map(|m| (m * 10.0) as i64), [20, 25]);
    }

    #[test]
    fn bars_cover_what_was_recorded_and_no_more() {
        let mut nanos = Histogram::new(3).expect("three digits");
        for value in [3_000, 3_100, 30_000] {
            nanos.record(value).expect("in range");
        }
        let text = bars(&nanos);
        let counts: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(4)).collect();
        assert_eq!(counts, ["2", "0", "0", "1"], "{text}");
    }
}
