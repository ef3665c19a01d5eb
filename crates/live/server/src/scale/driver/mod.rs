//! Drivers, which start and stop servers. Each answers in its own time, and may fail; a repeated request may have
//! been carried out already, which is no failure.

mod command;
mod kubernetes;
mod program;

use config::{DriverConfig, ScaleConfig};
use control::scale::{Listing, Server};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// An answer of a driver, later. The error is one line.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Starts and stops servers.
pub(crate) trait Driver: Send + Sync {
    /// Has a server run. That it answers calls is found out otherwise.
    fn start<'a>(&'a self, server: &'a Server) -> Answer<'a, ()>;
    /// Has it run no more.
    fn stop<'a>(&'a self, server: &'a Server) -> Answer<'a, ()>;
    /// The servers that run.
    fn list(&self) -> Answer<'_, Listing>;
}

/// The driver of a pool; `None` where nothing is started and stopped.
pub(super) fn driver(pool: &str, config: &ScaleConfig) -> Option<Arc<dyn Driver>> {
    let timeout = config.timeout();
    match &config.driver {
        DriverConfig::None => None,
        DriverConfig::Command { start, stop, list } => {
            let lines = (start.clone(), stop.clone(), list.clone());
            Some(Arc::new(command::CommandDriver::new(pool.to_owned(), lines, timeout)))
        }
        DriverConfig::Kubernetes(kubernetes) => {
            Some(Arc::new(kubernetes::KubernetesDriver::new(kubernetes, timeout)))
        }
    }
}
