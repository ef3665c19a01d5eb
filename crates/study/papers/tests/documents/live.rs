//! Results of running programs, for statements of the figures.

/// A result for a statement: the figure, the start of the statement's row, and the text with a link.
pub(crate) struct Live {
    pub(crate) figure: String,
    pub(crate) begins: String,
    pub(crate) found: String,
}

/// Parses lines with two bars; lines that start with # are comments.
///
/// # Panics
/// When a line has another form, or refers to contents that no page has.
pub(crate) fn live(text: &str, pages: Pages<'_>) -> Vec<Live> {
    let line = |line: &str| {
        let [figure, begins, found] = line.splitn(3, " | ").collect::<Vec<_>>()[..] else {
            panic!("a figure, the start of a statement and the result: {line}")
        };
        assert!(found.contains('{'), "no figure of a page: {found}");
        Live { figure: figure.to_owned(), begins: format!("| {begins}"), found: filled(found, pages) }
    };
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(line).collect()
}

/// A number of a table: its text, and its minimum, median and maximum.
struct Value {
    text: String,
    range: [f64; 3],
}

/// Returns the page with this name: `overload` is docs/evidence/overload.md.
type Pages<'a> = &'a dyn Fn(&str) -> String;

/// Replaces references in a text by the contents of measured pages:
///
/// - `{page/mark: cell | cell > column}`: the first row with these consecutive cells in the tables after the mark `<!--
///   mark -->`, or after the heading;
/// - `{page/mark: cell / cell > column}`: the ratio of the numbers in two rows;
/// - `{>= bound: page/mark: cells; page/mark: cells}`: whether each of these numbers is certainly at least `bound`, or
///   one certainly is not;
/// - `{page "words"}`: the words, which must be on the page.
///
/// # Panics
/// When a page does not have the referenced contents.
fn filled(text: &str, pages: Pages<'_>) -> String {
    let mut parts = text.split(['{', '}']);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    while let (Some(of), Some(rest)) = (parts.next(), parts.next()) {
        let said = match (of.strip_prefix(">= "), of.split_once(" \"")) {
            (Some(of), _) => {
                let (bound, values) = of.split_once(": ").expect("a bound before what it is of");
                let values: Vec<_> = values.split("; ").map(|of| value(of, pages)).collect();
                verdict(bound.parse().expect("a number"), &values).to_owned()
            }
            (None, Some((page, words))) => {
                let (words, text) = (words.trim_end_matches('"'), pages(page));
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(text.contains(words), "{page} does not say \"{words}\"");
                words.to_owned()
            }
            (None, None) => value(of, pages).text,
        };
        filled += &(said + rest);
    }
    filled
}

fn verdict(bound: f64, values: &[Value]) -> &'static str {
    match values {
        _ if values.iter().any(|value| value.range[2] < bound) => "fails",
        _ if values.iter().all(|value| value.range[0] >= bound) => "holds",
        _ => "open",
    }
}

fn value(of: &str, pages: Pages<'_>) -> Value {
    let (place, row) = of.split_once(": ").unwrap_or_else(|| panic!("a table and a row: {of}"));
    let (row, column) = row.rsplit_once(" > ").unwrap_or_else(|| panic!("a row and a column: {of}"));
    let cell = |row| read(&cell(place, row, column, pages));
    let Some((one, other)) = row.split_once(" / ") else { return cell(row) };
    let ([low, middle, high], [below, by, above]) = (cell(one).range, cell(other).range);
    let range = [low / above, middle / by, high / below];
    let interval = format!(" ({:.2} - {:.2})", range[0], range[2]);
    let text = format!("{:.2}{}", range[1], if low < high { &interval } else { "" });
    Value { text, range }
}

