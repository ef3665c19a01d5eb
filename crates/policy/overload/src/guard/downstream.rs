//! State of downstream neighbours.

use crate::hop::HopSender;
use crate::retry_after::Backoff;
use crate::{NEIGHBOURS_MAX, OverloadSettings};
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// Downstream neighbours for which there is any state.
#[derive(Debug)]
pub(super) struct Downstream<N> {
    known: BTreeMap<N, NeighbourState>,
    /// Earliest time of the next search for removable neighbours.
    sweep_at: Instant,
}

/// State of one neighbour.
#[derive(Default, Debug)]
pub(super) struct NeighbourState {
    pub(super) backoff: Backoff,
    /// `None` until a request is sent to it under feedback.
    pub(super) sender: Option<HopSender>,
}

/// Least time between searches for removable neighbours. A search visits all neighbours, so a request must not cause it
/// each time.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

impl<N> Default for Downstream<N> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), sweep_at: Instant::ZERO }
    }
}

impl<N: Ord + Copy> Downstream<N> {
    pub(super) fn get(&self, neighbour: N) -> Option<&NeighbourState> {
        self.known.get(&neighbour)
    }

    pub(super) fn get_mut(&mut self, neighbour: N) -> Option<&mut NeighbourState> {
        self.known.get_mut(&neighbour)
    }

    /// State of the neighbour, added if it is new; `None` if there is no room. Without state, the neighbour is treated
    /// as if it had never given feedback.
    pub(super) fn enter(&mut self, now: Instant, neighbour: N) -> Option<&mut NeighbourState> {
        if self.known.len() >= NEIGHBOURS_MAX && !self.known.contains_key(&neighbour) {
            if now >= self.sweep_at {
                self.sweep_at = now + SWEEP_PERIOD;
                self.known.retain(|_, known| !known.is_at_rest(now));
            }
            if self.known.len() >= NEIGHBOURS_MAX {
                return None;
            }
        }
        Some(self.known.entry(neighbour).or_default())
    }

    /// Client side of feedback from this neighbour; `None` if feedback is not used or there is no room.
    pub(super) fn sender(
        &mut self,
        now: Instant,
        to: N,
        settings: &OverloadSettings,
    ) -> Option<&mut HopSender> {
        if self.get(to).is_none_or(|known| known.sender.is_none()) {
            let sender = settings.sender()?;
            self.enter(now, to)?.sender = Some(sender);
        }
        self.get_mut(to)?.sender.as_mut()
    }
}

impl NeighbourState {
    /// Whether a neighbour without state would be treated in the same way.
    fn is_at_rest(&self, now: Instant) -> bool {
        self.backoff.is_open(now) && self.sender.as_ref().is_none_or(|sender| sender.is_at_rest(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry_after::During;

    #[test]
    fn neighbours_without_state_to_keep_make_room() {
        let at = Instant::from_millis;
        let mut downstream = Downstream::<usize>::default();
        for neighbour in 0..NEIGHBOURS_MAX {
            let known = downstream.enter(at(0), neighbour).expect("there is room");
            // Every second neighbour asks for a pause.
            let pause = (neighbour % 2 == 0).then_some(Duration::from_secs(10));
            known.backoff.on_503(at(0), pause, During::Prolong);
        }
        assert!(downstream.enter(at(1), NEIGHBOURS_MAX).is_some());
        assert_eq!(downstream.known.len(), NEIGHBOURS_MAX / 2 + 1);
        for neighbour in NEIGHBOURS_MAX..NEIGHBOURS_MAX * 2 {
            if let Some(known) = downstream.enter(at(2), neighbour) {
                known.backoff.on_503(at(2), Some(Duration::from_secs(20)), During::Prolong);
            }
        }
        assert_eq!(downstream.known.len(), NEIGHBOURS_MAX);
        assert!(downstream.enter(at(9_999), usize::MAX).is_none(), "all pauses last");
        assert!(downstream.enter(at(9_999), 0).is_some(), "a known neighbour stays known");
        assert!(
            downstream.enter(at(10_998), usize::MAX).is_none(),
            "the last search was less than a second ago"
        );
        assert!(downstream.enter(at(10_999), usize::MAX).is_some(), "the first pauses are over");
    }
}
