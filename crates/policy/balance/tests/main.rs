//! All tests of the crate are one program, since linking many takes longer than running them.

mod calls;
mod common;
mod dialogs;
mod health;
mod initiators;
mod limits;
mod outliers;
mod pauses;
mod places;
mod policies;
mod pools;
mod protection;
mod room;
mod sequences;
mod silence;
