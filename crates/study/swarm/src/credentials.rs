//! Digest authentication (RFC 3261 §22, RFC 7616): the client side, and the check by an observer.

use crate::plan::{DOMAIN, password};
use digest_auth::Algorithm;
use std::collections::BTreeMap;
use wire::build::RequestBuilder;
use wire::{AuthText, Challenge, Credentials, Message, Method};

/// The client nonce. Its value does not matter here.
const CNONCE: &[u8] = b"c";
/// Nonce count: each nonce is used once.
const COUNT: &[u8] = b"00000001";
/// Appended to the previous branch to make the branch of a request with credentials.
const AGAIN: &str = "c";
/// Most attempts of a request with credentials.
const TRIES_MAX: u32 = 4;

/// Calculates the `response` parameter (RFC 7616 §3.4.1, with `qop=auth`).
fn response(
    algorithm: Algorithm,
    (name, secret): (&[u8], &[u8]),
    nonce: &[u8],
    request: &[&[u8]],
) -> Vec<u8> {
    let user = algorithm.hash(&[name, DOMAIN.as_bytes(), secret]).hex();
    let request = algorithm.hash(request).hex();
    algorithm.hash(&[&user, nonce, COUNT, CNONCE, b"auth", &request]).hex()
}

/// Returns the header field that answers a challenge. Its name depends on the kind of challenge.
pub(crate) fn answer(
    challenged: &Message<'_>,
    name: &[u8],
    secret: &[u8],
    uri: &[u8],
) -> Option<(&'static str, Vec<u8>)> {
    let (challenges, field) = match challenged.status()? {
        401 => ("WWW-Authenticate", "Authorization"),
        407 => ("Proxy-Authenticate", "Proxy-Authorization"),
        _ => return None,
    };
    let challenge = Challenge::parse(challenged.headers(challenges).next()?).ok()?;
    let algorithm = Algorithm::of(challenge.algorithm.as_ref().map(|text| text.text()).as_deref())?;
    let nonce = challenge.nonce.text();
    let method = challenged.cseq().method.name().as_bytes();
    let response = response(algorithm, (name, secret), &nonce, &[method, uri]);
    let credentials = Credentials {
        username: AuthText::quote(name),
        realm: AuthText::quote(DOMAIN.as_bytes()),
        nonce: AuthText::quote(&nonce),
        uri: AuthText::quote(uri),
        response: AuthText::quote(&response),
        algorithm: Some(AuthText::quote(algorithm.name().as_bytes())),
        cnonce: Some(AuthText::quote(CNONCE)),
        opaque: None,
        qop: Some(AuthText::quote(b"auth")),
        nc: Some(AuthText::quote(COUNT)),
        userhash: false,
    };
    let mut value = Vec::new();
    credentials.write(&mut value);
    Some((field, value))
}

/// Returns the user whose password proves the credentials of this request.
pub(crate) fn prover(request: &Message<'_>) -> Option<Vec<u8>> {
    proof(request).map(|(name, _)| name)
}

/// Returns the user of valid credentials, and their nonce. The observer calculates the response by itself.
pub(crate) fn proof(request: &Message<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let method = request.cseq().method_name.of(request.bytes());
    let field = if method == b"REGISTER" { "Authorization" } else { "Proxy-Authorization" };
    let proves = |value| {
        let it = Credentials::parse(value).ok()?;
        let algorithm = Algorithm::of(it.algorithm.as_ref().map(|text| text.text()).as_deref())?;
        let (name, uri, nonce) =
            (it.username.text().into_owned(), it.uri.text(), it.nonce.text().into_owned());
        let right = response(algorithm, (&name, &password(&name)), &nonce, &[method, &uri]);
        (*it.realm.text() == *DOMAIN.as_bytes() && *it.response.text() == right[..]).then_some((name, nonce))
    };
    request.headers(field).find_map(proves)
}

/// Adds credentials between a caller that knows no passwords and its proxy. A challenged request is sent again with
/// credentials, and once more if their nonce was stale.
pub(crate) struct Chaperon {
    name: Vec<u8>,
    secret: Vec<u8>,
    /// INVITEs, by the caller's branch.
    invites: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The last copy with credentials of each challenged INVITE, by the caller's branch.
    again: BTreeMap<Vec<u8>, Again>,
    /// The caller's branch, by the branch of the copy with credentials.
    firsts: BTreeMap<Vec<u8>, Vec<u8>>,
}

struct Again {
    branch: Vec<u8>,
    bytes: Vec<u8>,
    tries: u32,
}

