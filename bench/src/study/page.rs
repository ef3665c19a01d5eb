//! Tables and pictures of rows, and the documentation page that contains them between its marks.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use papers::report::{self, Axis, Figure, Plot, PlotSeries, ReportTable, Statement, Style};
use sim::stats::Interval;

use super::verdict::{over, shown};
use super::{Cell, Layout, Rows, Study};
use crate::report::number;

/// A picture of rows.
pub(crate) struct Picture {
    pub(crate) title: &'static str,
    pub(crate) column: &'static str,
    pub(crate) over: Over,
    /// The vertical axis.
    pub(crate) y: Axis,
}

/// Horizontal axis of a picture.
pub(crate) enum Over {
    /// Places of samples: a picture for each cell, with a line for each alternative.
    Places(Axis),
    /// Cells by their number: a line for each alternative, from first samples.
    Cells(&'static str),
    /// Alternatives: a bar for each, from first samples.
    Alternatives,
}

/// The section of a study.
pub(crate) struct Section {
    name: String,
    title: String,
    head: String,
    tables: Vec<ReportTable>,
    plots: Vec<Plot>,
}

impl Section {
    pub(crate) fn of<S>(study: &Study<'_, S>, rows: &Rows) -> Self {
        let mut tables: Vec<ReportTable> = verdicts(study, rows).into_iter().collect();
        tables.push(match study.layout {
            Layout::LineForEachPlace => values(study, rows),
            Layout::LineForEachMeasure => values_by_place(study, rows),
        });
        let plots: Vec<Plot> =
            study.pictures.iter().flat_map(|picture| plots(study, rows, picture)).collect();
        let plots = plots.into_iter().filter(|plot| plot.series.iter().any(|line| !line.points.is_empty()));
        Self {
            name: study.name.clone(),
            title: study.title.clone(),
            head: study.head.clone(),
            tables,
            plots: plots.collect(),
        }
    }

    fn figure(&self) -> Figure {
        Figure {
            name: self.name.clone(),
            title: self.title.clone(),
            source: "measured".to_owned(),
            tables: self.tables.clone(),
            plots: self.plots.clone(),
            claims: Vec::<Statement>::new(),
            assumptions: Vec::new(),
            notes: vec![self.head.clone()],
            command: "bench".to_owned(),
            seed: 0,
            quick: false,
        }
    }

    /// Returns the tables and references to pictures in a folder (`""`, or with a slash at its end) as Markdown.
    pub(crate) fn markdown(&self, pictures: &str) -> String {
        let mut text = format!("{}\n\n", self.head);
        let figure = self.figure();
        for (index, plot) in self.plots.iter().enumerate() {
            write!(text, "![{}]({pictures}{}.svg)\n\n", plot.title, figure.stem(index))
                .expect("writing to memory cannot fail");
        }
        for table in &self.tables {
            let mut shown = crate::report::table(table.header.iter().map(String::as_str));
            shown.add_rows(&table.rows);
            write!(text, "{shown}\n\n").expect("writing to memory cannot fail");
        }
        text
    }

    /// Writes the pictures to a folder.
    pub(crate) fn draw(&self, folder: &Path) -> Result<()> {
        report::prepare(folder).with_context(|| folder.display().to_string())?;
        report::write(folder, &[self.figure()])?;
        Ok(())
    }

    /// Copies the pictures of `folder` and the rows of `file` to the folder `kept`, and writes the tables to the page
    /// beside it: `kept` with the extension `.md`.
    pub(crate) fn keep(&self, folder: &Path, file: &Path, kept: &Path) -> Result<()> {
        let figure = self.figure();
        for plot in 0..self.plots.len() {
            let name = format!("{}.svg", figure.stem(plot));
            fs::copy(folder.join(&name), kept.join(&name)).with_context(|| name.clone())?;
        }
        fs::copy(file, kept.join(format!("{}.csv", self.name)))?;
        let page = kept.with_extension("md");
        let pictures = kept.file_name().map(|name| format!("{}/", name.display())).unwrap_or_default();
        let text = fs::read_to_string(&page).map_err(Into::into);
        let text = text.and_then(|text| self.put_into(&text, &pictures));
        let text = text.with_context(|| page.display().to_string())?;
        fs::write(&page, text).with_context(|| page.display().to_string())
    }

