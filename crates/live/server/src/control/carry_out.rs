//! Carries out the effects of the control plane: commands and queries to shards, DNS look-ups, log entries.

use super::{Answered, Control, log_entries};
use ::control::{ControlEffect, ControlInput, LogEntry, MemberEvent, WorkLeft};
use balance::{Load, Slot};
use base::Peer;
use shards::{Command, ShardCounts, ask_each};
use std::sync::Arc;

impl Control {
    /// Carries out all pending effects, including effects that arise from them.
    pub(super) fn carry_out(&mut self) {
        loop {
            self.sockets.send(&self.out, |peer| self.certificates.of(peer));
            let effects: Vec<_> = self.out.drain_events().collect();
            self.out.clear();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.carry_out_one(effect);
            }
        }
    }

    fn carry_out_one(&mut self, effect: ControlEffect) {
        match effect {
            ControlEffect::SetUp(setup) => {
                self.name_members();
                self.tell_all(|| Command::SetUp(Arc::clone(&setup)));
            }
            ControlEffect::LookUp { id, question } => {
                let (answer, answers) = (self.resolver.ask(question), self.answers.0.clone());
                // No receiver is left when the process ends.
                tokio::spawn(async move { drop(answers.send(Answered::LookUp(id, answer.await))) });
            }
            ControlEffect::ReadResolver => {
                let is_other = self.renew_resolver();
                self.take(ControlInput::ResolverRead { is_other });
            }
            ControlEffect::Name(answer) => self.tell_all(|| Command::Name(Arc::clone(&answer))),
            ControlEffect::AskSlotsInUse => self.ask_slots_in_use(),
            ControlEffect::AskWorkLeft => self.ask_work_left(),
            ControlEffect::Elsewhere(loads) => self.set_elsewhere(&loads),
            ControlEffect::Capacity { slot, capacity } => self.tell_all(|| Command::Capacity(slot, capacity)),
            ControlEffect::Release => self.release(),
            ControlEffect::Gone(process) => self.tell_all(|| Command::Gone(process)),
            ControlEffect::End => self.has_ended = true,
            ControlEffect::Log(entry) => {
                if self.is_expected(&entry) {
                    tracing::debug!(?entry, "expected while servers are started and stopped");
                } else {
                    log_entries::write(&entry);
                }
            }
        }
    }

    /// Returns whether an entry only reports the silence of a server that is not meant to run. Also `true` while the
    /// running servers of its pool are not known.
    fn is_expected(&self, entry: &LogEntry) -> bool {
        let Some((scaling, _)) = &self.scaling else { return false };
        match entry {
            LogEntry::Member { member, event: MemberEvent::Lost(_), .. } => {
                scaling.expects_down(member.address, &self.pools_at(*member))
            }
            LogEntry::NoneAlive { pool, .. } => scaling.expects_none(pool),
            _ => false,
        }
    }

    /// Returns the names of the pools that have a member at this address.
    fn pools_at(&self, peer: Peer) -> Vec<String> {
        let listed = self.core.listed();
        let here = listed.iter().filter(|member| member.peer == peer).flat_map(|member| &member.pools);
        here.filter_map(|pool| Some(self.core.pool(*pool)?.name.clone())).collect()
    }

    pub(super) fn tell_all(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            worker.send(command());
        }
    }

    /// Asks the shards which slots are in use. Each shard answers after all earlier commands.
    fn ask_slots_in_use(&self) {
        let (workers, answers) = (self.workers.clone(), self.answers.0.clone());
        tokio::spawn(async move {
            let used = ask_each(&workers, Command::SlotsInUse).await.map(|used| {
                let slots = used.iter().map(Vec::len).max().unwrap_or_default();
                let anywhere = |slot| used.iter().any(|used| used.get(slot) == Some(&true));
                (0..slots).map(anywhere).collect()
            });
            let _ = answers.send(Answered::SlotsInUse(used));
        });
    }

    fn ask_work_left(&self) {
        let (workers, answers) = (self.workers.clone(), self.answers.0.clone());
        tokio::spawn(async move {
            let counts = ask_each(&workers, Command::Counts).await.unwrap_or_default();
            let _ = answers.send(Answered::WorkLeft(work_left(&counts)));
        });
    }

    /// Load at the predecessor counts as the load of another shard, and against the call limits of members.
    fn set_elsewhere(&self, loads: &[Load]) {
        let column = self.workers.len();
        for (slot, load) in (0..).map(Slot).zip(loads) {
            self.board.publish(column, slot.index(), *load);
            if let Some(call_limits) = &self.call_limits {
                call_limits.set_elsewhere(slot, load.calls);
            }
        }
    }

    /// Sets the resolver up again, even with the same settings, since the system's own settings may have changed.
    /// Returns whether they have.
    pub(super) fn renew_resolver(&mut self) -> bool {
        let renewed = super::Resolver::new(&self.config.dns.servers, &self.ports);
        let former = std::mem::replace(&mut self.resolver, renewed);
        !self.resolver.asks_as(&former)
    }
}

fn work_left(counts: &[ShardCounts]) -> WorkLeft {
    let slots = counts.iter().map(|counts| counts.loads.len()).max().unwrap_or_default();
    let open = |slot: usize| -> usize {
        let loads = counts.iter().filter_map(|counts| counts.loads.get(slot));
        loads.map(|(_, load)| load.calls as usize + load.transactions as usize).sum()
    };
    WorkLeft {
        open: (0..slots).map(open).collect(),
        // A proxy counts requests without a final response instead of calls. Calls also wait in queues.
        waiting: counts
            .iter()
            .map(|counts| {
                counts.proxy.as_ref().map_or(0, |proxy| proxy.unanswered) + counts.queued() + counts.relayed
            })
            .sum(),
        is_any_kept: counts.iter().any(|counts| counts.kept() > 0 || counts.has_dialogs),
    }
}
