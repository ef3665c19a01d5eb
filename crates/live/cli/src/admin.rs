//! Client of the admin interface of a running server.

use crate::address;
use crate::command::run::configuration;
use crate::print;
use anyhow::{Context, Result, anyhow, bail};
use config::{Bearer, Config};
use serde::de::DeserializeOwned;
use server::admin::token;
use server::figures::HealthView;
use std::env;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default of `[admin] listen`.
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8060);

/// Longest wait for data of a server. Most responses take milliseconds, but some requests read long tables.
const PATIENCE: Duration = Duration::from_secs(10);

/// Environment variable with the token. On the command line all users of the machine could see it.
const VARIABLE: &str = "SARABANDE_ADMIN_TOKEN";

/// Advice if the token is missing or wrong.
const TOKEN_ADVICE: &str = "Give the server's configuration with --config, or a file with the token with \
                            --token-file, or set SARABANDE_ADMIN_TOKEN.";

/// Exit codes of all commands and their meanings.
pub(crate) const EXIT_CODES: [(u8, &str); 6] = [
    (
        0,
        "Success. `status`: new calls are taken; `explain`: the request would go to a member, to all members, or to \
        contacts of a user.",
    ),
    (1, "Refused or failed; the reason is printed."),
    (2, "Wrong arguments."),
    (Exit::NO_SERVER, "No answer from a server: nothing listens at the address, or no data came for 10 s."),
    (
        Exit::NO,
        "The answer is no. `status`: no new calls are taken; `explain`: the request would go to no member or \
         contact; `plan`: the load is not carried; `registrations`: the user has no contacts, or not the contact to \
         remove; `stop --wait`: calls were left; `sim figure`, `sim figures`: a statement fails.",
    ),
    (print::CLOSED, "The reader of the output has gone away."),
];

/// A failure with an exit code of its own. All other failures exit with 1.
#[derive(Debug)]
pub(crate) struct Exit {
    code: u8,
    text: String,
    /// Whether nothing listens at the address.
    is_refused: bool,
}

impl Exit {
    /// No server answers at the address.
    const NO_SERVER: u8 = 3;
    /// The server answered, and the answer is no.
    const NO: u8 = 4;
    /// The code that clap uses.
    const WRONG_ARGUMENTS: u8 = 2;

    /// An error for arguments that do not go together.
    pub(crate) fn wrong_arguments(text: impl Into<String>) -> anyhow::Error {
        anyhow!(Self { code: Self::WRONG_ARGUMENTS, text: text.into(), is_refused: false })
    }

    /// An error for an answer that is no.
    pub(crate) fn no(text: String) -> anyhow::Error {
        anyhow!(Self { code: Self::NO, text, is_refused: false })
    }

    /// Whether an error says that nothing listens at the address.
    pub(crate) fn is_connection_refused(error: &anyhow::Error) -> bool {
        error.downcast_ref::<Self>().is_some_and(|exit| exit.is_refused)
    }

    /// The exit code for an error of a command.
    pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
        error.downcast_ref::<Self>().map_or(1, |exit| exit.code)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Exit {}

/// Arguments that name a server.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Target {
    /// Admin interface of the server, as URL or address [default: 127.0.0.1:8060].
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    admin: Option<String>,
    /// The server's configuration file, to find its admin interface.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File with the token of the admin interface; without it the environment variable `SARABANDE_ADMIN_TOKEN`, or the
    /// token of the server whose file `--config` names.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A response of the admin interface.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Target {
    /// The server with this configuration file.
    pub(crate) fn of(config: &Path) -> Self {
        Self { config: Some(config.to_owned()), ..Self::default() }
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.send("GET", path, b"")?.json(&[200])
    }

