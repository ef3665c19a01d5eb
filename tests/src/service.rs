//! The program as a systemd service: the tests run the commands of the unit in `packaging` as systemd does.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::balancer::{TestSettings, binary};
use crate::child::Child;
use crate::field::TestSite;

/// Longest time of a stop. The last calls are remembered for late messages.
const END: Duration = Duration::from_mins(2);

/// Longest time of a start, as in `TimeoutStartSec`.
const START: Duration = Duration::from_secs(90);

/// Name of the unit.
const NAME: &str = "sarabande.service";

/// A running service.
#[derive(Debug)]
pub struct Service {
    main: Child,
    folder: PathBuf,
    file: PathBuf,
    notified: UnixDatagram,
    starts: usize,
}

impl Service {
    /// Writes the file, and starts the service: `systemctl start`.
    pub fn start(field: &TestSite, settings: &TestSettings) -> Self {
        let folder = field.folder().join("service");
        fs::create_dir_all(folder.join("state")).expect("the scratch folder can be written");
        let file = field.write("service/etc/sarabande.toml", settings.text());
        // The output of `systemctl list-jobs` is in a file.
        let systemctl = field.write("service/bin/systemctl", "#!/bin/sh\ncat \"${0%/*}/jobs\"\n");
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let notified = UnixDatagram::bind(folder.join("notify")).expect("a socket can be bound");
        notified.set_read_timeout(Some(START)).expect("it is not zero");
        let main = main_process(&folder, &file, 0);
        let mut service = Self { main, folder, file, notified, starts: 1 };
        service.wait_until_ready();
        service
    }

    /// `systemctl restart`: the commands of a stop, then those of a start.
    pub fn restart(&mut self) {
        let status = self.stop_main("restart");
        assert!(status.success(), "the main process of before: {status}");
        let check = Command::new(binary()).arg("check").arg(&self.file).output().expect("it can be run");
        assert!(check.status.success(), "{check:?}");
        self.main = main_process(&self.folder, &self.file, self.starts);
        self.starts += 1;
        self.wait_until_ready();
    }

    /// `systemctl stop`.
    pub fn stop(mut self) {
        let status = self.stop_main("stop");
        assert!(status.success(), "the main process: {status}");
        assert_eq!(self.servers(), [0; 0], "a stop leaves no server behind");
    }

    /// Returns its folder for persistent data (`StateDirectory`).
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Returns the path of its configuration.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the servers that run with its configuration, without the main process.
    pub fn servers(&self) -> Vec<i32> {
        let is_server = |process: &procs::Process| {
            process.arguments.iter().any(|argument| Path::new(argument) == self.file)
                && !process.arguments.iter().any(|argument| argument == "--service")
        };
        procs::all().into_iter().filter(is_server).map(|process| process.id).collect()
    }

    /// As in systemd.service(5): runs `ExecStop`, then sends SIGTERM to the main process if it still runs
    /// (`KillMode=process`). Returns its exit status.
    fn stop_main(&mut self, job: &str) -> std::process::ExitStatus {
        fs::write(self.folder.join("bin/jobs"), format!("17 {NAME} {job} running\n"))
            .expect("it can be written");
        let line = unit_value("ExecStop");
        let script = line.split('\'').nth(1).expect("a command of the shell").to_owned();
        let script = script.replace("%n", NAME).replace("$MAINPID", &self.main.id().to_string());
        let path = format!("{}:{}", self.folder.join("bin").display(), env::var("PATH").unwrap_or_default());
        // A slow main process sees both at once.
        self.main.signal(Signal::STOP);
        let status = Command::new("/bin/sh").arg("-c").arg(script).env("PATH", path).status();
        assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{status:?}");
        self.main.signal(Signal::TERM);
        self.main.signal(Signal::CONT);
        self.main.wait_within(END)
    }

    fn wait_until_ready(&mut self) {
        let mut buffer = [0; 256];
        let length = self.notified.recv(&mut buffer).expect("systemd would give the start up");
        // The main process stays the same.
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), "READY=1");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for server in self.servers() {
            let Some(pid) = Pid::from_raw(server) else { continue };
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the value of a key of the unit.
fn unit_value(key: &str) -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/sarabande.service");
    let text = fs::read_to_string(unit).expect("the unit can be read");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {key} in {text}")).to_owned()
}

/// Starts the main process as in `ExecStart`.
fn main_process(folder: &Path, file: &Path, number: usize) -> Child {
    let line = unit_value("ExecStart");
    let arguments: Vec<_> = line.split_whitespace().skip(1).map(str::to_owned).collect();
    let mut command = Command::new(binary());
    for argument in arguments {
        if Path::new(&argument).extension().is_some_and(|end| end == "toml") {
            command.arg(file)
        } else {
            command.arg(argument)
        };
    }
    command.env("NOTIFY_SOCKET", folder.join("notify")).env("STATE_DIRECTORY", folder.join("state"));
    Child::start("sarabande", &folder.join(format!("start-{number}")), &mut command)
}

mod procs {
    //! Processes of the machine.

    use std::fs;

    pub(super) struct Process {
        pub(super) id: i32,
        pub(super) arguments: Vec<String>,
    }

    pub(super) fn all() -> Vec<Process> {
        let process = |entry: fs::DirEntry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let arguments: Vec<_> = line.split('\0').map(str::to_owned).collect();
            // A zombie has no arguments.
            (!line.is_empty()).then_some(Process { id, arguments })
        };
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(process).collect()
    }
}
