//! Questions to stores, and what stores answer.

use base::UnixTime;
use digest_auth::{Algorithm, Secret};
use location::Reply;

/// A question to a store, to be answered with [`Answer`](crate::ShardInput::Answer) and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its number at this shard.
    pub number: u64,
    /// What is asked.
    pub about: Asked,
}

/// What a store is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// About bindings.
    Location(location::Ask),
    /// The secret of a user.
    User {
        /// The name to the letter.
        name: Box<[u8]>,
        /// The realm that it belongs to.
        realm: Box<[u8]>,
        /// What a hashed password has to be made with.
        algorithm: Algorithm,
    },
}

/// What a store answers.
#[derive(Clone, Debug)]
pub enum StoreAnswer {
    /// About bindings, and the date by the clock that all who share the store go by.
    Location(Reply, UnixTime),
    /// The secret of a user, `None` if there is no such user; or nobody can say.
    User(Result<Option<Secret>, UsersUnavailable>),
}

/// The users cannot be asked for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsersUnavailable;
