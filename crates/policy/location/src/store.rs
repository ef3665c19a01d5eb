//! What a store of records has to do.

use crate::{Aor, Record};
use base::UnixTime;
use core::fmt;

/// What became of a replacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replaced {
    /// It is stored, and every read from now on, by whomever, gives it.
    Done,
    /// Another record is there than was expected: read again.
    Conflict,
}

/// Why a store cannot answer. Texts are for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// A limit of the store is reached: nothing more can be added. What is there can be read and removed.
    Full,
    /// The store cannot be reached, or has failed. Nothing is known of a replacement that was under way.
    Unavailable(String),
    /// What the store keeps for this address-of-record is no record.
    Corrupt(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the store is full: raise its limits, or let bindings expire sooner"),
            Self::Unavailable(why) => write!(f, "the store cannot be reached: {why}"),
            Self::Corrupt(why) => write!(f, "the store keeps something else than a record: {why}"),
        }
    }
}

/// A store that is called and answers; `invariants::store::check` says what it has to fulfil.
pub trait Store {
    /// The record of an address-of-record. It may hold bindings that have expired.
    fn read(&mut self, aor: &Aor) -> Result<Option<Record>, StoreError>;

    /// Puts `new` in the place of `expected`, if that is what is there now; `None` stands for no record. A record may
    /// be dropped once it is not [live](Record::is_live).
    fn replace(
        &mut self,
        now: UnixTime,
        aor: &Aor,
        expected: Option<&Record>,
        new: Option<&Record>,
    ) -> Result<Replaced, StoreError>;
}
