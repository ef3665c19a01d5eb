//! Harness of the live tests. It starts the real `sarabande` binary, real SIPp callers and servers, and small UDP
//! agents of its own. Each test has loopback addresses of its own.
//!
//! A [`TestSite`] hands out addresses and a scratch folder. [`RunningBalancer`], [`SippServer`] and [`SippCaller`] run
//! on them. [`Agent`] sends what SIPp cannot (foreign Vias, garbage, forged tokens), [`StreamClient`] the same over
//! TCP. [`RedisServer`] and [`PostgresServer`] hold data that nodes share. Dropping a value kills its process, even
//! when the test panics. The scratch folder with all logs is then kept, and its path printed.
#![allow(clippy::missing_panics_doc, reason = "a harness reports by panicking")]

mod agent;
mod balancer;
mod browser;
mod carrier;
mod certificates;
mod child;
mod chromium;
mod console_phone;
mod dns;
mod field;
pub mod http;
mod java;
mod kamailio;
mod link;
mod load;
mod message;
mod monitor;
mod namespaces;
mod nat;
mod phone;
mod postgres;
mod process;
mod proxy;
mod redis;
mod service;
mod sipp;
mod stats;
mod stream;
mod tls_client;
mod torture;
mod virtual_address;
mod wait;
mod web_page;
mod worker;

pub use agent::{Agent, AnsweringAgent};
pub use balancer::{
    RunningBalancer, RunningTool, ShownMember, TestSettings, Tool, program, quoted, tls_table,
};
pub use browser::Browser;
pub use carrier::Carrier;
pub use certificates::{Authority, Certificate};
pub use chromium::WebPhone;
pub use console_phone::ConsolePhone;
pub use dns::{Data, NameServer};
pub use field::TestSite;
pub use java::JavaServer;
pub use kamailio::KamailioProxy;
pub use link::{LossyLink, ResettingLink};
pub use load::{LoadCaller, LoadResults, LoadServer};
pub use message::{AgentRequest, bye_of_callee, respond, show};
pub use monitor::{Measured, RunningMonitor};
pub use nat::Nat;
pub use phone::Phone;
pub use postgres::PostgresServer;
pub use process::Process;
pub use proxy::RunningProxy;
pub use redis::RedisServer;
pub use service::Service;
pub use sipp::{CallLoad, SippCaller, SippServer};
pub use stats::Stats;
pub use stream::StreamClient;
pub use testkit::{header, status, value};
pub use tls_client::{TlsExchange, path_text};
pub use torture::{Case, TortureVerdict, cases};
pub use virtual_address::{BalancerHost, VirtualAddress};
pub use wait::{until, within};
pub use web_page::WebPage;
