//! How a balancer's process starts and stops its servers: what the server's task does, in the same order, with the
//! orders to the driver left to whoever runs the process.

use super::Process;
use crate::plan::{FilePlan, PoolPlan, ScalePlan};
use balance::{Load, PoolId};
use base::Instant;
use control::scale::{
    Fleet, ListedServer, Listing, MemberWork, Order, PoolView, Reconciler, Server, ServerList, detection,
};
use control::{ControlInput, Drainer, ListedMember};
use elastic::scale::{ScaleSettings, ServerId, ServerState};
use std::net::SocketAddr;

/// The pool whose servers are started and stopped: it is the only one.
const POOL: PoolId = PoolId(0);

/// Who starts and stops the servers of a process.
pub(super) struct Scaling {
    reconciler: Reconciler,
    /// What the configuration says of the pool and its servers.
    plan: PoolPlan,
    /// Counts them: what was asked of a driver before a reload is not waited for after it.
    number: u64,
}

/// What a driver answers.
#[derive(Clone, Debug)]
pub(crate) enum DriverAnswer {
    Started(Server, Result<(), String>),
    Stopped(Server, Result<(), String>),
    /// It was asked then.
    Listed(Instant, Result<Listing, String>),
}

impl Scaling {
    fn new(now: Instant, number: u64, plan: &PoolPlan, scale: &ScalePlan) -> Self {
        let listed = |member: &crate::PlannedMember| {
            let name = member.destination.address().to_string();
            ListedServer { text: name.clone(), name }
        };
        let server_list = ServerList::Listed(plan.members.iter().map(listed).collect());
        // A scaler has as many to choose from as there are.
        let choices = Some(plan.members.len() as u32);
        let settings = ScaleSettings { choices, ..scale.settings.clone() };
        let fleet =
            Fleet::new(now, settings, server_list, detection(&plan.settings.probes, &plan.settings.health));
        Self { reconciler: Reconciler::new(now, fleet), plan: plan.clone(), number }
    }

    /// The scaling of a configuration, from now on. What is as before goes on; of what is not it is found out anew
    /// what runs.
    pub(super) fn renewed(before: Option<Self>, now: Instant, file: &FilePlan) -> Option<Self> {
        let (scale, plan) = (file.scale.as_deref()?, file.pools.first()?);
        let number = before.as_ref().map_or(0, |before| before.number + 1);
        let is_same = |before: &Self| {
            (&before.plan.members, before.plan.settings.policy) == (&plan.members, plan.settings.policy)
        };
        before.filter(is_same).or_else(|| Some(Self::new(now, number, plan, scale)))
    }
}

impl Process {
    /// Looks at the pool. Members are drained and asked as it decides; what is for the driver and for people is
    /// returned, with the number of whoever is to hear the answers. `tamper` may break what it decides.
    pub(crate) fn scale(
        &mut self,
        now: Instant,
        tamper: impl FnOnce(&mut Vec<Order>),
        drainer: Drainer,
    ) -> (u64, Vec<Order>) {
        let view = self.pool_view(now);
        let Some(scaling) = &mut self.scaling else { return (0, Vec::new()) };
        let (number, mut orders) = (scaling.number, Vec::new());
        scaling.reconciler.look(&view, &mut orders);
        tamper(&mut orders);
        orders.retain(|order| {
            match *order {
                Order::Drain(address, draining) => {
                    self.tell_scaled(now, address, |slot| ControlInput::Drain {
                        slot,
                        by: drainer,
                        draining,
                    });
                }
                Order::Doubt(address) => self.tell_scaled(now, address, ControlInput::Doubt),
                Order::Start(_) | Order::Stop(_) | Order::List | Order::Tell(_) => return true,
            }
            false
        });
        (number, orders)
    }

    /// The driver has answered whoever has this number.
    pub(crate) fn driver_answered(&mut self, now: Instant, number: u64, answer: DriverAnswer) {
        let Some(scaling) = self.scaling.as_mut().filter(|scaling| scaling.number == number) else { return };
        let reconciler = &mut scaling.reconciler;
        match answer {
            DriverAnswer::Started(server, result) => reconciler.on_started(now, &server, result),
            DriverAnswer::Stopped(server, result) => reconciler.on_stopped(now, &server, result),
            DriverAnswer::Listed(at, result) => drop(reconciler.on_listed(now, at, result)),
        }
    }

    /// The servers that the scaler takes to be ready.
    pub(crate) fn ready_servers(&self) -> Vec<SocketAddr> {
        let Some(scaling) = &self.scaling else { return Vec::new() };
        let is_ready = |id: ServerId| {
            let mut rows = scaling.reconciler.fleet().outlook.scaler.rows();
            rows.any(|row| row.id == id && row.state == ServerState::Ready)
        };
        let numbered = (0..).map(ServerId).zip(&scaling.plan.members);
        numbered.filter(|(id, _)| is_ready(*id)).map(|(_, member)| member.destination.address()).collect()
    }

    fn tell_scaled(
        &mut self,
        now: Instant,
        address: SocketAddr,
        input: impl FnOnce(balance::Slot) -> ControlInput<'static>,
    ) {
        if let Some(slot) = self.slot_at(address) {
            self.tell(now, input(slot));
        }
    }

    fn pool_view(&self, now: Instant) -> PoolView {
        let work = |member: &ListedMember| {
            let of = |shard: &::node::Shard| {
                let stats = shard.balancer().stats(member.slot);
                (shard.balancer().load(member.slot).own, stats.assigned - stats.moved)
            };
            let sum =
                |(load, assigned): (Load, u64), (own, own_assigned)| (load + own, assigned + own_assigned);
            let (load, assigned) = self.shards.iter().map(of).fold((member.before, 0), sum);
            MemberWork { load, assigned }
        };
        let without_takers =
            self.shards.iter().filter_map(|shard| shard.counters().without_takers.get(&POOL).copied()).sum();
        PoolView::of(now, POOL, &self.control.listed(), work, None, without_takers)
    }
}
