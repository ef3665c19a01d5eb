//! Runs a program for a server: arguments, output, and a time limit.

use config::CommandLine;
use control::scale::DriverServer;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// Bytes of output and of errors that are kept. Of the errors, the last bytes are kept.
const OUTPUT: usize = 256 << 10;
const ERRORS: usize = 4 << 10;
/// Limit of an error line in the log, in characters.
const SHOWN: usize = 200;
/// Time for which output is read after the program has ended. A child of the program may keep the pipe open.
const REST: Duration = Duration::from_millis(200);

/// Returns the command of a program. It gets its own process group, so that its children can be killed with it. No
/// shell is used.
fn command(pool: &str, line: &CommandLine, server: Option<&DriverServer>) -> Command {
    let mut command = Command::new(&line.program);
    let known = known(pool, server);
    command.args(line.arguments.iter().map(|argument| filled(argument, &known)));
    for (name, value) in &known {
        command.env(format!("SARABANDE_{}", name.to_ascii_uppercase()), value);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// Returns the properties of a server by the names of [`config::PLACEHOLDERS`]. An unknown property is empty.
fn known(pool: &str, server: Option<&DriverServer>) -> Vec<(&'static str, String)> {
    let mut known = vec![("pool", pool.to_owned())];
    if let Some(server) = server {
        let address = |of: fn(&std::net::SocketAddr) -> String| server.address.as_ref().map(of);
        known.extend([
            ("server", address(ToString::to_string).unwrap_or_default()),
            ("host", address(|address| address.ip().to_string()).unwrap_or_default()),
            ("port", address(|address| address.port().to_string()).unwrap_or_default()),
            ("name", server.name.clone()),
            ("index", server.index.to_string()),
        ]);
    }
    known
}

/// Replaces placeholders, in one pass: inserted text is not searched again.
fn filled(argument: &str, known: &[(&str, String)]) -> String {
    let (mut text, mut rest) = (String::new(), argument);
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        let value = after.split_once('}').and_then(|(word, after)| {
            known.iter().find(|(name, _)| *name == word).map(|(_, value)| (value, after))
        });
        if let Some((value, after)) = value {
            text.push_str(value);
            rest = after;
        } else {
            text.push('{');
            rest = after;
        }
    }
    text + rest
}

/// Runs a program to its end. Returns its output, or its status and the last line of its errors.
pub(super) async fn run(
    pool: &str,
    line: &CommandLine,
    server: Option<&DriverServer>,
    timeout: Duration,
) -> Result<String, String> {
    let program = &line.program;
    let mut child =
        command(pool, line, server).spawn().map_err(|error| format!("{program} cannot be run: {error}"))?;
    let (mut output, mut errors) = (Tail::new(OUTPUT), Tail::new(ERRORS));
    let ended = {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut read = Box::pin(async { tokio::join!(output.read(out), errors.read(err)) });
        let mut has_read = false;
        let ends = async {
            loop {
                tokio::select! {
                    ended = child.wait() => break ended,
                    // A program that has closed both pipes continues until it ends.
                    _ = &mut read, if !has_read => has_read = true,
                }
            }
        };
        let ended = tokio::time::timeout(timeout, ends).await;
        if !has_read {
            // Output in the pipe is read after the end, too.
            let _ = tokio::time::timeout(REST, read).await;
        }
        ended
    };
    match ended {
        Err(_) => {
            kill(&mut child).await;
            Err(format!("{program} was killed after {timeout:?}{}", said(&errors)))
        }
        Ok(Err(error)) => Err(format!("{program}: {error}")),
        Ok(Ok(status)) if status.success() => Ok(output.text()),
        Ok(Ok(status)) => Err(format!("{program} failed: {status}{}", said(&errors))),
    }
}

async fn kill(child: &mut Child) {
    if let Some(group) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
        // The program may have ended just now.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait().await;
}

fn said(errors: &Tail) -> String {
    errors.last_line().map(|line| format!(": {line}")).unwrap_or_default()
}

struct Tail {
    bytes: Vec<u8>,
    most: usize,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    /// Reads to the end. Bytes beyond the limit are discarded, so that the program never blocks on a full pipe.
    async fn read(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut buffer = vec![0; 4096];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.add(&buffer[..length]);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let excess = self.bytes.len().saturating_sub(self.most);
        self.bytes.drain(..excess);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns the last non-empty line without control characters.
    fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().filter(|c| !c.is_control()).take(SHOWN).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once_and_other_braces_stay() {
        let known = [("server", "10.0.0.1:5060".to_owned()), ("name", "{server}".to_owned())];
        let filled = |text| filled(text, &known);
        assert_eq!(filled("--at={server},{name}"), "--at=10.0.0.1:5060,{server}");
        assert_eq!(filled("${X} {} {other} {"), "${X} {} {other} {");
        assert_eq!(filled("{{server}}"), "{10.0.0.1:5060}");
    }

    #[test]
    fn of_errors_the_last_line_is_shown_without_control_characters() {
        let mut tail = Tail::new(40);
        tail.add(b"a long line that is far too long to be kept\n");
        tail.add(b"the \x1b[31mcause\x07\n\n  \n");
        assert_eq!(tail.last_line().as_deref(), Some("the [31mcause"));
        assert_eq!(Tail::new(4).last_line(), None);
    }
}
