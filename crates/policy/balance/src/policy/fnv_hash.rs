//! The policy `fnv-hash`: the FNV-1a hash of the Call-ID, as the TLWL paper has it.

use super::{Candidates, NewCall, Policy, PolicyKind};
use crate::Slot;

/// FNV-1a hash of the Call-ID over the nodes that take calls, as the paper's `FNV Hash`. The hash is taken modulo the
/// number of nodes, or modulo the sum of the capacities if capacities are set. Most calls move when a node leaves;
/// `hash` avoids this.
///
/// Source: TLWL digest, section VI a; constants: Fowler, Noll, Vo (64-bit FNV-1a).
#[derive(Clone, Copy, Debug)]
pub struct FnvHash;

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;
/// Resolution of capacities: a thousandth.
const SCALE: f64 = 1_000.0;

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

impl Policy for FnvHash {
    fn name(&self) -> &'static str {
        PolicyKind::FnvHash.name()
    }

    fn choose(&mut self, call: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        let share = |capacity: f64| ((capacity * SCALE) as u64).max(1);
        let sum: u64 = candidates.iter().map(|candidate| share(candidate.capacity)).sum();
        let mut rest = fnv1a(call.call_id).checked_rem(sum)?;
        for candidate in candidates.iter() {
            let share = share(candidate.capacity);
            if rest < share {
                return Some(candidate.slot);
            }
            rest -= share;
        }
        None
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_matches_published_values() {
        assert_eq!(super::fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(super::fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
