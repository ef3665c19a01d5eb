//! One question to the DNS from its first query to its answer: NAPTR and SRV records and addresses, and which of them
//! count (RFC 3263 §4, RFC 2782, RFC 2915).

use super::found::{Families, FoundAddresses};
use super::search::SearchList;
use base::{Instant, Transport};
use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// The A and AAAA records of a name.
    Addresses {
        /// The name.
        name: String,
        /// The port that goes with its addresses.
        port: u16,
    },
    /// The SRV records of a name.
    Services(String),
    /// Where a name takes requests over this transport: SRV records come first, and A and AAAA records, with its
    /// default port, count only where there is no SRV record (RFC 3263 §4.2).
    Sip {
        /// What the requests go over.
        transport: Transport,
        /// The name.
        name: String,
    },
    /// Where a name takes requests, and over which transport: NAPTR records say where to look, without any the SRV
    /// records of each transport, and without those A and AAAA records (RFC 3263 §4.1).
    Domain {
        /// Whether only TLS will do, as for a SIPS URI.
        is_secure: bool,
        /// The name.
        name: String,
    },
}

/// What answers are of use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usable {
    /// Whether addresses of IPv4, and of IPv6.
    pub families: [bool; 2],
    /// The transports that requests can leave by.
    pub transports: Vec<Transport>,
}

/// The type of a record (RFC 1035 §3.2.2, RFC 3596, RFC 2782, RFC 2915).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// A server of a service.
    Srv,
    /// A service of a domain.
    Naptr,
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Srv => "SRV",
            Self::Naptr => "NAPTR",
        })
    }
}

/// A query that the DNS is to be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsQuery {
    /// Tells it from the others of its look-up.
    pub number: u32,
    /// A whole name.
    pub name: String,
    /// The records that are wanted.
    pub kind: RecordKind,
    /// It has failed if there is no answer by then.
    pub until: Instant,
}

impl DnsQuery {
    /// What to say if it got no answer in time.
    pub fn unanswered(&self) -> String {
        format!("{} {}: no answer in time", self.name, self.kind)
    }
}

/// A record in an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// An A or AAAA record.
    Address(IpAddr),
    /// An SRV record.
    Service(ServiceRecord),
    /// A NAPTR record.
    Pointer(PointerRecord),
}

/// An SRV record (RFC 2782).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceRecord {
    /// The lowest is preferred.
    pub priority: u16,
    /// Share among those of one priority.
    pub weight: u16,
    /// Where the service is.
    pub port: u16,
    /// The host, a whole name.
    pub target: String,
}

/// A NAPTR record (RFC 2915 §2), without its regular expression: those of SIP have none (RFC 3263 §4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointerRecord {
    /// The lowest comes first.
    pub order: u16,
    /// The lowest of one order comes first.
    pub preference: u16,
    /// What the replacement is: `s` has SRV records.
    pub flags: String,
    /// The service, such as `SIP+D2U`.
    pub service: String,
    /// A whole name.
    pub replacement: String,
}

impl PointerRecord {
    /// The transport whose SRV records it leads to (RFC 3263 §4.1).
    fn transport(&self) -> Option<Transport> {
        let known = [("SIP+D2U", Transport::Udp), ("SIP+D2T", Transport::Tcp), ("SIPS+D2T", Transport::Tls)];
        let is_it = |(service, _): &&(&str, Transport)| self.service.eq_ignore_ascii_case(service);
        let leads_to_srv = self.flags.eq_ignore_ascii_case("s");
        known.iter().find(is_it).filter(|_| leads_to_srv).map(|(_, transport)| *transport)
    }
}

/// What came of a query: no record if it was said that there is none, or how it failed.
type Answer = Result<Vec<Record>, String>;

/// A look-up that takes longer has failed, or those parts of it that do.
const PATIENCE: Duration = Duration::from_secs(5);
/// NAPTR records that are not there by then count as none: there are firewalls that drop such questions.
const NAPTR_PATIENCE: Duration = Duration::from_secs(2);
/// NAPTR records of one name that are followed: whoever has a zone must not make us ask a thousand questions.
const POINTERS_MOST: usize = 8;
/// Hosts of one name that are asked for at a time: one that is silent must not hold up the others, and whoever has a
/// zone must not make us ask a thousand questions at once.
const HOSTS_AT_A_TIME: usize = 16;

