//! Requests between transports: their port and connection, and those of their responses and of later requests of the
//! dialog.

mod bed;
mod dialogs;
mod edge_proxy;
mod large;
mod registered;
mod sips;
mod targets;
mod transactions;
