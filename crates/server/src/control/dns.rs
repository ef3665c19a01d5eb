//! Members by name: A and AAAA records, or SRV (RFC 2782), asked again and again. What was found stays until it is said to
//! be gone: a look-up that fails, or the part of one that does, takes nothing away.

use super::resolver::{Found, Question, Resolver};
use config::{Address, Member, SIP_PORT};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use tokio::sync::mpsc;

/// One address of a member.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Resolved {
    /// The member as the configuration names it.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) capacity: f64,
    pub(crate) max_calls: u32,
}

/// A name that is being asked for. The number tells this question from those about the same name that nobody waits for any
/// more, since another resolver is asked by now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    name: Address,
    number: u64,
}

/// What came of the look-up of a name.
pub(crate) type Answer = (Asked, Result<Found, String>);

/// What is known of a name among the members.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct NameView {
    /// As the configuration has it.
    pub(crate) name: String,
    /// How many addresses it stands for; 0 if none was ever found.
    pub(crate) addresses: usize,
    /// How the last look-up failed, or a part of it, if it did.
    pub(crate) error: Option<String>,
}

/// What is known of each name, and which are being asked for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The last good answer; a part that failed since has the addresses of before.
    last: BTreeMap<Address, Found>,
    /// How the last look-up failed, or a part of it.
    failed: BTreeMap<Address, String>,
    /// The numbers of the questions.
    under_way: BTreeMap<Address, u64>,
    questions: u64,
}

impl Names {
    /// The members' addresses, from the last good answers; names without one are left out.
    pub(crate) fn resolved(&self, members: &[Member]) -> Vec<Resolved> {
        let mut all: Vec<Resolved> = Vec::new();
        for member in members {
            let shares = match &member.address {
                Address::Socket(address) => vec![(*address, 1.0)],
                name => self.last.get(name).map_or(Vec::new(), Found::shares),
            };
            for (address, share) in shares {
                // Two names for one server are one node.
                if all.iter().all(|other| other.address != address) {
                    all.push(Resolved {
                        name: member.address.to_string(),
                        address,
                        capacity: member.capacity * share,
                        max_calls: member.max_calls,
                    });
                }
            }
        }
        all
    }

    /// Forgets the names that are not among the members any more.
    pub(crate) fn keep_only(&mut self, members: &[Member]) {
        let is_named = |name: &Address| names(members).any(|named| named == name);
        self.last.retain(|name, _| is_named(name));
        self.failed.retain(|name, _| is_named(name));
        self.under_way.retain(|name, _| is_named(name));
    }

    /// Another resolver is asked from now on: what the former one did not find it may find, and answers of the former one
    /// do not count any more.
    pub(crate) fn start_over(&mut self) {
        self.failed.clear();
        self.under_way.clear();
    }

    /// Whether nothing is known yet of a name among the members: its first look-up has not come to an end.
    pub(crate) fn awaits(&self, members: &[Member]) -> bool {
        names(members).any(|name| !self.last.contains_key(name) && !self.failed.contains_key(name))
    }

    /// The names among the members that are to be asked for now: those that are not being asked for.
    pub(crate) fn ask(&mut self, members: &[Member]) -> Vec<Asked> {
        self.begin(names(members).cloned().collect())
    }

    /// Of these, those of which something is not known: they were never found, or the last look-up failed in part at least.
    pub(crate) fn ask_again(&mut self, members: &[Member]) -> Vec<Asked> {
        let lacks = |name: &&Address| !self.last.contains_key(*name) || self.failed.contains_key(*name);
        self.begin(names(members).filter(lacks).cloned().collect())
    }

    fn begin(&mut self, names: Vec<Address>) -> Vec<Asked> {
        let mut asked = Vec::new();
        for name in names {
            if let Entry::Vacant(entry) = self.under_way.entry(name) {
                self.questions += 1;
                asked.push(Asked { name: entry.key().clone(), number: self.questions });
                entry.insert(self.questions);
            }
        }
        asked
    }

    /// What an address or name among the members stands for.
    pub(crate) fn addresses(&self, of: &Address) -> Vec<SocketAddr> {
        match of {
            Address::Socket(address) => vec![*address],
            name => {
                let shares = self.last.get(name).map_or(Vec::new(), Found::shares);
                shares.into_iter().map(|(address, _)| address).collect()
            }
        }
    }

