//! Output of the commands. If the reader goes away (`| head`), a command ends silently, as other tools do; a full disk
//! is an error. `println!` would panic in both cases.

use anyhow::Result;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, IsTerminal as _, Write};

/// Exit code that a shell reports for a program killed by SIGPIPE: 128 and the number of the signal.
pub(crate) const CLOSED: u8 = 128 + 13;

/// Standard output cannot be written.
#[derive(Debug)]
struct Failed(io::Error);

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for Failed {}

/// Prints a line.
pub(crate) fn line(text: impl Display) -> Result<()> {
    writeln!(io::stdout(), "{text}").map_err(failed)
}

/// Prints a text without changes.
pub(crate) fn text(text: impl Display) -> Result<()> {
    let mut out = io::stdout();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(failed)
}

/// Prints a line to standard error: progress, or the reason of a failure. Errors are ignored.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Progress of a wait: one line that changes on a terminal, a line for each change elsewhere.
pub(crate) struct Progress {
    terminal: bool,
    shown: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { terminal: io::stdout().is_terminal(), shown: String::new() }
    }

    pub(crate) fn show(&mut self, now: String) -> Result<()> {
        if self.terminal {
            text(format_args!("\r\x1b[K{now}"))?;
        } else if now != self.shown {
            line(&now)?;
        }
        self.shown = now;
        Ok(())
    }

    /// Ends the line, so that later output starts on a new one.
    pub(crate) fn end(self) -> Result<()> {
        if self.terminal { line("") } else { Ok(()) }
    }
}

/// A failure to write standard output, as an error.
pub(crate) fn failed(error: io::Error) -> anyhow::Error {
    anyhow::Error::new(Failed(error))
}

/// Whether a command ended because its reader went away.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failed>().is_some_and(|Failed(error)| error.kind() == ErrorKind::BrokenPipe)
}

/// [`line()`](crate::print::line()) with a format, to be followed by `?`.
macro_rules! print_line {
    ($($format:tt)*) => { $crate::print::line(format_args!($($format)*)) };
}

/// [`note`] with a format.
macro_rules! print_note {
    ($($format:tt)*) => { $crate::print::note(format_args!($($format)*)) };
}