    /// Returns `None` if the server does not have this path (404).
    pub(crate) fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let reply = self.send("GET", path, b"")?;
        if reply.status == 404 { Ok(None) } else { reply.json(&[200]).map(Some) }
    }

    pub(crate) fn health(&self) -> Result<HealthView> {
        // A server that takes no new calls answers with 503.
        self.send("GET", "/api/health", b"")?.json(&[200, 503])
    }

    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T> {
        self.send("POST", path, body)?.json(&[200])
    }

    /// Sends a request, and returns a response with any status.
    pub(crate) fn send(&self, method: &str, path: &str, body: &[u8]) -> Result<Reply> {
        self.send_within(PATIENCE, method, path, body)
    }

    fn send_within(&self, patience: Duration, method: &str, path: &str, body: &[u8]) -> Result<Reply> {
        let config = self.config.as_deref().map(configuration).transpose()?;
        let address = self.address(config.as_ref())?;
        let token = self.token(config.as_ref())?;
        let credentials = token.map(|token| format!("Authorization: Bearer {}\r\n", token.text()));
        let credentials = credentials.unwrap_or_default();
        let mut stream = TcpStream::connect_timeout(&address, patience)
            .map_err(|error| unreachable(address, error.kind()))?;
        let mut bytes = Vec::new();
        let mut exchange = || {
            stream.set_read_timeout(Some(patience))?;
            // The address and not the given name: the server refuses names on loopback.
            write!(
                stream,
                "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{credentials}Connection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )?;
            stream.write_all(body)?;
            stream.read_to_end(&mut bytes)
        };
        exchange().map_err(|error| match error.kind() {
            // On Unix a time-out is `WouldBlock` (SO_RCVTIMEO, socket(7)).
            ErrorKind::WouldBlock | ErrorKind::TimedOut => silent(address, patience),
            _ => anyhow!(error).context(format!("the server on {address} does not answer")),
        })?;
        Reply::parse(&bytes).with_context(|| format!("{address} is not an admin interface of sarabande"))
    }

    fn address(&self, config: Option<&Config>) -> Result<SocketAddr> {
        if let (Some(file), Some(config)) = (&self.config, config) {
            let listen = config.admin.listen;
            return listen
                .map(reachable)
                .with_context(|| format!("{}: [admin] listen is off", file.display()));
        }
        self.admin.as_deref().map_or(Ok(DEFAULT), parse_url)
    }

    /// Token for the server, if any: of `--token-file`, else of the environment, else of the server whose file
    /// `--config` names.
    fn token(&self, config: Option<&Config>) -> Result<Option<Bearer>> {
        if let Some(file) = &self.token_file {
            return Ok(Some(token::read(file).context("--token-file")?));
        }
        if let Some(text) = env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
            let token = text.to_str().and_then(Bearer::parse);
            return token.map(Some).with_context(|| format!(
                "the environment variable {VARIABLE} is not a token: expected 16 or more letters, digits and -._~+/"
            ));
        }
        let (Some(file), Some(config)) = (&self.config, config) else { return Ok(None) };
        token::of(&config.admin, file).context(
            "the token of the admin interface, which the server makes at its first start, cannot be read",
        )
    }
}

/// A server that listens on all addresses can be reached on loopback.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    listen
}

fn parse_url(url: &str) -> Result<SocketAddr> {
    let authority = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    let form = || format!("--admin {url}: expected http://HOST:PORT, such as http://{DEFAULT}");
    if authority.contains('/') {
        bail!(form());
    }
    address::host(authority, DEFAULT.port()).map_err(|error| anyhow!(error)).with_context(form)
}

fn unreachable(address: SocketAddr, kind: ErrorKind) -> anyhow::Error {
    let problem = match kind {
        ErrorKind::ConnectionRefused => format!("nothing listens on {address}"),
        ErrorKind::TimedOut => format!("{address} does not answer"),
        other => format!("cannot reach {address}: {other}"),
    };
    let advice = "Is `sarabande run` running there? If its [admin] listen is another address, give it with --admin \
                  http://ADDRESS:PORT, or give the configuration file with --config";
    let is_refused = kind == ErrorKind::ConnectionRefused;
    anyhow!(Exit { code: Exit::NO_SERVER, text: format!("{problem}.\n{advice}."), is_refused })
}

/// An error for a silent server: the system accepts connections for a process that hangs.
fn silent(address: SocketAddr, patience: Duration) -> anyhow::Error {
    let text = format!(
        "no answer from {address} in {} s, though the connection was accepted.\n\
         Is the server stopped in a debugger or by SIGSTOP, or the machine overloaded? See its log.",
        patience.as_secs_f64()
    );
    anyhow!(Exit { code: Exit::NO_SERVER, text, is_refused: false })
}

impl Reply {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).context("the response is not UTF-8")?;
        let (head, body) = text.split_once("\r\n\r\n").context("the response is not HTTP")?;
        let mut lines = head.lines();
        let start = lines.next().filter(|line| line.starts_with("HTTP/1.1 "));
        let status = start.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let mut headers = lines.filter_map(|line| line.split_once(':'));
        let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.and_then(|(_, length)| length.trim().parse().ok());
        if length.is_none_or(|length: usize| length != body.len()) {
            bail!("the response ends early, after {} bytes", body.len());
        }
        Ok(Self { status: status.context("the response is not HTTP/1.1")?, body: body.to_owned() })
    }

    /// Returns the body, or its text as an error.
    pub(crate) fn json<T: DeserializeOwned>(&self, fine: &[u16]) -> Result<T> {
        if self.status == 401 {
            bail!("{}{TOKEN_ADVICE}", self.body);
        }
        if !fine.contains(&self.status) {
            let text = self.body.trim_end();
            bail!(
                "{}",
                if text.is_empty() { format!("HTTP status {}", self.status) } else { text.to_owned() }
            );
        }
        serde_json::from_str(&self.body)
            .context("the response has an unexpected form: does the server have another version?")
    }
}

