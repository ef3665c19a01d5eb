//! A Redis server of a test, which can be killed, stopped and restarted with its data.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::certificates::Certificate;
use crate::child::Child;
use crate::field::TestSite;
use crate::wait::until;

/// Its ports.
const PORT: u16 = 6379;
const TLS_PORT: u16 = 6380;

/// `redis-server` that syncs its append-only file before each response; killed on drop.
#[derive(Debug)]
pub struct RedisServer {
    address: SocketAddr,
    folder: PathBuf,
    certificate: Option<Certificate>,
    process: Child,
}

impl RedisServer {
    /// Starts an empty one at an address of this test, and waits until it answers.
    pub fn start(site: &TestSite, host: u8) -> Self {
        Self::new(site, host, None)
    }

    /// The same with TLS at another port.
    pub fn start_with_tls(site: &TestSite, host: u8, certificate: Certificate) -> Self {
        Self::new(site, host, Some(certificate))
    }

    fn new(site: &TestSite, host: u8, certificate: Option<Certificate>) -> Self {
        let address = SocketAddr::new(site.ip(host), PORT);
        let folder = site.folder().join(format!("redis-{host}"));
        let process = spawn(address, &folder, certificate.as_ref());
        let server = Self { address, folder, certificate, process };
        server.wait();
        server
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Returns its URL with TLS.
    pub fn secure_url(&self) -> String {
        format!("rediss://{}:{TLS_PORT}", self.address.ip())
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts it after [`RedisServer::kill`] with its data, and waits until it answers.
    pub fn restart(&mut self) {
        self.process = spawn(self.address, &self.folder, self.certificate.as_ref());
        self.wait();
    }

    /// Stops it with SIGSTOP: connections stay open without responses.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::STOP);
    }

    /// Continues a stopped server.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Returns the first line of the response to a command of words without spaces, or to a line in the server's own
    /// syntax.
    pub fn command(&self, line: &str) -> String {
        self.try_command(line).unwrap_or_else(|error| panic!("{line} to {}: {error}", self.address))
    }

    /// Sends an inline command, which the protocol has for telnet.
    fn try_command(&self, line: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("{line}\r\n").as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            answer.extend_from_slice(&byte);
        }
        Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
    }

    fn wait(&self) {
        until("the Redis server answers", || {
            self.try_command("PING").ok().filter(|answer| answer == "+PONG")
        });
    }
}

fn spawn(address: SocketAddr, folder: &PathBuf, certificate: Option<&Certificate>) -> Child {
    std::fs::create_dir_all(folder).expect("the server's folder can be made");
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = Command::new("redis-server");
    command.args(["--bind", &ip, "--port", &port, "--save", "", "--appendonly", "yes"]);
    command.args(["--appendfsync", "always"]);
    if let Some(Certificate { chain, key }) = certificate {
        command.args(["--tls-port", &TLS_PORT.to_string(), "--tls-auth-clients", "no", "--tls-cert-file"]);
        command.arg(chain).arg("--tls-key-file").arg(key);
    }
    Child::start("redis-server", folder, &mut command)
}
