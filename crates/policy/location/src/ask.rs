//! Questions to a store as data, for those who cannot wait.

use crate::{Aor, Record, Replaced, Store, StoreError};
use base::UnixTime;

/// A question to a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// [`Store::read`].
    Read(Aor),
    /// [`Store::replace`].
    Replace {
        /// Whose record.
        aor: Aor,
        /// What has to be there.
        expected: Option<Record>,
        /// What is to be there.
        new: Option<Record>,
    },
}

/// The answer of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// To [`Ask::Read`].
    Read(Result<Option<Record>, StoreError>),
    /// To [`Ask::Replace`].
    Replaced(Result<Replaced, StoreError>),
}

impl Ask {
    /// Asks a store that answers at once, or on a thread that may wait.
    pub fn put_to<S: Store + ?Sized>(&self, store: &mut S, now: UnixTime) -> Reply {
        match self {
            Self::Read(aor) => Reply::Read(store.read(aor)),
            Self::Replace { aor, expected, new } => {
                Reply::Replaced(store.replace(now, aor, expected.as_ref(), new.as_ref()))
            }
        }
    }

    /// The reply when the store cannot answer.
    pub fn failed(&self, error: StoreError) -> Reply {
        match self {
            Self::Read(_) => Reply::Read(Err(error)),
            Self::Replace { .. } => Reply::Replaced(Err(error)),
        }
    }

    /// Whose record it is about: questions about one address-of-record have to reach the store in order.
    pub fn aor(&self) -> &Aor {
        match self {
            Self::Read(aor) | Self::Replace { aor, .. } => aor,
        }
    }
}
