//! Plots as tables.

use super::{At, Plot, Scale};
use std::fmt::Write as _;

/// One row a point: `series,x,y,low,high`, where low and high are the ends of the 95 % interval and empty without
/// one. Numbers are written with as many digits as it takes to read the same number back; what is no number is empty.
/// Levels and marks follow as series of one point, the coordinate that they leave open being empty. RFC 4180.
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

/// Quoted where RFC 4180, section 2, demands it.
pub(crate) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
