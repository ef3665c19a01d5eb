//! DNS questions under way: names of members, and names in the URIs of requests that leave the site.

use crate::names::{DnsQuestion, FoundAddresses, NameLookUp};
use base::Transport;
use core::time::Duration;
use node::{HopName, Resolved};
use std::collections::BTreeMap;

/// Identifies a question within its process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QuestionId(pub u64);

/// Purpose of a question.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum QuestionPurpose {
    Member(NameLookUp),
    /// A name of a next hop, for the shards.
    NextHop(HopName),
}

#[derive(Debug, Default)]
pub(crate) struct Questions {
    under_way: BTreeMap<QuestionId, QuestionPurpose>,
    last: u64,
    forgotten: u64,
}

/// Limit of names of next hops that are looked up at the same time. A further name is dropped, and the shard asks
/// again.
const NEXT_HOPS_MOST: usize = 256;
/// Time after which a next hop's name that was not found completely is looked up again.
const AGAIN: Duration = Duration::from_secs(5);

impl Questions {
    fn begin(&mut self, asked: QuestionPurpose) -> QuestionId {
        self.last += 1;
        self.under_way.insert(QuestionId(self.last), asked);
        QuestionId(self.last)
    }

    pub(crate) fn member(&mut self, asked: NameLookUp) -> (QuestionId, DnsQuestion) {
        let question = asked.question();
        (self.begin(QuestionPurpose::Member(asked)), question)
    }

    /// Starts the look-up of a next hop's name, unless one is under way.
    pub(crate) fn next_hop(&mut self, name: HopName) -> Option<(QuestionId, DnsQuestion)> {
        let names = self.under_way.values().filter_map(|asked| match asked {
            QuestionPurpose::NextHop(name) => Some(name),
            QuestionPurpose::Member(_) => None,
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
        // The name is absolute. The system's search list does not apply to it.
        let host = format!("{}.", name.host);
        let question = match name.port {
            Some(port) => DnsQuestion::Addresses { name: host, port },
            None if name.by_dns => DnsQuestion::Domain { is_secure: name.transport.is_secure(), name: host },
            None => DnsQuestion::Sip { transport: name.transport, name: host },
        };
        Some((self.begin(QuestionPurpose::NextHop(name)), question))
    }

    /// Starts the questions for the shards again, because the resolver has changed. Answers to earlier questions no
    /// longer count.
    pub(crate) fn start_over(&mut self) -> Vec<(QuestionId, DnsQuestion)> {
        let before = core::mem::take(&mut self.under_way).into_values();
        let names: Vec<_> = before
            .filter_map(|asked| match asked {
                QuestionPurpose::NextHop(name) => Some(name),
                QuestionPurpose::Member(_) => None,
            })
            .collect();
        names.into_iter().filter_map(|name| self.next_hop(name)).collect()
    }

    /// Ends a question. Returns its purpose; `None` if its answer no longer counts.
    pub(crate) fn answered(&mut self, id: QuestionId) -> Option<QuestionPurpose> {
        self.under_way.remove(&id)
    }

    /// Returns the number of dropped names of next hops.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// Returns the shards' answer about a next hop, valid for `refresh`, and the error if there is no address. `usual` is
/// the transport if the answer names none.
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
    fn dropped_questions_are_counted() {
        let mut questions = Questions::default();
        for index in 0..NEXT_HOPS_MOST {
            assert!(questions.next_hop(name(index)).is_some());
        }
        for index in 0..NEXT_HOPS_MOST {
            assert!(questions.next_hop(name(index)).is_none(), "a look-up of the name is under way");
        }
        assert_eq!((questions.under_way.len(), questions.forgotten()), (NEXT_HOPS_MOST, 0));
        assert_eq!(questions.next_hop(name(NEXT_HOPS_MOST)), None);
        assert_eq!((questions.under_way.len(), questions.forgotten()), (NEXT_HOPS_MOST, 1));
    }

    #[test]
    fn port_and_transport_of_a_name_determine_the_question() {
        let ask = |name: HopName| Questions::default().next_hop(name).unwrap().1;
        let host = || "host1.test.".to_owned();
        assert_eq!(ask(name(1)), DnsQuestion::Domain { is_secure: false, name: host() });
        let transport = Transport::Tls;
        assert_eq!(
            ask(HopName { transport, ..name(1) }),
            DnsQuestion::Domain { is_secure: true, name: host() }
        );
        let named = HopName { transport, by_dns: false, ..name(1) };
        assert_eq!(ask(named.clone()), DnsQuestion::Sip { transport, name: host() });
        assert_eq!(ask(HopName { port: Some(9), ..named }), DnsQuestion::Addresses { name: host(), port: 9 });
    }

    #[test]
    fn open_questions_are_asked_again_of_the_next_resolver() {
        let mut questions = Questions::default();
        let with_port = HopName { port: Some(5080), by_dns: false, ..name(1) };
        let (former, _) = questions.next_hop(with_port.clone()).unwrap();
        let [(id, question)] = &questions.start_over()[..] else { panic!("one question is open") };
        let host = "host1.test.".to_owned();
        assert_eq!(question, &DnsQuestion::Addresses { name: host, port: 5080 });
        assert_eq!(questions.answered(former), None, "the former resolver's answer does not count");
        assert_eq!(questions.answered(*id), Some(QuestionPurpose::NextHop(with_port)));
        assert!(questions.start_over().is_empty());
    }

    #[test]
    fn a_partial_answer_is_valid_for_a_short_time() {
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
            let (resolved, reported) = next_hop_answer(Transport::Tls, Ok(found), refresh);
            assert_eq!(resolved.transport, Transport::Tls);
            let seen = (resolved.addresses.len(), resolved.partial, resolved.fresh_for);
            assert_eq!(seen, (addresses, partial, fresh_for));
            assert_eq!(reported.as_deref(), error);
        }
    }
}
