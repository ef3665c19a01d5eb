//! Decides which proxies keep the state of which calls: all, none, a fixed share, or a share that each proxy finds with
//! `distribute` (SERvartuka paper, section 3). Two more rules serve as comparisons: the rule of Cortes et al. (section
//! 6), and the paper's algorithm without a mark on each call.

use super::medium::Map;
use super::message::{HostId, ModelMessage};
use base::{Instant, Rng};
use core::time::Duration;
use distribute::{Call, DistributionSettings, Distributor, NextHop, Notice, StateDecision};
use overload::NewRequestSender;
use rand::Rng as _;
use std::sync::Arc;
use wire::Method;

/// Length of a period for a proxy that does not share out state.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// How the proxies of a group keep the state of calls.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum StateKeeping {
    /// Each keeps the state of every call, and does not announce it.
    #[default]
    Always,
    /// None keeps state: stateless forwarding (RFC 3261 §16.11).
    Never,
    /// Each keeps this share, from 0 to 1, of the calls that arrive without state and are forwarded to a proxy that
    /// shares out state. It keeps all calls that leave the network.
    Share(f64),
    /// Each proxy finds its share.
    Distributed(DistributionSettings),
    /// Each proxy finds its share, and calls are not marked. In each period, a proxy learns only for which part of its
    /// calls an earlier proxy keeps the state (`Csf_up` of the SERvartuka paper, algorithm 1). All proxies
    /// order the calls alike by Call-ID. Each proxy along one direction therefore knows which part is already kept.
    Unmarked(DistributionSettings),
    /// Each decides for each request by its own utilisation: the rule of Cortes et al., with links that count as lossy.
    ByUtilisation,
}

/// Rule of Cortes et al. (SERvartuka paper, section 6). A proxy handles a request statefully if the link is lossy and
/// its utilisation is low. At medium utilisation it does so for INVITE and BYE only. It also does so if the request
/// forks, which does not occur in the model.
fn is_kept_at(utilisation: f64, method: Method) -> bool {
    utilisation < 0.60 || (matches!(method, Method::Invite | Method::Bye) && utilisation < 0.75)
}

impl StateKeeping {
    /// Whether such a proxy exchanges marks and notices with its neighbours.
    fn takes_part(self) -> bool {
        matches!(self, Self::Share(_) | Self::Distributed(_) | Self::Unmarked(_))
    }

    /// Whether such a proxy measures its utilisation once per period.
    pub(super) fn has_periods(self) -> bool {
        matches!(self, Self::Distributed(_) | Self::Unmarked(_) | Self::ByUtilisation)
    }
}

/// How the proxies of a scenario keep state.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkState {
    /// By group. Groups beyond the end keep the state of every call.
    pub groups: Vec<StateKeeping>,
    /// Further behaviour of the proxies.
    pub model: ProxyModel,
}

/// Overload control of a scenario's proxies, and when the proxy that keeps a call's state answers its INVITE with 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyModel {
    /// The papers' proxy: overload control as in the scenario, or none if it need not keep the state of every call.
    OfPaper {
        /// Whether a 100 is sent, at once. RFC 3261 §17.2.1 omits the 100 if another response follows within 200 ms.
        trying: bool,
    },
    /// A running server with its default settings. It refuses new calls by their waiting time. A proxy with
    /// [`StateKeeping::Distributed`] also refuses the share of clients' calls beyond [`Distributor::accepted_share`]. Between
    /// neighbours that share out state the 100 comes after 200 ms, otherwise at once.
    OfServer,
}

impl Default for NetworkState {
    fn default() -> Self {
        Self { groups: Vec::new(), model: ProxyModel::OfPaper { trying: true } }
    }
}

impl NetworkState {
    /// Returns how a group keeps state.
    pub(super) fn of(&self, group: usize) -> StateKeeping {
        self.groups.get(group).copied().unwrap_or_default()
    }

    /// Whether marks and notices of the proxies of a group count.
    pub(super) fn shares(&self, group: usize) -> bool {
        self.of(group).takes_part()
    }
}

/// How a proxy decides. A proxy that keeps all state has no rule.
#[derive(Debug)]
enum Rule {
    Never,
    Share { share: f64, rng: Rng },
    Distributed(Box<Distributor<HostId>>),
    Unmarked(Box<Distributor<HostId>>, UpstreamState),
    ByUtilisation { utilisation: f64 },
}

/// Information about the calls whose state is kept by proxies before this one, without marks.
#[derive(Clone, Copy, Debug, Default)]
struct UpstreamState {
    /// Part of the proxy's calls in the last period, from 0 to 1.
    part: f64,
    /// Calls of this period, and the number of them whose state is kept before this proxy.
    calls: u32,
    kept: u32,
}

/// Position of a call in the order that all proxies share, from 0 to 1.
fn place_of(key: u64) -> f64 {
    Rng::from_seed(key).random()
}

/// Decides for a proxy that need not keep the state of every call.
#[derive(Debug)]
pub(crate) struct Keeper {
    map: Arc<Map>,
    host: HostId,
    rule: Rule,
    /// Numbers of the calls whose state it has kept, in order.
    kept: Vec<u32>,
}

