//! The program under test as a proxy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::balancer::{binary, quoted};
use crate::child::Child;
use crate::field::TestSite;
use crate::http;
use crate::process::Process;
use crate::wait::{until, within};

/// Longest time for the last requests: an INVITE may be given up after 64*T1, and again that long after its CANCEL.
const REQUESTS_END: Duration = Duration::from_mins(2);

/// Starts the program, and waits until it is ready.
fn run(file: &Path, admin: SocketAddr) -> Child {
    let folder = file.parent().expect("it is in a folder");
    let mut child = Child::start("sarabande", folder, Command::new(binary()).arg("run").arg(file));
    until("the proxy is healthy", || {
        if let Some(status) = child.ended() {
            panic!("the proxy has ended: {status}");
        }
        http::request(admin, "GET", "/api/health").ok().filter(|reply| reply.status == 200)
    });
    child
}

/// A running proxy at a host of the site.
#[derive(Debug)]
pub struct RunningProxy {
    address: SocketAddr,
    admin: SocketAddr,
    child: Child,
    file: PathBuf,
}

impl RunningProxy {
    /// Starts a proxy at `host` that sends to `next`. `more` are further lines of its file, starting within `[proxy]`.
    pub fn start(field: &TestSite, host: u8, next: &[SocketAddr], more: &str) -> Self {
        Self::with_threads(field, host, next, 0, more)
    }

    /// The same with this many threads; 0: one for each core.
    pub fn with_threads(field: &TestSite, host: u8, next: &[SocketAddr], threads: usize, more: &str) -> Self {
        let next: Vec<String> = next.iter().map(quoted).collect();
        Self::of(field, host, threads, &format!("[proxy]\nnext = [{}]\n{more}\n", next.join(", ")))
    }

    /// Starts the program at `host` with this many threads and these tables.
    pub fn of(field: &TestSite, host: u8, threads: usize, tables: &str) -> Self {
        Self::listening(field, host, threads, "", tables)
    }

    /// The same with further lines of `[listen]`.
    pub fn listening(field: &TestSite, host: u8, threads: usize, listen: &str, tables: &str) -> Self {
        let (address, admin) = (field.sip(host), SocketAddr::new(field.ip(host), 8060));
        let text = format!(
            "[listen]\nudp = [\"{address}\"]\nthreads = {threads}\n{listen}\n[admin]\nlisten = \"{admin}\"\n[stop]\nwait = \"60s\"\n\
             [token]\nkey = \"000102030405060708090a0b0c0d0e0f\"\n{tables}"
        );
        let file = field.write(&format!("proxy-{host}/sarabande.toml"), text);
        let child = run(&file, admin);
        Self { address, admin, child, file }
    }

    /// Starts the program with these tables, which contain its listeners at host 1, from a file in this folder.
    pub fn with_text(field: &TestSite, folder: &Path, tables: &str) -> Self {
        let (address, admin) = (field.sip(1), SocketAddr::new(field.ip(1), 8060));
        let file = folder.join("sarabande.toml");
        let text = format!("{tables}\n[admin]\nlisten = \"{admin}\"\n");
        fs::write(&file, text).expect("the scratch folder can be written");
        let child = run(&file, admin);
        Self { address, admin, child, file }
    }

    /// Kills it with SIGKILL, and starts it again with the same file.
    pub fn kill_and_restart(&mut self) {
        self.child.kill();
        self.child = run(&self.file, self.admin);
    }

    /// Starts a second process with the same file, which takes over. Returns the first one.
    pub fn take_over(&mut self) -> Process {
        let next = Process::succeed(self.file.parent().expect("it is in a folder"), &self.file);
        Process(std::mem::replace(&mut self.child, next.0))
    }

    /// Returns its SIP address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of its admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        self.child.errors()
    }

    /// Returns the body of a GET of the admin interface.
    pub fn get(&self, path: &str) -> String {
        http::request(self.admin, "GET", path).expect("the admin interface answers").body
    }

    /// Returns a number of `GET /api/proxy`.
    pub fn figure(&self, key: &str) -> u64 {
        let body = self.get("/api/proxy");
        let value: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        value[key].as_u64().unwrap_or_else(|| panic!("number {key:?} in {body}"))
    }

    /// Waits until every request has its final response.
    pub fn wait_until_idle(&self) {
        within(REQUESTS_END, "every request is answered", || (self.figure("unanswered") == 0).then_some(()));
    }

    /// Sends SIGTERM, and waits until it has ended.
    pub fn stop(mut self) {
        self.child.signal(rustix::process::Signal::TERM);
        assert!(self.child.wait().success());
    }
}
