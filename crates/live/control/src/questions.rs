//! Which questions to the DNS are under way, and for whom: names of members, and names in the URIs of requests that
//! leave the site.

use crate::names::{AskedName, FoundAddresses, Question};
use base::Transport;
use core::time::Duration;
use node::{HopName, Resolved};
use std::collections::BTreeMap;

/// Tells a question from the others of its process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QuestionId(pub u64);

/// For whom something is asked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Asked {
    /// For the pool.
    Member(AskedName),
    /// For the shards.
    NextHop(HopName),
}

/// The questions that are under way.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    under_way: BTreeMap<QuestionId, Asked>,
    last: u64,
    forgotten: u64,
}

/// Names of next hops that are asked for at a time. One too many is forgotten, and the shard asks again.
const NEXT_HOPS_MOST: usize = 256;
/// The name of a next hop that could not be found, or not all of it, is asked for again after this.
const AGAIN: Duration = Duration::from_secs(5);

impl Questions {
    fn begin(&mut self, asked: Asked) -> QuestionId {
        self.last += 1;
        self.under_way.insert(QuestionId(self.last), asked);
        QuestionId(self.last)
    }

    /// Asks for the name of a member.
    pub(crate) fn member(&mut self, asked: AskedName) -> (QuestionId, Question) {
        let question = asked.question();
        (self.begin(Asked::Member(asked)), question)
    }

    /// Asks for the name of a next hop, unless that is being done.
    pub(crate) fn next_hop(&mut self, name: HopName) -> Option<(QuestionId, Question)> {
        let names = self.under_way.values().filter_map(|asked| match asked {
            Asked::NextHop(name) => Some(name),
            Asked::Member(_) => None,
        });
        let mut count = 0;
        for other in names {
            if *other == name {
                return None;
            }
            count += 1;
        }
        if count >= NEXT_HOPS_MOST {
            self.forgotten += 1;
            return None;
        }
        // The name is a whole one: the system's search list is not for it.
        let host = format!("{}.", name.host);
        let question = match name.port {
            Some(port) => Question::Addresses { name: host, port },
            None if name.by_dns => Question::Domain { is_secure: name.transport.is_secure(), name: host },
            None => Question::Sip { transport: name.transport, name: host },
        };
        Some((self.begin(Asked::NextHop(name)), question))
    }

    /// Another resolver is asked from now on: what shards wait for is asked anew, and answers to what was asked
    /// before do not count.
    pub(crate) fn start_over(&mut self) -> Vec<(QuestionId, Question)> {
        let before = core::mem::take(&mut self.under_way).into_values();
        let names: Vec<_> = before
            .filter_map(|asked| match asked {
                Asked::NextHop(name) => Some(name),
                Asked::Member(_) => None,
            })
            .collect();
        names.into_iter().filter_map(|name| self.next_hop(name)).collect()
    }

    /// A question has come to its end. Returns for whom it was, if anybody waits.
    pub(crate) fn answered(&mut self, id: QuestionId) -> Option<Asked> {
        self.under_way.remove(&id)
    }

    /// Names of next hops that were too many.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// What the shards are to know of the answer about a next hop, which is reached over the `usual` transport if the answer
/// names none, and is good for `refresh`; and what went wrong, if there is no address.
pub(crate) fn next_hop_answer(
    usual: Transport,
    answer: Result<FoundAddresses, String>,
    refresh: Duration,
) -> (Resolved, Option<String>) {
    let (transport, addresses, failure) = match answer {
        Ok(found) => (found.transport(), found.shares(), found.failure().map(str::to_owned)),
        Err(error) => (None, Vec::new(), Some(error)),
    };
    let transport = transport.unwrap_or(usual);
    let fresh_for = if addresses.is_empty() || failure.is_some() { AGAIN } else { refresh };
    let resolved = Resolved { transport, partial: failure.is_some(), fresh_for, addresses };
    let error = resolved.addresses.is_empty().then(|| failure.unwrap_or_else(|| "no address".to_owned()));
    (resolved, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Families;

    fn name(index: usize) -> HopName {
        HopName { transport: Transport::Udp, by_dns: true, host: format!("host{index}.test"), port: None }
    }

    #[test]
    fn questions_that_are_too_many_are_counted_and_others_not() {
        let mut questions = Questions::default();
        for index in 0..NEXT_HOPS_MOST {
            assert!(questions.next_hop(name(index)).is_some());
        }
        for index in 0..NEXT_HOPS_MOST {
            assert!(questions.next_hop(name(index)).is_none(), "it is being asked for");
        }
        assert_eq!((questions.under_way.len(), questions.forgotten()), (NEXT_HOPS_MOST, 0));
        assert_eq!(questions.next_hop(name(NEXT_HOPS_MOST)), None);
        assert_eq!((questions.under_way.len(), questions.forgotten()), (NEXT_HOPS_MOST, 1));
    }

    #[test]
    fn port_and_transport_of_a_name_decide_what_is_asked() {
        let ask = |name: HopName| Questions::default().next_hop(name).unwrap().1;
        let host = || "host1.test.".to_owned();
        assert_eq!(ask(name(1)), Question::Domain { is_secure: false, name: host() });
        let transport = Transport::Tls;
        assert_eq!(ask(HopName { transport, ..name(1) }), Question::Domain { is_secure: true, name: host() });
        let named = HopName { transport, by_dns: false, ..name(1) };
        assert_eq!(ask(named.clone()), Question::Sip { transport, name: host() });
        assert_eq!(ask(HopName { port: Some(9), ..named }), Question::Addresses { name: host(), port: 9 });
    }

    #[test]
    fn what_is_asked_for_is_asked_of_the_next_resolver() {
        let mut questions = Questions::default();
        let with_port = HopName { port: Some(5080), by_dns: false, ..name(1) };
        let (former, _) = questions.next_hop(with_port.clone()).unwrap();
        let [(id, question)] = &questions.start_over()[..] else { panic!("it is waited for") };
        let host = "host1.test.".to_owned();
        assert_eq!(question, &Question::Addresses { name: host, port: 5080 });
        assert_eq!(questions.answered(former), None, "the former one's answer does not count");
        assert_eq!(questions.answered(*id), Some(Asked::NextHop(with_port)));
        assert!(questions.start_over().is_empty());
    }

    #[test]
    fn an_answer_that_lacks_a_part_serves_for_a_short_time() {
        let refresh = Duration::from_mins(1);
        let (here, fails) = (|| Ok(vec![[192, 0, 2, 1].into()]), || Err("SERVFAIL".to_owned()));
        let families: [(Families, usize, bool, Duration, Option<&str>); 4] = [
            ([here(), Ok(vec![])], 1, false, refresh, None),
            ([here(), fails()], 1, true, AGAIN, None),
            ([fails(), fails()], 0, true, AGAIN, Some("SERVFAIL")),
            ([Ok(vec![]), Ok(vec![])], 0, false, AGAIN, Some("no address")),
        ];
        for (families, addresses, partial, fresh_for, error) in families {
            let found = FoundAddresses::new([("host.test.".to_owned(), 5060, 1.0, families)], String::new());
            let (resolved, told) = next_hop_answer(Transport::Tls, Ok(found), refresh);
            assert_eq!(resolved.transport, Transport::Tls);
            let seen = (resolved.addresses.len(), resolved.partial, resolved.fresh_for);
            assert_eq!(seen, (addresses, partial, fresh_for));
            assert_eq!(told.as_deref(), error);
        }
    }
}
