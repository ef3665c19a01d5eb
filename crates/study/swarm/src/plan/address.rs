//! Who has which address. All are those of RFC 5737, for documentation.

use std::net::SocketAddr;

/// Whom a balancer or a proxy sends calls to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Destination {
    /// The balancer or proxy of this number.
    Site(u16),
    /// The answerer of this number.
    Answerer(u16),
}

impl Destination {
    /// Where it is reached.
    pub fn address(self) -> SocketAddr {
        match self {
            Self::Site(site) => site_address(site),
            Self::Answerer(answerer) => answerer_address(answerer),
        }
    }
}

/// The host that all sites are on.
pub(crate) const SITES: [u8; 4] = [198, 51, 100, 1];

/// The domain of users.
pub(crate) const DOMAIN: &str = "example.com";

/// What a user of the domain is called.
pub(crate) fn user_name(user: u16) -> String {
    format!("user-{user}")
}

/// The password of whoever has this name.
pub(crate) fn password(name: &[u8]) -> Vec<u8> {
    [b"secret of ", name].concat()
}

/// What the user part begins with of who is called by number.
const BEHIND: &str = "behind-";

/// The user part of who is called by number.
pub(crate) fn user_behind(site: u16) -> String {
    format!("{BEHIND}{site}")
}

/// The number of whom a request is for, if its Request-URI has one.
pub(crate) fn user_number(request: &wire::Message<'_>) -> Option<u16> {
    let user = wire::SipUri::parse(request.uri()?).ok()?.user?;
    core::str::from_utf8(user).ok()?.strip_prefix(BEHIND)?.parse().ok()
}

/// The address of a site, whichever of its processes has it.
pub fn site_address(site: u16) -> SocketAddr {
    SocketAddr::from((SITES, 5060 + site))
}

/// The address that a balancer's process probes from.
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
