//! The owner of the token in a Record-Route.

/// The owner of a Record-Route. Each owner has its own URI parameter. So a balancer in front of a proxy of the site
/// does not mistake the proxy's token for its own.
///
/// The type is public for observers of a shard: they look for tokens in its messages, but never read their content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenOwner {
    /// A pool, whose token leads to one of its members.
    Pool,
    /// A stateful proxy, whose token leads to the next hop.
    Proxy,
}

impl TokenOwner {
    /// Returns the name of the URI parameter.
    pub const fn param(self) -> &'static str {
        match self {
            Self::Pool => "sbt",
            Self::Proxy => "sbp",
        }
    }
}
