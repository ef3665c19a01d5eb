//! Scaling in a balancer's process: the steps of the server's scaling task, in the same order. The caller passes the
//! orders to the driver.

use super::Process;
use crate::plan::{FilePlan, PoolPlan, ScalePlan};
use balance::{Load, PoolId};
use base::Instant;
use control::scale::{
    DriverServer, Fleet, ListedServer, Listing, MemberWork, Order, PoolView, Reconciler, ServerList,
    detection,
};
use control::{ControlInput, Drainer, ListedMember};
use elastic::scale::{ScaleSettings, ServerId, ServerState};
use std::net::SocketAddr;

/// The scaled pool, which is the only pool.
const POOL: PoolId = PoolId(0);

/// Scaling of the servers of a process.
pub(super) struct Scaling {
    reconciler: Reconciler,
    /// Configuration of the pool and its servers.
    plan: PoolPlan,
    /// Generation. Answers of a driver to the scaling of another configuration are ignored.
    number: u64,
}

/// Answer of a driver.
#[derive(Clone, Debug)]
pub(crate) enum DriverAnswer {
    Started(DriverServer, Result<(), String>),
    Stopped(DriverServer, Result<(), String>),
    /// With the time of the question.
    Listed(Instant, Result<Listing, String>),
}

impl Scaling {
    fn new(now: Instant, number: u64, plan: &PoolPlan, scale: &ScalePlan) -> Self {
        let listed = |member: &crate::PlannedMember| {
            let name = member.destination.address().to_string();
            ListedServer { text: name.clone(), name }
        };
        let server_list = ServerList::Listed(plan.members.iter().map(listed).collect());
        // The scaler may start any member.
        let choices = Some(plan.members.len() as u32);
        let settings = ScaleSettings { choices, ..scale.settings.clone() };
        let fleet =
            Fleet::new(now, settings, server_list, detection(&plan.settings.probes, &plan.settings.health));
        Self { reconciler: Reconciler::new(now, fleet), plan: plan.clone(), number }
    }

    /// Returns the scaling for a new configuration. The scaling continues if the members and the policy are unchanged.
    /// Otherwise it must list the running servers anew.
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
    /// Runs the scaler. Drains and questions to members are carried out here. Returns the orders for the driver and the
    /// news for operators, with the generation that the answers must name. `tamper` may falsify the orders.
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

    /// Handles an answer of the driver to the scaling of this generation.
    pub(crate) fn driver_answered(&mut self, now: Instant, number: u64, answer: DriverAnswer) {
        let Some(scaling) = self.scaling.as_mut().filter(|scaling| scaling.number == number) else { return };
        let reconciler = &mut scaling.reconciler;
        match answer {
            DriverAnswer::Started(server, result) => reconciler.on_started(now, &server, result),
            DriverAnswer::Stopped(server, result) => reconciler.on_stopped(now, &server, result),
            DriverAnswer::Listed(at, result) => drop(reconciler.on_listed(now, at, result)),
        }
    }

    /// Returns the servers that the scaler takes to be ready.
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
