//! Requests to a store as data, for callers that must not block.

use crate::{Aor, BindingsRecord, Replaced, Store, StoreError};
use base::UnixTime;

/// Request to a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// [`Store::read`].
    Read(Aor),
    /// [`Store::replace`].
    Replace {
        /// Address-of-record of the record.
        aor: Aor,
        /// Record that must be present; `None` for no record.
        expected: Option<BindingsRecord>,
        /// New record; `None` to remove.
        new: Option<BindingsRecord>,
    },
}

/// Reply of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Reply to [`Ask::Read`].
    Read(Result<Option<BindingsRecord>, StoreError>),
    /// Reply to [`Ask::Replace`].
    Replaced(Result<Replaced, StoreError>),
}

impl Ask {
    /// Sends the request to a store that replies at once, or on a thread that may block.
    pub fn put_to<S: Store + ?Sized>(&self, store: &mut S, now: UnixTime) -> Reply {
        match self {
            Self::Read(aor) => Reply::Read(store.read(aor)),
            Self::Replace { aor, expected, new } => {
                Reply::Replaced(store.replace(now, aor, expected.as_ref(), new.as_ref()))
            }
        }
    }

    /// Reply for a store that failed with `error`.
    pub fn failed(&self, error: StoreError) -> Reply {
        match self {
            Self::Read(_) => Reply::Read(Err(error)),
            Self::Replace { .. } => Reply::Replaced(Err(error)),
        }
    }

    /// Address-of-record of the request. Requests for one address-of-record must reach the store in order.
    pub fn aor(&self) -> &Aor {
        match self {
            Self::Read(aor) | Self::Replace { aor, .. } => aor,
        }
    }
}
