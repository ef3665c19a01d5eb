//! Which proxies keep the state of which calls: all of them, none, a share that is set by hand, or what each finds by
//! itself with `distribute` (SERvartuka paper, section 3). Two more are there to compare with: the rule of Cortes et
//! al. (section 6), and the paper's algorithm without a mark on each call.

use super::medium::Map;
use super::message::{HostId, ModelMessage};
use base::{Instant, Rng};
use core::time::Duration;
use distribute::{Call, Decision, Distributor, NextHop, Notice, Settings};
use overload::Origin;
use rand::Rng as _;
use std::sync::Arc;
use wire::Method;

/// How often a proxy looks at its utilisation that shares out no state.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// What the proxies of a group do about the state of calls.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum StateKeeping {
    /// Each keeps that of every call, and says so to nobody.
    #[default]
    Always,
    /// None keeps any: stateless forwarding (RFC 3261 §16.11).
    Never,
    /// Of calls that come without state and go on to a proxy that shares out state, this share, from 0 to 1; of those
    /// that leave the network, all.
    Share(f64),
    /// Each finds its share.
    Distributed(Settings),
    /// Each finds its share, and no call is marked. A proxy hears from those before it, a period, only the part of
    /// all its calls whose state they keep (`Csf_up` of the SERvartuka paper, algorithm 1). All order the calls
    /// alike by Call-ID, so that along one direction each knows which part is kept already.
    Unmarked(Settings),
    /// Each decides for itself, request by request, by its own utilisation: the rule of Cortes et al., with links that
    /// count as lossy.
    ByUtilisation,
}

/// The rule of Cortes et al. (SERvartuka paper, section 6): a proxy handles a request statefully if the link is lossy
/// and its utilisation is low, or medium and the request is an INVITE or BYE; or if the request forks, which no
/// request of the model does.
fn is_kept_at(utilisation: f64, method: Method) -> bool {
    utilisation < 0.60 || (matches!(method, Method::Invite | Method::Bye) && utilisation < 0.75)
}

impl StateKeeping {
    /// Whether marks and notices of such a proxy count, and it is told of both.
    fn takes_part(self) -> bool {
        matches!(self, Self::Share(_) | Self::Distributed(_) | Self::Unmarked(_))
    }

    /// Whether such a proxy looks at its utilisation once a period.
    pub(super) fn has_periods(self) -> bool {
        matches!(self, Self::Distributed(_) | Self::Unmarked(_) | Self::ByUtilisation)
    }
}

/// What the proxies of a scenario do about state.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkState {
    /// By group. Those that are left out keep the state of every call.
    pub groups: Vec<StateKeeping>,
    /// What they do besides.
    pub model: ProxyModel,
}

/// What the proxies of a scenario do about overload, and when whoever keeps the state of a call answers its INVITE
/// with 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyModel {
    /// As papers have it: a proxy has the overload control that the scenario says, and none where it need not keep
    /// the state of every call.
    OfPaper {
        /// Whether a 100 is sent, and then at once. RFC 3261 §17.2.1 leaves it out where another response follows
        /// within 200 ms.
        trying: bool,
    },
    /// As a running server with its default settings. It refuses new calls by how long they have waited. One whose
    /// keeping is [`StateKeeping::Distributed`] refuses as well what [`Distributor::takes`] leaves out of the calls
    /// of clients. Between neighbours that share out state the 100 comes after 200 ms, and else at once.
    OfServer,
}

impl Default for NetworkState {
    fn default() -> Self {
        Self { groups: Vec::new(), model: ProxyModel::OfPaper { trying: true } }
    }
}

impl NetworkState {
    /// Of a group.
    pub(super) fn of(&self, group: usize) -> StateKeeping {
        self.groups.get(group).copied().unwrap_or_default()
    }

    /// Whether marks and notices of the proxies of a group count.
    pub(super) fn shares(&self, group: usize) -> bool {
        self.of(group).takes_part()
    }
}

/// How a proxy decides. One that keeps all state has none.
#[derive(Debug)]
enum Rule {
    Never,
    Share { share: f64, rng: Rng },
    Distributed(Box<Distributor<HostId>>),
    Unmarked(Box<Distributor<HostId>>, Told),
    ByUtilisation { utilisation: f64 },
}