/// Effect of a response.
pub(crate) enum ResponseEffect {
    /// Pass this response to the caller.
    ToCaller(Vec<u8>),
    /// Send these messages, and pass nothing to the caller.
    Send(Vec<Vec<u8>>),
}

impl Chaperon {
    /// Creates a helper for the user of this name, with the right password or a wrong one.
    pub(crate) fn new(name: &[u8], knows_password: bool) -> Self {
        let secret = if knows_password { password(name) } else { b"guessed".to_vec() };
        let (invites, again, firsts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { name: name.to_vec(), secret, invites, again, firsts }
    }

    /// Returns the bytes to send in place of a message of the caller.
    pub(crate) fn says(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Ok(message) = wire::scan(bytes) else { return bytes.to_vec() };
        let Some(branch) = message.top_via().branch.filter(|_| message.method().is_some()) else {
            return bytes.to_vec();
        };
        match (message.method(), self.again.get(branch)) {
            (Some(Method::Invite), None) => {
                self.invites.insert(branch.to_vec(), bytes.to_vec());
                bytes.to_vec()
            }
            (Some(Method::Invite), Some(again)) => again.bytes.clone(),
            (_, Some(again)) => replaced(bytes, branch, &again.branch),
            (_, None) => bytes.to_vec(),
        }
    }

    /// Handles a response to the caller.
    pub(crate) fn hears(&mut self, bytes: &[u8]) -> ResponseEffect {
        let Ok(message) = wire::scan(bytes) else { return ResponseEffect::ToCaller(bytes.to_vec()) };
        let branch = message.top_via().branch.filter(|_| message.status().is_some()).unwrap_or_default();
        let first = self.firsts.get(branch).map_or(branch, Vec::as_slice).to_vec();
        let to_caller = || {
            ResponseEffect::ToCaller(if branch == first {
                bytes.to_vec()
            } else {
                replaced(bytes, branch, &first)
            })
        };
        let invite = self.invites.get(&first).filter(|_| message.status() == Some(407));
        let Some(invite) = invite else { return to_caller() };
        let before = self.again.get(&first);
        let (newest, tries) = before.map_or((&first, 0), |again| (&again.branch, again.tries));
        let challenged = replaced(invite, &first, branch);
        let ack = ack(&wire::scan(&challenged).expect("it was parsed when it was sent"), &message);
        if newest != branch {
            return ResponseEffect::Send(vec![ack]);
        }
        let may_again = tries == 0 || tries < TRIES_MAX && is_stale(&message);
        let uri = wire::scan(invite).ok().and_then(|invite| invite.uri()).unwrap_or_default();
        let credentials = answer(&message, &self.name, &self.secret, uri).filter(|_| may_again);
        let Some((field, value)) = credentials else { return to_caller() };
        let branch = [newest, AGAIN.as_bytes()].concat();
        let bytes = with_field(&replaced(invite, &first, &branch), field, &value);
        self.firsts.insert(branch.clone(), first.clone());
        self.again.insert(first, Again { branch, bytes: bytes.clone(), tries: tries + 1 });
        ResponseEffect::Send(vec![ack, bytes])
    }
}

/// Returns true if the challenge is marked stale: the password may be right.
fn is_stale(challenged: &Message<'_>) -> bool {
    let challenge = challenged.headers("Proxy-Authenticate").next().map(Challenge::parse);
    challenge.is_some_and(|challenge| challenge.is_ok_and(|challenge| challenge.stale))
}

/// Builds the ACK to a failure response (RFC 3261 §17.1.1.3).
fn ack(invite: &Message<'_>, response: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    RequestBuilder::new(&mut bytes, "ACK", invite.uri().unwrap_or_default())
        .header("Via", invite.top_via().value.of(invite.bytes()))
        .header("Max-Forwards", "70")
        .header("From", invite.from())
        .header("To", response.to())
        .header("Call-ID", invite.call_id())
        .header("CSeq", format!("{} ACK", invite.cseq().number))
        .finish(b"");
    bytes
}

/// Inserts a header field before the first Max-Forwards.
pub(crate) fn with_field(bytes: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
    let at = find(bytes, b"\r\nMax-Forwards:").expect("the caller's requests have Max-Forwards");
    [&bytes[..at], b"\r\n", name.as_bytes(), b": ", value, &bytes[at..]].concat()
}

/// Replaces the first occurrence of `old`.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let Some(at) = find(bytes, old) else { return bytes.to_vec() };
    [&bytes[..at], new, &bytes[at + old.len()..]].concat()
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text)
}
