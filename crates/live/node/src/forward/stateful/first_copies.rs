//! When requests of dialogs went on without a transaction.

use base::Instant;

/// When the first copy of each request of a dialog went on that did so without a transaction lately. A request has
/// the place of its key, where a later one may follow it, so that a message allocates nothing but the first.
#[derive(Default)]
pub(super) struct FirstCopies(Vec<(u64, Instant)>);

impl FirstCopies {
    /// 32 s (64*T1) at 2,000 requests a second.
    const PLACES: usize = 65_536;

    /// When the first copy of the request with this key went on: now, if none is known.
    pub(super) fn since(&mut self, now: Instant, key: u64) -> Instant {
        if self.0.is_empty() {
            self.0.resize(Self::PLACES, (0, Instant::ZERO));
        }
        let (kept, since) = &mut self.0[key as usize % Self::PLACES];
        if *kept != key {
            (*kept, *since) = (key, now);
        }
        *since
    }
}
