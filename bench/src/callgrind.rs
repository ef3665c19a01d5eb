//! Counts the instructions of this program under `valgrind`, in another process.

use crate::hot::Length;
use crate::report::name;
use anyhow::{Context, Result, ensure};
use std::env::{current_exe, var_os};
use std::process::Command;
use std::thread::scope;

/// Returns the instructions for each unit of the work that this program does with these arguments. The program also
/// gets `--length`, and prints its number of units. A short and a long run have the same preparations, so the
/// difference is the work alone.
///
/// # Errors
/// Fails if `valgrind` cannot be run, the program fails, or the long run does no more than the short one.
pub fn measure(arguments: &[String]) -> Result<i64> {
    let (short, long) = scope(|threads| {
        let short = threads.spawn(|| count(arguments, Length::Short));
        let long = count(arguments, Length::Long);
        (short.join().expect("it returns its errors"), long)
    });
    let ((less, few), (more, many)) = (short?, long?);
    let command = arguments.join(" ");
    ensure!(more > less && many > few, "{command}: the long run did no more than the short one");
    Ok(((more - less) / (many - few)) as i64)
}

/// Returns the instructions of a whole run, and its number of units.
fn count(arguments: &[String], length: Length) -> Result<(u64, u64)> {
    // A clean environment, since its variables would move the stack.
    let output = Command::new("valgrind")
        .env_clear()
        .envs(var_os("PATH").map(|path| ("PATH", path)))
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(current_exe()?)
        .args(arguments)
        .args(["--length", &name(&length)])
        .output()
        .context("valgrind cannot be run; `./test.sh packages` installs it")?;
    let report = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed under valgrind: {report}", arguments.join(" "));
    let counted = report.lines().find_map(|line| line.split_once("Collected : "));
    let (_, counted) = counted.with_context(|| format!("valgrind printed no count: {report}"))?;
    Ok((counted.trim().parse()?, String::from_utf8(output.stdout)?.trim().parse()?))
}
