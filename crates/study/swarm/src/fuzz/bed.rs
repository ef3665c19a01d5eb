//! A shard under operations chosen by a fuzzer: the part common to balancer and proxy.

use super::traffic::Traffic;
use crate::Sent;
use balance::Sign;
use base::{Instant, Outbox};
use core::time::Duration;
use node::{HopName, Setup, Shard, ShardCounters, ShardEvent, ShardIdentity, ShardInput, TokenKey, Tokens};
use std::net::SocketAddr;
use std::sync::Arc;

/// Most timers run at once: far more than a run can have set.
const MOST_TIMERS: usize = 1_000_000;
pub(super) const TOKEN_LIFETIME: Duration = Duration::from_hours(1);

/// A shard, and the remaining operations.
pub(super) struct Bed<'a, T> {
    pub(super) traffic: Traffic<'a>,
    tamper: T,
    pub(super) shard: Shard,
    pub(super) setup: Setup,
    key: u8,
    lives: u64,
    pub(super) now: Instant,
    /// Names that the shard wants resolved.
    pub(super) names_asked: Vec<HopName>,
    /// Signs of the shard about nodes.
    pub(super) signs: Vec<Sign>,
    /// Counters of the processes before the restarts.
    done: ShardCounters,
}

fn tokens(key: u8) -> Arc<Tokens> {
    Tokens::new(TokenKey([key; 16]), &[TokenKey([key.wrapping_sub(1); 16])], TOKEN_LIFETIME).into()
}

/// Creates a shard that knows no calls. `life` makes its random values differ from earlier ones.
fn shard(setup: &Setup, life: u64) -> Shard {
    Shard::new(ShardIdentity::only([life as u8; 16], life << 32), &Arc::new(setup.clone()))
}

impl<'a, T: FnMut(&mut Vec<Sent>)> Bed<'a, T> {
    /// Creates the shard. `tamper` may falsify the messages that it sends.
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
            names_asked: Vec::new(),
            signs: Vec::new(),
            done: ShardCounters::default(),
        }
    }

    /// Gives the current set-up to the shard.
    pub(super) fn set_up(&mut self) {
        let sent = self.run(ShardInput::SetUp(&Arc::new(self.setup.clone())));
        assert!(sent.is_empty(), "nothing waits for another set-up");
    }

    /// Changes the token key. The previous key is still accepted.
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
                ShardEvent::LookUp(name) => self.names_asked.push(name),
                ShardEvent::Sign(sign) => self.signs.push(sign),
                // There are no users and no stores here.
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

    /// Runs the timers until `end`. `look` sees the messages of each.
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

    /// Returns the counters of all processes.
    pub(super) fn counters(mut self) -> ShardCounters {
        self.done.merge(&self.shard.counters());
        self.done
    }
}
