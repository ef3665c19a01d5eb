//! Digest authentication of SIP requests, the server's side: RFC 3261 §22 with RFC 7616 and RFC 8760.
//!
//! Pure: no sockets, no clock, no randomness, no file of users. What the wire has is read and written by
//! `wire::Credentials` and `wire::Challenge`.
//!
//! - [`Authenticator::examine`] looks at the credentials of a request. It gives a [`Claim`] that is worth a look-up
//!   of the user, or says what to answer.
//! - [`Claim::needs`] says whose secret is asked for. The caller answers at once (a file) or later (a database).
//! - [`Authenticator::settle`] judges the claim with that [`Secret`].
//! - [`Authenticator::challenges`] writes the header fields of a 401 or 407.
//!
//! - Shards of one process tell each other what limits go by: [`Authenticator::take_judgement`] and
//!   [`Authenticator::hear`].
//!
//! [`Nonces`] are keyed and kept nowhere, [`Replays`] remembers which of them were used how often, and [`Bans`]
//! limits guessing. Each says at its type what it promises, and what an attacker can do.
//!
//! # What the caller has to do
//! - Ask only for requests that begin a server transaction: a retransmission has the same nonce count and would be
//!   taken for a replay. It is answered with a new nonce and `stale=true`, which costs a round trip and nothing else.
//! - Give each shard of each process an issuer number of its own, chosen at random at its start ([`Nonces`]).
//! - Check that the user, who is a name in a realm, may do what the request asks for (RFC 3261 §10.3 step 4); here it
//!   is only proven who asks.
//!
//! # Secrets, and Kamailio's table `subscriber`
//! A clear password serves every algorithm. `H(user:realm:password)` serves the one that it was made with:
//!
//! | column | use | algorithms |
//! | --- | --- | --- |
//! | `password` | [`Secret::Clear`] | all |
//! | `ha1`, 32 digits | [`Secret::Ha1`] when the user name of the claim has no `@domain` | MD5 |
//! | `ha1`, 64 digits | the same, as Kamailio's `auth` writes it with `algorithm` set | SHA-256 or SHA-512-256, whichever it was set to |
//! | `ha1b` | [`Secret::Ha1`] when the client sends `user@domain` as its user name: made of `user@domain:realm:password` | as `ha1` |
//!
//! The table's `username` and `domain` are the user part and the realm. Offer no algorithm that the secrets at hand
//! do not serve: a client takes the first challenge that it knows (RFC 8760 §2.4), and would fail for ever.
//!
//! Marks in brackets, a section and a number, are the rules of `docs/rfc/3261-22.md` and `docs/rfc/8760.md`; a test
//! compares them.
#![forbid(unsafe_code)]

mod algorithm;
mod authenticator;
mod bans;
mod claim;
mod nonce;
mod offer;
mod replay;
mod secret;

pub use algorithm::{Algorithm, Hash};
pub use authenticator::{Authenticator, Examined, Refusal, Request, Role, Settings, Verdict};
pub use bans::{BanSettings, Bans, Judgement, Limit, Place};
pub use claim::{Claim, Needs, UriRule};
pub use nonce::{Nonce, NonceKey, NonceKeys, NonceScope, NonceSettings, NonceState, Nonces};
pub use offer::{Offer, OfferError};
pub use replay::Replays;
pub use secret::Secret;
