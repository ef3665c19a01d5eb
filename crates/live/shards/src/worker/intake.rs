//! Assignment of a received message to this shard, another shard or another process.

use crate::counts::Traffic;
use crate::handover::Handed;
use crate::mirror::Recorder;
use crate::other_process::{HandOverResult, OtherProcess};
use base::{Instant, Outbox};
use node::{Outcome, Shard, ShardEvent, ShardInput};
use std::sync::Arc;

/// Handles a message of this shard, or hands it to the process whose call it belongs to.
pub(crate) fn take(
    shard: &mut Shard,
    processes: &[Arc<OtherProcess>],
    (traffic, recorder): (&mut Traffic, &mut Option<Box<Recorder>>),
    now: Instant,
    handed: &Handed<'_>,
    out: &mut Outbox<ShardEvent>,
) -> Outcome {
    match elsewhere(shard, processes, handed) {
        HandOverResult::Ours => {}
        HandOverResult::HandedOver => {
            traffic.handed_over += 1;
            return Outcome::Handled;
        }
        HandOverResult::Lost => {
            traffic.handover_lost += 1;
            return Outcome::Handled;
        }
    }
    match *handed {
        Handed::Message { flow, bytes } => {
            if let Some(recorder) = recorder {
                recorder.received(flow, bytes);
            }
            shard.handle(now, ShardInput::Message { flow, bytes }, out)
        }
        Handed::Unreachable { to, quoted } => shard.handle(now, ShardInput::Unreachable { to, quoted }, out),
        // Such a message is for the thread's connections, not for its shard.
        Handed::Send { .. } => Outcome::Handled,
    }
}

/// Hands a message to the process that owns its call. A message of an unknown call goes to any process that may own it.
fn elsewhere(shard: &Shard, processes: &[Arc<OtherProcess>], handed: &Handed<'_>) -> HandOverResult {
    if processes.is_empty() {
        return HandOverResult::Ours;
    }
    let is_stray = || match handed {
        Handed::Message { bytes, .. } => bytes.starts_with(b"SIP/2.0 ") && shard.is_stray(bytes),
        Handed::Unreachable { quoted, .. } => shard.is_stray(quoted),
        Handed::Send { .. } => false,
    };
    let hand = |accepts_unknown| {
        processes
            .iter()
            .map(|process| process.hand(handed, accepts_unknown))
            .find(|fate| *fate != HandOverResult::Ours)
    };
    hand(false).or_else(|| is_stray().then(|| hand(true))?).unwrap_or(HandOverResult::Ours)
}

/// Returns the shard that owns a message, unless it is `this`. A message without Call-ID is refused by the shard that
/// receives it.
pub(crate) fn owner(shard: &Shard, bytes: &[u8], this: usize, shards: usize) -> Option<usize> {
    shard.tokens().shard_of(bytes, shards).filter(|&owner| owner != this)
}
