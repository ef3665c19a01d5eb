//! Requests to a store as data, for callers that must not block.

use crate::{Aor, BindingsRecord, Replaced, Store, StoreError};
use base::UnixTime;

/// Request to a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreRequest {
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
pub enum StoreReply {
    /// Reply to [`StoreRequest::Read`].
    Read(Result<Option<BindingsRecord>, StoreError>),
    /// Reply to [`StoreRequest::Replace`].
    Replaced(Result<Replaced, StoreError>),
}

impl StoreRequest {
    /// Sends the request to a store that replies at once, or on a thread that may block.
    pub fn send_to<S: Store + ?Sized>(&self, store: &mut S, now: UnixTime) -> StoreReply {
        match self {
            Self::Read(aor) => StoreReply::Read(store.read(aor)),
            Self::Replace { aor, expected, new } => {
                StoreReply::Replaced(store.replace(now, aor, expected.as_ref(), new.as_ref()))
            }
        }
    }

    /// Reply for a store that failed with `error`.
    pub fn failed(&self, error: StoreError) -> StoreReply {
        match self {
            Self::Read(_) => StoreReply::Read(Err(error)),
            Self::Replace { .. } => StoreReply::Replaced(Err(error)),
        }
    }

    /// Address-of-record of the request. Requests for one address-of-record must reach the store in order.
    pub fn aor(&self) -> &Aor {
        match self {
            Self::Read(aor) | Self::Replace { aor, .. } => aor,
        }
    }
}
