//! Drivers, which start and stop servers. A driver may take its time and may fail. It must accept a repeated request
//! that has been carried out already.

mod command;
mod kubernetes;
mod program;

use config::{DriverConfig, ScaleConfig};
use control::scale::{DriverServer, Listing};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future answer of a driver. An error is one line of text.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

pub(crate) trait Driver: Send + Sync {
    /// Starts a server. Whether the server answers calls is found out otherwise.
    fn start<'a>(&'a self, server: &'a DriverServer) -> Answer<'a, ()>;
    fn stop<'a>(&'a self, server: &'a DriverServer) -> Answer<'a, ()>;
    fn list(&self) -> Answer<'_, Listing>;
}

/// Returns the driver of a pool; `None` if no servers are started and stopped.
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