/// What a proxy has heard of the calls whose state is kept before it, without marks.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Part of its calls in the last period, from 0 to 1.
    part: f64,
    /// Calls of this period, and those of them whose state is kept before it.
    calls: u32,
    kept: u32,
}

/// Where a call stands in the order that all proxies have of calls, from 0 to 1.
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
    /// `None` for a proxy that keeps the state of every call.
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
                Rule::Unmarked(Box::new(Distributor::new(settings, rng.random())), Told::default())
            }
            StateKeeping::ByUtilisation => Rule::ByUtilisation { utilisation: 0.0 },
        };
        Some(Self { map: Arc::clone(map), host, rule, kept: Vec::new() })
    }

    /// Whether a request that matches no transaction gets one here. Of an INVITE that begins a call this is decided
    /// now, and the request is marked where it is kept.
    pub(super) fn keeps(&mut self, now: Instant, request: &mut ModelMessage) -> bool {
        match request.method {
            // The proxy's core has no transaction for an ACK, and for a CANCEL only where it has the INVITE's.
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
        // The same for all copies of an INVITE.
        let key = self.map.call_id(invite.call);
        match &mut self.rule {
            Rule::Never => false,
            Rule::Share { .. } if kept || to == NextHop::Exit => !kept,
            Rule::Share { share, rng } => Rng::from_seed(rng.number_of(key)).random::<f64>() < *share,
            Rule::Distributed(distributor) => {
                distributor.on_call(now, Call { from, to, kept, key }) == Decision::Keep
            }
            Rule::Unmarked(distributor, told) => {
                told.calls += 1;
                told.kept += u32::from(kept);
                let place = place_of(key);
                let kept = place < told.part;
                distributor.on_call(now, Call { from, to, kept, key });
                let share = if let NextHop::Neighbour(next) = to { distributor.keep(next) } else { 1.0 };
                !kept && place < told.part + (1.0 - told.part) * share
            }
            Rule::ByUtilisation { utilisation } => is_kept_at(*utilisation, Method::Invite),
        }
    }

    /// How often it has to hear of a period that is over.
    pub(super) fn period(&self) -> Duration {
        match &self.rule {
            Rule::Distributed(distributor) | Rule::Unmarked(distributor, _) => distributor.settings().period,
            Rule::ByUtilisation { .. } | Rule::Never | Rule::Share { .. } => PERIOD,
        }
    }

    /// A period is over, in which the processors were busy for this part of the time.
    pub(super) fn on_period(&mut self, now: Instant, utilisation: f64) {
        let length = self.period();
        match &mut self.rule {
            Rule::Distributed(distributor) => distributor.on_period(now, length, utilisation),
            Rule::Unmarked(distributor, told) => {
                distributor.on_period(now, length, utilisation);
                let part = f64::from(told.kept) / f64::from(told.calls.max(1));
                *told = Told { part, ..Told::default() };
            }
            Rule::ByUtilisation { utilisation: last } => *last = utilisation,
            Rule::Never | Rule::Share { .. } => {}
        }
    }

    /// Whom a new call comes from, to overload control.
    pub(super) fn origin(&self, from: HostId) -> Origin {
        match &self.rule {
            Rule::Distributed(_) if self.map.shares_state(from) => Origin::Chain,
            Rule::Distributed(distributor) => Origin::Client(distributor.takes()),
            _ => Origin::Client(1.0),
        }
    }

    /// Overload control has refused a new call that had been let in.
    pub(super) fn on_refused(&mut self, from: HostId) {
        let from = Some(from).filter(|from| self.map.shares_state(*from));
        if let Rule::Distributed(distributor) = &mut self.rule {
            distributor.on_refused(from);
        }
    }

    /// A neighbour behind has told how it is.
    pub(super) fn on_notice(&mut self, now: Instant, from: HostId, notice: Notice) {
        if let Rule::Distributed(distributor) | Rule::Unmarked(distributor, _) = &mut self.rule {
            distributor.on_notice(now, from, notice);
        }
    }

    /// What a response to a neighbour tells it; `None` where it would not understand, or where the response goes the
    /// other way, with the calls.
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

    /// The calls whose state it has kept so far.
    pub(super) fn take_kept(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.kept)
    }
}
