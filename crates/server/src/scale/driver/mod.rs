//! Who starts and stops servers. Each answers in its own time, and may fail; what is asked for again may have been done already,
//! which is no failure.

mod command;
mod kubernetes;
mod local;
mod program;

use config::{DriverConfig, ScaleConfig};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

/// A server as drivers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Its number, from 0.
    pub(crate) index: u32,
    /// The member as the configuration has it.
    pub(crate) name: String,
    /// Where it is; `None` where its name stands for no address yet.
    pub(crate) address: Option<SocketAddr>,
    /// How many servers there are to be, this one included: what start, run, drain and stop.
    pub(crate) count: usize,
}

/// Which servers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// The driver cannot tell: those that answer.
    Unknown,
    /// Those of these names or addresses.
    Named(Vec<String>),
    /// Those with these numbers.
    Numbered(Vec<u32>),
    /// Those at these addresses.
    At(Vec<IpAddr>),
}

impl Running {
    /// Whether this server is one; `None`: unknown. A name may be that of the server without its port.
    pub(crate) fn has(&self, server: &Server) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Named(names) => Some(names.iter().any(|name| is_name(name, server))),
            Self::Numbered(numbers) => Some(numbers.contains(&server.index)),
            Self::At(addresses) => {
                Some(server.address.is_some_and(|address| addresses.contains(&address.ip())))
            }
        }
    }
}

fn is_name(name: &str, server: &Server) -> bool {
    name == server.name
        || config::member_address(name).is_ok_and(|address| address.to_string() == server.name)
        || server.address.is_some_and(|address| address.to_string() == name)
}

/// An answer that takes its time. The error says what went wrong, on one line.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Starts and stops servers.
pub(crate) trait Driver: Send + Sync {
    /// Has a server run. That it answers calls is found out otherwise.
    fn start<'a>(&'a self, server: &'a Server) -> Answer<'a, ()>;
    /// Has it run no more.
    fn stop<'a>(&'a self, server: &'a Server) -> Answer<'a, ()>;
    /// Those that run.
    fn list(&self) -> Answer<'_, Running>;
}

/// The driver of a pool; `None` where nothing is started and stopped.
pub(super) fn driver(pool: &str, config: &ScaleConfig) -> Option<Arc<dyn Driver>> {
    let timeout = config.timeout;
    match &config.driver {
        DriverConfig::None => None,
        DriverConfig::Command { start, stop, list } => {
            let lines = (start.clone(), stop.clone(), list.clone());
            Some(Arc::new(command::CommandDriver::new(pool.to_owned(), lines, timeout)))
        }
        DriverConfig::Local { start } => {
            Some(Arc::new(local::LocalDriver::new(pool.to_owned(), start.clone(), timeout)))
        }
        DriverConfig::Kubernetes(kubernetes) => {
            Some(Arc::new(kubernetes::KubernetesDriver::new(kubernetes, timeout)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_listed_by_its_name_or_its_address() {
        let server = |name: &str, address: &str| Server {
            index: 3,
            name: name.to_owned(),
            address: address.parse().ok(),
            count: 1,
        };
        let running = Running::Named(vec!["10.0.0.3".to_owned(), "PBX.example.com".to_owned()]);
        assert_eq!(running.has(&server("10.0.0.3:5060", "10.0.0.3:5060")), Some(true));
        assert_eq!(running.has(&server("pbx.example.com", "")), Some(true));
        assert_eq!(running.has(&server("10.0.0.4:5060", "10.0.0.4:5060")), Some(false));
        assert_eq!(Running::Numbered(vec![3]).has(&server("x", "")), Some(true));
        let at = Running::At(vec!["10.0.0.3".parse().expect("an address")]);
        assert_eq!(
            (at.has(&server("x", "10.0.0.3:5060")), at.has(&server("x", ""))),
            (Some(true), Some(false))
        );
        assert_eq!(Running::Unknown.has(&server("x", "")), None);
    }
}
