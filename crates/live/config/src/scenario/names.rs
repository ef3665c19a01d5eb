//! Names of choices in a scenario.

use super::typed::{Select, TcpDiscard};
use super::{ScenarioFeedback, ScenarioLocal, Ties};
use crate::kind::Names;
use ::overload::RejectAt;
use ::overload::retry_after::During;
use base::Transport;
use load::ArrivalProcess;

/// A role as it is named in the file. The policy of a balancer is another key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RoleName {
    Proxy,
    Balancer,
    Server,
    Database,
}

/// Distribution of service times, by name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ServiceName {
    Deterministic,
    Exponential,
}

impl Names for RoleName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("proxy", Self::Proxy),
        ("balancer", Self::Balancer),
        ("server", Self::Server),
        ("database", Self::Database),
    ];
}

impl Names for Select {
    const NAMES: &'static [(&'static str, Self)] =
        &[("random", Self::Random), ("round-robin", Self::RoundRobin)];
}

impl Names for Ties {
    const NAMES: &'static [(&'static str, Self)] = &[("turns", Self::Turns), ("random", Self::Random)];
}

impl Names for TcpDiscard {
    const NAMES: &'static [(&'static str, Self)] = &[("any", Self::Any), ("new-calls", Self::NewCalls)];
}

/// Transports of a simulated network.
impl Names for Transport {
    const NAMES: &'static [(&'static str, Self)] = &[("udp", Self::Udp), ("tcp", Self::Tcp)];
}

impl Names for ScenarioLocal {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("bang-bang", Self::BangBang),
        ("occupancy", Self::Occupancy),
        ("delay", Self::Delay),
    ];
}

impl Names for ScenarioFeedback {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("hop-by-hop", Self::HopByHop),
        ("end-to-end", Self::EndToEnd),
        ("rate", Self::Rate),
        ("window", Self::Window),
    ];
}

impl Names for During {
    const NAMES: &'static [(&'static str, Self)] = &[("prolong", Self::Prolong), ("ignore", Self::Ignore)];
}

impl Names for RejectAt {
    const NAMES: &'static [(&'static str, Self)] = &[("early", Self::Arrival), ("late", Self::Service)];
}

impl Names for ServiceName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("deterministic", Self::Deterministic), ("exponential", Self::Exponential)];
}

impl Names for ArrivalProcess {
    const NAMES: &'static [(&'static str, Self)] =
        &[("poisson", Self::Poisson), ("constant", Self::Constant)];
}
