//! Writes the elements of an SVG file, and estimates the width of text.

use crate::report::html::escape;
use core::fmt::{self, Display, Write as _};

/// A position in the picture: right and down from its upper left corner.
pub(super) type Spot = (f64, f64);

/// Style of a line.
#[derive(Clone, Copy)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    /// Lengths of dashes and gaps in turn; `None` for a solid line.
    pub(super) dash: Option<&'static str>,
}

/// Point of a text that is at its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Elements of a picture; later ones are in front.
pub(super) struct Svg(String);

impl Svg {
    /// Returns an empty picture with this background and text colour.
    pub(super) fn new((width, height): (f64, f64), paper: &str, ink: &str) -> Self {
        // The view box lets a page scale the picture. Widths are measured in DejaVu Sans; Verdana has the same.
        Self(format!(
            "<svg viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" \
             height=\"{height}\" font-family=\"DejaVu Sans, Verdana, sans-serif\" fill=\"{ink}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"{paper}\"/>\n"
        ))
    }

    /// Returns the file.
    pub(super) fn finish(mut self) -> String {
        self.0 += "</svg>";
        self.0
    }

    /// Draws elements clipped to a box. `id` identifies the box on a page with several pictures.
    pub(super) fn clipped(&mut self, id: &str, corner: Spot, end: Spot, draw: impl FnOnce(&mut Self)) {
        let id = escape(id);
        self.put(format_args!("<clipPath id=\"clip-{id}\">"));
        self.rect(corner, end, None);
        self.put(format_args!("</clipPath>\n<g clip-path=\"url(#clip-{id})\">\n"));
        draw(self);
        self.put(format_args!("</g>\n"));
    }

    pub(super) fn line(&mut self, from: Spot, to: Spot, stroke: Stroke) {
        self.path([from, to], stroke);
    }

    pub(super) fn path(&mut self, spots: impl IntoIterator<Item = Spot>, stroke: Stroke) {
        self.put(format_args!("<path fill=\"none\" d=\""));
        self.spots(spots);
        let Stroke { colour, width, dash } = stroke;
        self.put(format_args!("\" stroke=\"{colour}\" stroke-width=\"{width}\""));
        if let Some(dash) = dash {
            self.put(format_args!(" stroke-dasharray=\"{dash}\""));
        }
        self.put(format_args!("/>\n"));
    }

    pub(super) fn area(&mut self, spots: impl IntoIterator<Item = Spot>, colour: &str, opacity: f64) {
        self.put(format_args!("<path fill=\"{colour}\" fill-opacity=\"{opacity}\" d=\""));
        self.spots(spots);
        self.put(format_args!("Z\"/>\n"));
    }

    /// Draws a box between two opposite corners, by default in the text colour.
    pub(super) fn rect(&mut self, (x, y): Spot, (to_x, to_y): Spot, colour: Option<&str>) {
        let (left, top) = (Rounded(x.min(to_x)), Rounded(y.min(to_y)));
        let (width, height) = (Rounded((to_x - x).abs()), Rounded((to_y - y).abs()));
        self.put(format_args!("<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\""));
        if let Some(colour) = colour {
            self.put(format_args!(" fill=\"{colour}\""));
        }
        self.put(format_args!("/>\n"));
    }

    pub(super) fn circle(&mut self, (x, y): Spot, radius: f64, colour: &str) {
        let (x, y) = (Rounded(x), Rounded(y));
        self.put(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\"/>\n"));
    }

    /// Draws a line of text of this size in pixels, turned clockwise around its position on the base line.
    pub(super) fn text(&mut self, (x, y): Spot, anchor: Anchor, size: f64, degrees: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, size, text) = (Rounded(x), Rounded(y), Rounded(size), escape(text));
        self.put(format_args!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"{anchor}\""));
        if degrees != 0.0 {
            self.put(format_args!(" transform=\"rotate({degrees},{x},{y})\""));
        }
        self.put(format_args!(">{text}</text>\n"));
    }

    fn spots(&mut self, spots: impl IntoIterator<Item = Spot>) {
        for (index, (x, y)) in spots.into_iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            self.put(format_args!("{command}{} {}", Rounded(x), Rounded(y)));
        }
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes all that is written");
    }
}

/// A number of pixels with two decimals, limited to a range that viewers accept.
struct Rounded(f64);

impl Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Adding zero turns -0 into 0.
        let rounded = (self.0.clamp(-1e5, 1e5) * 100.0).round() / 100.0 + 0.0;
        write!(f, "{rounded}")
    }
}

/// Estimated width of a text of this size in `DejaVu` Sans, within a few percent.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let advance = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | 'J' | '\'' => 0.29,
        ' ' | '.' | ',' | ':' | ';' | '/' | '|' => 0.33,
        'f' | 't' | 'r' | '-' | '(' | ')' | '!' | '[' | ']' => 0.39,
        'c' | 's' | 'z' | 'L' | '?' | '*' | '_' => 0.53,
        'w' | '+' | '<' | '>' | '=' | '&' | '±' => 0.83,
        'm' | 'M' | 'W' | '%' | '@' => 0.96,
        'A'..='Z' => 0.7,
        _ => 0.625,
    };
    size * text.chars().map(advance).sum::<f64>()
}

/// Returns the largest size up to `size` at which a text fits into the room.
pub(super) fn fitting(text: &str, size: f64, room: f64) -> f64 {
    size * (room / width(text, size)).min(1.0)
}

/// Splits a text into lines that fit into the room, unless a single word does not.
pub(super) fn lines(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + 0.33 * size <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits_and_no_sign_at_zero() {
        let shown = [60.126, -0.001, 7.0, f64::INFINITY, -1e9].map(|number| Rounded(number).to_string());
        assert_eq!(shown, ["60.13", "0", "7", "100000", "-100000"]);
    }

    #[test]
    fn a_long_text_is_broken_between_words_and_made_smaller() {
        let text = "hop-by-hop with loss";
        assert_eq!(lines(text, 12.0, 1_000.0), [text]);
        assert_eq!(lines(text, 12.0, 80.0), ["hop-by-hop", "with loss"]);
        assert_eq!(lines(text, 12.0, 1.0), ["hop-by-hop", "with", "loss"]);
        assert!((fitting(text, 12.0, 1_000.0) - 12.0).abs() < 1e-9);
        let small = fitting(text, 12.0, 50.0);
        assert!((width(text, small) - 50.0).abs() < 1e-9, "{small}");
    }
}
