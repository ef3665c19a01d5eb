//! One question to the DNS, from its first query to its answer: NAPTR, SRV and address records, and their precedence
//! (RFC 3263 §4, RFC 2782, RFC 2915).

use super::found::{Families, FoundAddresses};
use super::search::SearchList;
use base::{Instant, Transport};
use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// A question to the DNS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DnsQuestion {
    /// The A and AAAA records of a name.
    Addresses {
        /// The name.
        name: String,
        /// Port of the addresses.
        port: u16,
    },
    /// The SRV records of a name.
    Services(String),
    /// Servers of a name for one transport. They come from SRV records. If there are none, they come from A and AAAA
    /// records, with the default port (RFC 3263 §4.2).
    Sip {
        /// Transport of the requests.
        transport: Transport,
        /// The name.
        name: String,
    },
    /// Servers and transport of a name. NAPTR records come first, then the SRV records of each transport, then A and
    /// AAAA records (RFC 3263 §4.1).
    Domain {
        /// Whether only TLS is allowed, as for a SIPS URI.
        is_secure: bool,
        /// The name.
        name: String,
    },
}

/// Address families and transports that this process can use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usable {
    /// Whether IPv4 and IPv6 addresses can be used.
    pub families: [bool; 2],
    /// Transports by which requests can leave.
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

/// A query to the DNS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsQuery {
    /// Number of the query within its look-up.
    pub number: u32,
    /// An absolute name.
    pub name: String,
    /// Type of the records.
    pub kind: RecordKind,
    /// Deadline of the answer. Afterwards the query has failed.
    pub until: Instant,
}

impl DnsQuery {
    /// Returns the error text of a query without an answer.
    pub fn unanswered(&self) -> String {
        format!("{} {}: no answer in time", self.name, self.kind)
    }
}

/// A record in an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DnsRecord {
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
    /// Priority; the lowest is preferred.
    pub priority: u16,
    /// Weight among records of the same priority.
    pub weight: u16,
    /// Port of the service.
    pub port: u16,
    /// Host, an absolute name.
    pub target: String,
}

/// A NAPTR record (RFC 2915 §2), without a regular expression: records of SIP have none (RFC 3263 §4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointerRecord {
    /// Order; the record with the lowest order comes first.
    pub order: u16,
    /// Preference; of the records with the same order, the lowest preference comes first.
    pub preference: u16,
    /// Kind of the replacement: `s` is a name with SRV records.
    pub flags: String,
    /// The service, such as `SIP+D2U`.
    pub service: String,
    /// Replacement, an absolute name.
    pub replacement: String,
}

impl PointerRecord {
    /// Returns the transport whose SRV records the replacement has (RFC 3263 §4.1).
    fn transport(&self) -> Option<Transport> {
        let known = [("SIP+D2U", Transport::Udp), ("SIP+D2T", Transport::Tcp), ("SIPS+D2T", Transport::Tls)];
        let is_it = |(service, _): &&(&str, Transport)| self.service.eq_ignore_ascii_case(service);
        let leads_to_srv = self.flags.eq_ignore_ascii_case("s");
        known.iter().find(is_it).filter(|_| leads_to_srv).map(|(_, transport)| *transport)
    }
}

/// Answer to a query: the records, which may be none, or an error.
type Answer = Result<Vec<DnsRecord>, String>;

/// Time limit of a look-up or of its unfinished parts.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit of NAPTR queries. Without an answer the records count as absent, since some firewalls drop such queries.
const NAPTR_PATIENCE: Duration = Duration::from_secs(2);
/// Most NAPTR records of one name that are followed. A zone must not cause a thousand queries.
const POINTERS_MOST: usize = 8;
/// Most hosts of one name that are looked up at the same time. One silent host must not delay the others, and a zone
/// must not cause a thousand queries at once.
const HOSTS_AT_A_TIME: usize = 16;

/// A host, its port, and its weight divided by the mean weight of the name's hosts.
type Target = (String, u16, f64);

#[derive(Clone, Debug)]
enum Purpose {
    Pointers,
    Services,
    Host { host: String, family: usize },
}

