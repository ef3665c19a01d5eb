//! The balancer under test: its configuration file, its process, its admin interface.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::child::Child;
use crate::field::TestSite;
use crate::http::{self, Reply};
use crate::process::Process;
use crate::wait::{until, within};

/// Longest wait for leases to end. An unanswered transaction ends after 64*T1 = 32 s (RFC 3261 §17.1.2.2).
const LEASES_END: Duration = Duration::from_mins(1);

/// Settings of a configuration file. Tests change fields before they start a balancer.
#[derive(Debug, Clone)]
pub struct TestSettings {
    /// UDP listeners. Tests send to the first one.
    pub listen: Vec<SocketAddr>,
    /// Further lines of `[listen]`, such as listeners for connections.
    pub listen_more: Vec<String>,
    /// Address of the admin interface.
    pub admin: SocketAddr,
    /// Names that mean this balancer.
    pub names: Vec<String>,
    /// Threads; 0: one for each core.
    pub threads: usize,
    /// Members, each a TOML value: a quoted string such as `"127.1.2.3:5060"`, or a table.
    pub members: Vec<String>,
    /// Further lines of `[pool.servers]`.
    pub pool: Vec<String>,
    /// Lines of `[pool.servers.probe]`.
    pub probe: Vec<&'static str>,
    /// Lines of `[timers]`.
    pub timers: Vec<&'static str>,
    /// The token key.
    pub key: &'static str,
    /// Further lines of `[token]`.
    pub token: Vec<String>,
    /// Lines of `[dns]`.
    pub dns: Vec<String>,
    /// Lines of `[log]`.
    pub log: Vec<&'static str>,
    /// Further lines of `[admin]`.
    pub admin_more: Vec<String>,
    /// Further tables: other pools, routes, `[access]`.
    pub tables: String,
    /// Most file descriptors; `None`: the limit of this process.
    pub descriptors: Option<u64>,
    /// Name of the folder for its file and logs.
    pub name: &'static str,
}

impl TestSettings {
    /// A balancer at host 1 of the site with members at the given hosts, with quick probes and no slow start.
    pub fn new(field: &TestSite, members: &[u8]) -> Self {
        Self {
            listen: vec![field.sip(1)],
            listen_more: Vec::new(),
            admin: SocketAddr::new(field.ip(1), 8060),
            names: Vec::new(),
            threads: 0,
            members: members.iter().map(|host| quoted(&field.sip(*host))).collect(),
            pool: vec!["slow_start = \"0s\"".to_owned()],
            probe: vec!["interval = \"500ms\"", "timeout = \"400ms\""],
            timers: Vec::new(),
            key: "000102030405060708090a0b0c0d0e0f",
            token: Vec::new(),
            dns: Vec::new(),
            log: Vec::new(),
            admin_more: Vec::new(),
            tables: String::new(),
            descriptors: None,
            name: "balancer",
        }
    }

    pub(crate) fn text(&self) -> String {
        let listen: Vec<String> = self.listen.iter().map(quoted).collect();
        let names: Vec<String> = self.names.iter().map(quoted).collect();
        format!(
            "[listen]\nudp = [{}]\nnames = [{}]\nthreads = {}\n{}\n[pool.servers]\nmembers = [{}]\n{}\n\
             [pool.servers.probe]\n{}\n[timers]\n{}\n[token]\nkey = \"{}\"\n{}\n[dns]\n{}\n[log]\n{}\n\
             [admin]\nlisten = \"{}\"\n{}\n[stop]\nwait = \"60s\"\n{}\n",
            listen.join(", "),
            names.join(", "),
            self.threads,
            self.listen_more.join("\n"),
            self.members.join(", "),
            self.pool.join("\n"),
            self.probe.join("\n"),
            self.timers.join("\n"),
            self.key,
            self.token.join("\n"),
            self.dns.join("\n"),
            self.log.join("\n"),
            self.admin,
            self.admin_more.join("\n"),
            self.tables,
        )
    }
}

