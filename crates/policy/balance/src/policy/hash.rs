//! The policy `hash`: weighted rendezvous hashing of the Call-ID.

use super::{Candidates, NewCall, Policy, PolicyKind};
use crate::{CallKey, NodeId, Slot};

/// Hash of the Call-ID by weighted rendezvous (highest random weight). Each node gets a number computed from the call
/// and its own identity, and the highest number wins. When a node leaves, only the calls of this node move. When a node
/// joins, it takes its share equally from all other nodes.
///
/// Source: Thaler and Ravishankar, Using name-based mappings to increase hit rates, 1998; weights by `-capacity /
/// ln(u)`, the logarithmic method. The same call goes to the same node on every shard, after a restart, and on a peer
/// balancer.
#[derive(Clone, Copy, Debug)]
pub struct Hash;

/// Number in (0, 1) from call and node: the finalizer of splitmix64 over both.
fn draw(key: CallKey, id: NodeId) -> f64 {
    let mut x = (key.0 as u64) ^ ((key.0 >> 64) as u64) ^ u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    ((x >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

impl Policy for Hash {
    fn name(&self) -> &'static str {
        PolicyKind::Hash.name()
    }

    fn choose(&mut self, call: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        candidates
            .iter()
            .map(|candidate| (-candidate.capacity / draw(call.key, candidate.id).ln(), candidate.slot))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, slot)| slot)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(*self)
    }
}
