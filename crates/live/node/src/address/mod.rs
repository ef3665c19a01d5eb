//! Addresses of this process, of nodes and of clients, and the targets of URIs.

pub(crate) mod client_flow;
pub(crate) mod contact;
pub(crate) mod hop_name;
pub(crate) mod nat;
pub(crate) mod ports;
pub(crate) mod target;
pub(crate) mod topology;