    /// Returns the page with this section between its marks `<!-- name -->` and `<!-- end -->`, or at its end if it has
    /// no such mark.
    fn put_into(&self, page: &str, pictures: &str) -> Result<String> {
        let mark = format!("<!-- {} -->\n", self.name);
        let Some((head, rest)) = page.split_once(&mark) else {
            let section = format!("## {}\n\n{mark}{}<!-- end -->\n", self.title, self.markdown(pictures));
            return Ok(format!("{page}\n{section}"));
        };
        let (_, tail) = rest.split_once("<!-- end -->").with_context(|| format!("{mark} has no end"))?;
        Ok(format!("{head}{mark}{}<!-- end -->{tail}", self.markdown(pictures)))
    }
}

/// Table of all statements that there are rows for.
fn verdicts<S>(study: &Study<'_, S>, rows: &Rows) -> Option<ReportTable> {
    let mut table = ReportTable::new(["verdict", "statement", "measured", "rounds", "source"]);
    for question in &study.questions {
        let Some(answer) = question.answer(rows) else { continue };
        table.rows.push(vec![
            format!("{:?}", answer.verdict).to_lowercase(),
            question.statement.clone(),
            answer.measured,
            answer.rounds.to_string(),
            question.source.to_owned(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Table of means over rounds with their intervals.
fn values<S>(study: &Study<'_, S>, rows: &Rows) -> ReportTable {
    let has_cells = study.cells.len() > 1;
    let header =
        [(has_cells, "cell"), (true, "alternative"), (!study.at.is_empty(), study.at), (true, "rounds")];
    let mut table =
        ReportTable::new(header.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name));
    let measures: Vec<(&str, usize)> =
        study.measures.iter().filter_map(|measure| Some((measure.column, measure.digits?))).collect();
    table.header.extend(measures.iter().map(|(column, _)| (*column).to_owned()));
    for (cell, alternative) in pairs(study) {
        for (place, within) in groups(study, &rows.places(&cell.name, alternative)) {
            let of = |column: &str| {
                let all =
                    within.iter().flat_map(|at| rows.values(&cell.name, alternative, Some(*at), column));
                means(all.collect())
            };
            let rounds = of(study.measures[0].column).len();
            let names = [
                (has_cells, cell.name.clone()),
                (true, alternative.to_owned()),
                (!study.at.is_empty(), place),
            ];
            let names = names.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name);
            let numbers = measures.iter().map(|(column, digits)| {
                over(of(column)).map_or_else(String::new, |value| shown(value, *digits))
            });
            table.rows.push(names.chain([rounds.to_string()]).chain(numbers).collect());
        }
    }
    table
}

/// Table of means over rounds with their intervals, with a column for each place. The study has one cell. Models are in
/// the pictures and the file only.
fn values_by_place<S>(study: &Study<'_, S>, rows: &Rows) -> ReportTable {
    let mut places: Vec<f64> =
        pairs(study).flat_map(|(cell, alternative)| rows.places(&cell.name, alternative)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut table = ReportTable::new(["alternative", study.at]);
    table.header.extend(places.iter().map(f64::to_string));
    let has_rows =
        |(cell, alternative): &(&Cell<'_, S>, &str)| !rows.places(&cell.name, alternative).is_empty();
    let is_live = |(cell, name): &(&Cell<'_, S>, &str)| {
        cell.alternatives.iter().any(|it| it.name == *name && !it.is_model)
    };
    for (cell, alternative) in pairs(study).filter(has_rows).filter(is_live) {
        for (column, digits) in study.measures.iter().filter_map(|it| Some((it.column, it.digits?))) {
            let value = |at: &f64| {
                let found = rows.values(&cell.name, alternative, Some(*at), column);
                over(found.into_iter().map(|(_, value)| value).collect())
                    .map_or_else(String::new, |value| shown(value, digits))
            };
            let names = [alternative.to_owned(), column.to_owned()];
            table.rows.push(names.into_iter().chain(places.iter().map(value)).collect());
        }
    }
    table
}

/// Returns the mean of each round without NaN.
fn means(mut values: Vec<(u32, f64)>) -> Vec<f64> {
    values.sort_by_key(|(round, _)| *round);
    let mean = |round: &[(u32, f64)]| {
        let numbers: Vec<f64> =
            round.iter().map(|(_, value)| *value).filter(|value| !value.is_nan()).collect();
        numbers.iter().sum::<f64>() / numbers.len() as f64
    };
    values.chunk_by(|a, b| a.0 == b.0).map(mean).collect()
}

/// Groups places by lines of the table, with the line's name: each place alone, or all up to a mark.
fn groups<S>(study: &Study<'_, S>, places: &[f64]) -> Vec<(String, Vec<f64>)> {
    if study.marks.is_empty() {
        return places.iter().map(|place| (place.to_string(), vec![*place])).collect();
    }
    let ends = study.marks.iter().map(|(_, end)| *end).chain([f64::INFINITY]);
    let names = ["start"].into_iter().chain(study.marks.iter().map(|(name, _)| name.as_str()));
    let mut from = f64::NEG_INFINITY;
    let group = |(name, end): (&str, f64)| {
        let within = places.iter().copied().filter(|place| (from..end).contains(place)).collect();
        from = end;
        (name.to_owned(), within)
    };
    names.zip(ends).map(group).filter(|(_, within): &(_, Vec<f64>)| !within.is_empty()).collect()
}

/// Returns each cell with each of its alternatives.
fn pairs<'s, S>(study: &'s Study<'_, S>) -> impl Iterator<Item = (&'s Cell<'s, S>, &'s str)> {
    study.cells.iter().flat_map(|cell| cell.alternatives.iter().map(move |it| (cell, it.name.as_str())))
}

/// Returns the names of the alternatives, each once.
fn alternatives<'s, S>(study: &'s Study<'_, S>) -> Vec<&'s str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, name) in pairs(study) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn plots<S>(study: &Study<'_, S>, rows: &Rows, picture: &Picture) -> Vec<Plot> {
    let value = |cell: &str, alternative: &str, at: Option<f64>| {
        let found = rows.values(cell, alternative, at, picture.column);
        over(found.into_iter().map(|(_, value)| value).collect()).filter(|value| !value.mean.is_nan())
    };
    match &picture.over {
        Over::Places(axis) => {
            let plot = |cell: &Cell<'_, S>| {
                let title = if study.cells.len() > 1 {
                    format!("{}: {}", picture.title, cell.name)
                } else {
                    picture.title.to_owned()
                };
                let line = |name: &str| {
                    let at = |at: &f64| Some((*at, value(&cell.name, name, Some(*at))?));
                    curve(name, rows.places(&cell.name, name).iter().filter_map(at).collect())
                };
                let lines = cell.alternatives.iter().map(|it| line(&it.name));
                let mut plot = Plot::of(title, axis.clone(), picture.y.clone(), lines);
                study.marks.iter().for_each(|(name, at)| plot.mark(name, *at));
                plot
            };
            study.cells.iter().map(plot).collect()
        }
        Over::Cells(label) => {
            let line = |name: &str| {
                let at = |cell: &Cell<'_, S>| {
                    (!cell.x.is_nan()).then_some(())?;
                    Some((cell.x, value(&cell.name, name, None)?))
                };
                curve(name, study.cells.iter().filter_map(at).collect())
            };
            let lines: Vec<_> = alternatives(study).into_iter().map(line).collect();
            vec![Plot::of(picture.title, Axis::linear(*label), picture.y.clone(), lines)]
        }
        Over::Alternatives => {
            let names = alternatives(study);
            let bars = |cell: &Cell<'_, S>| {
                let height = |name: &&str| value(&cell.name, name, None).map_or(f64::NAN, |value| value.mean);
                PlotSeries::bars(cell.name.clone(), names.iter().map(height).collect::<Vec<_>>())
            };
            let bars: Vec<_> = study.cells.iter().map(bars).collect();
            vec![Plot::of(picture.title, Axis::names("", names.clone()), picture.y.clone(), bars)]
        }
    }
}

/// Makes a line, without bars if there is only one round.
fn curve(name: &str, points: Vec<(f64, Interval)>) -> PlotSeries {
    if points.iter().all(|(_, value)| value.half_width.is_finite()) {
        PlotSeries::intervals(name, Style::Line, points)
    } else {
        PlotSeries::line(name, points.into_iter().map(|(x, value)| (x, value.mean)))
    }
}

/// Formats the last sample of a run as a line.
pub(crate) fn line<S>(study: &Study<'_, S>, values: &[f64]) -> String {
    let value = |(measure, value): (&super::Measure<S>, &f64)| {
        Some(format!("{} {}", measure.column, number(*value, measure.digits?)))
    };
    study.measures.iter().zip(values).filter_map(value).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{rows, run};
    use super::super::{Alternative, Bound, Measure, Question, Values};
    use super::*;

    fn study(marks: Vec<(String, f64)>) -> Study<'static, f64> {
        let alternatives = || ["a", "b"].map(|name| Alternative::new(name, |_| Ok(Vec::new()))).into();
        let cell = |name: &str, x| Cell { name: name.to_owned(), x, alternatives: alternatives() };
        let values = |alternative: &str| Values::new("few", alternative, Some(0.0), "ms");
        let picture = |over| Picture { title: "Time", column: "ms", over, y: Axis::linear("ms") };
        Study {
            at: "second",
            marks,
            cells: vec![cell("few", 1.0), cell("many", 2.0)],
            measures: vec![Measure { column: "ms", digits: Some(1), of: |ms| *ms }],
            questions: vec![Question {
                statement: "It is half.".to_owned(),
                source: "us",
                left: values("a"),
                right: Some(values("b")),
                bound: Bound::Below(0.5),
            }],
            pictures: vec![
                picture(Over::Places(Axis::linear("s"))),
                picture(Over::Cells("calls")),
                picture(Over::Alternatives),
            ],
            ..Study::new("part", "A part", "New.")
        }
    }

