//! The registrar (RFC 3261 §10.3), the location of its users (§16.5), and their authentication (§22).
//!
//! Nothing here blocks. A request that needs an answer of a store is kept, and its
//! [`StoreQuestion`](crate::StoreQuestion) leaves as an event. After the answer the request is read and processed again
//! from the beginning ([`Progress`](crate::read::progress::Progress)).

mod authenticate;
mod locate;
mod place;
mod register;
mod report;
mod resume;
pub(crate) mod serve;
mod services;
mod verified;
mod waiting;

pub use report::{LogIns, LookUps, RegistrarCounters, RegistrarReport};
pub use services::{AuthenticationSettings, RegistrarSettings};
pub(crate) use services::{Registrar, RegistrarSecrets, STORE_SILENT, keep_answer};
pub(crate) use waiting::{PendingRequest, WaitEnd};
