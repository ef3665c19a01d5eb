//! State distribution on running proxies, each held to a part of a processor (SERvartuka paper, figures 1, 2 and 4).
//!
//! - [`prices`]: what a call costs one proxy by what it keeps, ours and Kamailio; and proxies of a chain, from which
//!   the linear program says what it carries.
//! - [`ramp`]: utilisation of one proxy as it says it, as the load goes up.
//! - [`goodput`]: networks of proxies below, at and past what the program says.
//! - [`simulated`]: two in series in the simulator, with the measured prices.
//!
//! Callers and answerers repeat what is lost (RFC 3261 §13.3.1.4, §17.1) and keep to a refusal.

mod arrangement;
mod chain;
pub mod goodput;
pub mod prices;
pub mod ramp;
pub mod simulated;
mod watch;

use std::path::PathBuf;

pub use arrangement::{Kept, Shape};
pub use chain::Product;
pub use watch::{LoadResult, ProxyResult};

use crate::credentials::BenchUser;

/// Sockets of the callers.
const CALLERS: usize = 4;
/// Calls in progress while a capacity is measured: a proxy has always something to do, and nobody waits so long as to
/// repeat anything.
const IN_PROGRESS: usize = 120;
/// Who calls where a password is asked for. Kamailio's configuration has the same one.
const USER: BenchUser = BenchUser { name: "caller", password: "password" };

/// What is measured, and for how long.
#[derive(Clone, Debug)]
pub struct DistributionBench {
    /// The program under test.
    pub sarabande: PathBuf,
    /// Kamailio's program.
    pub kamailio: PathBuf,
    /// What each proxy may use of a processor.
    pub quota: f64,
    /// Seconds before the first load of a run counts.
    pub warm_up: f64,
    /// Seconds of each load that do not count.
    pub settle: f64,
    /// Seconds of each load that count.
    pub counted: f64,
    /// Third part of the proxies' addresses: 127.77.n.
    pub network: u8,
    /// Further lines of `[distribution]`.
    pub keys: String,
}