/// A host, its port, and its share relative to the mean of its name's.
type Target = (String, u16, f64);

/// What a query that is under way is about.
#[derive(Clone, Debug)]
enum Purpose {
    Pointers,
    Services,
    Host { host: String, family: usize },
}

/// A host that is being asked for.
#[derive(Clone, Debug)]
struct HostLookUp {
    /// Whole names that it may mean, still to be tried.
    names: VecDeque<String>,
    found: Families,
    /// Queries under way.
    open: u32,
    until: Instant,
}

/// A question on its way through the DNS.
///
/// Every [query](Self::drain_queries) is to be [answered](Self::answered), if only with an error when its time is
/// over. When none is left, there is an [outcome](Self::outcome).
#[derive(Clone, Debug)]
pub struct LookUp {
    question: Question,
    usable: Usable,
    search: SearchList,
    deadline: Instant,
    /// Names to be tried whose NAPTR records may be meant.
    pointers: VecDeque<String>,
    /// Names to be tried whose SRV records may be meant, each with its transport if the question leaves that open.
    services: VecDeque<(Option<Transport>, String)>,
    /// What the targets are reached over, if the question leaves that open.
    transport: Option<Transport>,
    targets: Vec<Target>,
    waiting: VecDeque<String>,
    under_way: BTreeMap<String, HostLookUp>,
    found: BTreeMap<String, Families>,
    open: BTreeMap<u32, Purpose>,
    queries: Vec<DnsQuery>,
    last_number: u32,
    outcome: Option<Result<FoundAddresses, String>>,
}

impl LookUp {
    /// Begins to look for what is `usable`: servers that fail for a family which is of no use are no concern.
    pub fn new(now: Instant, question: Question, usable: Usable, search: SearchList) -> Self {
        let mut look_up = Self {
            question,
            usable,
            search,
            deadline: now + PATIENCE,
            pointers: VecDeque::new(),
            services: VecDeque::new(),
            transport: None,
            targets: Vec::new(),
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
            found: BTreeMap::new(),
            open: BTreeMap::new(),
            queries: Vec::new(),
            last_number: 0,
            outcome: None,
        };
        let services = match &look_up.question {
            Question::Addresses { name, port } => {
                let target = (name.clone(), *port, 1.0);
                look_up.ask_hosts(now, vec![target]);
                return look_up;
            }
            Question::Domain { name, .. } => {
                look_up.pointers = look_up.search.whole_names(name).into();
                look_up.ask_pointer(now);
                return look_up;
            }
            Question::Services(name) => look_up.search.whole_names(name),
            Question::Sip { transport, name } => look_up.services_of(*transport, name),
        };
        look_up.services = services.into_iter().map(|name| (None, name)).collect();
        look_up.ask_service(now);
        look_up
    }

