//! One file a command.

pub(crate) mod check;
pub(crate) mod load;
pub(crate) mod run;
