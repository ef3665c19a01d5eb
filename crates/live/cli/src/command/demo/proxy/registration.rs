//! A phone's REGISTER with digest authentication (RFC 3261 §10.2, §22.4), on a socket of its own.

use anyhow::{Context, Result, anyhow, bail};
use digest_auth::Algorithm;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use wire::build::RequestBuilder;
use wire::{AuthText, Challenge, Credentials, Message};

/// Wait for an answer before a request is sent again, and after a 503. `TRIES` is the number of attempts.
const PATIENCE: Duration = Duration::from_millis(500);
const TRIES: u32 = 6;

/// A phone's account at its registrar.
pub(super) struct Account {
    pub(super) user: &'static str,
    pub(super) domain: &'static str,
    pub(super) password: String,
    /// Address at which calls are answered.
    pub(super) contact: SocketAddr,
    pub(super) registrar: SocketAddr,
}

/// Registers an account repeatedly, with the same nonce until it is too old.
pub(super) struct Registration {
    account: Account,
    socket: UdpSocket,
    /// Call-ID of all REGISTER requests of this registration (RFC 3261 §10.2).
    call_id: String,
    cseq: u32,
    challenged: Option<Challenged>,
}

/// Contents of a challenge, and how often it was answered.
struct Challenged {
    nonce: Vec<u8>,
    opaque: Option<Vec<u8>>,
    algorithm: Algorithm,
    count: u32,
}

impl Registration {
    pub(super) fn new(account: Account, call_id: String) -> Result<Self> {
        let socket = UdpSocket::bind((account.contact.ip(), 0))?;
        socket.connect(account.registrar)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { account, socket, call_id, cseq: 0, challenged: None })
    }

    /// Registers the contact. Fails if it is refused, or if no answer comes.
    pub(super) fn refresh(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            let answer = self.exchange()?;
            let message = wire::scan(&answer).map_err(|_| anyhow!("the response is not a SIP message"))?;
            match message.status() {
                Some(200) => return Ok(()),
                // The first request, or the nonce is too old (RFC 3261 §22.3).
                Some(401) => self.challenged = Some(read(&message)?),
                // A full proxy accepts it later.
                Some(503) => std::thread::sleep(PATIENCE),
                status => bail!("REGISTER of {} is answered with {}", self.account.user, status.unwrap_or(0)),
            }
        }
        bail!("{} is challenged or refused again and again", self.account.user)
    }

    /// Sends a request, and repeats it until its final response comes.
    fn exchange(&mut self) -> Result<Vec<u8>> {
        self.cseq += 1;
        let local = self.socket.local_addr()?;
        let request = self.request(local);
        let mut buffer = vec![0; 65_536];
        for _ in 0..TRIES {
            self.socket.send(&request)?;
            while let Ok(length) = self.socket.recv(&mut buffer) {
                let answer = &buffer[..length];
                let is_ours = |message: &Message<'_>| message.cseq().number == self.cseq;
                if wire::scan(answer).is_ok_and(|message| is_ours(&message) && message.status() >= Some(200))
                {
                    return Ok(answer.to_vec());
                }
            }
        }
        bail!("no answer to the REGISTER of {}", self.account.user)
    }

    fn request(&mut self, local: SocketAddr) -> Vec<u8> {
        let Account { user, domain, contact, .. } = &self.account;
        let (uri, cseq) = (format!("sip:{domain}"), self.cseq);
        let aor = format!("<sip:{user}@{domain}>");
        let credentials = self.challenged.as_mut().map(|challenged| challenged.answer(&self.account, &uri));
        let mut bytes = Vec::new();
        let request = RequestBuilder::new(&mut bytes, "REGISTER", &uri)
            .header("Via", format!("SIP/2.0/UDP {local};rport;branch=z9hG4bK{}-{cseq}", self.call_id))
            .header("Max-Forwards", "70")
            .header("From", format!("{aor};tag={}", self.call_id))
            .header("To", &aor)
            .header("Call-ID", &self.call_id)
            .header("CSeq", format!("{cseq} REGISTER"))
            .header("Contact", format!("<sip:{user}@{contact}>;expires=300"));
        let request =
            credentials.iter().fold(request, |request, value| request.header("Authorization", value));
        request.finish(b"");
        bytes
    }
}

/// Returns the first challenge with a known algorithm, which the server prefers (RFC 8760 §2.4).
fn read(message: &Message<'_>) -> Result<Challenged> {
    let challenges = message.headers("WWW-Authenticate").filter_map(|value| Challenge::parse(value).ok());
    let mut known = challenges.filter_map(|challenge| {
        let algorithm = challenge.algorithm.as_ref().map(AuthText::text);
        Some(Challenged {
            nonce: challenge.nonce.text().into_owned(),
            opaque: challenge.opaque.as_ref().map(|opaque| opaque.text().into_owned()),
            algorithm: Algorithm::of(algorithm.as_deref())?,
            count: 0,
        })
    });
    known.next().context("no supported challenge")
}

impl Challenged {
    /// The value of Authorization (RFC 7616 §3.4) for the next request.
    fn answer(&mut self, account: &Account, uri: &str) -> Vec<u8> {
        self.count += 1;
        let (count, cnonce) = (format!("{:08x}", self.count), b"demo");
        let hash = |parts: &[&[u8]]| self.algorithm.hash(parts).hex();
        let (user, realm) = (account.user.as_bytes(), account.domain.as_bytes());
        let secret = hash(&[user, realm, account.password.as_bytes()]);
        let request = hash(&[b"REGISTER", uri.as_bytes()]);
        let nonce: &[u8] = &self.nonce;
        let response = hash(&[&secret, nonce, count.as_bytes(), cnonce, b"auth", &request]);
        let credentials = Credentials {
            username: AuthText::quote(user),
            realm: AuthText::quote(realm),
            nonce: AuthText::quote(nonce),
            uri: AuthText::quote(uri.as_bytes()),
            response: AuthText::quote(&response),
            algorithm: Some(AuthText::quote(self.algorithm.name().as_bytes())),
            cnonce: Some(AuthText::quote(cnonce)),
            opaque: self.opaque.as_ref().map(|opaque| AuthText::quote(opaque)),
            qop: Some(AuthText::quote(b"auth")),
            nc: Some(AuthText::quote(count.as_bytes())),
            userhash: false,
        };
        let mut value = Vec::new();
        credentials.write(&mut value);
        value
    }
}