    /// How the names among the members stand.
    pub(crate) fn view(&self, members: &[Member]) -> Vec<NameView> {
        let view = |name: &Address| NameView {
            name: name.to_string(),
            addresses: self.last.get(name).map_or(0, |found| found.shares().len()),
            error: self.failed.get(name).cloned(),
        };
        names(members).map(view).collect()
    }

    /// Takes an answer of [`look_up`]; an empty one is no answer. Failures are logged when they are news.
    pub(crate) fn learn(&mut self, (Asked { name, number }, answer): Answer) {
        if self.under_way.get(&name) != Some(&number) {
            return;
        }
        self.under_way.remove(&name);
        match self.take(&name, answer) {
            None => {
                if self.failed.remove(&name).is_some() {
                    tracing::info!(member = %name, "name resolved");
                }
            }
            Some(error) => {
                if self.failed.get(&name) != Some(&error) {
                    if self.last.contains_key(&name) {
                        tracing::warn!(member = %name, %error, "name not resolved; what was found of it stays");
                    } else {
                        tracing::warn!(member = %name, %error, "name not resolved; no member until it is");
                    }
                    self.failed.insert(name, error);
                }
            }
        }
    }

    /// Returns how the look-up failed, or the part of it that did.
    fn take(&mut self, name: &Address, answer: Result<Found, String>) -> Option<String> {
        let mut found = match answer {
            Ok(found) => found,
            Err(error) => return Some(error),
        };
        let failure = found.failure().map(str::to_owned);
        if let Some(former) = self.last.get(name) {
            found.keep(former);
        }
        if found.shares().is_empty() {
            return failure.or_else(|| Some(found.absent().to_owned()));
        }
        self.last.insert(name.clone(), found);
        failure
    }
}

/// The members that are names.
fn names(members: &[Member]) -> impl Iterator<Item = &Address> {
    members.iter().map(|member| &member.address).filter(|address| !matches!(address, Address::Socket(_)))
}

