//! The home domain: its registrar (RFC 3261 §10.3), the location of its users (§16.5), and their authentication (§22).
//!
//! Nothing here waits. A request that needs an answer from a store is kept, its [`Question`](crate::Question) leaves as an event, and
//! the request is taken up again from the beginning with what the answer says ([`Progress`](crate::progress::Progress)).

mod authenticate;
mod locate;
mod place;
mod register;
mod repeats;
mod report;
mod resume;
mod services;
mod verified;
mod waiting;

pub use report::{HomeCounters, HomeReport, LogIns, LookUps};
pub use services::{AuthenticationSettings, HomeSettings};
pub(crate) use services::{Home, HomeSecrets, STORE_SILENT};
pub(crate) use waiting::{PendingRequest, WaitEnd};
