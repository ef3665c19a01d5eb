//! What simulations show, for people: the papers' figures with their statements as checks, surveys of a scenario, and
//! the reports that both are written to.
//!
//! - [`figures`]: one figure of a paper each. Its scenarios and sweeps, and what the paper states about it.
//! - [`survey`]: a scenario run as often as it asks for, once or at several values of a key.
//! - [`report`]: tables, pictures and a page for either.
//!
//! Everything is run by [`sim`]; threads are in its runner of sweeps alone.
#![forbid(unsafe_code)]

pub mod figures;
pub mod report;
pub mod survey;
