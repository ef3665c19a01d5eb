//! A shard under operations that a fuzzer chooses, and what its balancer and its proxy have in common.

use super::traffic::Traffic;
use crate::Sent;
use balance::Sign;
use base::{Instant, Outbox};
use core::time::Duration;
use node::{HopName, Setup, Shard, ShardCounters, ShardEvent, ShardIdentity, ShardInput, TokenKey, Tokens};
use std::net::SocketAddr;
use std::sync::Arc;

/// Timers run in one go: far more than a run can have set.
const MOST_TIMERS: usize = 1_000_000;
pub(super) const TOKEN_LIFETIME: Duration = Duration::from_hours(1);

/// A shard, and the operations still to come.
pub(super) struct Bed<'a, T> {
    pub(super) traffic: Traffic<'a>,
    tamper: T,
    pub(super) shard: Shard,
    pub(super) setup: Setup,
    key: u8,
    lives: u64,
    pub(super) now: Instant,
    /// Names that the shard asks for.
    pub(super) asked: Vec<HopName>,
    /// What it says of nodes.
    pub(super) signs: Vec<Sign>,
    /// Of the processes before the restarts.
    done: ShardCounters,
}

fn tokens(key: u8) -> Arc<Tokens> {
    Tokens::new(TokenKey([key; 16]), &[TokenKey([key.wrapping_sub(1); 16])], TOKEN_LIFETIME).into()
}

/// A process that knows nothing of calls, unlike those before it.
fn shard(setup: &Setup, life: u64) -> Shard {
    Shard::new(ShardIdentity::only([life as u8; 16], life << 32), &Arc::new(setup.clone()))
}

impl<'a, T: FnMut(&mut Vec<Sent>)> Bed<'a, T> {
    /// Listens there; `tamper` may change what is sent.
    pub(super) fn new(
        data: &'a [u8],
        listeners: [SocketAddr; 3],
        tamper: T,
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        let mut setup = testbed::shard_setup(&listeners, &["pool.example"], Tokens::clone(&tokens(1)));
        change(&mut setup);
        Self {
            traffic: Traffic::new(data, listeners),
            tamper,
            shard: shard(&setup, 0),
            setup,
            key: 1,
            lives: 0,
            now: Instant::ZERO,
            asked: Vec::new(),
            signs: Vec::new(),
            done: ShardCounters::default(),
        }
    }

    /// The shard gets the set-up as it is now.
    pub(super) fn set_up(&mut self) {
        let sent = self.run(ShardInput::SetUp(&Arc::new(self.setup.clone())));
        assert!(sent.is_empty(), "nothing waits for another set-up");
    }

    /// Another key for tokens; the one before is still known.
    pub(super) fn rekey(&mut self) {
        self.key = self.key.wrapping_add(1);
        self.setup.settings.tokens = tokens(self.key);
    }

    pub(super) fn restart(&mut self) {
        self.lives += 1;
        let new = shard(&self.setup, self.lives);
        self.done.merge(&core::mem::replace(&mut self.shard, new).counters());
    }

    pub(super) fn run(&mut self, input: ShardInput<'_>) -> Vec<Sent> {
        let mut out = Outbox::default();
        self.shard.handle(self.now, input, &mut out);
        for event in out.drain_events() {
            match event {
                ShardEvent::LookUp(name) => self.asked.push(name),
                ShardEvent::Sign(sign) => self.signs.push(sign),
                // There are no users here, and no stores.
                ShardEvent::Ask(_)
                | ShardEvent::Record(_)
                | ShardEvent::Failed(_)
                | ShardEvent::WrongPassword(_)
                | ShardEvent::Judgement(_)
                | ShardEvent::NoServer { .. }
                | ShardEvent::AtLimit { .. }
                | ShardEvent::NoRecordRoute(_)
                | ShardEvent::NoPath(_)
                | ShardEvent::MarkOfStranger(_)
                | ShardEvent::NoFeedback(_)
                | ShardEvent::NoRoom(_) => {}
            }
        }
        let mut sent = Sent::all(&out);
        (self.tamper)(&mut sent);
        sent
    }

    /// Runs the timers until then, each with a look at what was sent.
    pub(super) fn run_timers_until(&mut self, end: Instant, mut look: impl FnMut(Instant, &[Sent])) {
        for _ in 0..MOST_TIMERS {
            let Some(due) = self.shard.deadline().filter(|&due| due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            let sent = self.run(ShardInput::Timer);
            look(self.now, &sent);
        }
        panic!("timers without end");
    }

    /// Counts of all processes.
    pub(super) fn counters(mut self) -> ShardCounters {
        self.done.merge(&self.shard.counters());
        self.done
    }
}
