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
    /// The member as the file has it.
    pub(crate) name: String,
    /// Where it is; `None` where its name stands for no address yet.
    pub(crate) address: Option<SocketAddr>,
    /// Where the other servers are that start, run, drain and stop.
    pub(crate) others: Vec<SocketAddr>,
    /// How many servers there are to be, this one included: what start, run, drain and stop.
    pub(crate) count: usize,
}

/// What a driver says of its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Those that run.
    pub(crate) running: Running,
    /// Those that it knows to be ending, or to have ended.
    pub(crate) ending: Running,
}

/// What a driver says of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It runs.
    Runs,
    /// It ends, or has ended.
    Ends,
    /// It is not listed. That may be a gap in the list.
    Absent,
}

impl Listing {
    /// What this says of a server; `None`: nothing is known.
    pub(crate) fn of(&self, server: &Server) -> Option<Word> {
        match (self.running.has(server)?, self.ending.has(server)) {
            (true, _) => Some(Word::Runs),
            (false, Some(true)) => Some(Word::Ends),
            (false, _) => Some(Word::Absent),
        }
    }
}

impl From<Running> for Listing {
    fn from(running: Running) -> Self {
        Self { running, ending: Running::Unknown }
    }
}

/// Names of servers.
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
    /// Whether this server is among them; `None`: unknown. A name may be that of the server without its port.
    fn has(&self, server: &Server) -> Option<bool> {
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
    let is_same = |address| config::member_address(&server.name).is_ok_and(|known| known == address);
    name == server.name
        || config::member_address(name).is_ok_and(is_same)
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
    fn list(&self) -> Answer<'_, Listing>;
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
            others: Vec::new(),
            count: 1,
        };
        let running = Running::Named(vec!["10.0.0.3".to_owned(), "PBX.example.com".to_owned()]);
        assert_eq!(running.has(&server("10.0.0.3:5060", "10.0.0.3:5060")), Some(true));
        assert_eq!(running.has(&server("10.0.0.3", "")), Some(true), "as the file has it");
        assert_eq!(running.has(&server("pbx.example.com", "")), Some(true));
        assert_eq!(running.has(&server("10.0.0.4:5060", "10.0.0.4:5060")), Some(false));
        assert_eq!(Running::Numbered(vec![3]).has(&server("x", "")), Some(true));
        let at = Running::At(vec!["10.0.0.3".parse().expect("an address")]);
        assert_eq!(
            (at.has(&server("x", "10.0.0.3:5060")), at.has(&server("x", ""))),
            (Some(true), Some(false))
        );
        assert_eq!(Running::Unknown.has(&server("x", "")), None);
        let ending = Running::Numbered(vec![3, 4]);
        let said = |numbers: &[u32]| {
            let running = Running::Numbered(numbers.to_vec());
            Listing { running, ending: ending.clone() }.of(&server("x", ""))
        };
        assert_eq!((said(&[3]), said(&[])), (Some(Word::Runs), Some(Word::Ends)));
        assert_eq!(Listing::from(Running::Numbered(Vec::new())).of(&server("x", "")), Some(Word::Absent));
        assert_eq!(Listing::from(Running::Unknown).of(&server("x", "")), None);
    }
}
