//! What a driver, who starts and stops servers, is told and says.

use std::net::{IpAddr, SocketAddr};

/// A server as drivers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number, from 0.
    pub index: u32,
    /// The member as the file has it.
    pub name: String,
    /// Where it is; `None` where its name stands for no address yet.
    pub address: Option<SocketAddr>,
    /// Where the other servers are that start, run, drain and stop.
    pub others: Vec<SocketAddr>,
    /// How many servers there are to be, this one included: what start, run, drain and stop.
    pub count: usize,
}

/// What a driver says of its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Those that run.
    pub running: Running,
    /// Those that it knows to be ending, or to have ended.
    pub ending: Running,
}

/// What a driver says of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It runs.
    Runs,
    /// It ends, or has ended.
    Ends,
    /// It is not listed. That may be a gap in the list.
    Absent,
}

impl Listing {
    /// What this says of a server that is named so ([`Running::Named`]); `None`: nothing is known.
    pub fn of(&self, server: &Server, name: &str) -> Option<Word> {
        match (self.running.has(server, name)?, self.ending.has(server, name)) {
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
pub enum Running {
    /// The driver cannot tell: those that answer.
    Unknown,
    /// Those of these names, in the form in which [`Address`](crate::Address) is shown, or addresses with their port.
    Named(Vec<String>),
    /// Those with these numbers.
    Numbered(Vec<u32>),
    /// Those at these addresses.
    At(Vec<IpAddr>),
}

impl Running {
    /// Whether the server that is named so is among them; `None`: unknown.
    fn has(&self, server: &Server, name: &str) -> Option<bool> {
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
        let server = |address: &str| Server {
            index: 3,
            name: "PBX.example.com".to_owned(),
            address: address.parse().ok(),
            others: Vec::new(),
            count: 1,
        };
        let running = Running::Named(vec!["10.0.0.3:5060".to_owned(), "pbx.example.com".to_owned()]);
        assert_eq!(running.has(&server("10.0.0.3:5060"), "other.example.com"), Some(true));
        assert_eq!(running.has(&server(""), "pbx.example.com"), Some(true));
        assert_eq!(running.has(&server("10.0.0.4:5060"), "other.example.com"), Some(false));
        assert_eq!(Running::Numbered(vec![3]).has(&server(""), "x"), Some(true));
        let at = Running::At(vec!["10.0.0.3".parse().expect("an address")]);
        assert_eq!(
            (at.has(&server("10.0.0.3:5060"), "x"), at.has(&server(""), "x")),
            (Some(true), Some(false))
        );
        assert_eq!(Running::Unknown.has(&server(""), "x"), None);
        let ending = Running::Numbered(vec![3, 4]);
        let said = |numbers: &[u32]| {
            let running = Running::Numbered(numbers.to_vec());
            Listing { running, ending: ending.clone() }.of(&server(""), "x")
        };
        assert_eq!((said(&[3]), said(&[])), (Some(Word::Runs), Some(Word::Ends)));
        let none = Listing::from(Running::Numbered(Vec::new()));
        assert_eq!(none.of(&server(""), "x"), Some(Word::Absent));
        assert_eq!(Listing::from(Running::Unknown).of(&server(""), "x"), None);
    }
}
