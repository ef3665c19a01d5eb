//! Execution of the control task's commands.

use super::Worker;
use super::intake::owner;
use crate::command::{Command, Explained, OpenCalls, TakenSockets};
use crate::mirror::Recorder;
use node::ShardInput;
use std::collections::HashSet;

impl Worker {
    pub(crate) fn obey(&mut self, command: Command) {
        match command {
            Command::SetUp(setup) => {
                self.tell(ShardInput::SetUp(&setup));
                self.admit(&setup);
                self.renew_meter();
                self.flush();
            }
            Command::Name(answer) => self.tell(ShardInput::Name { name: &answer.0, answer: &answer.1 }),
            Command::Quiet(left, reply) => {
                self.leave(left);
                let _ = reply.send(());
            }
            Command::Inlet(inlet) => (self.inlet, self.awaits_inlet) = (inlet, false),
            Command::Answered(number, answer) => {
                self.tell(ShardInput::Answer { number, answer: Box::new(answer) });
                self.flush();
            }
            Command::Capacity(slot, capacity) => {
                self.tell(ShardInput::Capacity { slot, capacity });
                self.flush();
            }
            Command::Learned(pool, node, capacity) => self.tell(ShardInput::Learned { pool, node, capacity }),
            Command::Judgement(judgement) => self.tell(ShardInput::Judgement(&judgement)),
            Command::Stores(stores) => self.stores = stores,
            Command::Records(records) => self.records = records,
            Command::Mirror(mirror) => self.recorder = mirror.map(Recorder::new).map(Box::new),
            Command::Gone(process) => {
                // The board no longer has the load of that process.
                self.read_board(self.clock.now());
                self.processes.retain(|known| known.id() != process);
                if self.processes.is_empty() {
                    self.relayed = HashSet::new();
                }
            }
            Command::Stop => {}
            question @ (Command::Snapshot(_)
            | Command::Counts(_)
            | Command::OldestCalls(_)
            | Command::SlotsInUse(_)
            | Command::Session(..)
            | Command::Explain(..)
            | Command::OldestOpenCalls(..)
            | Command::HangUp(..)
            | Command::Failures(_)
            | Command::Connections(_)
            | Command::Calls(_)) => self.answer(question),
            order @ (Command::Send(..)
            | Command::Message(..)
            | Command::Unreachable(..)
            | Command::Move(_)
            | Command::Tls(_)) => self.obey_about_connections(order),
        }
    }

    fn answer(&mut self, question: Command) {
        match question {
            // The receiver may be gone. Then the answer is not needed.
            Command::Snapshot(reply) => drop(reply.send(self.snapshot())),
            Command::Counts(reply) => drop(reply.send(self.counts())),
            Command::OldestCalls(reply) => drop(reply.send(self.oldest_calls())),
            Command::SlotsInUse(reply) => drop(reply.send(self.slots_in_use())),
            Command::Session(call_id, reply) => {
                let _ = reply.send(self.session(&call_id));
            }
            Command::Explain(flow, bytes, reply) => {
                let shards = self.peers.senders.len();
                let now = self.clock.now();
                let _ = reply.send(match owner(&self.shard, &bytes, self.index, shards) {
                    Some(owner) => Explained::Elsewhere(owner),
                    None => {
                        Explained::Here(self.shard.explain(now, flow, &bytes, &mut self.out).map(Box::new))
                    }
                });
                // The explanation may have asked for a name.
                self.flush();
            }
            Command::OldestOpenCalls(filter, reply) => {
                let calls = self.shard.kept_calls().map(|calls| {
                    let (oldest, count) =
                        calls.oldest(filter.limit, |about, member| filter.has(about, member));
                    OpenCalls { oldest, count }
                });
                let _ = reply.send(calls);
            }
            Command::HangUp(call_id, reply) => {
                let now = self.clock.now();
                let _ = reply.send(self.shard.hang_up_call(now, &call_id, &mut self.out));
                self.flush();
            }
            Command::Failures(reply) => drop(reply.send(self.shard.failures().cloned().collect())),
            Command::Connections(reply) => {
                let list = self.streams.as_ref().map(|streams| streams.list()).unwrap_or_default();
                let _ = reply.send(list);
            }
            Command::Calls(reply) => {
                while self.peers.receivers.iter().any(|ring| !ring.is_empty()) {
                    self.read_rings(self.clock.now());
                    self.flush();
                }
                let mut calls = Vec::new();
                self.shard.calls(|key| calls.push(key.call_id()));
                let _ = reply.send(calls);
            }
            _ => {}
        }
    }

    fn obey_about_connections(&mut self, order: Command) {
        match order {
            Command::Send(flow, bytes) => {
                self.send_by_stream(flow, &bytes);
                self.flush();
            }
            Command::Message(flow, bytes) => {
                self.handle.took_relayed();
                self.take_relayed(flow, bytes);
            }
            Command::Unreachable(to, quoted) => {
                // The message may have been sent for the successor.
                if let Some(inlet) = &self.inlet {
                    inlet.tell_undelivered(to, &quoted);
                }
                self.tell_undelivered(self.clock.now(), to, &quoted);
                self.flush();
            }
            Command::Move(wait) => {
                let now = self.clock.now();
                if let Some(streams) = &mut self.streams {
                    streams.move_at(now, now + wait);
                }
            }
            Command::Tls(tls) => {
                if let Some(streams) = &mut self.streams {
                    streams.settings.tls = Some(tls);
                }
            }
            _ => {}
        }
    }

    /// Stops reading these sockets, since another process reads them from now on.
    pub(crate) fn leave(&mut self, TakenSockets { datagrams, streams: leaves }: TakenSockets) {
        if let Some(streams) = &mut self.streams {
            streams.leave(self.clock.now(), leaves);
            self.awaits_inlet = leaves;
        }
        self.quiet = if datagrams.contains(&true) { datagrams } else { Vec::new() };
    }
}