/// A host with a look-up under way.
#[derive(Clone, Debug)]
struct HostLookUp {
    /// Absolute names that have not been queried yet.
    names: VecDeque<String>,
    found: Families,
    /// Number of queries under way.
    open: u32,
    until: Instant,
}

/// A question to the DNS that is being answered.
///
/// Every [query](Self::drain_queries) must be [answered](Self::answered), with an error if its time is over. When no
/// query is left, there is an [outcome](Self::outcome).
#[derive(Clone, Debug)]
pub struct LookUp {
    question: DnsQuestion,
    usable: Usable,
    search: SearchList,
    deadline: Instant,
    /// Names whose NAPTR records have not been queried yet.
    pointers: VecDeque<String>,
    /// Names whose SRV records have not been queried yet, each with its transport if the question names none.
    services: VecDeque<(Option<Transport>, String)>,
    /// Transport of the targets, if the question names none.
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
    /// Starts a look-up of `usable` addresses. Other families are not queried, so name servers that fail for them do no
    /// harm.
    pub fn new(now: Instant, question: DnsQuestion, usable: Usable, search: SearchList) -> Self {
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
            DnsQuestion::Addresses { name, port } => {
                let target = (name.clone(), *port, 1.0);
                look_up.ask_hosts(now, vec![target]);
                return look_up;
            }
            DnsQuestion::Domain { name, .. } => {
                look_up.pointers = look_up.search.whole_names(name).into();
                look_up.ask_pointer(now);
                return look_up;
            }
            DnsQuestion::Services(name) => look_up.search.whole_names(name),
            DnsQuestion::Sip { transport, name } => look_up.services_of(*transport, name),
        };
        look_up.services = services.into_iter().map(|name| (None, name)).collect();
        look_up.ask_service(now);
        look_up
    }

    /// Returns the queries to send now.
    pub fn drain_queries(&mut self) -> impl Iterator<Item = DnsQuery> + '_ {
        self.queries.drain(..)
    }

    /// Returns the result when it is known. If some or all addresses could not be queried, it contains a
    /// [`FoundAddresses::failure`]. The result is an error if the hosts of the name could not be determined.
    pub fn outcome(&self) -> Option<&Result<FoundAddresses, String>> {
        self.outcome.as_ref()
    }

    /// Takes the answer to the query with this number.
    pub fn answered(&mut self, now: Instant, number: u32, answer: Result<Vec<DnsRecord>, String>) {
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

    /// Returns the names to query for SRV records, to find the servers of a name for a transport.
    fn services_of(&self, transport: Transport, name: &str) -> Vec<String> {
        let whole = |service: &str| self.search.whole_names(&format!("{service}.{name}"));
        transport.service().map_or_else(Vec::new, whole)
    }

    /// Returns the transports allowed for a domain, the usual one first. TLS is not allowed for a SIP URI, since its
    /// server may have no certificate that this process trusts.
    fn allowed(&self, is_secure: bool) -> Vec<Transport> {
        let may = if is_secure { &[Transport::Tls][..] } else { &[Transport::Udp, Transport::Tcp] };
        may.iter().copied().filter(|transport| self.usable.transports.contains(transport)).collect()
    }

    /// Queries the NAPTR records of the next name. If no name is left, the SRV records of each transport are queried.
    fn ask_pointer(&mut self, now: Instant) {
        if let Some(name) = self.pointers.pop_front() {
            let until = self.deadline.min(now + NAPTR_PATIENCE);
            return self.query(name, RecordKind::Naptr, until, Purpose::Pointers);
        }
        if let DnsQuestion::Domain { is_secure, name } = &self.question {
            let of = |transport| {
                self.services_of(transport, name).into_iter().map(move |name| (Some(transport), name))
            };
            self.services = self.allowed(*is_secure).into_iter().flat_map(of).collect();
        }
        self.ask_service(now);
    }

    /// Takes the answer to a NAPTR query. RFC 2915 §2: the lowest order comes first, then the lowest preference. A
    /// record that cannot be used is skipped.
    fn pointers_answered(&mut self, now: Instant, answer: Answer) {
        let DnsQuestion::Domain { is_secure, .. } = &self.question else { return };
        let allowed = self.allowed(*is_secure);
        let pointer = |record| match record {
            DnsRecord::Pointer(pointer) => Some(pointer),
            DnsRecord::Address(_) | DnsRecord::Service(_) => None,
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

    /// Queries the SRV records of the next name. If no name is left, there are no SRV records.
    fn ask_service(&mut self, now: Instant) {
        if let Some((transport, name)) = self.services.pop_front() {
            self.transport = transport;
            return self.query(name, RecordKind::Srv, self.deadline, Purpose::Services);
        }
        let targets = match &self.question {
            DnsQuestion::Sip { transport, name } => vec![(name.clone(), transport.default_port(), 1.0)],
            DnsQuestion::Domain { is_secure, name } => {
                let usual = self.allowed(*is_secure).first().copied();
                let port = usual.unwrap_or_default().default_port();
                let targets = vec![(name.clone(), port, 1.0)];
                self.transport = usual;
                targets
            }
            DnsQuestion::Services(_) | DnsQuestion::Addresses { .. } => Vec::new(),
        };
        self.ask_hosts(now, targets);
    }

    fn services_answered(&mut self, now: Instant, answer: Answer) {
        let records = match answer {
            Ok(records) => records,
            // After an error in one search domain the next domain is not tried: its records belong to another service.
            Err(error) => return self.outcome = Some(Err(error)),
        };
        let services = records.into_iter().filter_map(|record| match record {
            DnsRecord::Service(service) => Some(service),
            DnsRecord::Address(_) | DnsRecord::Pointer(_) => None,
        });
        let targets = preferred(services.collect());
        if targets.is_empty() { self.ask_service(now) } else { self.ask_hosts(now, targets) }
    }

    fn ask_hosts(&mut self, now: Instant, targets: Vec<Target>) {
        let hosts: BTreeSet<_> = targets.iter().map(|(host, ..)| host.clone()).collect();
        (self.targets, self.waiting) = (targets, hosts.into_iter().collect());
        self.go_on(now);
    }

    /// Starts look-ups of waiting hosts, up to the limit. If no look-up is left, sets the outcome.
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

    /// Returns the deadline of a host. It leaves time for the waiting hosts in case no server answers.
    fn hurried(&self, now: Instant) -> Instant {
        let rounds = 1 + self.waiting.len() / HOSTS_AT_A_TIME;
        now + self.deadline.saturating_since(now) / rounds as u32
    }

    /// Queries the next absolute name that a host may stand for, by the search list. A name has the addresses of both
    /// families, not only of the family whose answer comes first. A family that failed in one domain is not queried in
    /// later domains, where the name may be another host.
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
            DnsRecord::Address(ip) => Some(ip),
            DnsRecord::Service(_) | DnsRecord::Pointer(_) => None,
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
            let families = found.get(&host).cloned().expect("every host of the targets was looked up");
            (host, port, share, families)
        };
        let targets = core::mem::take(&mut self.targets).into_iter().map(target);
        FoundAddresses::new(targets, self.absent()).over(self.transport)
    }

    /// Returns the error text if nothing is found: which records the DNS does not have.
    fn absent(&self) -> String {
        let (records, useless) = match self.usable.families {
            [true, true] => ("A or AAAA record", ""),
            [true, false] => ("A record", "; AAAA is not looked up, since no listener is IPv6"),
            [false, _] => ("AAAA record", "; A is not looked up, since no listener is IPv4"),
        };
        match self.question {
            DnsQuestion::Services(_) => {
                format!("the DNS has no SRV record of this name with a target that has an {records}{useless}")
            }
            DnsQuestion::Addresses { .. } | DnsQuestion::Sip { .. } | DnsQuestion::Domain { .. } => {
                format!("the DNS has no {records} of this name{useless}")
            }
        }
    }
}

/// Returns the targets of the best priority, each with its weight divided by the mean weight (RFC 2782). The configured
/// capacity of the name is multiplied by this relative weight.
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
