//! Plots as CSV tables.

use super::{At, Plot, Scale};
use std::fmt::Write as _;

/// Returns the points as rows `series,x,y,low,high`. `low` and `high` are the ends of the 95 % interval, and empty
/// without an interval. Numbers have enough digits to be read back exactly; NaN is empty. Levels and marks follow as
/// series of one point, with the other coordinate empty. Format: RFC 4180.
pub(super) fn table(plot: &Plot) -> String {
    let mut out = String::from("series,x,y,low,high\n");
    for series in &plot.series {
        for point in &series.points {
            let name = match &plot.x.scale {
                Scale::Names(names) => names.get(point.x as usize).map(|name| field(name)),
                Scale::Linear | Scale::Log => None,
            };
            let x = name.unwrap_or_else(|| number(point.x));
            let (low, high) = match point.half_width {
                Some(width) => (number(point.y - width), number(point.y + width)),
                None => (String::new(), String::new()),
            };
            let _ = writeln!(out, "{},{x},{},{low},{high}", field(&series.name), number(point.y));
        }
    }
    for reference in &plot.references {
        let (x, y) = match reference.at {
            At::X(x) => (number(x), String::new()),
            At::Y(y) => (String::new(), number(y)),
        };
        let _ = writeln!(out, "{},{x},{y},,", field(&reference.label));
    }
    out
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

/// Quotes a field if RFC 4180, section 2, requires it.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
