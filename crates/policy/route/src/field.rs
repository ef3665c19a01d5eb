//! Which text of a request a condition is about.

/// Which URI of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// The Request-URI.
    RequestUri,
    /// That of From.
    From,
    /// That of To.
    To,
}

/// Which part of a URI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The user, up to its first parameter, with escapes decoded; of a `tel` URI its number. Case counts (RFC 3261
    /// §19.1.4).
    User,
    /// The host: a name in any case, without a final dot, or an address without brackets.
    Host,
}

/// A text of a request that a condition may be about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    /// A part of a URI.
    Uri(Place, Part),
    /// The values of a header field, by its long name; the compact form is found too. A condition holds when it holds
    /// for one of them. Each line is one value, lists as they stand, and letters are the same in either case (RFC
    /// 3261 §7.3.1).
    Header(String),
}

impl Field {
    /// Whether letters are the same in either case.
    pub fn any_case(&self) -> bool {
        !matches!(self, Self::Uri(_, Part::User))
    }

    /// Whether it is the same text, however its name is written.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Header(one), Self::Header(other)) => one.eq_ignore_ascii_case(other),
            (one, other) => one == other,
        }
    }
}

/// The same where a table knows the names of header fields by their index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Uri(Place, Part),
    Header(u16),
}

impl Key {
    pub(crate) fn any_case(self) -> bool {
        !matches!(self, Self::Uri(_, Part::User))
    }
}
