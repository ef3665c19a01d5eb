//! Local control: a server decides on its own which new requests it takes. One file a law, chosen by name
//! ([`crate::LocalLaw`]).

pub mod bang_bang;
pub mod delay;
mod none;
pub mod occupancy;

pub use bang_bang::BangBang;
pub use delay::Delay;
pub use none::None;
pub use occupancy::Occupancy;

use crate::signal::HostLoad;
use crate::{MessageClass, Verdict};
use base::{Instant, Rng};
use core::fmt::Debug;
use core::time::Duration;

/// Decides on the requests that reach a server.
pub trait Controller: Debug + Send {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// Whether a request is taken. Only new requests ([`MessageClass::is_new`]) are ever rejected.
    fn judge(&mut self, now: Instant, class: MessageClass, load: &HostLoad, rng: &mut Rng) -> Verdict;

    /// A message joined or left the queue, which now holds `queue` external messages.
    fn on_queue(&mut self, _queue: usize) {}

    /// A period is over; `load` has its utilisation.
    fn on_period(&mut self, _load: &HostLoad) {}

    /// How often [`on_period`](Self::on_period) is wanted.
    fn period(&self) -> Option<Duration> {
        Option::None
    }

    /// The fraction of new requests that it takes at this load, 0 to 1: the f that a server reports upstream.
    fn acceptance(&self, _load: &HostLoad) -> f64 {
        1.0
    }
}
