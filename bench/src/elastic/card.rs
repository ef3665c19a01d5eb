//! A server's machine behind a network card that it shares: network namespaces, which go with this value.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What makes it.
const SCRIPT: &str = include_str!("../../card.sh");
/// What a neighbour sends each way, bits a second: a quarter of what the card carries.
const NEIGHBOUR: &str = "2500000";
/// Where nobody listens.
const DISCARD: u16 = 9;

/// A server's machine, and the host that it is on.
pub(super) struct Card {
    name: String,
    /// The end of the card that is not on the host.
    outside: String,
    number: usize,
}

impl Card {
    /// Of the server with this index.
    pub(super) fn new(index: usize) -> Result<Self> {
        let (id, number) = (std::process::id(), index + 1);
        // A device has at most 15 characters.
        let card =
            Self { name: format!("sarabande-{id}-{number}"), outside: format!("c{id}-{number}"), number };
        let made = Command::new("sh")
            .args(["-c", SCRIPT, "card.sh", &card.name, &card.outside, &number.to_string()])
            .status()
            .context("cannot start sh")?;
        ensure!(made.success(), "cannot make a network card; needs root, ip and tc");
        Ok(card)
    }

    /// The same command on the server's machine.
    pub(super) fn on_machine(&self, command: &Command) -> Command {
        within(&self.name, command)
    }

    /// The commands of a neighbour: one on the host, which sends out through the card, and one that sends to the host.
    pub(super) fn neighbour(&self, script: &std::path::Path) -> [Command; 2] {
        let send = |to: u8| {
            let mut python = Command::new("python3");
            python.arg(script).args([format!("10.78.{}.{to}:{DISCARD}", self.number), NEIGHBOUR.to_owned()]);
            python
        };
        [within(&format!("{}-host", self.name), &send(1)), send(2)]
    }
}

fn within(namespace: &str, command: &Command) -> Command {
    let mut ip = Command::new("ip");
    ip.args(["netns", "exec", namespace]).arg(command.get_program()).args(command.get_args());
    ip
}

impl Drop for Card {
    fn drop(&mut self) {
        // The device first: a namespace takes its devices with it some time later. What is not there need not go.
        let host = format!("{}-host", self.name);
        for arguments in
            [["link", "del", &self.outside], ["netns", "del", &host], ["netns", "del", &self.name]]
        {
            let _ = Command::new("ip").args(arguments).stderr(std::process::Stdio::null()).status();
        }
    }
}
