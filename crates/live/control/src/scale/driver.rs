//! Data that drivers get and return. A driver starts and stops servers.

use std::net::{IpAddr, SocketAddr};

/// A server in a driver's view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverServer {
    /// Number of the server, from 0.
    pub index: u32,
    /// Name of the member in the configuration.
    pub name: String,
    /// Address of the server; `None` if its name has no address yet.
    pub address: Option<SocketAddr>,
    /// Addresses of the other servers that start, run, drain or stop.
    pub others: Vec<SocketAddr>,
    /// Number of servers that start, run, drain or stop, this one included.
    pub count: usize,
}

/// A driver's list of its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Running servers.
    pub running: ServerSet,
    /// Servers that are ending or have ended, as far as the driver knows.
    pub ending: ServerSet,
}

/// State of one server in a driver's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// The server runs.
    Runs,
    /// The server is ending or has ended.
    Ends,
    /// The server is not in the list, which may have gaps.
    Absent,
}

impl Listing {
    /// Returns the state of a server whose name is `name` ([`ServerSet::Named`]); `None` if it is unknown.
    pub fn of(&self, server: &DriverServer, name: &str) -> Option<ListedState> {
        match (self.running.has(server, name)?, self.ending.has(server, name)) {
            (true, _) => Some(ListedState::Runs),
            (false, Some(true)) => Some(ListedState::Ends),
            (false, _) => Some(ListedState::Absent),
        }
    }
}

impl From<ServerSet> for Listing {
    fn from(running: ServerSet) -> Self {
        Self { running, ending: ServerSet::Unknown }
    }
}

/// A set of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSet {
    /// The driver cannot tell. The servers that answer count as running.
    Unknown,
    /// Servers with these names, in the form in which [`Address`](crate::Address) is shown, or addresses with port.
    Named(Vec<String>),
    /// Servers with these numbers.
    Numbered(Vec<u32>),
    /// Servers at these addresses.
    At(Vec<IpAddr>),
}

impl ServerSet {
    /// Returns whether a server with this name is in the set; `None` if unknown.
    fn has(&self, server: &DriverServer, name: &str) -> Option<bool> {
        let is_at = |named: &String| server.address.is_some_and(|address| address.to_string() == *named);
        match self {
            Self::Unknown => None,
            Self::Named(names) => Some(names.iter().any(|named| named == name || is_at(named))),
            Self::Numbered(numbers) => Some(numbers.contains(&server.index)),
            Self::At(addresses) => {
                Some(server.address.is_some_and(|address| addresses.contains(&address.ip())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_listed_by_its_name_its_number_or_its_address() {
        let server = |address: &str| DriverServer {
            index: 3,
            name: "PBX.example.com".to_owned(),
            address: address.parse().ok(),
            others: Vec::new(),
            count: 1,
        };
        let running = ServerSet::Named(vec!["10.0.0.3:5060".to_owned(), "pbx.example.com".to_owned()]);
        assert_eq!(running.has(&server("10.0.0.3:5060"), "other.example.com"), Some(true));
        assert_eq!(running.has(&server(""), "pbx.example.com"), Some(true));
        assert_eq!(running.has(&server("10.0.0.4:5060"), "other.example.com"), Some(false));
        assert_eq!(ServerSet::Numbered(vec![3]).has(&server(""), "x"), Some(true));
        let at = ServerSet::At(vec!["10.0.0.3".parse().expect("an address")]);
        assert_eq!(
            (at.has(&server("10.0.0.3:5060"), "x"), at.has(&server(""), "x")),
            (Some(true), Some(false))
        );
        assert_eq!(ServerSet::Unknown.has(&server(""), "x"), None);
        let ending = ServerSet::Numbered(vec![3, 4]);
        let said = |numbers: &[u32]| {
            let running = ServerSet::Numbered(numbers.to_vec());
            Listing { running, ending: ending.clone() }.of(&server(""), "x")
        };
        assert_eq!((said(&[3]), said(&[])), (Some(ListedState::Runs), Some(ListedState::Ends)));
        let none = Listing::from(ServerSet::Numbered(Vec::new()));
        assert_eq!(none.of(&server(""), "x"), Some(ListedState::Absent));
        assert_eq!(Listing::from(ServerSet::Unknown).of(&server(""), "x"), None);
    }
}
