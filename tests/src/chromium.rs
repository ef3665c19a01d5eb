//! A phone in a web page: SIP.js in Chromium. The page in `browser/` runs the test's commands and reports events.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Signal;

use crate::certificates::Certificate;
use crate::child::Child;
use crate::field::TestSite;
use crate::worker::{GLANCE, Worker};

/// The program itself, since killing a script that starts it would not end it.
pub(crate) const CHROMIUM: &str = "/usr/lib/chromium/chromium-headless-shell";
/// SIP.js as published, in modules that browsers load directly, with the SHA-512 of its archive.
const PACKAGE: &str = "sip.js@0.21.2";
const ARCHIVE: &str = "sip.js-0.21.2.tgz";
const SHA_512: &str = "b52a9370882b39dd8884ffeb77bd0969b96f029f9f49f2d2c4ee2118d63a2e45\
                       9163548aca04ceeceb49115fc141bf28231b4c471d0b13b9d417631aa866c5cc";
/// Longest time of the page for a command. It bounds a hang.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time that the server waits for a command before it answers the page with none.
const NOTHING_TO_DO: Duration = Duration::from_secs(5);

/// A page with a phone in a browser, closed on drop.
#[derive(Debug)]
pub struct WebPhone {
    orders: Sender<String>,
    reports: Receiver<String>,
    heard: Vec<String>,
    chromium: Child,
    _server: Worker,
}

/// Resources that the page may request from its server.
struct Site {
    files: BTreeMap<String, PathBuf>,
    settings: String,
    orders: Mutex<Receiver<String>>,
    reports: Mutex<Sender<String>>,
}

impl WebPhone {
    /// Opens the page of this user. Its phone connects to `server`, which shows this certificate. The page itself is
    /// served from `host`.
    pub fn open(
        site: &TestSite,
        host: u8,
        (user, password): (&str, &str),
        server: SocketAddr,
        certificate: &Certificate,
    ) -> Self {
        let folder = site.folder().join(format!("browser-{user}"));
        fs::create_dir_all(&folder).expect("the scratch folder can be written");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
        let mut files = sip_js(&folder);
        files.insert("/".to_owned(), own.join("phone.html"));
        files.insert("/phone.js".to_owned(), own.join("phone.js"));
        let settings =
            serde_json::json!({ "user": user, "password": password, "server": format!("wss://{server}") });
        let (orders, taken) = channel();
        let (report, reports) = channel();
        let web = Site {
            files,
            settings: settings.to_string(),
            orders: Mutex::new(taken),
            reports: Mutex::new(report),
        };
        let listener = TcpListener::bind((site.ip(host), 0)).expect("an address of the test is free");
        let page = listener.local_addr().expect("it is bound");
        let server = serve(listener, web);
        let mut command = Command::new(CHROMIUM);
        command.args(["--no-sandbox", "--disable-gpu", "--use-fake-device-for-media-stream"]);
        command.args(["--use-fake-ui-for-media-stream", "--remote-debugging-port=0"]);
        // Browsers do not know the certificate's authority. All its other properties are checked.
        command.arg(format!("--ignore-certificate-errors-spki-list={}", certificate.public_key_hash()));
        command
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("http://{page}/"));
        let chromium = Child::start("chromium", &folder, &mut command);
        Self { orders, reports, heard: Vec::new(), chromium, _server: server }
    }

    /// Gives the page a command: `call URI`, `hang up`.
    pub fn does(&self, command: &str) {
        self.orders.send(command.to_owned()).expect("the server of the page lives as long as this");
    }

    /// Waits until the page reports this event, skipping others.
    pub fn says(&mut self, wanted: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.reports.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(text) if text == wanted => return,
                Ok(text) => self.heard.push(text),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("the page does not say {wanted:?}, but {:#?}", self.heard)
                }
            }
        }
    }
}

impl Drop for WebPhone {
    fn drop(&mut self) {
        // It ends its children, which `kill -9` would leave for a while.
        self.chromium.end(Signal::TERM);
    }
}

/// Downloads SIP.js. Returns its files by their paths on the server.
fn sip_js(folder: &Path) -> BTreeMap<String, PathBuf> {
    run(Command::new("npm").args(["pack", PACKAGE, "--silent", "--cache"]).arg(folder.join("npm")), folder);
    let sum = run(Command::new("sha512sum").arg(ARCHIVE), folder);
    assert!(sum.starts_with(SHA_512), "another archive than the reviewed one: {sum}");
    run(Command::new("tar").args(["xzf", ARCHIVE]), folder);
    let mut files = BTreeMap::new();
    let mut folders = vec![(String::from("/sip.js"), folder.join("package/lib"))];
    while let Some((name, path)) = folders.pop() {
        for entry in fs::read_dir(path).expect("the archive has it").flatten() {
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder {
                folders.push((name, entry.path()));
            } else {
                files.insert(name, entry.path());
            }
        }
    }
    files
}

fn run(command: &mut Command, folder: &Path) -> String {
    let output = command.current_dir(folder).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Answers the page, each request on a connection and thread of its own.
fn serve(listener: TcpListener, site: Site) -> Worker {
    let site = Arc::new(site);
    // On Linux this applies to accept(2) too.
    set_socket_timeout(&listener, Timeout::Recv, Some(GLANCE)).expect("a socket takes the option");
    Worker::start(move || {
        if let Ok((stream, _)) = listener.accept() {
            let site = Arc::clone(&site);
            // A page that has gone away needs no response.
            thread::spawn(move || drop(site.answer(stream)));
        }
    })
}

impl Site {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        let (kind, body) = self.content(path, &body);
        let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
        let body = body.unwrap_or_default();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        )?;
        stream.write_all(&body)
    }

    /// Returns the content of this path, and its type.
    fn content(&self, path: &str, body: &[u8]) -> (&'static str, Option<Vec<u8>>) {
        match path {
            "/said" => {
                let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
                // The test may have ended.
                let _ = reports.send(String::from_utf8_lossy(body).into_owned());
                ("text/plain", Some(Vec::new()))
            }
            "/settings" => ("application/json", Some(self.settings.clone().into_bytes())),
            "/order" => {
                let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
                ("text/plain", Some(orders.recv_timeout(NOTHING_TO_DO).unwrap_or_default().into_bytes()))
            }
            _ => {
                let is_script = Path::new(path).extension().is_some_and(|end| end == "js");
                let kind = if is_script { "text/javascript" } else { "text/html" };
                (kind, self.files.get(path).and_then(|file| fs::read(file).ok()))
            }
        }
    }
}
