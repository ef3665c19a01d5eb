//! Digest authentication of SIP requests, the server's side: RFC 3261 §22 with RFC 7616 and RFC 8760.
//!
//! Pure: no sockets, no clock, no randomness, no file of users. `wire::Credentials` and `wire::Challenge` read and
//! write the header fields.
//!
//! - [`Authenticator::examine`] checks the credentials of a request. It returns a [`Claim`], for which the user must be
//!   looked up, or the response.
//! - [`Claim::needs`] names the secret to look up. The caller gets it at once (a file) or later (a database).
//! - [`Authenticator::settle`] verifies the claim with this [`Secret`].
//! - [`Authenticator::challenges`] writes the header fields of a 401 or 407.
//! - Shards of one process send each other the results that limits depend on: [`Authenticator::take_result`] and
//!   [`Authenticator::apply_shared`].
//!
//! [`Nonces`] are keyed and not stored. [`Replays`] remembers the counts that were used with each. [`Bans`] limits
//! password guessing. The documentation of each type states its guarantees, and the possibilities that an attacker has.
//!
//! # Duties of the caller
//! - Examine only requests that create a server transaction: a retransmission has the same nonce count and would count
//!   as a replay. It would be answered with a new nonce and `stale=true`, which costs only a round trip.
//! - Give each shard of each process an issuer number of its own, chosen at random at its start ([`Nonces`]).
//! - Check that the user, a name in a realm, is authorized for the request (RFC 3261 §10.3 step 4); this crate only
//!   authenticates.
//!
//! # Secrets, and Kamailio's table `subscriber`
//! A clear password serves every algorithm. `H(user:realm:password)` serves the algorithm that it was made with:
//!
//! | column | use | algorithms |
//! | --- | --- | --- |
//! | `password` | [`Secret::Clear`] | all |
//! | `ha1`, 32 digits | [`Secret::Ha1`] when the user name of the claim has no `@domain` | MD5 |
//! | `ha1`, 64 digits | the same, as Kamailio's `auth` writes it with `algorithm` set | SHA-256 or SHA-512-256, whichever it was set to |
//! | `ha1b` | [`Secret::Ha1`] when the client sends `user@domain` as its user name: made of `user@domain:realm:password` | as `ha1` |
//!
//! The table's `username` and `domain` are the user part and the realm. Do not offer an algorithm that the stored
//! secrets do not serve: a client takes the first challenge that it knows (RFC 8760 §2.4), and would never succeed.
//!
//! Marks in brackets, a section and a number, are the rules of `3261-22.md` and `8760.md` in `docs/evidence/rfc/`. A
//! test compares the marks with these pages.
#![forbid(unsafe_code)]

mod algorithm;
mod authenticator;
mod bans;
mod claim;
mod nonce;
mod offer;
mod replay;
mod secret;

pub use algorithm::{Algorithm, SecretHash};
pub use authenticator::{
    AuthRefusal, AuthRequest, AuthSettings, Authenticator, CredentialVerdict, Examined, Role,
};
pub use bans::{AttemptLimit, AttemptResult, BanSettings, Bans, ClientLocation};
pub use claim::{Claim, Needs, UriRule};
pub use nonce::{Nonce, NonceKey, NonceKeys, NonceScope, NonceSettings, NonceState, Nonces};
pub use offer::{Offer, OfferError};
pub use replay::Replays;
pub use secret::Secret;
