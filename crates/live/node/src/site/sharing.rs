//! State distribution on the wire. This file decides whether this shard keeps the state of a new request. It also reads
//! and writes marks in the Via of requests, and notices in the Via of responses.
//!
//! Marks and notices count only if a configured neighbour sent them. The next proxy reads only the Via of this proxy.
//! In the response of a sender that is no neighbour, a notice in the Via of an earlier element is removed.

use base::Instant;
use core::time::Duration;
use distribute::{DistributionSettings, Distributor, Function, Mark, StateDecision, UtilisationSource};
use route::Network;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wire::Message;

/// The neighbours with which the state of calls is shared out, and the settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// Networks of the trusted proxies that also share out state.
    pub neighbours: Vec<Network>,
    /// Whether the state of a dialog and its call record are shared out together with the transactions.
    pub dialogs: bool,
    /// `Some` if the verification of credentials is shared out. The value is the additional cost of a call with
    /// verification, in the unit of `state_cost` of the settings.
    pub authentication: Option<f64>,
    /// Settings of the distribution.
    pub settings: DistributionSettings,
}

impl Default for Distribution {
    /// Returns settings without neighbours, with the cost of this proxy's transactions.
    fn default() -> Self {
        Self {
            neighbours: Vec::new(),
            dialogs: false,
            authentication: None,
            settings: DistributionSettings {
                state_cost: Self::state_cost(false),
                ..DistributionSettings::default()
            },
        }
    }
}

impl Distribution {
    /// Returns the additional cost of a call with transactions, or with transactions, dialog and record (`state_cost`
    /// of the settings). Measured in docs/evidence/distribution.md.
    #[must_use]
    pub const fn state_cost(dialogs: bool) -> f64 {
        if dialogs { 0.9 } else { 0.35 }
    }

    /// Returns the share of one of `shards` shards.
    #[must_use]
    fn share(&self, shards: usize) -> DistributionSettings {
        let DistributionSettings { delta_c, remembered, .. } = self.settings;
        let shards = shards.max(1);
        let part = 1.0 / shards as f64;
        let load = match self.settings.load {
            UtilisationSource::Measured => UtilisationSource::Measured,
            UtilisationSource::Computed { stateful, stateless } => {
                UtilisationSource::Computed { stateful: stateful * part, stateless: stateless * part }
            }
        };
        DistributionSettings {
            load,
            delta_c: delta_c * part,
            remembered: remembered.div_ceil(shards),
            ..self.settings
        }
    }
}

/// Decisions of a shard or a process about the work of one proxy of a chain for a request outside dialogs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decisions {
    /// Work done here.
    pub kept: u64,
    /// Work left to a later proxy.
    pub passed_open: u64,
    /// Work that an earlier proxy has done.
    pub passed_kept: u64,
}

impl Decisions {
    pub(crate) fn count(&mut self, decision: StateDecision) {
        match decision {
            StateDecision::Keep => self.kept += 1,
            StateDecision::PassOpen => self.passed_open += 1,
            StateDecision::PassKept => self.passed_kept += 1,
        }
    }

    fn merge(&mut self, other: Self) {
        self.kept += other.kept;
        self.passed_open += other.passed_open;
        self.passed_kept += other.passed_kept;
    }
}

/// Decisions of a shard or a process about state distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharingReport {
    /// The state of calls: transactions, or transactions and dialogs.
    pub state: Decisions,
    /// Verification of callers' credentials.
    pub authentication: Decisions,
    /// Utilisation of the process in the last period, from 0 to 1.
    pub utilisation: f64,
    /// Number of neighbours that are told to send no more calls without state.
    pub throttled: usize,
    /// Share of new requests accepted from senders that are no neighbours, from 0 to 1.
    pub taken: f64,
}

impl Default for SharingReport {
    /// Returns the report before any request: all new requests are accepted.
    fn default() -> Self {
        let (state, authentication) = (Decisions::default(), Decisions::default());
        Self { state, authentication, utilisation: 0.0, throttled: 0, taken: 1.0 }
    }
}

impl SharingReport {
    /// Adds the decisions of another shard of the process.
    pub fn merge(&mut self, other: &Self) {
        self.state.merge(other.state);
        self.authentication.merge(other.authentication);
        self.utilisation = self.utilisation.max(other.utilisation);
        self.taken = self.taken.min(other.taken);
        // All shards have the same neighbours.
        self.throttled = self.throttled.max(other.throttled);
    }
}

/// Number of first responses of a period that contain a notice. After them, one response in [`NOTICE_INTERVAL`]
/// contains it. Each thread of a neighbour has to receive the notice, but the notice lengthens messages.
const NOTICES_FIRST: u32 = 4;
const NOTICE_INTERVAL: u32 = 8;

