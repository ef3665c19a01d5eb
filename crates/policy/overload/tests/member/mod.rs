//! Limits of members: promises of each law, the table of the documentation, and random sequences.
mod harness;
mod promises;
mod random;
mod table;
