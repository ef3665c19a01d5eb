//! Questions to stores, and the answers.

use base::UnixTime;
use digest_auth::{Algorithm, Secret};
use location::Reply;

/// A question to a store, to be answered with [`Answer`](crate::ShardInput::Answer) and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its number at this shard.
    pub number: u64,
    /// The question itself.
    pub about: StoreQuery,
}

/// A question to a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreQuery {
    /// About bindings.
    Location(location::Ask),
    /// The secret of a user.
    User {
        /// The name to the letter.
        name: Box<[u8]>,
        /// The realm that it belongs to.
        realm: Box<[u8]>,
        /// The algorithm of a hashed password.
        algorithm: Algorithm,
    },
}

/// The answer of a store.
#[derive(Clone, Debug)]
pub enum StoreAnswer {
    /// About bindings, with the date by the clock of the store, which all its proxies share.
    Location(Reply, UnixTime),
    /// The secret of a user, `None` for an unknown user; or an error, while the users cannot be asked for.
    User(Result<Option<Secret>, UsersUnavailable>),
}

/// The users cannot be asked for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsersUnavailable;
