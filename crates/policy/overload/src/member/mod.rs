//! How much work a server may have that knows nothing of overload control, found by the delay that it causes.
//!
//! A sender sees how long each request waits for its first answer, and which requests fail. A [`MemberLimit`] makes of
//! this how many requests the server may have that it has not answered at all. By Little's law this number bounds the
//! wait, whatever a request costs and however fast the server is. [`MemberLaw`] names the laws that move the limit.
//!
//! - *At rest* there is no limit. A server that has shown nothing yet gets all that comes.
//! - *The limit begins* when two batches of answers in a row are late (their shortest response time is T1/4 above the
//!   shortest known) or failing (as many requests failed as were answered); or when the open requests would take most
//!   of T1 at the pace of the answers. It begins at that pace times the bearable wait.
//! - *A server that loses requests* before anything is late has a queue that is shorter than this wait: half of the
//!   wait is borne then, down to a quarter, and the limit begins.
//! - *While it holds*, the law moves it after each batch of answers to requests that were sent since the last cut.
//! - *It ends* when it has not been reached for five seconds.

mod aimd;
mod batch;
mod gradient;
mod limit;
mod loss;
mod open;
mod pace;
mod rate_cap;
mod vegas;

pub use batch::Work;
pub use limit::MemberLimit;
pub use rate_cap::RateCap;

use batch::Batch;
use core::fmt;

/// A law for the limit of a server, by its name in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemberLaw {
    /// Additive increase, multiplicative decrease.
    Aimd,
    /// TCP Vegas: the requests that wait are held between two bounds.
    Vegas,
    /// The ratio of bearable and measured response time.
    #[default]
    Gradient,
}

impl MemberLaw {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aimd, Self::Vegas, Self::Gradient];

    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aimd => "aimd",
            Self::Vegas => "vegas",
            Self::Gradient => "gradient",
        }
    }

    /// The limit after a batch.
    fn next(self, limit: f64, batch: &Batch) -> f64 {
        match self {
            Self::Aimd => aimd::next(limit, batch),
            Self::Vegas => vegas::next(limit, batch),
            Self::Gradient => gradient::next(limit, batch),
        }
    }
}

impl fmt::Display for MemberLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
