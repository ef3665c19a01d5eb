//! Harness of the live tests: it starts the real `sarabande` binary, real SIPp callers and servers, and
//! small UDP agents of its own, each test on loopback addresses that no other test uses.
//!
//! A test reads top down: a [`Field`] hands out addresses and a scratch folder, [`Balancer`], [`Server`] and [`Caller`]
//! run on them, [`Agent`] speaks SIP where SIPp cannot (foreign Vias, garbage, forged tokens). Everything
//! started is killed when its value is dropped, also when the test panics; the scratch folder with every
//! log is then kept and named.
#![allow(clippy::missing_panics_doc, reason = "a harness reports by panicking")]

mod agent;
mod balancer;
mod child;
mod dns;
mod field;
pub mod http;
mod link;
mod message;
mod process;
mod proxy;
mod sipp;
mod stats;
mod torture;
mod wait;
mod worker;

pub use agent::{Agent, Answerer};
pub use balancer::{Balancer, Member, RunningTool, Settings, Tool, quoted};
pub use dns::{Data, NameServer};
pub use field::Field;
pub use link::Link;
pub use message::{Request, header, respond, show, status, value};
pub use process::Process;
pub use proxy::Proxy;
pub use sipp::{Caller, Load, Server};
pub use stats::Stats;
pub use torture::{Case, Verdict, cases};
pub use wait::{until, within};
