//! Interface of a store of records.

use crate::{Aor, BindingsRecord};
use base::UnixTime;
use core::fmt;

/// Result of a replacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replaced {
    /// The record is stored. Every later read by any reader returns it.
    Done,
    /// The stored record is not the expected one: read again.
    Conflict,
}

/// Error of a store. The texts are for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// A limit of the store is reached. Records can be read and removed, but not added.
    Full,
    /// The store cannot be reached, or has failed. The result of a replacement in progress is unknown.
    Unavailable(String),
    /// The stored bytes for this address-of-record are not a record.
    Corrupt(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the store is full: raise its limits, or let bindings expire sooner"),
            Self::Unavailable(reason) => write!(f, "the store cannot be reached: {reason}"),
            Self::Corrupt(reason) => write!(f, "the stored bytes are not a record of bindings: {reason}"),
        }
    }
}

/// A store with blocking calls; `invariants::store::check` checks its rules.
pub trait Store {
    /// Record of an address-of-record. It may contain expired bindings.
    fn read(&mut self, aor: &Aor) -> Result<Option<BindingsRecord>, StoreError>;

    /// Replaces `expected` by `new` if `expected` is stored now; `None` stands for no record. A record may be dropped
    /// as soon as it is no longer [live](BindingsRecord::is_live).
    fn replace(
        &mut self,
        now: UnixTime,
        aor: &Aor,
        expected: Option<&BindingsRecord>,
        new: Option<&BindingsRecord>,
    ) -> Result<Replaced, StoreError>;
}
