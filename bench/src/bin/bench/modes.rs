//! Costs of state (SERvartuka paper, section 2.1, figure 1): a call in each mode of a proxy, through Sarabande and
//! Kamailio.
//!
//! Each program runs under `callgrind` for equal times with few and with many calls. The difference belongs to the
//! additional calls, and is split by parts. `bench distribution --parts prices` measures processor time.

use anyhow::{Context, Result, bail};
use clap::Args;
use sarabande_bench::generator::{LoadGenerator, RunPlan};
use sarabande_bench::modes::{MODES, Mode, Product};
use sarabande_bench::parts::{Part, Parts, Profile, Rules};
use sarabande_bench::report::{name, number, table};
use sarabande_bench::scratch::Scratch;
use sarabande_bench::targets::{Programs, SERVERS};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Counts instructions of a call in each mode.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    programs: Programs,
    /// Calls a second under `callgrind`, few and many.
    #[arg(long, value_delimiter = ',', default_values_t = [10.0, 30.0])]
    counted: Vec<f64>,
    /// Writes instructions by part to this file, the data of figure servartuka-1. Modes that were not measured keep
    /// their values.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Keeps the profiles of `callgrind` in this directory.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Prints this many of the most expensive places of each mode.
    #[arg(long, default_value_t = 0)]
    places: usize,
    /// Programs to measure.
    #[arg(long = "targets", value_delimiter = ',', default_values = ["sarabande", "kamailio"])]
    products: Vec<Product>,
    /// Only modes whose name contains this text.
    #[arg(long, default_value = "")]
    modes: String,
}

/// Length of calls under `callgrind`, and time until their state is gone (64*T1, and Kamailio's timers).
const COUNTED: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_secs(14);

/// Most attempts of a run: if the machine is so busy that a call is lost, the run counts nothing.
const TRIES: usize = 4;

/// Returns the profile of a run at this rate in which all calls were completed.
fn count(
    arguments: &Arguments,
    target: (Mode, Product),
    rate: f64,
    driver: &mut LoadGenerator,
) -> Result<(Profile, f64)> {
    for _ in 0..TRIES {
        let (profile, completed, failed) = try_count(arguments, target, rate, driver)?;
        if failed == 0 {
            return Ok((profile, completed));
        }
    }
    bail!("calls have failed under callgrind")
}

/// Returns the profile of a run at this rate from start to end, and the numbers of completed and failed calls.
fn try_count(
    arguments: &Arguments,
    (mode, product): (Mode, Product),
    rate: f64,
    driver: &mut LoadGenerator,
) -> Result<(Profile, f64, u64)> {
    let scratch = Scratch::new("callgrind")?;
    let files = scratch.path();
    let wrap = |command: Command| {
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}/%p", files.display()));
        valgrind.arg(command.get_program()).args(command.get_args());
        // `rep movsb`, with which the C library copies a few kilobytes, would count as an instruction for each byte.
        valgrind.env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1000000000");
        valgrind
    };
    let target = mode.start(product, &arguments.programs, driver, wrap)?;
    let run = RunPlan { hold: Duration::from_millis(500), ..RunPlan::at(rate, COUNTED) };
    let outcome = driver.run(&target.addresses(), &run)?;
    eprintln!(
        "{:28} {:10} counted at {rate} calls/s: {} of {} failed",
        mode.name,
        name(&product),
        outcome.failed(),
        outcome.calls.len()
    );
    std::thread::sleep(LINGER);
    drop(target);
    let mut profile = Profile::default();
    for file in fs::read_dir(files)? {
        profile.read(&fs::read_to_string(file?.path())?)?;
    }
    if let Some(keep) = &arguments.keep {
        let kept = keep.join(format!("{}-{}-{rate}", name(&product), mode.name));
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        fs::rename(files, kept)?;
    }
    Ok((profile, outcome.completed() as f64, outcome.failed()))
}

/// Returns the instructions of a call.
fn instructions(
    arguments: &Arguments,
    (mode, product): (Mode, Product),
    driver: &mut LoadGenerator,
) -> Result<Parts> {
    let [few, many] = arguments.counted[..] else { bail!("--counted takes two rates") };
    let (less, few) = count(arguments, (mode, product), few, driver)?;
    let (more, many) = count(arguments, (mode, product), many, driver)?;
    let rules = match product {
        Product::Sarabande => Rules::Sarabande,
        Product::Kamailio => Rules::Kamailio,
    };
    for (cost, part, place) in more.dearest(&less, many - few, rules).iter().take(arguments.places) {
        println!("{cost:10.0} {:14} {place}", part.name());
    }
    Ok((more.parts(rules) - less.parts(rules)).each(many - few))
}

fn modes(arguments: &Arguments) -> impl Iterator<Item = Mode> {
    MODES.into_iter().filter(|mode| mode.name.contains(&arguments.modes))
}

fn record(file: &Path, counted: &[(Mode, Product, Parts)]) -> Result<()> {
    const HEAD: &str =
        "# Instructions of a call by mode and part, made by bench modes --record\nmode;program";
    let before = fs::read_to_string(file).unwrap_or_default();
    let mut text = HEAD.to_owned();
    Part::ALL.iter().try_for_each(|part| write!(text, ";{}", part.name()))?;
    for (mode, product) in MODES.iter().flat_map(|mode| Product::ALL.map(|product| (mode, product))) {
        let key = format!("\n{};{}", mode.name, name(&product));
        let now = counted.iter().find(|(of, by, _)| of == mode && *by == product);
        if let Some((_, _, parts)) = now {
            text.push_str(&key);
            Part::ALL.iter().try_for_each(|part| write!(text, ";{:.0}", parts[*part]))?;
        } else if let Some((_, kept)) = before.split_once(&format!("{key};")) {
            write!(text, "{key};{}", kept.lines().next().unwrap_or_default())?;
        }
    }
    text.push('\n');
    fs::write(file, text).with_context(|| file.display().to_string())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut driver = LoadGenerator::new(SERVERS, SERVERS)?;
    let mut counted = Vec::new();
    for mode in modes(arguments) {
        for &product in &arguments.products {
            counted.push((mode, product, instructions(arguments, (mode, product), &mut driver)?));
        }
    }
    let mut header = vec!["mode", "program", "all"];
    header.extend(Part::ALL.map(Part::name));
    let mut shown = table(header);
    for (mode, product, parts) in &counted {
        let mut row = vec![mode.name.to_owned(), name(product), number(parts.total(), 0)];
        row.extend(Part::ALL.map(|part| number(parts[part], 0)));
        shown.add_row(row);
    }
    println!("instructions of a call\n{shown}");
    arguments.record.as_deref().map_or(Ok(()), |file| record(file, &counted))
}
