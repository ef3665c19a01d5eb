//! docs/evidence.md: every statement of the papers with its verdict in the simulator, beside what running programs say.

use std::fmt::Write as _;

const HEAD: &str = "# What holds of the papers

<!-- Made by `UPDATE_EVIDENCE=1 cargo test -p papers --test documents`, from docs/figures.md and \
crates/study/papers/tests/documents/live.txt; do not edit. -->

Every statement of the five papers that the figures put to the test, and a few of our own (their source says so): what the
simulator says of it, and what running programs say. The numbers of the simulator are in [figures.md](figures.md), under
the name of the figure; *out of reach* is what the model cannot show, and why. A live verdict is that of the measurement
which its link leads to. Where nothing stands under *live*, nothing was measured on running programs.

- `sarabande sim figure NAME` runs a figure again, `sarabande sim figures` all of them.
- [`bench/cluster`](cluster/measured.md) measures the balancing papers' clusters, [`bench/overload`](overload/measured.md)
  the Overload paper's servers, [`bench/distribution`](distribution/measured.md) the SERvartuka paper's chains, and
  [`bench/elastic`](elastic/measured.md) the Cloud paper's servers.
";

/// What was measured of a statement: a figure, how the statement begins, and what was found with a link.
struct Live<'a> {
    figure: &'a str,
    begins: &'a str,
    found: &'a str,
}

/// Lines with two bars; what begins with # is for whoever reads the file.
fn live(text: &str) -> Vec<Live<'_>> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(line).collect()
}

fn line(text: &str) -> Live<'_> {
    let parts: Vec<&str> = text.splitn(3, " | ").collect();
    let [figure, begins, found] = parts[..] else {
        panic!("a figure, the beginning of a statement and what was found: {text}")
    };
    Live { figure, begins, found }
}

/// The page, from that of figures and what was measured live.
///
/// # Panics
/// A measurement is of a statement that there is not.
pub(crate) fn page(figures: &str, measured: &str) -> String {
    let (mut page, live) = (HEAD.to_owned(), live(measured));
    let mut used = vec![false; live.len()];
    for section in figures.split("\n## ").skip(1) {
        let (name, rest) = section.split_once('\n').expect("a section has lines");
        let title = rest.trim_start().lines().next().unwrap_or_default();
        let _ =
            write!(page, "\n## {name}\n\n{title}\n\n| statement | simulated | live |\n| --- | --- | --- |\n");
        for row in rest.lines().skip_while(|line| *line != "| verdict | statement | measured |").skip(2) {
            let Some(row) = row.strip_prefix("| ") else { break };
            let mut cells = row.splitn(3, " | ");
            let (Some(verdict), Some(statement)) = (cells.next(), cells.next()) else { break };
            let of =
                |(_, live): &(usize, &Live<'_>)| live.figure == name && statement.starts_with(live.begins);
            let found = live.iter().enumerate().find(of).map_or("", |(index, live)| {
                used[index] = true;
                live.found
            });
            let _ = writeln!(page, "| {statement} | {verdict} | {found} |");
        }
    }
    let unused = live.iter().zip(&used).find(|(_, used)| !**used);
    if let Some((Live { figure, begins, .. }, _)) = unused {
        panic!("{figure} states nothing that begins with \"{begins}\"");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = "# Head\n\n## a-1\n\nTitle. Source: paper.\n\n| verdict | statement | measured |\n\
        | --- | --- | --- |\n| holds | One is one. (section I) | 1. |\n| **fails** | Two. (ours) | 3. |\n\n| x | y |\n";

    #[test]
    fn what_was_measured_stands_beside_its_statement() {
        let page = page(FIGURES, "# head\n\na-1 | One | holds: [here](x.md)\n");
        assert!(page.contains("\n## a-1\n\nTitle. Source: paper.\n\n"));
        assert!(
            page.ends_with(
                "| One is one. (section I) | holds | holds: [here](x.md) |\n| Two. (ours) | **fails** |  |\n"
            ),
            "{page}"
        );
    }

    #[test]
    #[should_panic(expected = "a-1 states nothing that begins with \"Three\"")]
    fn a_measurement_of_nothing_is_found_out() {
        page(FIGURES, "a-1 | Three | holds\n");
    }
}
