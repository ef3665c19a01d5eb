//! Figures and reports of simulations: the papers' figures with their statements as checks, surveys of a scenario, and
//! the reports of both.
//!
//! - [`figures`]: one file per figure or subject of a paper, with scenarios, sweeps, and the paper's statements.
//! - [`survey`]: runs of a scenario with all its replications, once or at several values of a key.
//! - [`report`]: tables, pictures and a page for figures and surveys.
//!
//! [`sim`] runs all simulations; only its runner of sweeps uses threads.
#![forbid(unsafe_code)]

pub mod figures;
pub mod report;
pub mod survey;
