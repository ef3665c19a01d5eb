//! Questions to stores, and the answers.

use base::UnixTime;
use digest_auth::{Algorithm, Secret};
use location::StoreReply;

/// A question to a store. Its answer is an [`Answer`](crate::ShardInput::Answer) with the same number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreQuestion {
    /// Number of the question at this shard.
    pub number: u64,
    /// The question itself.
    pub about: StoreQuery,
}

/// A question to a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreQuery {
    /// A question about bindings.
    Location(location::StoreRequest),
    /// A question for the secret of a user.
    User {
        /// Exact name of the user.
        name: Box<[u8]>,
        /// Realm of the user.
        realm: Box<[u8]>,
        /// Algorithm of a hashed password.
        algorithm: Algorithm,
    },
}

/// The answer of a store.
#[derive(Clone, Debug)]
pub enum StoreAnswer {
    /// Answer about bindings, with the date by the clock of the store, which all its proxies share.
    Location(StoreReply, UnixTime),
    /// Secret of a user; `None` for an unknown user. An error means that the store of users is unavailable.
    User(Result<Option<Secret>, UsersUnavailable>),
}

/// The store of users is unavailable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsersUnavailable;
