//! Whose a datagram is: this shard's, another one's, or another process's.

use crate::counts::Traffic;
use crate::handover::Handed;
use crate::other_process::{Fate, OtherProcess};
use base::{Instant, Outbox};
use node::{Outcome, Shard, ShardEvent, ShardInput};
use std::sync::Arc;

/// Takes what belongs to this shard, unless it is about a call of another process.
pub(crate) fn take(
    shard: &mut Shard,
    processes: &[Arc<OtherProcess>],
    traffic: &mut Traffic,
    now: Instant,
    handed: &Handed<'_>,
    out: &mut Outbox<ShardEvent>,
) -> Outcome {
    match elsewhere(shard, processes, handed) {
        Fate::Ours => {}
        Fate::HandedOver => {
            traffic.handed_over += 1;
            return Outcome::Handled;
        }
        Fate::Lost => {
            traffic.handover_lost += 1;
            return Outcome::Handled;
        }
    }
    match *handed {
        Handed::Message { flow, bytes } => shard.handle(now, ShardInput::Message { flow, bytes }, out),
        Handed::Unreachable { to, quoted } => shard.handle(now, ShardInput::Unreachable { to, quoted }, out),
        // For the thread's connections, not for its shard.
        Handed::Send { .. } => Outcome::Handled,
    }
}

/// Gives a datagram to the process whose call it is about, or, where nobody here knows it, to one that may.
fn elsewhere(shard: &Shard, processes: &[Arc<OtherProcess>], handed: &Handed<'_>) -> Fate {
    if processes.is_empty() {
        return Fate::Ours;
    }
    let is_stray = || match handed {
        Handed::Message { bytes, .. } => bytes.starts_with(b"SIP/2.0 ") && shard.is_stray(bytes),
        Handed::Unreachable { quoted, .. } => shard.is_stray(quoted),
        Handed::Send { .. } => false,
    };
    let hand = |whatever| {
        processes.iter().map(|process| process.hand(handed, whatever)).find(|fate| *fate != Fate::Ours)
    };
    hand(false).or_else(|| is_stray().then(|| hand(true))?).unwrap_or(Fate::Ours)
}

/// The shard that a datagram belongs to, if it is another one than `this`. What has no Call-ID is refused by
/// whoever gets it.
pub(crate) fn owner(shard: &Shard, bytes: &[u8], this: usize, shards: usize) -> Option<usize> {
    shard.tokens().shard_of(bytes, shards).filter(|&owner| owner != this)
}
