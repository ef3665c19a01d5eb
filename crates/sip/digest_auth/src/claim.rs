//! Claims: credentials whose user must be looked up.

use crate::bans::Attempt;
use crate::{Algorithm, Nonce, Secret, SecretHash};
use wire::{Credentials, Host, Scheme, SipUri, unescape};

/// Longest user name and client nonce that are accepted, in bytes. Outsiders choose both, and both are kept during a
/// database query.
const TEXT_MAX: usize = 256;

/// Rule for the `uri` of the credentials (RFC 3261 §22.4 (6), RFC 8760 §2.6 (6)).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum UriRule {
    /// The same target as the Request-URI: equal scheme, user, host and port, where an absent port is the default of
    /// the scheme. Parameters may differ, since elements on the path add and remove them. For requests that come
    /// directly from clients, or through elements that leave the Request-URI unchanged.
    #[default]
    SameTarget,
    /// The same target, or any target at one of these hosts (lower case, without port). For elements that get requests
    /// with a changed Request-URI, and for clients that write the address of their server there. Credentials for one of
    /// these hosts are then valid for a request to another; a nonce count is still valid for one request only.
    Hosts(Vec<Box<[u8]>>),
}

impl UriRule {
    /// [22.4-3] [2.6-6] Whether credentials with `uri` are accepted for a request to `request_uri`.
    pub(crate) fn allows(&self, uri: &[u8], request_uri: &[u8]) -> bool {
        if uri == request_uri || same_target(uri, request_uri).is_some_and(|same| same) {
            return true;
        }
        let Self::Hosts(hosts) = self else { return false };
        SipUri::parse(uri).is_ok_and(|uri| {
            let name = host_text(&uri.host);
            hosts.iter().any(|host| **host == *name)
        })
    }
}

fn same_target(one: &[u8], other: &[u8]) -> Option<bool> {
    let (one, other) = (SipUri::parse(one).ok()?, SipUri::parse(other).ok()?);
    let user = |uri: &SipUri<'_>| uri.user.map(|user| unescape(user).collect::<Vec<_>>());
    let same_host = host_text(&one.host) == host_text(&other.host);
    let port = |uri: &SipUri<'_>| uri.port.unwrap_or(if uri.scheme == Scheme::Sips { 5061 } else { 5060 });
    Some(one.scheme == other.scheme && user(&one) == user(&other) && same_host && port(&one) == port(&other))
}

fn host_text(host: &Host<'_>) -> Vec<u8> {
    match host {
        Host::Name(name) => name.to_ascii_lowercase(),
        Host::V4(address) => address.to_string().into_bytes(),
        Host::V6(address) => format!("[{address}]").into_bytes(),
    }
}

/// Secret to look up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs<'c> {
    /// User name as the client wrote it. Any bytes, at most 256.
    pub user: &'c [u8],
    /// Realm, which is ours.
    pub realm: &'c [u8],
    /// Algorithm that a hashed password must be made with.
    pub algorithm: Algorithm,
}

/// Credentials with correct form, nonce and URI; only the secret is needed to verify them. Holds a copy of the needed
/// parts of the request, at most some hundred bytes.
#[derive(Clone, Debug)]
pub struct Claim {
    pub(crate) user: Box<[u8]>,
    pub(crate) realm: Box<[u8]>,
    pub(crate) algorithm: Algorithm,
    pub(crate) nonce: Nonce,
    /// Count of uses of the nonce; 1 without `qop`.
    pub(crate) count: u32,
    pub(crate) attempt: Attempt,
    response: SecretHash,
    /// Text after the hash of `A1` in the digest.
    rest: Box<[u8]>,
}

/// Parts of well-formed credentials that a claim is made of.
pub(crate) struct Form<'c> {
    credentials: &'c Credentials<'c>,
    pub(crate) algorithm: Algorithm,
    pub(crate) user: std::borrow::Cow<'c, [u8]>,
    /// With `qop=auth`: the client's nonce and the digits of the count.
    protection: Option<(&'c [u8], &'c [u8])>,
    pub(crate) count: u32,
    response: SecretHash,
}

