//! The Cloud paper's case, live: servers that contend for their processor, that are started and stopped, and that are
//! watched.

mod cells;
mod tables;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use papers::report::{self, Figure, Plot, ReportTable};
use sarabande_bench::elastic::{Bench, contention, overhead, scaling};

use crate::programs::ProgramPaths;

/// Measures servers behind a queue: beside busy neighbours, started and stopped by the scaler, and beside their
/// monitors. Needs root, for control groups and packets; twenty minutes, and hours with the part `cells`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    programs: ProgramPaths,
    /// What each server may use, in percent of a processor.
    #[arg(long, default_value_t = 15.0)]
    quota: f64,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values = ["contention", "scaling", "overhead"])]
    parts: Vec<Part>,
    /// Tables, pictures and a page are written to this folder.
    #[arg(long, default_value = "target/elastic")]
    out: PathBuf,
    /// Keeps pictures, and tables of cells, in docs/elastic, and what monitors cost in the figures of the paper.
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    cells: cells::CellArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// Busy neighbours under many conditions, by all ways to share calls out, with verdicts about the queue.
    Cells,
    Contention,
    Scaling,
    Overhead,
}

/// Where what is kept goes, from the repository's folder.
const PICTURES: &str = "docs/elastic";
const OVERHEAD: &str = "crates/study/papers/src/figures/smace/overhead.csv";

fn print(table: &ReportTable) {
    let mut shown = comfy_table::Table::new();
    shown.load_preset(comfy_table::presets::NOTHING).set_header(&table.header).add_rows(&table.rows);
    println!("{shown}\n");
}

fn figure(name: &str, title: &str, table: ReportTable, plots: Vec<Plot>) -> Figure {
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        source: "measured with Kamailio".to_owned(),
        tables: vec![table],
        plots,
        claims: Vec::new(),
        assumptions: Vec::new(),
        notes: Vec::new(),
        command: "bench/elastic".to_owned(),
        seed: 0,
        quick: false,
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sarabande = arguments.programs.sarabande()?;
    let bench = |percent| Bench {
        sarabande: sarabande.clone(),
        kamailio: arguments.programs.kamailio.clone(),
        quota: percent / 100.0,
    };
    let say = |what: &str| eprintln!("{what}");
    report::prepare(&arguments.out).with_context(|| arguments.out.display().to_string())?;
    let mut figures = Vec::new();
    for part in &arguments.parts {
        let (name, csv) = match part {
            Part::Cells => {
                cells::run(bench(arguments.quota), &arguments.cells, &arguments.out, arguments.record)?;
                continue;
            }
            Part::Contention => {
                let seen = contention::run(&bench(arguments.quota), &say)?;
                print(&seen.table());
                figures.push(figure("contention", "A busy neighbour", seen.table(), seen.plots()));
                ("contention-seconds.csv", seen.csv())
            }
            Part::Scaling => {
                let seen = scaling::run(&bench(arguments.quota), &say)?;
                print(&seen.table());
                figures.push(figure("scaling", "Servers as calls come and go", seen.table(), seen.plots()));
                ("scaling-seconds.csv", seen.csv())
            }
            Part::Overhead => {
                let seen = overhead::run(&bench(arguments.quota), arguments.cells.overhead(), &say)?;
                print(&seen.table());
                if arguments.record {
                    fs::write(OVERHEAD, seen.csv()).context(OVERHEAD)?;
                }
                ("overhead.csv", seen.csv())
            }
        };
        fs::write(arguments.out.join(name), csv).with_context(|| name.to_owned())?;
    }
    if !figures.is_empty() {
        println!("{}", report::write(&arguments.out, &figures)?.display());
    }
    if arguments.record {
        report::prepare(PICTURES.as_ref())?;
        for figure in &figures {
            for plot in 0..figure.plots.len() {
                let name = format!("{}.svg", figure.stem(plot));
                fs::copy(arguments.out.join(&name), format!("{PICTURES}/{name}"))
                    .with_context(|| name.clone())?;
            }
        }
    }
    Ok(())
}
