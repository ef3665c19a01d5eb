//! Servers as children of this process: for tests and demonstrations. They end with this process, unless it is
//! killed: then they go on, and a next process does not know them.

use super::program::{Tail, command, group, kill, shown};
use super::{Answer, Driver};
use config::CommandLine;
use control::scale::{Listing, Running, Server};
use rustix::process::{Signal, kill_process_group};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Child;

/// Keeps servers as children.
pub(super) struct LocalDriver {
    pool: String,
    line: CommandLine,
    timeout: Duration,
    /// By the number of the server.
    children: Mutex<BTreeMap<u32, Kept>>,
}

/// A child, and the last that it said.
struct Kept {
    child: Child,
    name: String,
    errors: Arc<Mutex<Tail>>,
}

impl LocalDriver {
    pub(super) fn new(pool: String, line: CommandLine, timeout: Duration) -> Self {
        Self { pool, line, timeout, children: Mutex::default() }
    }

    fn children(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Kept>> {
        // Nobody panics while he holds it.
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, server: &Server) -> Result<(), String> {
        self.forget_ended();
        let mut children = self.children();
        if children.contains_key(&server.index) {
            return Ok(());
        }
        let program = &self.line.program;
        let mut command = command(&self.pool, &self.line, Some(server));
        let spawned = command.kill_on_drop(true).stdout(std::process::Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| format!("{program} cannot be run: {error}"))?;
        let errors = Arc::new(Mutex::new(Tail::of_errors()));
        if let Some(mut from) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            // Ends with the child.
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(length @ 1..) = from.read(&mut buffer).await {
                    errors.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..length]);
                }
            });
        }
        children.insert(server.index, Kept { child, name: server.name.clone(), errors });
        Ok(())
    }

    /// The servers that have ended without being asked to.
    fn forget_ended(&self) {
        self.children().retain(|_, kept| {
            let Ok(Some(status)) = kept.child.try_wait() else { return true };
            let said = kept.errors.lock().unwrap_or_else(PoisonError::into_inner).last_line();
            tracing::warn!(server = %kept.name, status = shown(status), said, "scale: a server has ended by itself");
            false
        });
    }

    async fn end(&self, server: &Server) -> Result<(), String> {
        let Some(Kept { mut child, .. }) = self.children().remove(&server.index) else { return Ok(()) };
        if let Some(group) = group(&child) {
            // It may have ended just now.
            let _ = kill_process_group(group, Signal::TERM);
        }
        if tokio::time::timeout(self.timeout, child.wait()).await.is_err() {
            kill(&mut child).await;
            tracing::warn!(server = %server.name, "scale: a server did not end when it was asked to: killed");
        }
        Ok(())
    }
}

/// Each has a process group of its own, which ends as a whole; the child itself ends by `kill_on_drop` in any case.
impl Drop for LocalDriver {
    fn drop(&mut self) {
        for kept in self.children().values() {
            if let Some(group) = group(&kept.child) {
                let _ = kill_process_group(group, Signal::TERM);
            }
        }
    }
}

impl Driver for LocalDriver {
    fn start<'a>(&'a self, server: &'a Server) -> Answer<'a, ()> {
        Box::pin(async { self.spawn(server) })
    }

    fn stop<'a>(&'a self, server: &'a Server) -> Answer<'a, ()> {
        Box::pin(self.end(server))
    }

    fn list(&self) -> Answer<'_, Listing> {
        Box::pin(async {
            self.forget_ended();
            Ok(Running::Numbered(self.children().keys().copied().collect()).into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(text: &str) -> LocalDriver {
        let arguments = vec!["-c".to_owned(), text.to_owned()];
        LocalDriver::new(
            "pbx".to_owned(),
            CommandLine { program: "sh".to_owned(), arguments },
            Duration::from_millis(300),
        )
    }

    fn server(index: u32) -> Server {
        Server { index, name: format!("server {index}"), address: None, others: Vec::new(), count: 1 }
    }

    async fn runs(driver: &LocalDriver) -> Vec<u32> {
        match driver.list().await.map(|listing| listing.running) {
            Ok(Running::Numbered(numbers)) => numbers,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn children_start_once_and_stop_when_asked() {
        let driver = driver("exec sleep 1000");
        for index in [4, 1, 4] {
            assert_eq!(driver.start(&server(index)).await, Ok(()));
        }
        assert_eq!(runs(&driver).await, [1, 4]);
        assert_eq!(driver.stop(&server(4)).await, Ok(()));
        assert_eq!(driver.stop(&server(9)).await, Ok(()), "there is none");
        assert_eq!(runs(&driver).await, [1]);
    }

    #[tokio::test]
    async fn a_child_that_does_not_end_is_killed() {
        let driver = driver("trap '' TERM; while :; do sleep 0.05; done");
        assert_eq!(driver.start(&server(0)).await, Ok(()));
        assert_eq!(driver.stop(&server(0)).await, Ok(()));
        assert_eq!(runs(&driver).await, [0; 0]);
    }

    #[tokio::test]
    async fn a_child_that_ends_by_itself_runs_no_more() {
        let driver = driver("echo out of memory >&2; exit 1");
        assert_eq!(driver.start(&server(0)).await, Ok(()));
        while runs(&driver).await == [0] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(driver.start(&server(0)).await, Ok(()), "it can be started again");
    }
}
