//! Requests between transports: which port and connection they leave by, and what their answers and the requests of
//! their dialogs take.

mod bed;
mod dialogs;
mod edge_proxy;
mod large;
mod registered;
mod sips;
mod targets;
mod transactions;
