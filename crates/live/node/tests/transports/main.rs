//! Requests between transports: which port and connection they leave by, and what their answers and the requests of
//! their dialogs take.

#[path = "../common/mod.rs"]
mod common;

mod bed;
mod dialogs;
mod targets;
