//! The text of a request that a condition tests.

/// A URI of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UriPlace {
    /// The Request-URI.
    RequestUri,
    /// URI in From.
    From,
    /// URI in To.
    To,
}

/// A part of a URI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The user up to its first parameter, with escapes decoded; the number of a `tel` URI. Case-sensitive (RFC 3261
    /// §19.1.4).
    User,
    /// The host: a name without a final dot, compared in any case, or an address without brackets.
    Host,
}

/// A text of a request that a condition may test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    /// A part of a URI.
    Uri(UriPlace, Part),
    /// Values of a header field, given by its long name. The compact form is found as well. A condition holds if one
    /// value matches. Each line is one value; a comma-separated list is not split. Compared in any case (RFC 3261
    /// §7.3.1).
    Header(String),
}

impl Field {
    /// Whether case is ignored.
    pub fn any_case(&self) -> bool {
        !matches!(self, Self::Uri(_, Part::User))
    }

    /// The key of the condition in a configuration.
    pub(crate) fn key(&self) -> String {
        let place = match self {
            Self::Header(name) => return format!("header.{name}"),
            Self::Uri(UriPlace::RequestUri, _) => "",
            Self::Uri(UriPlace::From, _) => "from_",
            Self::Uri(UriPlace::To, _) => "to_",
        };
        let is_user = matches!(self, Self::Uri(_, Part::User));
        format!("{place}{}", if is_user { "user" } else { "host" })
    }

    /// Whether both denote the same text. Names of header fields are compared in any case.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Header(one), Self::Header(other)) => one.eq_ignore_ascii_case(other),
            (one, other) => one == other,
        }
    }
}

/// Like [`Field`], with the name of a header field replaced by its index in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Uri(UriPlace, Part),
    Header(u16),
}

impl Key {
    pub(crate) fn any_case(self) -> bool {
        !matches!(self, Self::Uri(_, Part::User))
    }
}
