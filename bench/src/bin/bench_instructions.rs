//! The instruction gate: compares the instructions of each hot path, counted by `valgrind`, with those recorded in
//! `bench/instructions.toml`.
//!
//! Unlike time, instructions do not depend on other work of the machine: the same build has the same count to about ten
//! in a million. The tolerance is for changes without a cause in the path: inlining that changes with other code, and
//! the `memcpy` that the C library picks for the processor.

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use sarabande_bench::callgrind;
use sarabande_bench::hot::{HotPath, Length};
use sarabande_bench::report::name;
use std::env::consts::ARCH;
use std::env::var_os;
use std::fmt::Write as _;
use std::process::Command;
use toml::{Table, Value};

/// Counts the instructions of the hot paths, and fails if a count exceeds the record. `UPDATE_INSTRUCTIONS=1` writes
/// the record instead.
#[derive(Parser)]
struct Arguments {
    /// Does only the work of this path, to be counted from outside, and prints the number of units.
    #[arg(long, requires = "length")]
    path: Option<HotPath>,
    /// Amount of work.
    #[arg(long, requires = "path")]
    length: Option<Length>,
}

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.toml");
const TOLERANCE_PERCENT: f64 = 5.0;
const HOW_TO_RECORD: &str = "UPDATE_INSTRUCTIONS=1 ./test.sh instructions";

/// Returns the instructions for each unit.
fn measure(path: HotPath) -> Result<i64> {
    callgrind::measure(&["--path".to_owned(), name(&path)])
}

/// Returns the compiler's version, as `rustc 1.95.0 (...)`.
fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("rustc cannot be run")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn record(measured: &[(HotPath, i64)]) -> Result<()> {
    let mut text = format!(
        "# Instructions a unit of the hot paths, made by {HOW_TO_RECORD}\narch = \"{ARCH}\"\ncompiler = \"{}\"\n\n\
         [instructions]\n",
        compiler()?
    );
    for (path, instructions) in measured {
        writeln!(text, "{} = {instructions} # a {}", name(path), path.unit())?;
    }
    std::fs::write(RECORD, text).context(RECORD)
}

/// Prints all counts, and returns the deviations.
fn compare(recorded: &Table, measured: &[(HotPath, i64)]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for &(path, now) in measured {
        let (name, unit) = (name(&path), path.unit());
        let before = recorded.get(&name).and_then(Value::as_integer);
        let before = before.with_context(|| format!("{RECORD} has no {name}; record it: {HOW_TO_RECORD}"))?;
        let percent = 100.0 * (now - before) as f64 / before as f64;
        println!("{name:21} {before:>8} recorded, {now:>8} measured, {percent:+6.1} % a {unit}");
        if percent > TOLERANCE_PERCENT {
            wrong.push(format!("{name}: {before} instructions a {unit} are on record, {now} were measured"));
        } else if percent < -TOLERANCE_PERCENT {
            println!("{name} has become faster: record it with {HOW_TO_RECORD}");
        }
    }
    Ok(wrong)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let (Some(path), Some(length)) = (arguments.path, arguments.length) {
        println!("{}", path.run(length)?);
        return Ok(());
    }
    let measured = HotPath::value_variants().iter().map(|&path| Ok((path, measure(path)?)));
    let measured = measured.collect::<Result<Vec<_>>>()?;
    if var_os("UPDATE_INSTRUCTIONS").is_some() {
        return record(&measured);
    }
    let recorded: Table = std::fs::read_to_string(RECORD).context(RECORD)?.parse()?;
    let text = |key: &str| recorded.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("arch") != ARCH {
        println!("The record is for {}: {measured:?} on {ARCH} cannot be compared", text("arch"));
        return Ok(());
    }
    let here = compiler()?;
    let instructions = recorded.get("instructions").and_then(Value::as_table);
    let wrong = compare(instructions.context("the record has no [instructions]")?, &measured)?;
    if text("compiler") != here {
        println!(
            "The record is for {}, and this is {here}: the compiler may cause differences",
            text("compiler")
        );
        return Ok(());
    }
    if !wrong.is_empty() {
        bail!(
            "more than {TOLERANCE_PERCENT} % above the record:\n  {}\nIf the increase is intended: {HOW_TO_RECORD}",
            wrong.join("\n  ")
        );
    }
    Ok(())
}
