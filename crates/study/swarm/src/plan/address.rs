//! Addresses of the hosts, from the networks of RFC 5737 for documentation.

use std::net::SocketAddr;

/// Destination of the calls of a balancer or proxy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Destination {
    /// The balancer or proxy of this number.
    Site(u16),
    /// The answerer of this number.
    Answerer(u16),
}

impl Destination {
    /// The address it is reached at.
    pub fn address(self) -> SocketAddr {
        match self {
            Self::Site(site) => site_address(site),
            Self::Answerer(answerer) => answerer_address(answerer),
        }
    }
}

/// IP address of all sites.
pub(crate) const SITES: [u8; 4] = [198, 51, 100, 1];

/// Domain of the users.
pub(crate) const DOMAIN: &str = "example.com";

/// Returns the name of a user of the domain.
pub(crate) fn user_name(user: u16) -> String {
    format!("user-{user}")
}

/// Returns the password of the user of this name.
pub(crate) fn password(name: &[u8]) -> Vec<u8> {
    [b"secret of ", name].concat()
}

/// Prefix of the user part of callees that are called by number.
const BEHIND: &str = "behind-";

/// Returns the user part of a callee that is called by number.
pub(crate) fn user_behind(site: u16) -> String {
    format!("{BEHIND}{site}")
}

/// Returns the number in the user part of the Request-URI, if there is one.
pub(crate) fn user_number(request: &wire::Message<'_>) -> Option<u16> {
    let user = wire::SipUri::parse(request.uri()?).ok()?.user?;
    core::str::from_utf8(user).ok()?.strip_prefix(BEHIND)?.parse().ok()
}

/// Address of a site. It stays the same when another process of the site takes over.
pub fn site_address(site: u16) -> SocketAddr {
    SocketAddr::from((SITES, 5060 + site))
}

/// Source address of the probes of a balancer's process.
pub(crate) fn probe_address(process: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 11], 5100 + process))
}

/// The address of a caller.
pub(crate) fn caller_address(caller: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 5060 + caller as u16))
}

/// The address of an answerer.
pub fn answerer_address(answerer: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 1], 5060 + answerer))
}
