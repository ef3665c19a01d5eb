//! Changes of the control task when another process takes over, or has been taken over.

use super::Control;
use crate::admin::Interface;
use crate::takeover::claim::PredecessorLink;
use crate::takeover::exchange::Succession;
use ::control::{ControlInput, Drainer, ProcessId};
use balance::{CallLimits, NodeId};
use shards::{Command, OtherProcess, Remainder};
use std::sync::Arc;

impl Control {
    /// Answers the admin interface as long as no other process does.
    pub(crate) fn open_admin(&mut self, mut admin: Interface) {
        admin.start();
        self.admin = Some(admin);
    }

    /// Calls at members with a limit count in `call_limits`, including calls of the predecessor, if there is one.
    pub(crate) fn shares(
        &mut self,
        call_limits: Option<Arc<CallLimits>>,
        bound: Option<(PredecessorLink, Arc<OtherProcess>)>,
    ) {
        self.call_limits = call_limits;
        if let Some((bond, process)) = bound {
            self.processes.push((bond, Arc::clone(&process)));
            self.joins(&process);
        }
    }

    /// Takes over the drained and dead members of a predecessor, which has calls of its own.
    fn joins(&mut self, process: &OtherProcess) {
        let node_states = process.node_states();
        let by =
            |drained: &[u32], by: Drainer| drained.iter().map(|&node| (NodeId(node), by)).collect::<Vec<_>>();
        let drained = [
            by(&node_states.drained, Drainer::Operator),
            by(&node_states.drained_by_scaler, Drainer::Scaler),
        ]
        .concat();
        let dead: Vec<_> = node_states.dead.iter().copied().map(NodeId).collect();
        self.take(ControlInput::Joins { process: process.id(), drained: &drained, dead: &dead });
    }

    /// Tells the threads the capacities that other processes have measured for members of pools.
    pub(super) fn tell_learned(&self) {
        let known = self.processes.iter().flat_map(|(_, process)| &process.node_states().capacities);
        for (pool, node, capacity) in known {
            if let Some(pool) = self.core.pool_number(pool) {
                self.tell_all(|| Command::Learned(pool, NodeId(*node), *capacity));
            }
        }
    }

    /// Follows a takeover: another process gets the new calls and hands this process the messages of its own calls, or
    /// new calls come here again.
    pub(super) fn follow(&mut self, succession: Succession) {
        match succession {
            Succession::Started => {
                self.succeeded = true;
                // After this time, connections in constant use are closed at moments without an unanswered request.
                // Otherwise all of them would be closed when this process ends.
                let most = self.config.stop.wait * 9 / 10;
                self.tell_all(|| Command::Move(most));
                if let Some(stores) = &self.stores {
                    stores.release();
                }
                if let Some(admin) = &mut self.admin {
                    admin.abort();
                }
                self.close_capacity();
                self.stop_scaling();
                self.take(ControlInput::Succeeded);
            }
            Succession::GivenBack => {
                self.succeeded = false;
                if let Some(stores) = &self.stores {
                    stores.resume();
                }
                if let Some(admin) = &mut self.admin {
                    admin.start();
                }
                self.open_capacity(None);
                self.take(ControlInput::GivenBack);
                self.restart_scaling();
            }
            Succession::Over => self.take(ControlInput::SuccessionOver),
        }
    }

    /// Tells all predecessors not to read the sockets again when this process ends.
    pub(super) fn release(&mut self) {
        self.processes.iter_mut().for_each(|(bond, _)| bond.release());
    }

    /// Returns the remaining work of other processes; `None` if there are none.
    pub(super) fn remainder(&self) -> Option<Remainder> {
        let each = self.processes.iter().filter_map(|(_, process)| process.remainder());
        each.reduce(|mut sum, other| {
            sum.add_all(&other);
            sum
        })
    }

    /// Takes the report of another process about its remaining work, or its end.
    pub(super) fn process(&mut self, id: ProcessId) {
        let Some((_, known)) = self.processes.iter().find(|(_, known)| known.id() == id) else { return };
        if let Some(remainder) = known.remainder() {
            let loads = remainder.loads().collect();
            return self.take(ControlInput::OtherLoads { process: id, loads });
        }
        self.processes.retain(|(_, known)| known.id() != id);
        self.take(ControlInput::Gone(id));
    }
}