/// Asks for these names at once; each answer comes when it is there.
pub(crate) fn look_up(asked: Vec<Asked>, resolver: &mut Resolver, answers: &mpsc::UnboundedSender<Answer>) {
    for asked in asked {
        let question = match &asked.name {
            Address::Socket(_) => continue,
            Address::Host { name, port } => {
                Question::Addresses { name: name.clone(), port: port.unwrap_or(SIP_PORT) }
            }
            Address::Srv(name) => Question::Services(name.clone()),
        };
        let (answer, answers) = (resolver.ask(question), answers.clone());
        // Nobody waits for it when the process ends.
        tokio::spawn(async move { drop(answers.send((asked, answer.await))) });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::control::resolver::tests::{ABSENT, a, aaaa, asking, failing, found, nothing, server, srv};
    use hickory_resolver::proto::rr::RecordType;

    fn host(name: &str) -> Address {
        Address::Host { name: name.to_owned(), port: None }
    }

    fn member(address: Address) -> Member {
        Member { address, capacity: 2.0, max_calls: 0 }
    }

    impl Names {
        /// Asks for a name and takes this answer.
        pub(in crate::control) fn hear(&mut self, name: Address, answer: Result<Found, String>) {
            let asked = self.begin(vec![name]).pop().expect("nobody asks for it yet");
            self.learn((asked, answer));
        }
    }

    fn named(asked: Vec<Asked>) -> Vec<Address> {
        asked.into_iter().map(|asked| asked.name).collect()
    }

    #[test]
    fn the_last_good_answer_stays_and_one_server_is_one_node() {
        let literal: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let members =
            [member(Address::Socket(literal)), member(host("a.example")), member(host("b.example"))];
        let mut names = Names::default();
        let second: SocketAddr = "192.0.2.2:5060".parse().unwrap();
        names.hear(host("a.example"), Ok(found(&[(literal, 1.0), (second, 0.5)])));
        names.hear(host("a.example"), Ok(nothing()));
        names.hear(host("b.example"), Err("no such name".to_owned()));
        let resolved = names.resolved(&members);
        let seen: Vec<_> = resolved.iter().map(|r| (r.name.as_str(), r.address, r.capacity)).collect();
        assert_eq!(seen, [("192.0.2.1:5060", literal, 2.0), ("a.example", second, 1.0)]);
        let view = |name: &str, addresses, error: &str| NameView {
            name: name.to_owned(),
            addresses,
            error: Some(error.to_owned()),
        };
        assert_eq!(
            names.view(&members),
            [view("a.example", 2, ABSENT), view("b.example", 0, "no such name")]
        );
        assert_eq!(named(names.ask_again(&members)), [host("a.example"), host("b.example")]);
    }

    /// A part that fails keeps what it had; one that is answered has what the answer says, and be it nothing.
    #[tokio::test]
    async fn a_partial_answer_takes_only_away_what_it_says_is_gone() {
        let service = "_sip._udp.pool.test.";
        let targets = ["one.test.", "two.test.", "gone.test."].map(|host| (service, srv(1, 1, host)));
        let addresses =
            [("one.test.", a(1)), ("one.test.", aaaa(1)), ("two.test.", a(2)), ("gone.test.", a(3))];
        let healthy = server(targets.iter().cloned().chain(addresses).collect()).await;
        let moved = targets.into_iter().chain([("one.test.", a(9))]).collect();
        let fails = vec![("one.test.", RecordType::AAAA), ("two.test.", RecordType::A)];
        let partial = failing(moved, fails).await;
        let name = Address::Srv(service.to_owned());
        let members = [member(name.clone())];
        let mut names = Names::default();
        let (answers_in, mut answers) = mpsc::unbounded_channel();
        // Twice, as what was kept once is kept again.
        for server in [healthy, partial, partial] {
            look_up(names.ask(&members), &mut asking(server), &answers_in);
            names.learn(answers.recv().await.unwrap());
        }
        let expected = ["192.0.2.2:5070", "192.0.2.9:5070", "[2001:db8::1]:5070"];
        assert_eq!(names.addresses(&name), expected.map(|address| address.parse().unwrap()));
        assert!(names.view(&members)[0].error.is_some());
        let asked = names.ask_again(&members);
        assert_eq!(asked.len(), 1, "soon, since something is not known");
        look_up(asked, &mut asking(healthy), &answers_in);
        names.learn(answers.recv().await.unwrap());
        assert_eq!((names.addresses(&name).len(), &names.view(&members)[0].error), (4, &None));
    }

    #[test]
    fn a_name_that_left_the_file_is_new_when_it_comes_back() {
        let members = ["a.example", "b.example"].map(|name| member(host(name)));
        let mut names = Names::default();
        assert!(names.awaits(&members));
        names.hear(host("a.example"), Ok(found(&[("192.0.2.1:5060".parse().unwrap(), 1.0)])));
        names.hear(host("b.example"), Err("no such name".to_owned()));
        assert!(!names.awaits(&members), "a failure is an end, too");
        assert_eq!(named(names.ask_again(&members)), [host("b.example")], "all is known of the other one");
        names.keep_only(&members[1..]);
        assert!(!names.awaits(&members[1..]) && names.awaits(&members[..1]));
    }

    #[test]
    fn a_name_is_asked_for_once_at_a_time() {
        let members = ["a.example", "b.example", "a.example"].map(|name| member(host(name)));
        let mut names = Names::default();
        let asked = names.ask(&members);
        assert_eq!(named(asked.clone()), [host("a.example"), host("b.example")]);
        names.learn((asked[1].clone(), Err("no answer in time".to_owned())));
        assert_eq!(named(names.ask(&members)), [host("b.example")]);
    }

    #[test]
    fn answers_of_a_former_resolver_do_not_count() {
        let members = ["a.example", "b.example"].map(|name| member(host(name)));
        let mut names = Names::default();
        names.hear(host("b.example"), Err("no answer in time".to_owned()));
        let former = names.ask(&members);
        names.start_over();
        assert!(names.awaits(&members[1..]), "the new one may find it");
        let asked = names.ask(&members);
        assert_eq!(named(asked.clone()), [host("a.example"), host("b.example")], "at once");
        let [old, new] = [1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], 5060)));
        names.learn((former[0].clone(), Ok(found(&[(old, 1.0)]))));
        names.learn((former[1].clone(), Err("no answer in time".to_owned())));
        assert!(names.awaits(&members[..1]) && names.awaits(&members[1..]));
        assert_eq!(names.ask(&members), [], "the new questions are still under way");
        names.learn((asked[0].clone(), Ok(found(&[(new, 1.0)]))));
        assert_eq!(names.addresses(&host("a.example")), [new]);
    }
}
