//! Where results go: tables and pictures of a folder, and those that the documentation keeps.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use papers::report::{self, Figure, Plot, ReportTable};

/// Where pictures go that are kept, and the page with the tables, from the repository's folder.
const KEPT: &str = "docs/distribution";
const PAGE: &str = "docs/distribution/measured.md";

/// What one part of the measurement shows.
pub(super) struct PartReport {
    /// Of its files, and of its marks in the page.
    pub(super) name: &'static str,
    pub(super) title: String,
    /// A line or two above the tables.
    pub(super) head: String,
    pub(super) tables: Vec<ReportTable>,
    pub(super) plots: Vec<Plot>,
    /// All rounds, without a header.
    pub(super) csv: String,
}

impl PartReport {
    fn figure(&self) -> Figure {
        Figure {
            name: self.name.to_owned(),
            title: self.title.clone(),
            source: "measured".to_owned(),
            tables: self.tables.clone(),
            plots: self.plots.clone(),
            claims: Vec::new(),
            assumptions: Vec::new(),
            notes: vec![self.head.clone()],
            command: "bench/distribution".to_owned(),
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

    /// Keeps its pictures, and its tables between the marks that the page has for them.
    fn keep(&self, out: &Path) -> Result<()> {
        let figure = self.figure();
        for plot in 0..self.plots.len() {
            let name = format!("{}.svg", figure.stem(plot));
            fs::copy(out.join(&name), format!("{KEPT}/{name}")).with_context(|| name.clone())?;
        }
        let page = fs::read_to_string(PAGE).context(PAGE)?;
        let mark = format!("<!-- {} -->\n", self.name);
        let (head, rest) = page.split_once(&mark).with_context(|| format!("{PAGE} has no {mark}"))?;
        let (_, tail) =
            rest.split_once("<!-- end -->").with_context(|| format!("{PAGE}: {mark} has no end"))?;
        fs::write(PAGE, format!("{head}{mark}{}<!-- end -->{tail}", self.markdown())).context(PAGE)
    }
}

/// The folder.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn new(out: &Path) -> Result<Self> {
        report::prepare(out).with_context(|| out.display().to_string())?;
        Ok(Self(out.to_owned()))
    }

    pub(super) fn write(&self, parts: &[PartReport], record: bool) -> Result<()> {
        let mut page = String::new();
        for part in parts {
            write!(page, "## {}\n\n{}", part.title, part.markdown()).expect("memory takes all");
        }
        fs::write(self.0.join("distribution.md"), page)?;
        let csv: String = parts.iter().map(|part| part.csv.as_str()).collect();
        fs::write(self.0.join("distribution.csv"), csv)?;
        let figures: Vec<Figure> = parts.iter().map(PartReport::figure).collect();
        report::write(&self.0, &figures)?;
        if record {
            parts.iter().try_for_each(|part| part.keep(&self.0))?;
        }
        Ok(())
    }

    /// All tables.
    pub(super) fn page(&self) -> Result<String> {
        Ok(fs::read_to_string(self.0.join("distribution.md"))?)
    }
}