/// Returns the cell of a row in the tables at a place, `page/mark`: see [`filled`].
fn cell(place: &str, row: &str, column: &str, pages: Pages<'_>) -> String {
    let (page, mark) = place.split_once('/').expect("a page and a mark");
    let text = pages(page);
    let begin = [format!("<!-- {mark} -->\n"), format!("# {mark}\n")];
    let section = begin.iter().find_map(|begin| Some(text.split_once(begin.as_str())?.1));
    let section = section.unwrap_or_else(|| panic!("{page} has no {mark}"));
    let section =
        section.split("<!-- end -->").next().unwrap_or_default().split("\n#").next().unwrap_or_default();
    let (wanted, mut header): (Vec<_>, Vec<&str>) = (row.split(" | ").collect(), Vec::new());
    for line in section.lines() {
        let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if !line.trim().starts_with('|') {
            header.clear();
        } else if header.is_empty() {
            header = cells;
        } else if cells.windows(wanted.len()).any(|cells| cells == wanted)
            && let Some(at) = header.iter().position(|name| *name == column)
        {
            return cells[at].to_owned();
        }
    }
    panic!("{place} has no row {row} with {column}")
}

/// Parses `90 %`, `1.7 ± 0.4`, or median, minimum and maximum, `82 (68 - 95)`.
fn read(text: &str) -> Value {
    let numbers =
        text.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|part| part.parse().ok());
    let range = match numbers.collect::<Vec<f64>>()[..] {
        [middle, low, high, ..] if text.contains('(') => [low, middle, high],
        [middle, by] if text.contains('±') => [middle - by, middle, middle + by],
        // One round is not enough for a verdict.
        [one, ..] => [f64::NAN, one, f64::NAN],
        [] => [f64::NAN; 3],
    };
    Value { text: text.to_owned(), range }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::with_live;

    const SECTION: &str = "\n## a-1\n\nTitle.\n\n| statement | simulated | measured in the simulator | on running programs |\n\
        | --- | --- | --- | --- |\n| One. (section I) | holds | 1. | before |\n| Two. (ours) | open | 3. |  |\n";

    #[test]
    fn results_stand_beside_their_statements() {
        let live = live("# head\n\na-1 | One | {x \"holds\"}: [x](x.md)\n", &|_| "It\nholds.".to_owned());
        assert_eq!(with_live(SECTION, "a-1", &live), SECTION.replace("before", "holds: [x](x.md)"));
    }

    #[test]
    #[should_panic(expected = "a-1 has no statement that starts with \"| Three\"")]
    fn results_without_a_statement_are_rejected() {
        with_live(SECTION, "a-1", &live("a-1 | Three | {x \"a\"}", &|_| "a".to_owned()));
    }

    #[test]
    fn figures_are_those_of_the_tables() {
        const PAGE: &str = "# A\n\n| x | n |\n|---|---|\n| b | 9 |\n\n<!-- t -->\n| way | load | n |\n|-----|---|---|\n\
            | a | 1 | 82 (68 - 95) |\n| a | 2 | 1.5 ± 0.5 |\n| b | 2 | 4 |\n\n| way | m |\n|-|-|\n| a | 7 % |\n<!-- end -->\n";
        let of = |text| filled(text, &|_| PAGE.to_owned());
        assert_eq!(of("x {p/t: a | 1 > n}, {p/A: b > n} y {p/t: a > m}"), "x 82 (68 - 95), 9 y 7 %");
        assert_eq!(of("{p/t: a | 1 / a | 2 > n}, {p/t: b | 2 / a | 2 > n}"), "54.67 (34.00 - 95.00), 2.67");
        let verdicts =
            "{>= 68: p/t: a | 1 > n} {>= 69: p/t: a | 1 > n} {>= 96: p/t: a | 1 > n} {>= 1: p/t: b | 2 > n}";
        assert_eq!(of(verdicts), "holds open fails open");
        assert_eq!(
            of("{>= 2: p/t: a | 1 > n; p/t: a | 2 > n} {>= 2.1: p/t: a | 1 > n; p/t: a | 2 > n}"),
            "open fails"
        );
    }

    #[test]
    #[should_panic(expected = "x does not say \"fails\"")]
    fn words_that_a_page_does_not_have_are_found_out() {
        filled("{x \"fails\"}", &|_| "It holds.".to_owned());
    }
}