    fn measured() -> Rows {
        let of = |alternative, round, ms: [f64; 2]| run("few", alternative, round, &ms);
        rows(&[
            of("a", 0, [1.0, 2.0]),
            of("b", 0, [4.0, 4.0]),
            of("a", 1, [2.0, 4.0]),
            of("b", 1, [8.0, 8.0]),
        ])
    }

    #[test]
    fn a_section_has_verdicts_and_a_line_for_each_place() {
        let section = Section::of(&study(Vec::new()), &measured());
        assert_eq!(section.tables[0].rows, [["holds", "It is half.", "0.25 (0.25 - 0.25) times", "2", "us"]]);
        let lines: Vec<_> = section.tables[1].rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(
            lines,
            ["few a 0 2 1.5 ± 6.4", "few a 1 2 3.0 ± 12.7", "few b 0 2 6.0 ± 25.4", "few b 1 2 6.0 ± 25.4"]
        );
        // No points for the cell without rows; bars have the first sample of each.
        let points: Vec<Vec<usize>> =
            section.plots.iter().map(|plot| plot.series.iter().map(|it| it.points.len()).collect()).collect();
        assert_eq!(points[..2], [vec![2, 2], vec![1, 1]]);
    }

    #[test]
    fn a_wide_table_has_a_column_for_each_place() {
        let mut study = Study { layout: Layout::LineForEachMeasure, ..study(Vec::new()) };
        study.cells.truncate(1);
        let section = Section::of(&study, &measured());
        let table = &section.tables[1];
        assert_eq!(table.header.join(" "), "alternative second 0 1");
        let lines: Vec<_> = table.rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(lines, ["a ms 1.5 ± 6.4 3.0 ± 12.7", "b ms 6.0 ± 25.4 6.0 ± 25.4"]);
    }

