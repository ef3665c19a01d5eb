//! Where results go: tables and pictures of a folder, and those that the documentation keeps.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use papers::report::{self, Figure, Plot, ReportTable};

/// What one part of the measurement shows.
pub(crate) struct PartReport {
    /// Of its files, and of its marks in the page.
    pub(crate) name: String,
    pub(crate) title: String,
    /// A line or two above the tables.
    pub(crate) head: String,
    pub(crate) tables: Vec<ReportTable>,
    pub(crate) plots: Vec<Plot>,
    /// All rounds, without a header; empty where they are kept elsewhere.
    pub(crate) csv: String,
}

impl PartReport {
    fn figure(&self, command: &str) -> Figure {
        Figure {
            name: self.name.clone(),
            title: self.title.clone(),
            source: "measured".to_owned(),
            tables: self.tables.clone(),
            plots: self.plots.clone(),
            claims: Vec::new(),
            assumptions: Vec::new(),
            notes: vec![self.head.clone()],
            command: command.to_owned(),
            seed: 0,
            quick: false,
        }
    }

    fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.head);
        for table in &self.tables {
            let mut shown = sarabande_bench::report::table(table.header.iter().map(String::as_str));
            shown.add_rows(&table.rows);
            write!(text, "{shown}\n\n").expect("memory takes all");
        }
        text
    }

    /// The page with its tables between the marks that the page has for them.
    fn put_into(&self, page: &str) -> Result<String> {
        let mark = format!("<!-- {} -->\n", self.name);
        let (head, rest) = page.split_once(&mark).with_context(|| format!("no {mark}"))?;
        let (_, tail) = rest.split_once("<!-- end -->").with_context(|| format!("{mark} has no end"))?;
        Ok(format!("{head}{mark}{}<!-- end -->{tail}", self.markdown()))
    }
}

/// The folder of a benchmark's results, and that of the documentation for those that are kept.
pub(crate) struct Files {
    /// Of the benchmark and of its files.
    name: &'static str,
    out: PathBuf,
    /// From the repository's folder, with a page `measured.md`.
    kept: &'static str,
}

impl Files {
    pub(crate) fn new(name: &'static str, out: &Path, kept: &'static str) -> Result<Self> {
        report::prepare(out).with_context(|| out.display().to_string())?;
        Ok(Self { name, out: out.to_owned(), kept })
    }

    pub(crate) fn write(&self, parts: &[PartReport], record: bool) -> Result<()> {
        let mut page = String::new();
        for part in parts {
            write!(page, "## {}\n\n{}", part.title, part.markdown()).expect("memory takes all");
        }
        fs::write(self.page_file(), page)?;
        let csv: String = parts.iter().map(|part| part.csv.as_str()).collect();
        if !csv.is_empty() {
            fs::write(self.out.join(format!("{}.csv", self.name)), csv)?;
        }
        let command = format!("bench/{}", self.name);
        let figures: Vec<Figure> = parts.iter().map(|part| part.figure(&command)).collect();
        report::write(&self.out, &figures)?;
        if record {
            parts.iter().zip(&figures).try_for_each(|(part, figure)| self.keep(part, figure))?;
        }
        Ok(())
    }

    /// Keeps the pictures and tables of a part in the documentation.
    fn keep(&self, part: &PartReport, figure: &Figure) -> Result<()> {
        let kept = Path::new(self.kept);
        for plot in 0..part.plots.len() {
            let name = format!("{}.svg", figure.stem(plot));
            fs::copy(self.out.join(&name), kept.join(&name)).with_context(|| name.clone())?;
        }
        let file = kept.join("measured.md");
        let page = fs::read_to_string(&file).map_err(Into::into).and_then(|page| part.put_into(&page));
        let page = page.with_context(|| file.display().to_string())?;
        fs::write(&file, page).with_context(|| file.display().to_string())
    }

    fn page_file(&self) -> PathBuf {
        self.out.join(format!("{}.md", self.name))
    }

    /// All tables.
    pub(crate) fn page(&self) -> Result<String> {
        Ok(fs::read_to_string(self.page_file())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_replace_what_is_between_their_marks_and_nothing_else() {
        let mut table = ReportTable::new(["way"]);
        table.rows.push(vec!["tlwl".to_owned()]);
        let part = PartReport {
            name: "cells".to_owned(),
            title: String::new(),
            head: "New.".to_owned(),
            tables: vec![table],
            plots: Vec::new(),
            csv: String::new(),
        };
        let page = "# Page\n<!-- other -->\nA\n<!-- end -->\n<!-- cells -->\nOld.\n<!-- end -->\nTail\n";
        let written = part.put_into(page).expect("a page with marks");
        assert_eq!(
            written,
            "# Page\n<!-- other -->\nA\n<!-- end -->\n<!-- cells -->\nNew.\n\n\
             | way  |\n|------|\n| tlwl |\n\n<!-- end -->\nTail\n"
        );
        assert_eq!(part.put_into(&written).expect("a page with marks"), written);
        assert!(part.put_into("# Page\n").is_err());
        assert!(part.put_into("<!-- cells -->\nno end").is_err());
    }
}
