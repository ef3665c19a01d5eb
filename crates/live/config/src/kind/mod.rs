//! The kinds of values: for each, how it is read, its error messages, and its schema.

mod address;
mod amount;
mod choice;
mod duration;
mod hep;
mod leaf;
mod name;
mod number;
mod place;
mod routing;
mod secret;
mod spread;

pub use address::ipv6_without_brackets;
pub(crate) use address::{AdminListen, Advertised, Bound, CapacityListen, DnsServer, HopAddress};
pub(crate) use amount::{CallRate, Capacity, HostName, MessageRate, NodeName, Seed, Share, Title};
pub(crate) use choice::{
    Choice, FeedbackName, LimitLaw, Names, PolicyName, QueueRules, Shared, TransportName, name_of,
};
pub(crate) use duration::{DAY, Fine, HOUR, MINUTE, SECOND, Time, YEAR, show};
pub(crate) use hep::{HepAddress, Password};
pub(crate) use leaf::Leaf;
pub(crate) use name::{
    DomainName, MemberAddress, MemberLabel, ObjectName, PageOrigin, ServedName, WorkloadName,
};
pub(crate) use number::{Count, Flag, GIB, KIB, MIB, Ratio, Size};
pub(crate) use place::{FilePath, Place, PlaceText};
pub(crate) use routing::{AnswerKind, FieldText, MethodText, NetworkText, NextHop, Text};
pub use secret::key_from_bytes;
pub(crate) use secret::{BearerText, KeyPath, KeyText};
pub(crate) use spread::Times;

/// JSON schema of a value, of a table or of a whole file.
pub(crate) type Schema = serde_json::Value;

/// A kind of value.
pub(crate) trait Kind {
    /// Type of a legal value.
    type Value: Clone;
    /// Whether messages must not show the value.
    const SECRET: bool = false;

    fn read(leaf: &Leaf) -> Result<Self::Value, Refusal>;

    /// JSON schema; its `title` names kind and unit for the reference.
    fn schema() -> Schema;
}

/// A kind whose defaults are taken from the types that own them.
pub(crate) trait Written: Kind {
    /// The value in the notation of the file.
    fn written(value: Self::Value) -> Leaf;
}

/// Why a value is not of its kind.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    /// Completes "expected ...".
    pub(crate) expected: String,
    /// Completes "did you mean ...?", in the notation of the file.
    pub(crate) meant: Option<String>,
}

impl Refusal {
    pub(crate) fn new(expected: impl Into<String>) -> Self {
        Self { expected: expected.into(), meant: None }
    }

    pub(crate) fn meant(self, meant: impl Into<Option<String>>) -> Self {
        Self { meant: meant.into(), ..self }
    }

    /// Text of the remedy.
    pub(crate) fn into_remedy(self) -> String {
        match self.meant {
            Some(meant) => format!("{}; did you mean {meant}?", self.expected),
            None => self.expected,
        }
    }
}

/// `text` in the notation of TOML.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}
