//! Processes of the program under test, each with its own ports. A server ends with its test.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for anything, so that a hang fails the test.
const LIMIT: Duration = Duration::from_mins(1);

/// The program with these arguments.
pub(crate) fn sarabande(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sarabande"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn output(arguments: &[&str]) -> Output {
    sarabande(arguments).output().expect("the program can be started")
}

/// Returns exit code, standard output and standard error.
pub(crate) fn outcome(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = output(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// Polls until there is a value.
pub(crate) fn until<T>(condition: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {condition}");
        sleep(Duration::from_millis(20));
    }
}

/// Returns the answer of an admin interface on this path.
pub(crate) fn get(admin: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).expect("the admin interface listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the response is UTF-8");
    answer.split_once("\r\n\r\n").expect("the response is HTTP").1.to_owned()
}

/// Returns an address of loopback that was free a moment ago, for UDP and TCP.
pub(crate) fn free() -> SocketAddr {
    until("a free port", || {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?.local_addr().ok()?;
        TcpListener::bind(udp).ok().map(|_| udp)
    })
}

/// Creates a folder for files of this test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the scratch folder can be created");
    folder
}

/// A process that is killed with its test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program can be started"))
    }

    /// Returns the resident memory in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(path).expect("the process runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = resident.and_then(|text| text.trim().strip_suffix(" kB"));
        number.and_then(|number| number.parse().ok()).expect("a number of KiB")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("the child can be waited for").is_none()
    }

    /// Waits until the process ends by itself, and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        until("the process ends", || self.0.try_wait().expect("the child can be waited for")).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Not `expect`: a panic while panicking would hide the first one.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `sarabande run`, with its admin interface.
pub(crate) struct Server {
    /// Address for `--admin`.
    pub(crate) admin: String,
    pub(crate) sip: SocketAddr,
    pub(crate) process: Running,
}

impl Server {
    /// Starts a server; `role` is the text of its `[pool.NAME]` or `[proxy]`.
    pub(crate) fn start(name: &str, role: &str) -> Self {
        Self::with_threads(1, name, role)
    }

    /// Like [`start`](Self::start), with this number of threads.
    pub(crate) fn with_threads(threads: usize, name: &str, role: &str) -> Self {
        let (sip, admin) = (free(), free().to_string());
        let file = folder(name).join("sarabande.toml");
        let text = format!(
            "[listen]\nudp = [\"{sip}\"]\ntcp = [\"{sip}\"]\nthreads = {threads}\n[admin]\nlisten = \"{admin}\"\n[stop]\nwait = \"1s\"\n{role}\n"
        );
        fs::write(&file, text).expect("the scratch folder can be written");
        let path = file.to_str().expect("a path in UTF-8");
        // Huge pages would hide how much memory the program needs.
        let mut command = sarabande(&["run", path]);
        let process = Running::start(command.env("MIMALLOC_ALLOW_THP", "0").stderr(Stdio::null()));
        let server = Self { admin, sip, process };
        // Exit code 4: the server runs, and takes no calls.
        until("the server answers", || server.ask(&["status"]).0.filter(|code| matches!(code, 0 | 4)));
        server
    }

    /// Runs a command against the server.
    pub(crate) fn ask(&self, command: &[&str]) -> (Option<i32>, String, String) {
        outcome(&[command, &["--admin", &self.admin]].concat())
    }
}
