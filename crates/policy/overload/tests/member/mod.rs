//! Limits of members: what each law promises, the table of the page, and random sequences.
mod harness;
mod promises;
mod random;
mod table;
