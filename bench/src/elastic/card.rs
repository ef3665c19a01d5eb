//! A server's machine behind a shared network card: network namespaces, removed on drop.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Script that creates the namespaces.
const SCRIPT: &str = include_str!("../../card.sh");
/// Traffic of a neighbour in each direction, in bits a second: a quarter of the card's capacity.
const NEIGHBOUR: &str = "2500000";
/// A port without a listener.
const DISCARD: u16 = 9;

/// A server's machine, and its host.
pub(super) struct Card {
    name: String,
    /// End of the card outside the host.
    outside: String,
    number: usize,
}

impl Card {
    /// Creates the machine of the server with this index.
    pub(super) fn new(index: usize) -> Result<Self> {
        let (id, number) = (std::process::id(), index + 1);
        // A device name has at most 15 characters.
        let card =
            Self { name: format!("sarabande-{id}-{number}"), outside: format!("c{id}-{number}"), number };
        let made = Command::new("sh")
            .args(["-c", SCRIPT, "card.sh", &card.name, &card.outside, &number.to_string()])
            .status()
            .context("cannot start sh")?;
        ensure!(made.success(), "cannot make a network card; needs root, ip and tc");
        Ok(card)
    }

    /// Returns the same command on the server's machine.
    pub(super) fn on_machine(&self, command: &Command) -> Command {
        within(&self.name, command)
    }

    /// Returns the commands of a neighbour: one on the host sends out through the card, the other sends to the host.
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
        // The device first: deleting a namespace deletes its devices only some time later. Errors about missing ones
        // are ignored.
        let host = format!("{}-host", self.name);
        for arguments in
            [["link", "del", &self.outside], ["netns", "del", &host], ["netns", "del", &self.name]]
        {
            let _ = Command::new("ip").args(arguments).stderr(std::process::Stdio::null()).status();
        }
    }
}