    /// Takes the queries that are to be made now.
    pub fn drain_queries(&mut self) -> impl Iterator<Item = DnsQuery> + '_ {
        self.queries.drain(..)
    }

    /// What the name stands for, when that is known. Addresses that were not to be had are a
    /// [`FoundAddresses::failure`], and be it all of them; an error if it cannot be said which hosts the name stands
    /// for.
    pub fn outcome(&self) -> Option<&Result<FoundAddresses, String>> {
        self.outcome.as_ref()
    }

    /// The answer to the query of this number.
    pub fn answered(&mut self, now: Instant, number: u32, answer: Result<Vec<Record>, String>) {
        match self.open.remove(&number) {
            Some(Purpose::Pointers) => self.pointers_answered(now, answer),
            Some(Purpose::Services) => self.services_answered(now, answer),
            Some(Purpose::Host { host, family }) => self.host_answered(now, &host, family, answer),
            None => {}
        }
    }

    fn query(&mut self, name: String, kind: RecordKind, until: Instant, purpose: Purpose) {
        self.last_number += 1;
        self.open.insert(self.last_number, purpose);
        self.queries.push(DnsQuery { number: self.last_number, name, kind, until });
    }

    /// The names whose SRV records may say where this name takes requests over a transport.
    fn services_of(&self, transport: Transport, name: &str) -> Vec<String> {
        let whole = |service: &str| self.search.whole_names(&format!("{service}.{name}"));
        transport.service().map_or_else(Vec::new, whole)
    }

    /// The transports that a domain may be reached over, the usual one first. A SIP URI is not taken to TLS: its
    /// server need not show a certificate that we trust.
    fn allowed(&self, is_secure: bool) -> Vec<Transport> {
        let may = if is_secure { &[Transport::Tls][..] } else { &[Transport::Udp, Transport::Tcp] };
        may.iter().copied().filter(|transport| self.usable.transports.contains(transport)).collect()
    }

    /// Asks for the NAPTR records of the next name. Without any, the SRV records of each transport are asked for.
    fn ask_pointer(&mut self, now: Instant) {
        if let Some(name) = self.pointers.pop_front() {
            let until = self.deadline.min(now + NAPTR_PATIENCE);
            return self.query(name, RecordKind::Naptr, until, Purpose::Pointers);
        }
        if let Question::Domain { is_secure, name } = &self.question {
            let of = |transport| {
                self.services_of(transport, name).into_iter().map(move |name| (Some(transport), name))
            };
            self.services = self.allowed(*is_secure).into_iter().flat_map(of).collect();
        }
        self.ask_service(now);
    }

    /// RFC 2915 §2: those of the lowest order come first, and the lowest preference among them. One that leads nowhere
    /// leaves it to the next.
    fn pointers_answered(&mut self, now: Instant, answer: Answer) {
        let Question::Domain { is_secure, .. } = &self.question else { return };
        let allowed = self.allowed(*is_secure);
        let pointer = |record| match record {
            Record::Pointer(pointer) => Some(pointer),
            Record::Address(_) | Record::Service(_) => None,
        };
        let mut pointers: Vec<_> = answer.unwrap_or_default().into_iter().filter_map(pointer).collect();
        pointers.sort_by_key(|pointer| (pointer.order, pointer.preference));
        let led = pointers.into_iter().filter_map(|pointer| {
            let transport = pointer.transport().filter(|transport| allowed.contains(transport))?;
            Some((Some(transport), pointer.replacement))
        });
        self.services = led.take(POINTERS_MOST).collect();
        if self.services.is_empty() { self.ask_pointer(now) } else { self.ask_service(now) }
    }

    /// Asks for the SRV records of the next name; without one there are none.
    fn ask_service(&mut self, now: Instant) {
        if let Some((transport, name)) = self.services.pop_front() {
            self.transport = transport;
            return self.query(name, RecordKind::Srv, self.deadline, Purpose::Services);
        }
        let targets = match &self.question {
            Question::Sip { transport, name } => vec![(name.clone(), transport.default_port(), 1.0)],
            Question::Domain { is_secure, name } => {
                let usual = self.allowed(*is_secure).first().copied();
                let port = usual.unwrap_or_default().default_port();
                let targets = vec![(name.clone(), port, 1.0)];
                self.transport = usual;
                targets
            }
            Question::Services(_) | Question::Addresses { .. } => Vec::new(),
        };
        self.ask_hosts(now, targets);
    }

    fn services_answered(&mut self, now: Instant, answer: Answer) {
        let records = match answer {
            Ok(records) => records,
            // What one domain failed to say another one's records do not say: they are of another service.
            Err(error) => return self.outcome = Some(Err(error)),
        };
        let services = records.into_iter().filter_map(|record| match record {
            Record::Service(service) => Some(service),
            Record::Address(_) | Record::Pointer(_) => None,
        });
        let targets = preferred(services.collect());
        if targets.is_empty() { self.ask_service(now) } else { self.ask_hosts(now, targets) }
    }

    /// Asks for the addresses of each of these.
    fn ask_hosts(&mut self, now: Instant, targets: Vec<Target>) {
        let hosts: BTreeSet<_> = targets.iter().map(|(host, ..)| host.clone()).collect();
        (self.targets, self.waiting) = (targets, hosts.into_iter().collect());
        self.go_on(now);
    }

    /// Begins with hosts that wait, as many as there is room for. Without any left there is an outcome.
    fn go_on(&mut self, now: Instant) {
        while self.under_way.len() < HOSTS_AT_A_TIME
            && let Some(host) = self.waiting.pop_front()
        {
            let names = self.search.whole_names(&host).into();
            let (found, until) = ([Ok(Vec::new()), Ok(Vec::new())], self.hurried(now));
            self.under_way.insert(host.clone(), HostLookUp { names, found, open: 0, until });
            self.ask_host(&host);
        }
        if self.under_way.is_empty() {
            self.outcome = Some(Ok(self.conclude()));
        }
    }

    /// The end of a host's time, with so much less patience that those who wait have their turn, too, should nobody
    /// answer.
    fn hurried(&self, now: Instant) -> Instant {
        let rounds = 1 + self.waiting.len() / HOSTS_AT_A_TIME;
        now + self.deadline.saturating_since(now) / rounds as u32
    }

    /// Asks for a host under the next name that it may mean. A name stands for all its addresses, not for those of
    /// the family that answers first. A family is not asked for if an earlier domain failed to say what it has: what
    /// the name is in a later one may be another host.
    fn ask_host(&mut self, host: &str) {
        loop {
            let Some(it) = self.under_way.get_mut(host) else { return };
            let is_found = it.found.iter().flatten().any(|ips| !ips.is_empty());
            let Some(name) = it.names.pop_front().filter(|_| !is_found) else {
                if let Some(it) = self.under_way.remove(host) {
                    self.found.insert(host.to_owned(), it.found);
                }
                return;
            };
            let wanted: Vec<_> =
                (0..2).filter(|&family| self.usable.families[family] && it.found[family].is_ok()).collect();
            it.open = wanted.len() as u32;
            let until = it.until;
            for &family in &wanted {
                let kind = [RecordKind::A, RecordKind::Aaaa][family];
                self.query(name.clone(), kind, until, Purpose::Host { host: host.to_owned(), family });
            }
            if !wanted.is_empty() {
                return;
            }
        }
    }

    fn host_answered(&mut self, now: Instant, host: &str, family: usize, answer: Answer) {
        let Some(it) = self.under_way.get_mut(host) else { return };
        let address = |record| match record {
            Record::Address(ip) => Some(ip),
            Record::Service(_) | Record::Pointer(_) => None,
        };
        it.found[family] = answer.map(|records| records.into_iter().filter_map(address).collect());
        it.open -= 1;
        if it.open == 0 {
            self.ask_host(host);
            self.go_on(now);
        }
    }

    fn conclude(&mut self) -> FoundAddresses {
        let found = &self.found;
        let target = |(host, port, share): Target| {
            let families = found.get(&host).cloned().expect("every host of the targets was asked for");
            (host, port, share, families)
        };
        let targets = core::mem::take(&mut self.targets).into_iter().map(target);
        FoundAddresses::new(targets, self.absent()).over(self.transport)
    }

    /// What there is none of if nothing is found.
    fn absent(&self) -> String {
        let (records, useless) = match self.usable.families {
            [true, true] => ("A or AAAA record", ""),
            [true, false] => ("A record", "; AAAA is not asked for, since no listener is IPv6"),
            [false, _] => ("AAAA record", "; A is not asked for, since no listener is IPv4"),
        };
        match self.question {
            Question::Services(_) => {
                format!("the DNS has no SRV record of it with a target that has an {records}{useless}")
            }
            Question::Addresses { .. } | Question::Sip { .. } | Question::Domain { .. } => {
                format!("the DNS has no {records} of it{useless}")
            }
        }
    }
}

/// The targets of the most preferred priority, each with its weight relative to their mean (RFC 2782): the weights of
/// a name share out the capacity that the configuration gives.
fn preferred(mut services: Vec<ServiceRecord>) -> Vec<Target> {
    let best = services.iter().map(|service| service.priority).min();
    services.retain(|service| Some(service.priority) == best);
    // Weight 0 means a very small share, not none.
    let weight = |service: &ServiceRecord| f64::from(service.weight.max(1));
    let mean = services.iter().map(weight).sum::<f64>() / services.len() as f64;
    services.sort_by(|one, other| (&one.target, one.port).cmp(&(&other.target, other.port)));
    let target = |service: ServiceRecord| (service.target.clone(), service.port, weight(&service) / mean);
    services.into_iter().map(target).collect()
}

#[cfg(test)]
mod tests;
