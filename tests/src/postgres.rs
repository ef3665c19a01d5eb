//! A PostgreSQL server of a test, which can be killed and restarted with its data.

use std::fs::{self, Permissions};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::certificates::Certificate;
use crate::child::Child;
use crate::field::TestSite;
use crate::tls_client::path_text;
use crate::wait::until;

/// Its port.
const PORT: u16 = 5432;

/// User ID of `nobody`, because the server refuses to run as root.
const NOBODY: u32 = 65_534;

/// The superuser and its password.
const OWNER: &str = "owner";
const PASSWORD: &str = "top secret";

/// `postgres` with a cluster of its own and password authentication (SCRAM); ended on drop.
#[derive(Debug)]
pub struct PostgresServer {
    address: SocketAddr,
    folder: PathBuf,
    certificate: Option<Certificate>,
    process: Child,
}

impl PostgresServer {
    /// Creates an empty cluster, starts it at an address of this test, and waits until it answers.
    pub fn start(site: &TestSite, host: u8) -> Self {
        Self::new(site, host, None)
    }

    /// The same with TLS for clients that ask for it.
    pub fn start_with_tls(site: &TestSite, host: u8, certificate: &Certificate) -> Self {
        Self::new(site, host, Some(certificate))
    }

    fn new(site: &TestSite, host: u8, certificate: Option<&Certificate>) -> Self {
        let address = SocketAddr::new(site.ip(host), PORT);
        let folder = site.folder().join(format!("postgres-{host}"));
        fs::create_dir_all(&folder).expect("the server's folder can be made");
        let password = folder.join("password");
        fs::write(&password, PASSWORD).expect("a file");
        if geteuid().is_root() {
            for path in [&folder, &password] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("root may give a file away");
            }
        }
        let mut command = program("initdb");
        command.arg("--pwfile").arg(&password).arg("-D").arg(folder.join("data"));
        command.args(["-U", OWNER, "-A", "scram-sha-256", "-E", "UTF8", "--locale", "C", "--no-sync"]);
        let status = Child::start("initdb", &folder, &mut command).wait();
        assert!(status.success(), "initdb: {status}, its log is in {}", folder.display());
        let certificate = certificate.map(|given| owned(given, &folder));
        let process = spawn(address, &folder, certificate.as_ref());
        let server = Self { address, folder, certificate, process };
        server.wait();
        server
    }

    /// Returns its URL with user and password of the owner.
    pub fn url(&self) -> String {
        let password = PASSWORD.replace(' ', "%20");
        format!("postgres://{OWNER}:{password}@{}/postgres", self.address)
    }

    /// Returns the output of `psql` for these statements: a line for each row, columns separated by bars.
    pub fn execute(&self, sql: &str) -> String {
        self.try_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The same in another database.
    pub fn execute_in(&self, database: &str, sql: &str) -> String {
        let url = self.url().replace("/postgres", &format!("/{database}"));
        self.psql(&url, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The same as [`PostgresServer::execute`], or the error of `psql`.
    pub fn try_execute(&self, sql: &str) -> Result<String, String> {
        self.psql(&self.url(), sql)
    }

    /// Kills its first process with SIGKILL. The others end when they notice.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts it after [`PostgresServer::kill`] with its data, and waits until it answers.
    pub fn restart(&mut self) {
        // The processes of its connections end with a delay, and hold its memory until then.
        until("the server is started again", || {
            self.process = spawn(self.address, &self.folder, self.certificate.as_ref());
            until("it listens, or has ended", || {
                (self.process.ended().is_some() || TcpStream::connect(self.address).is_ok()).then_some(())
            });
            self.process.ended().is_none().then_some(())
        });
        self.wait();
    }

    fn psql(&self, url: &str, sql: &str) -> Result<String, String> {
        let mut command = program("psql");
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(url);
        let output = command.current_dir(&self.folder).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    fn wait(&self) {
        until("the PostgreSQL server answers", || self.try_execute("SELECT 1").ok());
    }
}

impl Drop for PostgresServer {
    /// Ends it without further writes. SIGKILL would leave shared memory behind.
    fn drop(&mut self) {
        if !self.process.end(Signal::QUIT) {
            eprintln!("postgres at {} does not end, and is killed", self.address);
        }
    }
}

/// Copies the certificate for the server's user, which must own the key.
fn owned(given: &Certificate, folder: &Path) -> Certificate {
    let (chain, key) = (folder.join("server.pem"), folder.join("server.key"));
    for (from, to) in [(&given.chain, &chain), (&given.key, &key)] {
        fs::copy(from, to).expect("a file");
        fs::set_permissions(to, Permissions::from_mode(0o600)).expect("the test owns the file");
        if geteuid().is_root() {
            chown(to, Some(NOBODY), Some(NOBODY)).expect("root may give a file away");
        }
    }
    Certificate { chain, key }
}

fn spawn(address: SocketAddr, folder: &Path, certificate: Option<&Certificate>) -> Child {
    let IpAddr::V4(ip) = address.ip() else { panic!("addresses of tests are IPv4") };
    let mut command = program("postgres");
    command.arg("-D").arg(folder.join("data")).args(["-c", &format!("listen_addresses={ip}")]);
    command.args(["-c", &format!("port={}", address.port()), "-c", "unix_socket_directories="]);
    command.args(["-c", "fsync=off", "-c", "log_connections=off"]);
    if let Some(Certificate { chain, key }) = certificate {
        command.args(["-c", "ssl=on", "-c", &format!("ssl_cert_file={}", path_text(chain))]);
        command.args(["-c", &format!("ssl_key_file={}", path_text(key))]);
    }
    Child::start("postgres", folder, &mut command)
}

/// Returns a program of the newest installed version, run as a user who is not root.
fn program(name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed: ./test.sh packages");
    let versions = versions.flatten().map(|entry| entry.path().join("bin").join(name));
    let newest = versions.filter(|path| path.exists()).max();
    let mut command =
        Command::new(newest.unwrap_or_else(|| panic!("{name} is installed: ./test.sh packages")));
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
