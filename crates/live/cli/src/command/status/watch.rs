//! `status --watch`: prints the text of `status` every second.

use crate::print;
use anyhow::Result;
use std::io::{IsTerminal as _, stdout};
use std::thread::sleep;
use std::time::Duration;

/// Interval between two requests.
const PERIOD: Duration = Duration::from_secs(1);

/// Moves the cursor to the upper left corner and clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints the answers of the server until the reader goes away. Fails if no server answers at first.
pub(super) fn run(ask: impl Fn() -> Result<String>) -> Result<()> {
    let mut text = ask()?;
    let is_terminal = stdout().is_terminal();
    loop {
        print::text(if is_terminal { format!("{CLEAR}{text}\n") } else { format!("{text}\n\n") })?;
        sleep(PERIOD);
        text = ask().unwrap_or_else(|error| format!("{error:#}"));
    }
}
