//! Programs that start and stop servers, such as the command line of a cloud or a hypervisor.

use super::program::run;
use super::{Answer, Driver};
use config::CommandLine;
use control::scale::{DriverServer, Listing, ServerSet};
use std::time::Duration;

/// A driver that runs programs to start and stop servers.
pub(super) struct CommandDriver {
    pool: String,
    start: CommandLine,
    stop: CommandLine,
    list: Option<CommandLine>,
    timeout: Duration,
}

impl CommandDriver {
    pub(super) fn new(
        pool: String,
        (start, stop, list): (CommandLine, CommandLine, Option<CommandLine>),
        timeout: Duration,
    ) -> Self {
        Self { pool, start, stop, list, timeout }
    }

    async fn done(&self, line: &CommandLine, server: &DriverServer) -> Result<(), String> {
        run(&self.pool, line, Some(server), self.timeout).await.map(drop)
    }
}

impl Driver for CommandDriver {
    fn start<'a>(&'a self, server: &'a DriverServer) -> Answer<'a, ()> {
        Box::pin(self.done(&self.start, server))
    }

    fn stop<'a>(&'a self, server: &'a DriverServer) -> Answer<'a, ()> {
        Box::pin(self.done(&self.stop, server))
    }

    fn list(&self) -> Answer<'_, Listing> {
        Box::pin(async {
            let Some(list) = &self.list else { return Ok(ServerSet::Unknown.into()) };
            let text = run(&self.pool, list, None, self.timeout).await?;
            let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
            Ok(ServerSet::Named(names.map(as_named).collect()).into())
        })
    }
}

/// Converts a name that a program has printed into a member's name. The port may be missing.
fn as_named(printed: &str) -> String {
    config::member_address(printed).map_or_else(|_| printed.to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> CommandLine {
        CommandLine { program: "sh".to_owned(), arguments: vec!["-c".to_owned(), text.to_owned()] }
    }

    fn driver(start: &str, stop: &str, list: Option<&str>, timeout: Duration) -> CommandDriver {
        CommandDriver::new("pbx".to_owned(), (shell(start), shell(stop), list.map(shell)), timeout)
    }

    fn server() -> DriverServer {
        let address = "127.0.0.7:5062".parse().ok();
        DriverServer { index: 2, name: "pbx-2.example.com".to_owned(), address, others: Vec::new(), count: 3 }
    }

    const LONG: Duration = Duration::from_mins(5);

    #[tokio::test]
    async fn placeholders_are_filled_from_the_server() {
        let start = "test \"$SARABANDE_POOL $SARABANDE_SERVER $SARABANDE_HOST $SARABANDE_PORT $SARABANDE_NAME $SARABANDE_INDEX\" = \
                     'pbx 127.0.0.7:5062 127.0.0.7 5062 pbx-2.example.com 2' && \
                     test {server}/{name} = 127.0.0.7:5062/pbx-2.example.com";
        let driver = driver(start, "exit 1", None, LONG);
        assert_eq!(driver.start(&server()).await, Ok(()));
        let unresolved = DriverServer { address: None, ..server() };
        assert!(driver.start(&unresolved).await.is_err(), "an unknown address is empty");
    }

    #[tokio::test]
    async fn a_failure_shows_its_status_and_its_last_line() {
        let driver =
            driver("echo a lot; echo first >&2; echo no quota >&2; exit 3", "kill -9 $$", None, LONG);
        let failed = driver.start(&server()).await;
        assert_eq!(failed, Err("sh failed: exit status: 3: no quota".to_owned()));
        assert_eq!(driver.stop(&server()).await, Err("sh failed: signal: 9 (SIGKILL)".to_owned()));
        let absent = CommandLine { program: "/nonexistent/program".to_owned(), arguments: Vec::new() };
        let absent = CommandDriver::new(String::new(), (absent.clone(), absent, None), LONG);
        let error = absent.start(&server()).await.expect_err("the program does not exist");
        assert!(error.starts_with("/nonexistent/program cannot be run: No such file"), "{error}");
    }

    /// The children of the program are killed too, since the pipe of its errors is closed only when all of them are
    /// gone.
    #[tokio::test]
    async fn a_program_that_hangs_is_killed() {
        let hangs = "echo waiting >&2; sleep 1000 & echo $! > \"$0.pid\"; wait";
        let folder = std::env::temp_dir().join(format!("sarabande-scale-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("hangs");
        let mut line = shell(hangs);
        line.arguments.push(path.display().to_string());
        let driver =
            CommandDriver::new("pbx".to_owned(), (line.clone(), line, None), Duration::from_millis(500));
        let error = driver.start(&server()).await.expect_err("the program hangs");
        assert_eq!(error, "sh was killed after 500ms: waiting");
        let child =
            std::fs::read_to_string(path.with_extension("pid")).expect("the program has started a child");
        // The child is ended too, or is a zombie at most.
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
            stat.ok().filter(|stat| !stat.contains(") Z "))
        };
        while state().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
    }

    /// A server that the program starts inherits its pipes.
    #[tokio::test]
    async fn a_program_ends_even_if_its_children_run_on() {
        let driver = driver("sleep 20 & echo started >&2", "true", None, Duration::from_secs(10));
        assert_eq!(driver.start(&server()).await, Ok(()));
    }

    #[test]
    fn printed_names_are_those_of_members() {
        let printed = ["10.0.0.3", "10.0.0.3:5070", "PBX.example.com", "pbx:5070", "no name"];
        let named = ["10.0.0.3:5060", "10.0.0.3:5070", "pbx.example.com", "pbx:5070", "no name"];
        assert_eq!(printed.map(as_named), named);
    }

    #[tokio::test]
    async fn servers_are_listed_by_line_despite_much_error_output() {
        let list = "yes none | head -n 200000 >&2; printf 'a.example.com\\n\\n 10.0.0.1:5060 \\n'";
        let running = driver("true", "true", Some(list), LONG).list().await;
        let names = ["a.example.com", "10.0.0.1:5060"].map(str::to_owned);
        assert_eq!(running, Ok(ServerSet::Named(names.to_vec()).into()));
        assert_eq!(driver("true", "true", None, LONG).list().await, Ok(ServerSet::Unknown.into()));
        let error = driver("true", "true", Some("echo cloud is away >&2; exit 1"), LONG).list().await;
        assert_eq!(error, Err("sh failed: exit status: 1: cloud is away".to_owned()));
    }
}