impl Keeper {
    /// Returns the keeper of a host; `None` for a proxy that keeps the state of every call.
    pub(super) fn new(map: &Arc<Map>, host: HostId, rng: &Rng) -> Option<Self> {
        let mut rng = rng.fork("state");
        let rule = match map.state.of(map.group_of[host.index()].into()) {
            StateKeeping::Always => return None,
            StateKeeping::Never => Rule::Never,
            StateKeeping::Share(share) => Rule::Share { share, rng },
            StateKeeping::Distributed(settings) => {
                Rule::Distributed(Box::new(Distributor::new(settings, rng.random())))
            }
            StateKeeping::Unmarked(settings) => {
                Rule::Unmarked(Box::new(Distributor::new(settings, rng.random())), UpstreamState::default())
            }
            StateKeeping::ByUtilisation => Rule::ByUtilisation { utilisation: 0.0 },
        };
        Some(Self { map: Arc::clone(map), host, rule, kept: Vec::new() })
    }

    /// Whether a request without a transaction gets one here. An INVITE that starts a call is decided now, and is
    /// marked if its state is kept.
    pub(super) fn keeps(&mut self, now: Instant, request: &mut ModelMessage) -> bool {
        match request.method {
            // The proxy's core creates no transaction for an ACK, and one for a CANCEL only if it has the INVITE's.
            Method::Ack | Method::Cancel => true,
            method if !request.is_initial_invite() => match self.rule {
                Rule::ByUtilisation { utilisation } => is_kept_at(utilisation, method),
                _ => request.keeper == self.host,
            },
            _ => {
                let keeps = self.keeps_call(now, request);
                if keeps {
                    request.keeper = self.host;
                    self.kept.push(request.call.generation);
                }
                keeps
            }
        }
    }

    fn keeps_call(&mut self, now: Instant, invite: &ModelMessage) -> bool {
        let kept = invite.keeper != HostId::AGENTS;
        let from = Some(invite.top().host).filter(|from| self.map.shares_state(*from));
        let to =
            if self.map.shares_state(invite.hop) { NextHop::Neighbour(invite.hop) } else { NextHop::Exit };
        // Equal for all copies of an INVITE.
        let key = self.map.call_id(invite.call);
        match &mut self.rule {
            Rule::Never => false,
            Rule::Share { .. } if kept || to == NextHop::Exit => !kept,
            Rule::Share { share, rng } => Rng::from_seed(rng.number_of(key)).random::<f64>() < *share,
            Rule::Distributed(distributor) => {
                distributor.on_call(now, Call { from, to, kept, key }) == StateDecision::Keep
            }
            Rule::Unmarked(distributor, upstream) => {
                upstream.calls += 1;
                upstream.kept += u32::from(kept);
                let place = place_of(key);
                let kept = place < upstream.part;
                distributor.on_call(now, Call { from, to, kept, key });
                let share = if let NextHop::Neighbour(next) = to { distributor.keep(next) } else { 1.0 };
                !kept && place < upstream.part + (1.0 - upstream.part) * share
            }
            Rule::ByUtilisation { utilisation } => is_kept_at(*utilisation, Method::Invite),
        }
    }

    /// Length of a period.
    pub(super) fn period(&self) -> Duration {
        match &self.rule {
            Rule::Distributed(distributor) | Rule::Unmarked(distributor, _) => distributor.settings().period,
            Rule::ByUtilisation { .. } | Rule::Never | Rule::Share { .. } => PERIOD,
        }
    }

    /// Ends a period with this utilisation of the processors.
    pub(super) fn on_period(&mut self, now: Instant, utilisation: f64) {
        let length = self.period();
        match &mut self.rule {
            Rule::Distributed(distributor) => distributor.on_period(now, length, utilisation),
            Rule::Unmarked(distributor, upstream) => {
                distributor.on_period(now, length, utilisation);
                let part = f64::from(upstream.kept) / f64::from(upstream.calls.max(1));
                *upstream = UpstreamState { part, ..UpstreamState::default() };
            }
            Rule::ByUtilisation { utilisation: last } => *last = utilisation,
            Rule::Never | Rule::Share { .. } => {}
        }
    }

    /// Origin of a new call, for overload control.
    pub(super) fn origin(&self, from: HostId) -> NewRequestSender {
        match &self.rule {
            Rule::Distributed(_) if self.map.shares_state(from) => NewRequestSender::Chain,
            Rule::Distributed(distributor) => NewRequestSender::Client(distributor.accepted_share()),
            _ => NewRequestSender::Client(1.0),
        }
    }

    /// Overload control has refused a new call that had been admitted before.
    pub(super) fn on_refused(&mut self, from: HostId) {
        let from = Some(from).filter(|from| self.map.shares_state(*from));
        if let Rule::Distributed(distributor) = &mut self.rule {
            distributor.on_refused(from);
        }
    }

    /// A downstream neighbour has sent a notice.
    pub(super) fn on_notice(&mut self, now: Instant, from: HostId, notice: Notice) {
        if let Rule::Distributed(distributor) | Rule::Unmarked(distributor, _) = &mut self.rule {
            distributor.on_notice(now, from, notice);
        }
    }

    /// Returns the notice in a response to a neighbour. `None` if the neighbour does not share out state, or if the
    /// response travels in the direction of the calls.
    pub(super) fn notice(&self, to: HostId, response: &ModelMessage) -> Option<Box<Notice>> {
        match &self.rule {
            Rule::Distributed(distributor) | Rule::Unmarked(distributor, _)
                if !response.by_callee && self.map.shares_state(to) =>
            {
                Some(Box::new(distributor.notice(Some(to))))
            }
            _ => None,
        }
    }

    /// Removes and returns the calls whose state it has kept so far.
    pub(super) fn take_kept(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.kept)
    }
}
