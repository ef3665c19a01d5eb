//! A stateful proxy's process.

use super::{EPOCH_UNIX, taken, tokens, topology};
use crate::Sent;
use crate::plan::ProxyPlan;
use base::{Flow, Instant, Outbox};
use node::{Orphans, PipelineSettings, ProxyReport, ProxySettings, Shard, ShardEvent, ShardInput};
use std::net::SocketAddr;

pub(crate) struct ProxyProcess {
    shard: Shard,
}

impl ProxyProcess {
    /// What the server draws at random differs from process to process: branches of another one mean nothing to it.
    pub(super) fn start(plan: &ProxyPlan, site: u16, key: u8, life: u64) -> Self {
        let settings = PipelineSettings {
            orphans: Orphans::Balance,
            epoch_unix: EPOCH_UNIX,
            stopping: None,
            tell_failures: false,
        };
        let limits = ProxySettings { timers: plan.timers, limits: plan.limits };
        let mut secret = [0; 16];
        secret[..2].copy_from_slice(&site.to_be_bytes());
        secret[8..].copy_from_slice(&life.to_be_bytes());
        let shard = Shard::proxy(topology(site), tokens(key), settings, limits, (secret, life << 40));
        let mut process = Self { shard };
        process.set_hops(plan);
        process
    }

    fn set_hops(&mut self, plan: &ProxyPlan) {
        let hop = |destination: &crate::Destination| Flow::udp(0, destination.address());
        self.shard.set_hops(&plan.hops.iter().map(hop).collect::<Vec<_>>());
    }

    pub(super) fn reload(&mut self, plan: &ProxyPlan, key: u8) {
        self.set_hops(plan);
        self.shard.set_limits(plan.limits);
        self.shard.set_tokens(&tokens(key));
    }

    pub(super) fn datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.step(|shard, out| {
            shard.handle(now, ShardInput::Message { flow: Flow::udp(0, from), bytes }, out);
        })
    }

    pub(super) fn tick(&mut self, now: Instant) -> Vec<Sent> {
        self.step(|shard, out| shard.handle(now, ShardInput::Timer, out))
    }

    pub(super) fn unreachable(&mut self, now: Instant, address: SocketAddr, quoted: &[u8]) -> Vec<Sent> {
        self.step(|shard, out| shard.unreachable(now, address, quoted, out))
    }

    fn step(&mut self, run: impl FnOnce(&mut Shard, &mut Outbox<ShardEvent>)) -> Vec<Sent> {
        let mut out = Outbox::default();
        run(&mut self.shard, &mut out);
        taken(&out)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.shard.deadline()
    }

    /// What there is to do, as it shows it.
    pub(super) fn report(&self) -> ProxyReport {
        self.shard.proxy_report().expect("it has next hops")
    }
}
