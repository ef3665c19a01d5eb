//! The owner of the token in a Record-Route.

/// The owner of a Record-Route. Each has a URI parameter of its own: a balancer of the same site in front of a proxy
/// must not take the proxy's for its own.
///
/// Public for observers of a shard: they find a token in the messages of a shard, and never read its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenOwner {
    /// A pool's, which leads to one of its members.
    Pool,
    /// A stateful proxy's, which leads to the next hop.
    Proxy,
}

impl TokenOwner {
    /// Name of the URI parameter.
    pub const fn param(self) -> &'static str {
        match self {
            Self::Pool => "sbt",
            Self::Proxy => "sbp",
        }
    }
}