    #[test]
    fn with_marks_a_line_has_the_time_up_to_the_next_one() {
        let section =
            Section::of(&study(vec![("begins".to_owned(), 0.5), ("ends".to_owned(), 5.0)]), &measured());
        let lines: Vec<_> = section.tables[1].rows.iter().map(|row| row[..4].join(" ")).collect();
        assert_eq!(lines, ["few a start 2", "few a begins 2", "few b start 2", "few b begins 2"]);
        let study = study(vec![("begins".to_owned(), 5.0)]);
        let section = Section::of(&study, &measured());
        assert_eq!(section.tables[1].rows[0].join(" "), "few a start 2 2.2 ± 9.5", "means of rounds");
    }

    #[test]
    fn a_section_replaces_only_the_text_between_its_marks() {
        let section = Section {
            name: "cells".to_owned(),
            title: "Cells".to_owned(),
            head: "New.".to_owned(),
            tables: vec![ReportTable { header: vec!["way".to_owned()], rows: vec![vec!["tlwl".to_owned()]] }],
            plots: Vec::new(),
        };
        let page = "# Page\n<!-- other -->\nA\n<!-- end -->\n<!-- cells -->\nOld.\n<!-- end -->\nTail\n";
        let table = "New.\n\n| way  |\n|------|\n| tlwl |\n\n";
        let written = section.put_into(page, "").expect("a page with marks");
        let expected =
            format!("# Page\n<!-- other -->\nA\n<!-- end -->\n<!-- cells -->\n{table}<!-- end -->\nTail\n");
        assert_eq!(written, expected);
        assert_eq!(section.put_into(&written, "").expect("a page with marks"), written);
        let new = section.put_into("# Page\n", "").expect("a page without");
        assert_eq!(new, format!("# Page\n\n## Cells\n\n<!-- cells -->\n{table}<!-- end -->\n"));
        assert!(section.put_into("<!-- cells -->\nno end", "").is_err());
    }
}