impl<'c> Form<'c> {
    /// Reads the credentials; `None` if they do not match the challenge.
    pub(crate) fn of(
        credentials: &'c Credentials<'c>,
        offered: &[Algorithm],
        without_qop: bool,
    ) -> Option<Self> {
        let name = credentials.algorithm.as_ref().map(wire::AuthText::raw);
        // An algorithm that was not offered is refused, whatever the secret. Else an attacker on the path could strip
        // the stronger challenges and make a client answer with a weaker algorithm.
        let algorithm = Algorithm::of(name).filter(|algorithm| offered.contains(algorithm))?;
        let user = credentials.username.text();
        // A hashed user name is not offered (RFC 7616 §3.4.4), so no client may send one.
        if credentials.userhash || user.is_empty() || user.len() > TEXT_MAX {
            return None;
        }
        // [22.4-5] [2.6-8] The presence of `qop` distinguishes RFC 2617 from RFC 2069.
        let (protection, count) = match &credentials.qop {
            Some(qop) => {
                let cnonce = credentials.cnonce.as_ref()?.raw();
                let digits = credentials.nc.as_ref()?.raw();
                let count = count(digits)?;
                let fits = qop.raw().eq_ignore_ascii_case(b"auth") && (1..=TEXT_MAX).contains(&cnonce.len());
                (Some((cnonce, digits)).filter(|_| fits), count)
            }
            None => (None, 1),
        };
        if protection.is_none() && !(credentials.qop.is_none() && without_qop) {
            return None;
        }
        let response = SecretHash::from_hex(algorithm, credentials.response.raw())?;
        Some(Self { credentials, algorithm, user, protection, count, response })
    }

    /// Makes the claim of a request with this method.
    pub(crate) fn claim(self, method: &[u8], nonce: Nonce, attempt: Attempt) -> Claim {
        // RFC 7616 §3.4.3: A2 = Method ":" request-uri, of the credentials. `auth-int`, with the hash of the body, is
        // not offered.
        let a2 = self.algorithm.hash(&[method, self.credentials.uri.raw()]).hex();
        let nonce_text = self.credentials.nonce.raw();
        // RFC 7616 §3.4.1; without qop RFC 2069 §2.1.2.
        let rest = match (self.protection, &self.credentials.qop) {
            (Some((cnonce, digits)), Some(qop)) => [nonce_text, digits, cnonce, qop.raw(), &a2].join(&b':'),
            _ => [nonce_text, &a2].join(&b':'),
        };
        Claim {
            user: self.user.into(),
            realm: self.credentials.realm.text().into(),
            algorithm: self.algorithm,
            nonce,
            count: self.count,
            attempt,
            response: self.response,
            rest: rest.into(),
        }
    }
}

/// `nc-value`: exactly eight hexadecimal digits, and the first count is 1 (RFC 7616 §3.4).
fn count(digits: &[u8]) -> Option<u32> {
    let mut bytes = [0; 4];
    crate::algorithm::read_hex(digits, &mut bytes)?;
    Some(u32::from_be_bytes(bytes)).filter(|count| *count > 0)
}

impl Claim {
    /// Secret to look up.
    pub fn needs(&self) -> Needs<'_> {
        Needs { user: &self.user, realm: &self.realm, algorithm: self.algorithm }
    }

    /// Whether the response is right for this secret; `None` if the secret does not serve the algorithm. Without a
    /// secret the response is wrong. Both hashes are computed in any case, so that the time does not reveal whether the
    /// user exists.
    pub(crate) fn holds(&self, secret: Option<&Secret>) -> Option<bool> {
        let password: &[u8] = if let Some(Secret::Clear(password)) = secret { password } else { b"" };
        // RFC 7616 §3.4.2. Hidden from the optimizer, which could drop an unused hash.
        let made = core::hint::black_box(self.algorithm.hash(&[&self.user, &self.realm, password]));
        let (ha1, serves) = match secret {
            Some(Secret::Ha1(kept)) if kept.algorithm() == self.algorithm => (*kept, true),
            Some(Secret::Ha1(_)) => (made, false),
            Some(Secret::Clear(_)) | None => (made, true),
        };
        let is_right = self.algorithm.hash(&[&ha1.hex(), &self.rest]).is(&self.response);
        serves.then_some(is_right && secret.is_some())
    }
}