/// Returns the table `[tls]` with the certificates of the tests.
pub fn tls_table() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/live/streams/testdata/tls");
    format!(
        "[tls]\ncertificates = [{{ chain = \"{folder}/first.pem\", key = \"{folder}/first.key\" }}]\n\
         authorities = \"{folder}/authority.pem\"\n"
    )
}

/// Returns a TOML string.
pub fn quoted(value: &impl ToString) -> String {
    format!("{:?}", value.to_string())
}

/// A member as shown by the admin interface.
#[derive(Debug, Clone)]
pub struct ShownMember {
    /// Its address.
    pub address: SocketAddr,
    /// "up", "down", "draining", ...
    pub state: String,
    /// Whether it accepts new calls.
    pub accepting: bool,
    /// Live calls.
    pub calls: u64,
    /// Live transactions.
    pub transactions: u64,
    /// Weighted work.
    pub work: f64,
    /// Calls assigned to it in total.
    pub assigned: u64,
}

/// A running balancer.
#[derive(Debug)]
pub struct RunningBalancer {
    settings: TestSettings,
    file: PathBuf,
    child: Child,
}

impl RunningBalancer {
    /// Writes the file, starts the program, and waits until it is healthy and every member accepts calls.
    pub fn start(field: &TestSite, settings: TestSettings) -> Self {
        let balancer = Self::launch(field, settings);
        until("every member takes calls", || balancer.members().iter().all(|m| m.accepting).then_some(()));
        balancer
    }

    /// The same as [`RunningBalancer::start`], but does not wait for the members.
    pub fn launch(field: &TestSite, settings: TestSettings) -> Self {
        Self::launch_with_log_to(field, settings, None)
    }

    /// The same as [`RunningBalancer::launch`], with another destination of the log.
    pub fn launch_with_log_to(field: &TestSite, settings: TestSettings, log: Option<Stdio>) -> Self {
        let folder = field.folder().join(settings.name);
        let file = field.write(&format!("{}/sarabande.toml", settings.name), settings.text());
        let mut command = Command::new(binary());
        if let Some(most) = settings.descriptors {
            // As with a shell's default: the soft limit is half of the hard limit. `prlimit` execs the program.
            command = Command::new("prlimit");
            command.arg(format!("--nofile={}:{most}", most / 2)).arg(binary());
        }
        command.arg("run").arg(&file);
        let child = Child::start_with_errors_to("sarabande", &folder, &mut command, log);
        let mut balancer = Self { settings, file, child };
        balancer.wait_until_healthy();
        balancer
    }

    /// Returns its first SIP address.
    pub fn address(&self) -> SocketAddr {
        self.settings.listen[0]
    }

    /// Kills it with SIGKILL, and starts the program again with the same file.
    pub fn kill_and_restart(&mut self) {
        self.child.kill();
        let folder = self.child.folder().to_owned();
        self.child = Child::start("sarabande", &folder, Command::new(binary()).arg("run").arg(&self.file));
        self.wait_until_healthy();
    }

    /// Starts a second process with the same file, which takes over. Returns the first one.
    pub fn take_over(&mut self) -> Process {
        let next = Process::succeed(self.file.parent().expect("it is in a folder"), &self.file);
        Process(std::mem::replace(&mut self.child, next.0))
    }

    /// Starts a second process with the same file, without waiting for it.
    pub fn start_beside(&self) -> Process {
        Process::start(self.file.parent().expect("it is in a folder"), &self.file)
    }

    /// Makes `process` the current one, and returns the previous.
    pub fn replace(&mut self, process: Process) -> Process {
        Process(std::mem::replace(&mut self.child, process.0))
    }

    /// Rewrites the file and sends SIGHUP.
    pub fn reload(&mut self, change: impl FnOnce(&mut TestSettings)) {
        self.rewrite(change);
        self.child.signal(Signal::HUP);
    }

