//! Local control: a server decides on its own which new requests it accepts. One file per law; [`crate::LocalLaw`]
//! selects the law.

pub mod bang_bang;
pub mod delay;
mod none;
pub mod occupancy;

pub use bang_bang::BangBang;
pub use delay::Delay;
pub use none::None;
pub use occupancy::Occupancy;

use crate::signal::HostLoad;
use crate::{AdmissionVerdict, MessageClass};
use base::{Instant, Rng};
use core::fmt::Debug;
use core::time::Duration;

/// Controller that decides on the requests that reach a server.
pub trait Controller: Debug + Send {
    /// Name in the configuration.
    fn name(&self) -> &'static str;

    /// Decides whether a request is accepted. Only new requests ([`MessageClass::is_new`]) are ever rejected.
    fn judge(
        &mut self,
        now: Instant,
        class: MessageClass,
        load: &HostLoad,
        rng: &mut Rng,
    ) -> AdmissionVerdict;

    /// Reports that a message joined or left the queue, which now holds `queue` external messages.
    fn on_queue(&mut self, _queue: usize) {}

    /// Reports the end of a period; `load` has its utilisation.
    fn on_period(&mut self, _load: &HostLoad) {}

    /// Interval at which to call [`on_period`](Self::on_period); `None` for never.
    fn period(&self) -> Option<Duration> {
        Option::None
    }

    /// Fraction of new requests that is accepted at this load, 0 to 1: the f that a server reports upstream.
    fn acceptance(&self, _load: &HostLoad) -> f64 {
        1.0
    }
}
