//! Limits of servers without overload control, found from the delay of their responses.
//!
//! A sender sees how long each request waits for its first response, and which requests fail. From this a
//! [`MemberLimit`] computes how many unanswered requests the server may have. By Little's law this number bounds the
//! wait, for any cost of a request and any speed of the server. [`MemberLaw`] names the laws that move the limit.
//!
//! - *Without overload* there is no limit. A server without history gets all requests.
//! - *The limit starts* when two batches of responses in a row are late or failing, unless the delay falls from one to
//!   the next, as it does after a pause. A batch is late if its shortest response time is 2/5 T1 above 1.5 times the
//!   shortest known time. A batch is failing if as many requests failed as were answered. The limit also starts when the
//!   open requests would take most of T1 at the fastest pace of the last seconds. The first limit is this pace times the
//!   tolerated wait, or all open requests of a server that has stopped.
//! - *A server that loses requests* before responses are late has a queue shorter than the tolerated wait. Then the
//!   tolerated wait is halved, down to a quarter, and the limit starts or falls.
//! - *While it holds*, the law moves it after each batch of responses to requests sent since the last reduction.
//! - *It ends* when it was not needed for five seconds: the responses were in time, and it was not reached while requests
//!   waited.

mod aimd;
mod batch;
mod gradient;
mod limit;
mod loss;
mod open;
mod pace;
mod rate_cap;
mod vegas;

pub use batch::RequestKind;
pub use limit::MemberLimit;
pub use rate_cap::RateCap;

use batch::Batch;
use core::fmt;

/// Law for the limit of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemberLaw {
    /// Additive increase, multiplicative decrease.
    Aimd,
    /// TCP Vegas: keeps the number of waiting requests between two bounds.
    Vegas,
    /// Ratio of tolerated and measured response time.
    #[default]
    Gradient,
}

impl MemberLaw {
    /// All laws.
    pub const ALL: [Self; 3] = [Self::Aimd, Self::Vegas, Self::Gradient];

    /// Name in the configuration.
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
