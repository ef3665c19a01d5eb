//! Overload control on running processes, up to ten times what they can take.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use papers::report::{self, Figure};
use sarabande_bench::overload::result::{CSV_HEADER, PartResult};
use sarabande_bench::overload::{OverloadBench, chain, kamailio, local, members, registrations};

use crate::programs::ProgramPaths;

/// Measures goodput and set-up delay under overload: of SIPp and Kamailio behind the balancer, and of the balancer
/// itself. Needs root, for control groups; ten minutes.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    programs: ProgramPaths,
    /// SIPp's program.
    #[arg(long, default_value = "/usr/bin/sipp")]
    sipp: PathBuf,
    /// What each limited program may use, in percent of a processor.
    #[arg(long, default_value_t = 5.0)]
    quota: f64,
    /// Seconds of each load that do not count.
    #[arg(long, default_value_t = 1.5)]
    settle: f64,
    /// Seconds of each load that count.
    #[arg(long, default_value_t = 2.0)]
    counted: f64,
    /// Leaves out loads above this multiple of the capacity.
    #[arg(long, default_value_t = 10.0)]
    load_max: f64,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values = ["members", "chain", "local", "kamailio", "registrations"])]
    parts: Vec<Part>,
    /// Tables, pictures and a page are written to this folder.
    #[arg(long, default_value = "target/overload")]
    out: PathBuf,
    /// Keeps the pictures in docs/overload, and the tables in its page of measurements.
    #[arg(long)]
    record: bool,
}

/// Where what is kept goes, from the repository's folder.
const KEPT: &str = "docs/overload";
const PAGE: &str = "docs/overload/measured.md";

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    Members,
    Chain,
    Local,
    Kamailio,
    Registrations,
}

fn figure(part: &PartResult) -> Figure {
    Figure {
        name: part.name.to_owned(),
        title: part.title.to_owned(),
        source: format!("measured; capacity {:.0} calls/s", part.capacity),
        tables: part.tables(),
        plots: part.plots(),
        claims: Vec::new(),
        assumptions: Vec::new(),
        notes: Vec::new(),
        command: "bench/overload".to_owned(),
        seed: 0,
        quick: false,
    }
}

/// The tables of a part, as Markdown.
fn markdown(part: &PartResult) -> String {
    let mut text = format!("{}; capacity {:.0} calls/s.\n\n", part.title, part.capacity);
    for table in part.tables() {
        let mut shown = sarabande_bench::report::table(table.header.iter().map(String::as_str));
        shown.add_rows(&table.rows);
        write!(text, "{shown}\n\n").expect("memory takes all");
    }
    text
}

/// Keeps the pictures of a part, and its tables between the marks that the page has for them.
fn keep(figure: &Figure, tables: &str, out: &Path) -> Result<()> {
    for plot in 0..figure.plots.len() {
        let name = format!("{}.svg", figure.stem(plot));
        fs::copy(out.join(&name), format!("{KEPT}/{name}")).with_context(|| name.clone())?;
    }
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    let mark = format!("<!-- {} -->\n", figure.name);
    let (head, rest) = page.split_once(&mark).with_context(|| format!("{PAGE} has no {mark}"))?;
    let (_, tail) = rest.split_once("<!-- end -->").with_context(|| format!("{PAGE}: {mark} has no end"))?;
    fs::write(PAGE, format!("{head}{mark}{tables}<!-- end -->{tail}")).context(PAGE)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let bench = OverloadBench {
        sarabande: arguments.programs.sarabande()?,
        kamailio: arguments.programs.kamailio.clone(),
        sipp: arguments.sipp.clone(),
        quota: arguments.quota / 100.0,
        settle: arguments.settle,
        counted: arguments.counted,
        load_max: arguments.load_max,
    };
    let say = |what: &str| eprintln!("{what}");
    report::prepare(&arguments.out).with_context(|| arguments.out.display().to_string())?;
    let (mut figures, mut csv, mut page) = (Vec::new(), CSV_HEADER.to_owned(), String::new());
    for part in &arguments.parts {
        let seen = match part {
            Part::Members => members::run(&bench, &say)?,
            Part::Chain => chain::run(&bench, &say)?,
            Part::Local => local::run(&bench, &say)?,
            Part::Kamailio => kamailio::run(&bench, &say)?,
            Part::Registrations => registrations::run(&bench, &say)?,
        };
        let tables = markdown(&seen);
        println!("{tables}");
        page += &tables;
        csv += &seen.csv();
        figures.push(figure(&seen));
        // After each part: a later one that fails takes nothing away.
        fs::write(arguments.out.join("overload.csv"), &csv).context("overload.csv")?;
        fs::write(arguments.out.join("overload.md"), &page).context("overload.md")?;
        report::write(&arguments.out, &figures)?;
        if let (true, Some(figure)) = (arguments.record, figures.last()) {
            keep(figure, &tables, &arguments.out)?;
        }
    }
    Ok(())
}
