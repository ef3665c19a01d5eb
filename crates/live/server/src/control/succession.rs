//! What changes when another process takes over, or has been taken over.

use super::Control;
use crate::admin::Interface;
use crate::shards::Command;
use crate::takeover::claim::Bond;
use crate::takeover::owned::Predecessor;
use crate::takeover::{Remainder, Succession};
use ::control::{ControlInput, Drainer};
use balance::{CallLimits, NodeId};
use std::sync::Arc;

impl Control {
    /// Answers the admin interface from now on, and as long as no other process does.
    pub(crate) fn open_admin(&mut self, mut admin: Interface) {
        admin.start();
        self.admin = Some(admin);
    }

    /// The process before, if there is one, has calls of its own, which take `call_limits`. What is drained or dead there
    /// stays so.
    pub(crate) fn follows(
        &mut self,
        predecessor: Option<(Bond, Arc<Predecessor>)>,
        call_limits: Option<Arc<CallLimits>>,
    ) {
        (self.predecessor, self.call_limits) = (predecessor, call_limits);
        let Some((_, predecessor)) = &self.predecessor else { return };
        let findings = predecessor.findings();
        let by =
            |drained: &[u32], by: Drainer| drained.iter().map(|&node| (NodeId(node), by)).collect::<Vec<_>>();
        let drained =
            [by(&findings.drained, Drainer::Operator), by(&findings.drained_by_scaler, Drainer::Scaler)]
                .concat();
        let dead: Vec<_> = findings.dead.iter().copied().map(NodeId).collect();
        self.take(ControlInput::Follows { drained: &drained, dead: &dead });
    }

    /// Tells the threads what members of pools have shown to take, as the process before knows.
    pub(super) fn tell_learned(&self) {
        let Some((_, predecessor)) = &self.predecessor else { return };
        for (pool, node, capacity) in &predecessor.findings().capacities {
            if let Some(pool) = self.core.pool_number(pool) {
                self.tell_all(|| Command::Learned(pool, NodeId(*node), *capacity));
            }
        }
    }

    /// New calls are another process's, which hands this one what belongs to its own; or they are ours again.
    pub(super) fn follow(&mut self, succession: Succession) {
        match succession {
            Succession::Begun => {
                self.succeeded = true;
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

    /// When this process ends, the one before is not to read its sockets again.
    pub(super) fn release_predecessor(&mut self) {
        if let Some((bond, _)) = &mut self.predecessor {
            bond.release();
        }
    }

    /// What the process before still has to do; `None`: there is none.
    pub(super) fn remainder(&self) -> Option<Remainder> {
        self.predecessor.as_ref().and_then(|(_, predecessor)| predecessor.remainder())
    }

    /// The process before has said what it still has to do, or has ended.
    pub(super) fn predecessor(&mut self) {
        let Some((_, predecessor)) = &self.predecessor else { return };
        if let Some(remainder) = predecessor.remainder() {
            return self.take(ControlInput::Predecessor(remainder.loads().collect()));
        }
        self.predecessor = None;
        self.take(ControlInput::PredecessorGone);
    }
}