pub(crate) struct Sharing {
    neighbours: Vec<Network>,
    /// Number of responses to each neighbour in this period that could carry a notice.
    responses: BTreeMap<SocketAddr, u32>,
    /// The state that is shared out: the transactions of a call, or also its dialogs.
    pub(crate) function: Function,
    pub(crate) distributor: Distributor<SocketAddr>,
    /// Distribution of the verification of credentials, if it is shared out.
    pub(crate) authentication: Option<Distributor<SocketAddr>>,
    pub(crate) report: SharingReport,
    has_reported_stranger: bool,
}

impl Sharing {
    /// Creates the state. `salt` differs in each shard of each process; `report` is the report under the previous
    /// settings.
    pub(crate) fn new(distribution: &Distribution, shards: usize, salt: u64, report: SharingReport) -> Self {
        let settings = distribution.share(shards);
        let of_authentication = |state_cost| {
            Distributor::new(
                DistributionSettings { state_cost, load: UtilisationSource::Measured, ..settings },
                !salt,
            )
        };
        Self {
            neighbours: distribution.neighbours.clone(),
            responses: BTreeMap::new(),
            function: if distribution.dialogs { Function::Dialog } else { Function::State },
            authentication: distribution.authentication.map(of_authentication),
            distributor: Distributor::new(settings, salt),
            report,
            has_reported_stranger: false,
        }
    }

    /// Returns whether a request has the mark of a proxy that is no configured neighbour, so that state is kept twice.
    /// Returns `true` only once.
    pub(crate) fn is_marked_by_unknown_neighbour(&mut self, message: &Message<'_>, from: SocketAddr) -> bool {
        let is_marked = !self.has_reported_stranger
            && self.neighbour(from).is_none()
            && param(message, message.top_via(), Mark::PARAMETER).and_then(Mark::parse).is_some();
        self.has_reported_stranger |= is_marked;
        is_marked
    }

    /// Returns the address, if it is the address of a neighbour.
    pub(crate) fn neighbour(&self, at: SocketAddr) -> Option<SocketAddr> {
        self.neighbours.iter().any(|network| network.contains(at.ip())).then_some(at)
    }

    /// Returns the functions that are shared out, with their distributors.
    pub(crate) fn distributors(&mut self) -> impl Iterator<Item = (Function, &mut Distributor<SocketAddr>)> {
        let authentication = self.authentication.as_mut();
        let authentication = authentication.map(|distributor| (Function::Authentication, distributor));
        [(self.function, &mut self.distributor)].into_iter().chain(authentication)
    }

    /// Returns whether a response to a neighbour carries notices.
    pub(crate) fn carries_notice(&mut self, neighbour: SocketAddr) -> bool {
        let responses = self.responses.entry(neighbour).or_default();
        *responses += 1;
        *responses <= NOTICES_FIRST || responses.is_multiple_of(NOTICE_INTERVAL)
    }

    /// Returns the share of new requests accepted from clients. There is room as long as one of the functions can be
    /// left to other proxies.
    pub(crate) fn takes(&self) -> f64 {
        let authentication = self.authentication.as_ref().filter(|distributor| distributor.has_choice());
        let of_authentication = authentication.map_or(0.0, Distributor::accepted_share);
        self.distributor.accepted_share().max(of_authentication)
    }

    pub(crate) fn refused(&mut self, from: SocketAddr) {
        let from = self.neighbour(from);
        self.distributors().for_each(|(_, distributor)| distributor.on_refused(from));
    }

    pub(crate) fn period(&mut self, now: Instant, length: Duration, utilisation: f64) {
        match &mut self.authentication {
            // A challenge costs least at the entry of the chain: the challenge of a later proxy has to pass all earlier
            // proxies.
            Some(last) => self.distributor.on_period_before(last, now, length, utilisation),
            None => self.distributor.on_period(now, length, utilisation),
        }
        self.report.utilisation = self.distributor.utilisation();
        self.report.taken = self.takes();
        self.responses.clear();
    }

    pub(crate) fn report(&self) -> SharingReport {
        let notices = self.distributor.upstream().map(|neighbour| self.distributor.notice(Some(neighbour)));
        SharingReport { throttled: notices.filter(|notice| notice.throttled).count(), ..self.report }
    }

    pub(crate) fn mark(&self, message: &Message<'_>, from: SocketAddr) -> Mark {
        let value = || param(message, message.top_via(), Mark::PARAMETER);
        self.neighbour(from).and_then(|_| Mark::parse(value()?)).unwrap_or_default()
    }
}

/// Returns the value of a parameter. A repeated parameter counts as absent, since its value is ambiguous.
pub(crate) fn param<'a>(message: &Message<'a>, via: &wire::Via<'a>, name: &str) -> Option<&'a [u8]> {
    let mut found =
        via.params(message.bytes()).filter(|param| param.name.eq_ignore_ascii_case(name.as_bytes()));
    let first = found.next()?;
    if found.next().is_some() { None } else { first.value }
}
