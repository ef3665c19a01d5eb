//! Addresses: our own, those of nodes and clients, and where a URI leads.

pub(crate) mod client_flow;
pub(crate) mod contact;
pub(crate) mod hop_name;
pub(crate) mod ports;
pub(crate) mod target;
pub(crate) mod topology;