    /// Rewrites the file for the next process.
    pub fn set(&mut self, change: impl FnOnce(&mut TestSettings)) {
        self.rewrite(change);
    }

    /// Stops it with SIGSTOP, to simulate a hang.
    pub fn freeze(&mut self) {
        self.child.signal(Signal::STOP);
    }

    /// Continues a stopped process.
    pub fn thaw(&mut self) {
        self.child.signal(Signal::CONT);
    }

    /// Rewrites the file and asks the admin interface to load it.
    pub fn reload_by_request(&mut self, change: impl FnOnce(&mut TestSettings)) {
        self.rewrite(change);
        self.post("/api/reload");
    }

    /// Rewrites the file with an error. The admin interface must refuse it. Returns its message, and restores the file.
    pub fn refuse_reload(&mut self, spoil: impl FnOnce(&mut TestSettings)) -> String {
        let good = self.settings.clone();
        self.rewrite(spoil);
        let reply = http::request(good.admin, "POST", "/api/reload").expect("the admin interface answers");
        assert!((400..500).contains(&reply.status), "a wrong file: {} {}", reply.status, reply.body);
        self.rewrite(|settings| *settings = good);
        reply.body
    }

    fn rewrite(&mut self, change: impl FnOnce(&mut TestSettings)) {
        change(&mut self.settings);
        fs::write(&self.file, self.settings.text()).expect("the scratch folder can be written");
    }

    /// Sends SIGTERM: it takes no new calls, and ends after its last call.
    pub fn terminate(&mut self) {
        self.child.signal(Signal::TERM);
    }

    /// Returns its exit status if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.ended()
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait()
    }

    /// Sends a GET to the admin interface, which must succeed.
    pub fn get(&self, path: &str) -> String {
        self.ask("GET", path)
    }

    /// Sends a POST to the admin interface, which must succeed.
    pub fn post(&self, path: &str) -> String {
        self.ask("POST", path)
    }

    /// Starts or ends the drain of a member.
    pub fn set_draining(&self, member: SocketAddr, draining: bool) {
        self.post(&format!("/api/{}?member={member}", if draining { "drain" } else { "undrain" }));
    }

    fn ask(&self, method: &str, path: &str) -> String {
        let Reply { status, body } = http::request(self.settings.admin, method, path)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        assert!((200..300).contains(&status), "{method} {path}: {status} {body}");
        body
    }

    /// Returns all members.
    pub fn members(&self) -> Vec<ShownMember> {
        let body = self.get("/api/members");
        let value: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        value["members"]
            .as_array()
            .unwrap_or_else(|| panic!("a list of members in {body}"))
            .iter()
            .map(member)
            .collect()
    }

    /// Returns the member at `address`, if there is one.
    pub fn member(&self, address: SocketAddr) -> Option<ShownMember> {
        self.members().into_iter().find(|member| member.address == address)
    }

    /// Returns its view of connections.
    pub fn connections(&self) -> Value {
        let body = self.get("/api/connections");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// Returns the number of connections closed for this reason.
    pub fn closed(&self, reason: &str) -> u64 {
        let view = self.connections();
        view["closed_total"][reason].as_u64().unwrap_or_else(|| panic!("no {reason} in {view}"))
    }

    /// Returns the live calls of all members.
    pub fn calls(&self) -> u64 {
        self.members().iter().map(|member| member.calls).sum()
    }

    /// Waits until no member has a call, a transaction or work: every lease has ended.
    pub fn wait_until_idle(&self) {
        // A last copy of a request may arrive between the two answers.
        within(LEASES_END, "calls, transactions, work and active sessions return to zero", || {
            let members = self.members();
            let idle = |m: &ShownMember| m.calls == 0 && m.transactions == 0 && m.work.abs() < 1e-9;
            let sessions: Value =
                serde_json::from_str(&self.get("/api/sessions")).expect("sessions are JSON");
            (members.iter().all(idle) && sessions["active"] == 0).then_some(())
        });
    }

    /// Returns the sum of a metric's samples.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics");
        let of_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        let values: Vec<f64> = page.lines().filter(of_it).filter_map(value).collect();
        assert!(!values.is_empty(), "no metric {name} in {page}");
        values.iter().sum()
    }

    /// Limits the size of the files that it writes.
    pub fn limit_files(&self, bytes: Option<u64>) {
        self.child.limit_files(bytes);
    }

    /// Allows it this many more file descriptors than it has now.
    pub fn limit_descriptors(&self, more: u64) {
        self.child.limit_descriptors(more);
    }

    /// Returns the path of its configuration file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the address of its admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.settings.admin
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        self.child.errors()
    }

    fn wait_until_healthy(&mut self) {
        let admin = self.settings.admin;
        until("the balancer is healthy", || {
            if let Some(status) = self.child.ended() {
                panic!("the balancer has ended: {status}");
            }
            // It needs no token.
            http::request(admin, "GET", "/readyz").ok().filter(|reply| reply.status == 200)
        });
    }
}

