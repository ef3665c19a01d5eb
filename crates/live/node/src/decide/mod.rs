//! Chooses the destination of a request: by its dialog, session or rule (`destination.rs`), or by the connection of a
//! client (`client_flow.rs`). Then chooses the member of a pool (`member.rs`).

pub(crate) mod client_flow;
pub(crate) mod destination;
pub(crate) mod limited;
pub(crate) mod member;
pub(crate) mod removed;
