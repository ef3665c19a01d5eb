//! Whose token a Record-Route carries.

/// Whose Record-Route it is. Each has a URI parameter of its own: a balancer of the same site in front of a proxy must
/// not take the proxy's for its own.
///
/// Public for observers of a shard: they find a token in what it sent, and never read what is in it.
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
