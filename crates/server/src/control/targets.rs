//! Host names in the URIs of requests that leave the site: looked up for the shards.

use super::resolver::{Question, Resolver, Share};
use config::SIP_PORT;
use node::{Name, Resolved};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::{Id, JoinSet};

/// What came of the look-up of a name: addresses with their weights.
pub(crate) type Found = (Name, Result<Vec<Share>, String>);

/// The names being asked for.
#[derive(Default)]
pub(crate) struct Targets {
    under_way: BTreeMap<Id, Name>,
    look_ups: JoinSet<Result<Vec<Share>, String>>,
    forgotten: u64,
}

/// Look-ups at a time. A question too many is forgotten, and the shard asks again.
const MOST: usize = 256;
/// A name that could not be found is asked for again after this.
const AGAIN: Duration = Duration::from_secs(5);

impl Targets {
    /// Asks for a name, unless that is being done.
    pub(crate) fn look_up(&mut self, name: Name, resolver: &mut Resolver) {
        if self.under_way.values().any(|asked| *asked == name) {
            return;
        }
        if self.under_way.len() >= MOST {
            self.forgotten += 1;
            return;
        }
        // The name is a whole one: the system's search list is not for it.
        let host = format!("{}.", name.host);
        let question = match name.port {
            Some(port) => Question::Addresses { name: host, port },
            None => Question::Sip { name: host, port: SIP_PORT },
        };
        let task = self.look_ups.spawn(resolver.ask(question));
        self.under_way.insert(task.id(), name);
    }

    /// Questions that were too many.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The next answer; `None` if nothing is being asked for.
    pub(crate) async fn answered(&mut self) -> Option<Found> {
        let (id, answer) = match self.look_ups.join_next_with_id().await? {
            Ok(found) => found,
            // A bug of the resolver must not end the process.
            Err(error) => (error.id(), Err(error.to_string())),
        };
        self.under_way.remove(&id).map(|name| (name, answer))
    }

    /// What the shards are to know of an answer, which is good for `refresh`.
    pub(crate) fn learn((name, answer): Found, refresh: Duration) -> (Name, Resolved) {
        let failure = match &answer {
            Ok(addresses) if !addresses.is_empty() => None,
            Ok(_) => Some("no address"),
            Err(error) => Some(error.as_str()),
        };
        if let Some(error) = failure {
            tracing::info!(%name, error, "the name of a next hop was not resolved");
        }
        let fresh_for = if failure.is_some() { AGAIN } else { refresh };
        (name, Resolved { addresses: answer.ok(), fresh_for })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    #[tokio::test]
    async fn questions_that_are_too_many_are_counted_and_others_not() {
        // Nobody answers.
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut resolver = Resolver::new(&[silent.local_addr().unwrap()]);
        let mut targets = Targets::default();
        let name = |index: usize| Name { host: format!("host{index}.test"), port: None };
        for index in (0..MOST).chain(0..MOST) {
            targets.look_up(name(index), &mut resolver);
        }
        assert_eq!((targets.under_way.len(), targets.forgotten()), (MOST, 0));
        targets.look_up(name(MOST), &mut resolver);
        assert_eq!((targets.under_way.len(), targets.forgotten()), (MOST, 1));
    }
}
