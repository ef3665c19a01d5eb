//! Sockets, shards, clock, DNS, admin HTTP.

pub mod socket;