fn member(value: &Value) -> ShownMember {
    let number = |key: &str| value[key].as_u64().unwrap_or_else(|| panic!("number {key:?} in {value}"));
    let text = |key: &str| value[key].as_str().unwrap_or_else(|| panic!("text {key:?} in {value}"));
    ShownMember {
        // It ends with its transport if that is not UDP.
        address: text("address")
            .split(';')
            .next()
            .and_then(|address| address.parse().ok())
            .unwrap_or_else(|| panic!("address in {value}")),
        state: text("state").to_owned(),
        accepting: value["accepting"].as_bool().unwrap_or_else(|| panic!("flag \"accepting\" in {value}")),
        calls: number("calls"),
        transactions: number("transactions"),
        work: value["work"].as_f64().unwrap_or_else(|| panic!("number \"work\" in {value}")),
        assigned: number("assigned_total"),
    }
}

/// Limit of a command, which may simulate for minutes on a busy machine. It bounds a hang and measures nothing.
const TOOL_ENDS: Duration = Duration::from_mins(10);

/// Commands of the program that end by themselves.
#[derive(Debug)]
pub struct Tool;

impl Tool {
    /// Runs a command in the site's folder to its end. Returns its exit status and standard output.
    pub fn run(field: &TestSite, arguments: &[&str]) -> (ExitStatus, String) {
        // Logs are appended to, so each run has its own.
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let folder = field.folder().join(format!("tool-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
        let mut child = Child::start("tool", &folder, Command::new(binary()).args(arguments));
        let status = child.wait_within(TOOL_ENDS);
        (status, child.output())
    }

    /// Starts a command that runs until it is dropped. `name` is the name of its log.
    pub fn start(field: &TestSite, name: &str, arguments: &[&str]) -> RunningTool {
        let folder = field.folder().join("tool");
        RunningTool { _child: Child::start(name, &folder, Command::new(binary()).args(arguments)) }
    }
}

/// A running command, ended on drop.
#[derive(Debug)]
pub struct RunningTool {
    pub(crate) _child: Child,
}

/// Returns the library that sets a process's wall clock, of the Debian package `faketime`.
pub(crate) fn faketime() -> PathBuf {
    let library = |folder: fs::DirEntry| folder.path().join("faketime/libfaketime.so.1");
    let folders = fs::read_dir("/usr/lib").expect("every Linux has it").flatten();
    let found = folders.map(library).find(|library| library.exists());
    found.expect("the package faketime is installed: ./test.sh packages")
}

/// Returns the program under test, for tests in which other programs start it: `SARABANDE_BIN`, or else the workspace's
/// release binary, brought up to date first.
pub fn program() -> &'static Path {
    binary()
}

pub(crate) fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| env::var_os("SARABANDE_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--package",
            "sarabande-cli",
            "--message-format",
            "json-render-diagnostics",
        ])
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    programs.next().expect("sarabande-cli has a program")
}
