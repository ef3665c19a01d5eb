//! Whose a datagram is: this shard's, another one's, or the process's before.

use super::counts::Traffic;
use super::handover::Handed;
use crate::takeover::owned::{Fate, Predecessor};
use base::{Flow, Instant, Outbox};
use node::{Shard, ShardEvent, ShardInput};

/// Takes what belongs to this shard, unless it is about a call of the process before.
pub(super) fn take(
    shard: &mut Shard,
    predecessor: Option<&Predecessor>,
    traffic: &mut Traffic,
    now: Instant,
    handed: &Handed<'_>,
    out: &mut Outbox<ShardEvent>,
) {
    if let Some(predecessor) = predecessor {
        let is_stray = match handed {
            Handed::Datagram { bytes, .. } => bytes.starts_with(b"SIP/2.0 ") && shard.is_stray(bytes),
            Handed::Unreachable { quoted, .. } => shard.is_stray(quoted),
        };
        match predecessor.hand(handed, is_stray) {
            Fate::Ours => {}
            Fate::HandedOver => return traffic.handed_over += 1,
            Fate::Lost => return traffic.handover_lost += 1,
        }
    }
    match *handed {
        Handed::Datagram { listener, from, bytes } => {
            shard.handle(now, ShardInput::Message { flow: Flow::udp(listener, from), bytes }, out);
        }
        Handed::Unreachable { to, quoted } => shard.handle(now, ShardInput::Unreachable { to, quoted }, out),
    }
}

/// The shard that a datagram belongs to, if it is another one than `this`. What has no Call-ID is refused by
/// whoever gets it.
pub(super) fn owner(shard: &Shard, bytes: &[u8], this: usize, shards: usize) -> Option<usize> {
    shard.tokens().shard_of(bytes, shards).filter(|&owner| owner != this)
}
