//! `status --watch`: the text of `status`, printed again each second.

use crate::print;
use anyhow::Result;
use std::io::{IsTerminal as _, stdout};
use std::thread::sleep;
use std::time::Duration;

/// How often the server is asked.
const PERIOD: Duration = Duration::from_secs(1);

/// Goes to the upper left corner and clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints what the server says until the reader goes away. Where no server answers at first there is nothing to watch.
pub(super) fn run(ask: impl Fn() -> Result<String>) -> Result<()> {
    let mut text = ask()?;
    let is_terminal = stdout().is_terminal();
    loop {
        print::text(if is_terminal { format!("{CLEAR}{text}\n") } else { format!("{text}\n\n") })?;
        sleep(PERIOD);
        text = ask().unwrap_or_else(|error| format!("{error:#}"));
    }
}