/// Escapes a text for a query.
pub(crate) fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]@".contains(&byte);
    let escaped = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn addresses_come_in_several_forms() {
        let parsed = |url| parse_url(url).map(|address| address.to_string()).ok();
        assert_eq!(parsed("http://127.0.0.2:81/").as_deref(), Some("127.0.0.2:81"));
        assert_eq!(parsed("127.0.0.2:81").as_deref(), Some("127.0.0.2:81"));
        assert_eq!(parsed("127.0.0.2").as_deref(), Some("127.0.0.2:8060"));
        assert_eq!(parsed("http://[::1]:81").as_deref(), Some("[::1]:81"));
        assert_eq!(parsed("[::1]").as_deref(), Some("[::1]:8060"));
        assert_eq!(parsed("::1:8060"), None);
        assert_eq!(parsed("https://127.0.0.2:81"), None);
        assert_eq!(parsed("http://127.0.0.2:81/api"), None);
        assert_eq!(reachable("0.0.0.0:81".parse().unwrap()).to_string(), "127.0.0.1:81");
        assert_eq!(reachable("[::]:81".parse().unwrap()).to_string(), "[::1]:81");
        assert_eq!(reachable("10.0.0.1:81".parse().unwrap()).to_string(), "10.0.0.1:81");
    }

    #[test]
    fn a_refused_connection_is_an_error_with_advice() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let target = Target { admin: Some(free.to_string()), ..Target::default() };
        let error = target.send("GET", "/", b"").err().unwrap();
        assert_eq!(Exit::code_of(&error), Exit::NO_SERVER);
        let text = error.to_string();
        assert!(text.contains(&format!("nothing listens on {free}")) && text.contains("--config"), "{text}");
    }

    #[test]
    fn a_hanging_server_is_an_error_without_answer() {
        // The backlog takes the connection although it is never accepted.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target { admin: Some(listener.local_addr().unwrap().to_string()), ..Target::default() };
        let error = target.send_within(Duration::from_millis(100), "GET", "/", b"").err().unwrap();
        assert_eq!(Exit::code_of(&error), Exit::NO_SERVER);
        let text = format!("{error:#}");
        assert!(text.starts_with("no answer from 127.0.0.1:") && !text.contains("os error"), "{text}");
    }

    #[test]
    fn a_request_and_its_response_are_exchanged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target { admin: Some(listener.local_addr().unwrap().to_string()), ..Target::default() };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 1024];
            let mut read = 0;
            while !bytes[..read].ends_with(b"body") {
                read += stream.read(&mut bytes[read..]).unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n[1,2,3]").unwrap();
            String::from_utf8_lossy(&bytes[..read]).into_owned()
        });
        let answer: Vec<u32> = target.post("/api/x?y=z", b"body").unwrap();
        assert_eq!(answer, [1, 2, 3]);
        let request = server.join().unwrap();
        assert!(request.starts_with("POST /api/x?y=z HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("\r\nContent-Length: 4\r\n"), "{request}");
    }

    #[test]
    fn the_token_is_read_from_the_configuration() {
        let folder = env::temp_dir().join(format!("sarabande-cli-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, configured) = (folder.join("token"), folder.join("sarabande.toml"));
        let text =
            "[listen]\nudp = [\"127.0.0.1:5060\"]\n[pool.x]\nmembers = [\"127.0.0.2\"]\n[admin]\nlisten = ";
        std::fs::write(&file, "given-0123456789\n").unwrap();
        let found = |listen: &str, token_file: Option<&PathBuf>| {
            std::fs::write(&configured, format!("{text}{listen}")).unwrap();
            let config = configuration(&configured).unwrap();
            let config_file = Some(configured.clone());
            let target = Target { config: config_file, token_file: token_file.cloned(), ..Target::default() };
            target.token(Some(&config)).map(|token| token.map(|token| token.text().to_owned()))
        };
        assert_eq!(found("\"127.0.0.1:8060\"", None).unwrap(), None);
        let set = "\"127.0.0.1:8060\"\ntoken = \"set-0123456789ab\"";
        assert_eq!(found(set, None).unwrap().as_deref(), Some("set-0123456789ab"));
        assert_eq!(found(set, Some(&file)).unwrap().as_deref(), Some("given-0123456789"));
        let error = format!("{:#}", found("\"0.0.0.0:8060\"", None).unwrap_err());
        assert!(error.contains("sarabande.admin-token"), "{error}");
        std::fs::write(folder.join("sarabande.admin-token"), "made-0123456789a\n").unwrap();
        assert_eq!(found("\"0.0.0.0:8060\"", None).unwrap().as_deref(), Some("made-0123456789a"));
        std::fs::write(&file, "short").unwrap();
        assert!(format!("{:#}", found(set, Some(&file)).unwrap_err()).contains("16 or more"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_truncated_response_is_an_error() {
        assert!(Reply::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n[1,2").is_err());
        assert!(Reply::parse(b"HTTP/1.1 200 OK\r\n\r\n[1,2").is_err());
        assert!(Reply::parse(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
        assert!(Reply::parse(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").is_ok());
    }

    #[test]
    fn a_refusal_is_an_error_with_the_text_of_the_server() {
        let reply = Reply { status: 404, body: "no member \"x\"\n".to_owned() };
        let error = reply.json::<u32>(&[200]).unwrap_err();
        assert_eq!((error.to_string().as_str(), Exit::code_of(&error)), ("no member \"x\"", 1));
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(escape("a b&c@10.0.0.1:5060+%"), "a%20b%26c@10.0.0.1:5060%2B%25");
    }
}
