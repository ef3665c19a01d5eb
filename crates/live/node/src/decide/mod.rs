//! Where a request goes: by its dialog, its session or a rule (`destination.rs`), by the connection of a client (`client_flow.rs`),
//! and to which member of a pool (`member.rs`).

pub(crate) mod client_flow;
pub(crate) mod destination;
pub(crate) mod limited;
pub(crate) mod member;
pub(crate) mod removed;
