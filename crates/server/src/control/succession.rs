//! What changes when another process takes over, or has been taken over.

use super::Control;
use crate::admin::Interface;
use crate::shards::Command;
use crate::takeover::Succession;
use crate::takeover::claim::Bond;
use crate::takeover::owned::Predecessor;
use balance::{Places, Slot};
use std::sync::Arc;

impl Control {
    /// Answers the admin interface from now on, and as long as no other process does.
    pub(crate) fn open_admin(&mut self, mut admin: Interface) {
        admin.start();
        self.admin = Some(admin);
    }

    /// The process before, if there is one, has calls of its own, which take `places`. What is drained there stays so.
    pub(crate) fn follows(
        &mut self,
        predecessor: Option<(Bond, Arc<Predecessor>)>,
        places: Option<Arc<Places>>,
    ) {
        (self.predecessor, self.places) = (predecessor, places);
        let drained = self.predecessor.iter().flat_map(|(_, predecessor)| predecessor.drained());
        for slot in drained.filter_map(|&node| self.cluster.slot(node)).collect::<Vec<_>>() {
            self.cluster.drain(slot, true);
            tracing::info!(member = %self.remarks[slot.index()].address, "drained, as in the process before");
        }
    }

    /// New calls are another process's, which hands this one what belongs to its own; or they are ours again.
    pub(super) fn follow(&mut self, succession: Succession) {
        match succession {
            Succession::Begun => {
                self.succeeded = Some(self.clock.now());
                tracing::info!(wait = ?self.config.stop.wait, "another process has taken over: the calls of this one may end");
                self.release_predecessor();
                if let Some(admin) = &mut self.admin {
                    admin.abort();
                }
            }
            Succession::GivenBack => {
                self.succeeded = None;
                if let Some(admin) = &mut self.admin {
                    admin.start();
                }
            }
            Succession::Over => self.over = true,
        }
        self.send_pipeline();
    }

    /// When this process ends, the one before is not to read its sockets again.
    pub(super) fn release_predecessor(&mut self) {
        if let Some((bond, _)) = &mut self.predecessor {
            bond.release();
        }
    }

    /// How many calls the process before still has.
    pub(super) fn predecessor_calls(&self) -> Option<usize> {
        let (_, predecessor) = self.predecessor.as_ref()?;
        predecessor.remainder().map(|remainder| remainder.calls)
    }

    /// The calls that the process before still has count as load of its members.
    pub(super) fn predecessor(&mut self) {
        let Some((_, predecessor)) = &self.predecessor else { return };
        let remainder = predecessor.remainder();
        let column = self.workers.len();
        for (slot, node) in (0..).map(Slot).zip(self.cluster.nodes()) {
            let load = remainder.as_ref().map(|remainder| remainder.load(node.id)).unwrap_or_default();
            self.board.publish(column, slot.index(), load);
            if let Some(places) = &self.places {
                places.set_elsewhere(slot, load.calls);
            }
        }
        if remainder.is_none() {
            tracing::info!("the process before has ended");
            self.predecessor = None;
            for worker in &self.workers {
                worker.send(Command::PredecessorGone);
            }
        }
    }
}
