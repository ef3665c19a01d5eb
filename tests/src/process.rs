//! A process started beside another one with the same configuration.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;

use crate::balancer::binary;
use crate::child::Child;
use crate::field::fresh;
use crate::wait::{until, within};

/// Longest time of a process to end after its calls. The last ones are remembered for late messages.
const END: Duration = Duration::from_mins(2);

/// One of the processes, killed on drop.
#[derive(Debug)]
pub struct Process(pub(crate) Child);

impl Process {
    /// Starts the program with the file of the process in `folder`, and waits until it has taken over.
    pub(crate) fn succeed(folder: &Path, file: &Path) -> Self {
        let mut process = Self::start(folder, file);
        until("the successor has taken over", || {
            assert_eq!(process.ended(), None, "the successor has ended");
            process.log().contains("taken over from the predecessor").then_some(())
        });
        process
    }

    /// The same without waiting. Each process has a log of its own.
    pub(crate) fn start(folder: &Path, file: &Path) -> Self {
        Self(Child::start("sarabande", &fresh(folder, "next"), Command::new(binary()).arg("run").arg(file)))
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        self.0.errors()
    }

    /// Returns its exit status if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.ended()
    }

    /// Waits until it ends by itself, with success.
    pub fn wait(mut self) {
        let status = within(END, "the process ends", || self.0.ended());
        assert!(status.success(), "{status}");
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.0.kill();
    }

    /// Stops it with SIGSTOP, to simulate a hang.
    pub fn freeze(&mut self) {
        self.0.signal(Signal::STOP);
    }

    /// Continues a stopped process.
    pub fn thaw(&mut self) {
        self.0.signal(Signal::CONT);
    }
}
