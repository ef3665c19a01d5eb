//! One file a command.

pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod drain;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod member;
pub(crate) mod monitor;
pub(crate) mod plan;
pub(crate) mod registrations;
pub(crate) mod reload;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod stop;
mod text;
pub(crate) mod trace;
pub(crate) mod up;
pub(crate) mod user;
