//! Reading of a new password.

use crate::print;
use anyhow::{Result, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead as _, IsTerminal as _};

/// Settings of a terminal, which are restored when this is dropped.
struct Silence(Termios);

impl Silence {
    /// Makes the terminal show no input. Signals are off, too: an interrupted program could not restore it.
    fn start() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
        silent.local_modes |= LocalModes::ECHONL;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks twice for a password of `user` on a terminal, without showing it, or reads a line of standard input.
pub(crate) fn read(user: &str) -> Result<String> {
    if !io::stdin().is_terminal() {
        return line();
    }
    let _silence = Silence::start()?;
    print::note(format_args!("Password for {user} (not shown):"));
    let first = line()?;
    print::note("Again:");
    if line()? != first {
        bail!("the two passwords differ; nothing was changed");
    }
    Ok(first)
}

fn line() -> Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        bail!("no password was given; nothing was changed");
    }
    if password.contains(char::is_control) {
        bail!("the password contains a control character; nothing was changed");
    }
    Ok(password.to_owned())
}
