//! Host names in the URIs of requests that leave the site: looked up for the shards.

use super::resolver::{self, Question, Resolver};
use node::{Name, Resolved};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::{Id, JoinSet};

/// What came of the look-up of a name.
pub(crate) type Found = (Name, Result<resolver::Found, String>);

/// The names being asked for.
#[derive(Default)]
pub(crate) struct Targets {
    under_way: BTreeMap<Id, Name>,
    look_ups: JoinSet<Result<resolver::Found, String>>,
    forgotten: u64,
}

/// Look-ups at a time. A question too many is forgotten, and the shard asks again.
const MOST: usize = 256;
/// A name that could not be found, or not all of it, is asked for again after this.
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
            None => Question::Sip { transport: name.transport, name: host },
        };
        let task = self.look_ups.spawn(resolver.ask(question));
        self.under_way.insert(task.id(), name);
    }

    /// Asks another resolver from now on, also for what is being asked for.
    pub(crate) fn start_over(&mut self, resolver: &mut Resolver) {
        self.look_ups = JoinSet::new();
        for name in std::mem::take(&mut self.under_way).into_values() {
            self.look_up(name, resolver);
        }
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
        let (addresses, failure) = match answer {
            Ok(found) => (found.shares(), found.failure().map(str::to_owned)),
            Err(error) => (Vec::new(), Some(error)),
        };
        let fresh_for = if addresses.is_empty() || failure.is_some() { AGAIN } else { refresh };
        if addresses.is_empty() {
            let error = failure.as_deref().unwrap_or("no address");
            tracing::info!(%name, error, "the name of a next hop was not resolved");
        }
        (name, Resolved { addresses, partial: failure.is_some(), fresh_for })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::resolver::tests::{a, asking, failing, server};
    use base::Transport;
    use hickory_resolver::proto::rr::RecordType;
    use std::net::{Ipv4Addr, UdpSocket};

    #[tokio::test]
    async fn what_is_asked_for_is_asked_of_the_next_resolver() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut targets = Targets::default();
        let name = Name { transport: Transport::Udp, host: "host.test".to_owned(), port: Some(5080) };
        targets.look_up(name.clone(), &mut asking(silent.local_addr().unwrap()));
        targets.start_over(&mut asking(server(vec![("host.test.", a(1))]).await));
        let (answered, resolved) = Targets::learn(targets.answered().await.unwrap(), Duration::from_mins(1));
        assert_eq!(answered, name);
        assert_eq!(resolved.addresses, [("192.0.2.1:5080".parse().unwrap(), 1.0)]);
        assert!(targets.answered().await.is_none(), "nothing of the former one is left");
    }

    #[tokio::test]
    async fn an_answer_that_lacks_a_part_serves_for_a_short_time() {
        let records = vec![("host.test.", a(1))];
        let refresh = Duration::from_mins(1);
        for (fails, addresses, partial, fresh_for) in [
            (vec![], 1, false, refresh),
            (vec![("host.test.", RecordType::AAAA)], 1, true, AGAIN),
            (vec![("host.test.", RecordType::AAAA), ("host.test.", RecordType::A)], 0, true, AGAIN),
        ] {
            let mut resolver = asking(failing(records.clone(), fails).await);
            let name = Name { transport: Transport::Udp, host: "host.test".to_owned(), port: Some(5080) };
            let mut targets = Targets::default();
            targets.look_up(name, &mut resolver);
            let (_, resolved) = Targets::learn(targets.answered().await.unwrap(), refresh);
            let seen = (resolved.addresses.len(), resolved.partial, resolved.fresh_for);
            assert_eq!(seen, (addresses, partial, fresh_for));
        }
    }

    #[tokio::test]
    async fn questions_that_are_too_many_are_counted_and_others_not() {
        // Nobody answers.
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut resolver = asking(silent.local_addr().unwrap());
        let mut targets = Targets::default();
        let name =
            |index: usize| Name { transport: Transport::Udp, host: format!("host{index}.test"), port: None };
        for index in (0..MOST).chain(0..MOST) {
            targets.look_up(name(index), &mut resolver);
        }
        assert_eq!((targets.under_way.len(), targets.forgotten()), (MOST, 0));
        targets.look_up(name(MOST), &mut resolver);
        assert_eq!((targets.under_way.len(), targets.forgotten()), (MOST, 1));
    }
}
