//! Creation of a shard, and the handling of one input.

use super::state::{Shard, ShardIdentity};
use crate::forward::stateful::{ProxySettings, Stateful};
use crate::forward::stateless::Stateless;
use crate::outcome::Outcome;
use crate::outcome::event::ShardEvent;
use crate::shard::events::{answered, conclude, expire, resolved, serve_queues, unreachable};
use crate::shard::explain::{Explanation, explain};
use crate::shard::input::ShardInput;
use crate::shard::pipeline::Pipeline;
use crate::shard::setup::Setup;
use crate::site::Site;
use crate::site::pools::Pools;
use crate::step::Step;
use crate::token::{TokenKey, derive};
use balance::{Balancer, PolicyKind, Slot};
use base::{Flow, Instant, Outbox};
use std::sync::Arc;
use transaction::Keys;

impl Shard {
    /// Creates a shard that has received nothing yet.
    pub fn new(identity: ShardIdentity, setup: &Arc<Setup>) -> Self {
        let ShardIdentity { shard, shards, secret, serial, timers, epoch, call_limits, sent_calls } =
            identity;
        let settings = &setup.settings;
        let mut balancer =
            Balancer::new(settings.sessions.clone().share(shards), PolicyKind::RoundRobin.make(0));
        balancer.set_peers(shards as u32 - 1);
        balancer.set_epoch(epoch);
        if let Some(call_limits) = call_limits {
            balancer.set_call_limits(call_limits);
        }
        if let Some(sent_calls) = sent_calls {
            balancer.set_sent_calls(sent_calls);
        }
        let proxy = ProxySettings { timers, limits: settings.limits.share(shards) };
        let [one, other] = derive(TokenKey(secret), b"registrar").map(u64::to_le_bytes);
        let registrar_secret = core::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] });
        let (tokens, keys) = (settings.tokens.as_ref().clone(), Keys::new(secret));
        let mut new = Self {
            site: Site::new(Arc::clone(&setup.topology), tokens, setup.pipeline(), keys.clone()),
            balancer,
            stateless: Stateless::default(),
            pools: Pools::default(),
            setup: Arc::clone(setup),
            stateful: Box::new(Stateful::new(proxy, keys, serial)),
            registrar: None,
            registrar_secret,
            queues: None,
            salt: serial,
            place: (shard, shards),
        };
        new.site.keep_alives.set_place(shard, shards);
        new.take_over(None, setup);
        new
    }

    /// Handles one input in one bounded step. When it returns, all effects are in `out`.
    pub fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>) -> Outcome {
        let mut outcome = Outcome::Handled;
        self.site.now = now;
        match input {
            ShardInput::Waited { waited, queue, class } => {
                self.balancer.on_waited(waited);
                if class.is_new() {
                    self.site.admission.overload.waited(now, waited, queue, class);
                }
                return outcome;
            }
            ShardInput::Busy(busy) => {
                self.site.admission.overload.busy(now, busy);
                return outcome;
            }
            _ => {}
        }
        self.stateful.limit_memory();
        // Before any input, waiting calls proceed if they can. So their copies find them at their new place.
        if self.queues.as_ref().is_some_and(|queues| queues.is_stale()) {
            serve_queues(&mut self.pipeline(out));
        }
        match input {
            ShardInput::Message { flow, bytes } => outcome = self.pipeline(out).message(flow, bytes),
            ShardInput::Timer => expire(&mut self.pipeline(out)),
            ShardInput::Unreachable { to, quoted } => unreachable(&mut self.pipeline(out), to, quoted),
            ShardInput::Answer { number, answer } => answered(&mut self.pipeline(out), number, *answer),
            ShardInput::Name { name, answer } => {
                self.site.names.learn(now, name, answer);
                resolved(&mut self.pipeline(out), name);
            }
            ShardInput::Period { length, utilisation } => {
                if let Some(sharing) = &mut self.site.sharing {
                    sharing.period(now, length, utilisation);
                }
            }
            ShardInput::Capacity { slot, capacity } => {
                if let (Some(queues), Some(node)) =
                    (&mut self.queues, self.balancer.nodes().get(slot.index()))
                {
                    queues.announce(now, slot, node.id, capacity);
                }
            }
            ShardInput::Learned { pool, node, capacity } => {
                if let Some(queues) = &mut self.queues {
                    queues.learn(now, pool, node, capacity);
                }
            }
            ShardInput::Judgement(judgement) => {
                if let Some(registrar) = &mut self.registrar {
                    registrar.hear(*judgement);
                }
            }
            ShardInput::OtherLoads(loads) => {
                for (slot, &load) in (0..).map(Slot).zip(loads) {
                    self.balancer.set_others(slot, load);
                }
            }
            ShardInput::SetUp(setup) => self.set_up(setup),
            ShardInput::Waited { .. } | ShardInput::Busy(_) => {}
        }
        conclude(&mut self.pipeline(out));
        outcome
    }

    /// Returns the pipeline for one step of this shard.
    fn pipeline<'a>(&'a mut self, out: &'a mut Outbox<ShardEvent>) -> Pipeline<'a> {
        let Self { site, balancer, stateless, pools, stateful, registrar, queues, .. } = self;
        Pipeline {
            step: Step { site, balancer, pools, queues: queues.as_deref_mut(), out },
            stateless,
            stateful: Some(&mut **stateful).filter(|stateful| stateful.is_in_use()),
            registrar: registrar.as_deref_mut(),
        }
    }

    /// Returns the way that a request would take if it came by this flow now. Changes nothing, but may start the
    /// look-up of a host name that the request goes to.
    ///
    /// # Errors
    /// The text says how the request would be refused or answered here, or why the bytes are no request.
    pub fn explain(
        &mut self,
        now: Instant,
        flow: Flow,
        bytes: &[u8],
        out: &mut Outbox<ShardEvent>,
    ) -> Result<Explanation, String> {
        self.site.now = now;
        explain(&mut self.pipeline(out), flow, bytes)
    }

    /// Ends the calls with this Call-ID, if their pools have dialogs and calls have a time limit: both sides get a BYE.
    /// Returns the number of ended dialogs.
    pub fn hang_up_call(&mut self, now: Instant, call_id: &[u8], out: &mut Outbox<ShardEvent>) -> usize {
        self.site.now = now;
        let ended = self.stateful.hang_up_call(now, call_id);
        conclude(&mut self.pipeline(out));
        ended
    }

    /// Returns whether this response or ICMP error belongs to a transaction of a proxy, but to no transaction of this
    /// shard.
    pub fn is_stray(&self, bytes: &[u8]) -> bool {
        self.stateful.is_stray(bytes)
    }

    /// Returns when [`ShardInput::Busy`] is due. `None`: overload control does not ask for it.
    pub fn busy_deadline(&self) -> Option<Instant> {
        self.site.admission.overload.deadline()
    }

    /// Returns when [`ShardInput::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let stateful = self.stateful.deadline();
        let registrar = self.registrar.as_ref().and_then(|registrar| registrar.deadline());
        let queues = self.queues.as_ref().and_then(|queues| queues.deadline());
        let waiting =
            Instant::earliest(Instant::earliest(registrar, queues), self.site.keep_alives.deadline());
        Instant::earliest(Instant::earliest(self.balancer.deadline(), stateful), waiting)
    }
}
