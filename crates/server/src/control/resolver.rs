//! Questions to the DNS: addresses, SRV records (RFC 2782), and which of the two counts (RFC 3263 §4.2).

use crate::shards::listen::Bind;
use base::Transport;
use hickory_resolver::config::{
    NameServerConfig, NameServerConfigGroup, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::proto::xfer::Protocol;
use hickory_resolver::proto::{ProtoError, ProtoErrorKind};
use hickory_resolver::{ResolveError, TokioResolver};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// An address that a name stands for, and what it is worth relative to the mean of the name's targets.
pub(crate) type Share = (SocketAddr, f64);

/// What was said of a host, IPv4 first. No address is an answer, too.
type Families = [Result<Vec<IpAddr>, String>; 2];

/// A host that a name stands for.
#[derive(Clone, PartialEq, Debug)]
struct Target {
    host: String,
    port: u16,
    share: f64,
    addresses: Families,
}

/// What a look-up found. Each family of each host was answered or failed by itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Found {
    targets: Vec<Target>,
    /// What to say if it has no address: which records there were none of.
    absent: String,
}

impl Found {
    /// The addresses, in an order that does not change; none if the name has none.
    pub(super) fn shares(&self) -> Vec<Share> {
        let of = |target: &Target| {
            let (port, share) = (target.port, target.share);
            let ips = target.addresses.iter().flatten().flatten();
            ips.map(|&ip| (SocketAddr::new(ip, port), share)).collect::<Vec<_>>()
        };
        let mut shares: Vec<_> = self.targets.iter().flat_map(of).collect();
        // Answers come in changing order; slots and shares should not.
        shares.sort_by_key(|&(address, _)| address);
        shares
    }

    /// What the DNS had none of, where no address was found and nothing failed.
    pub(super) fn absent(&self) -> &str {
        &self.absent
    }

    /// How a part of it failed, if one did.
    pub(super) fn failure(&self) -> Option<&str> {
        let mut families = self.targets.iter().flat_map(|target| &target.addresses);
        families.find_map(|family| family.as_ref().err()).map(String::as_str)
    }

    /// What failed keeps the addresses that it had: only an answer takes one away.
    pub(super) fn keep(&mut self, former: &Self) {
        for target in &mut self.targets {
            let Some(known) = former.targets.iter().find(|known| known.host == target.host) else { continue };
            for (family, known) in target.addresses.iter_mut().zip(&known.addresses) {
                if family.is_err() && known.is_ok() {
                    family.clone_from(known);
                }
            }
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// The A and AAAA records of a name.
    Addresses { name: String, port: u16 },
    /// The SRV records of a name.
    Services(String),
    /// Where a name takes requests over this transport: SRV records come first, and A and AAAA records, with its default
    /// port, count only where there is no SRV record (RFC 3263 §4.2). NAPTR (§4.1) would choose among transports.
    Sip { transport: Transport, name: String },
}

/// Asks the DNS. It remembers no answers: who asks keeps them, and asks again when it wants to know.
#[derive(Debug)]
pub(crate) struct Resolver {
    servers: Vec<SocketAddr>,
    /// Whether a listener leads to IPv4, and to IPv6.
    leads: [bool; 2],
    /// Set up at the first question, for all of them.
    client: Option<TokioResolver>,
}

/// A look-up that takes longer has failed, or those parts of it that do.
const PATIENCE: Duration = Duration::from_secs(5);
/// Hosts of one name that are asked for at a time: one that is silent must not hold up the others, and whoever has a zone
/// must not make us ask a thousand questions at once.
const HOSTS_AT_A_TIME: usize = 16;

impl Resolver {
    /// Asks these servers; without any those of the system, as its configuration has them at the first question. It asks
    /// for addresses that these listeners lead to: servers that fail for a family which is of no use are no concern.
    pub(crate) fn new(servers: &[SocketAddr], binds: &[Bind]) -> Self {
        let mut ours = binds.iter().flat_map(|bind| [bind.address, bind.advertised]);
        let leads = [ours.clone().any(|ours| ours.is_ipv4()), ours.any(|ours| ours.is_ipv6())];
        Self { servers: servers.to_vec(), leads, client: None }
    }

    /// What the name stands for. Addresses that were not to be had are a [`Found::failure`], and be it all of them; an
    /// error if there was nobody to ask, or if it cannot be said which hosts the name stands for.
    pub(super) fn ask(
        &mut self,
        question: Question,
    ) -> impl Future<Output = Result<Found, String>> + Send + use<> {
        let (resolver, leads) = (self.resolver(), self.leads);
        let deadline = Instant::now() + PATIENCE;
        async move { LookUp { resolver: resolver?, leads, deadline }.answer(question).await }
    }

    /// Whether it asks the same servers, and within the same domains, as `other` did.
    pub(super) fn asks_as(&mut self, other: &Self) -> bool {
        let key = |resolver: &TokioResolver| {
            let config = resolver.config();
            let servers = config.name_servers().iter().map(|server| (server.socket_addr, server.protocol));
            (servers.collect::<Vec<_>>(), config.domain().cloned(), config.search().to_vec())
        };
        // What could not be set up has asked nobody.
        self.resolver().as_ref().ok().map(key) == other.client.as_ref().map(key)
    }

    fn resolver(&mut self) -> Result<TokioResolver, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = set_up(&self.servers)?;
        self.client = Some(client.clone());
        Ok(client)
    }
}

fn set_up(servers: &[SocketAddr]) -> Result<TokioResolver, String> {
    let mut builder = if servers.is_empty() {
        let system = TokioResolver::builder_tokio();
        system.map_err(|error| format!("the system's resolver configuration cannot be read: {error}"))?
    } else {
        let mut group = NameServerConfigGroup::new();
        for &server in servers {
            group.push(NameServerConfig::new(server, Protocol::Udp));
            group.push(NameServerConfig::new(server, Protocol::Tcp));
        }
        let config = ResolverConfig::from_parts(None, Vec::new(), group);
        let mut builder = TokioResolver::builder_with_config(config, TokioConnectionProvider::default());
        builder.options_mut().server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        builder
    };
    builder.options_mut().cache_size = 0;
    Ok(builder.build())
}

/// Whether a server said that there is no such record. One that fails or refuses has not said so, though the resolver
/// counts that as no record found too.
fn has_none(error: &ResolveError) -> bool {
    let kind = error.proto().map(ProtoError::kind);
    let said = |code| matches!(code, ResponseCode::NoError | ResponseCode::NXDomain);
    matches!(kind, Some(ProtoErrorKind::NoRecordsFound { response_code, .. }) if said(*response_code))
}

/// A question on its way through the DNS.
#[derive(Clone)]
struct LookUp {
    resolver: TokioResolver,
    leads: [bool; 2],
    deadline: Instant,
}

/// What SRV records are called of servers that take SIP over a transport (RFC 3263 §4.2).
fn service(transport: Transport) -> Option<&'static str> {
    match transport {
        Transport::Udp => Some("_sip._udp"),
        Transport::Tcp => Some("_sip._tcp"),
        Transport::Tls => Some("_sips._tcp"),
        Transport::Ws | Transport::Wss => None,
    }
}

impl LookUp {
    async fn answer(&self, question: Question) -> Result<Found, String> {
        let absent = self.absent(&question);
        let targets = match question {
            Question::Addresses { name, port } => vec![(name, port, 1.0)],
            Question::Services(name) => self.services(&name).await?.unwrap_or_default(),
            Question::Sip { transport, name } => {
                let records = match service(transport) {
                    Some(service) => self.services(&format!("{service}.{name}")).await?,
                    None => None,
                };
                records.unwrap_or_else(|| vec![(name, transport.default_port(), 1.0)])
            }
        };
        let hosts = self.hosts(targets.iter().map(|(host, ..)| host.clone()).collect()).await;
        let target = |(host, port, share)| {
            // Nothing is known of one whose look-up has ended in a panic.
            let unknown = || [(); 2].map(|()| Err(format!("{host}: the look-up ended early")));
            let addresses = hosts.get(&host).cloned().unwrap_or_else(unknown);
            Target { host, port, share, addresses }
        };
        Ok(Found { targets: targets.into_iter().map(target).collect(), absent })
    }

    /// What there is none of if nothing is found.
    fn absent(&self, question: &Question) -> String {
        let (records, useless) = match self.leads {
            [true, true] => ("A or AAAA record", ""),
            [true, false] => ("A record", "; AAAA is not asked for, since no listener is IPv6"),
            [false, _] => ("AAAA record", "; A is not asked for, since no listener is IPv4"),
        };
        match question {
            Question::Services(_) => {
                format!("the DNS has no SRV record of it with a target that has an {records}{useless}")
            }
            Question::Addresses { .. } | Question::Sip { .. } => {
                format!("the DNS has no {records} of it{useless}")
            }
        }
    }

    /// The targets of the most preferred priority, each with its weight relative to their mean (RFC 2782): the weights of
    /// a name share out the capacity that the configuration gives. `None` if there is no SRV record.
    async fn services(&self, name: &str) -> Result<Option<Vec<(String, u16, f64)>>, String> {
        let mut found = Vec::new();
        for name in self.whole_names(name)? {
            // What one domain failed to say another one's records do not say: they are of another service.
            found = self.records(&name, RecordType::SRV).await?;
            if !found.is_empty() {
                break;
            }
        }
        let services: Vec<_> = found.iter().filter_map(RData::as_srv).collect();
        let Some(best) = services.iter().map(|srv| srv.priority()).min() else {
            return Ok(None);
        };
        let preferred: Vec<_> = services.iter().filter(|srv| srv.priority() == best).collect();
        // Weight 0 means a very small share, not none.
        let weight = |weight: u16| f64::from(weight.max(1));
        let mean = preferred.iter().map(|srv| weight(srv.weight())).sum::<f64>() / preferred.len() as f64;
        let target = |srv: &&&SRV| (srv.target().to_utf8(), srv.port(), weight(srv.weight()) / mean);
        let mut targets: Vec<_> = preferred.iter().map(target).collect();
        targets.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        Ok(Some(targets))
    }

    /// The addresses of each of these.
    async fn hosts(&self, hosts: BTreeSet<String>) -> BTreeMap<String, Families> {
        let (mut waiting, mut under_way, mut found) = (hosts.into_iter(), JoinSet::new(), BTreeMap::new());
        loop {
            while under_way.len() < HOSTS_AT_A_TIME
                && let Some(host) = waiting.next()
            {
                let look_up = self.hurried(waiting.len());
                under_way.spawn(async move { (look_up.host(&host).await, host) });
            }
            match under_way.join_next().await {
                Some(Ok((addresses, host))) => drop(found.insert(host, addresses)),
                Some(Err(_)) => {}
                None => return found,
            }
        }
    }

    /// With so much less patience that those `waiting` have their turn, too, should nobody answer.
    fn hurried(&self, waiting: usize) -> Self {
        let (now, rounds) = (Instant::now(), 1 + waiting / HOSTS_AT_A_TIME);
        let share = self.deadline.saturating_duration_since(now) / rounds as u32;
        Self { deadline: now + share, ..self.clone() }
    }

    /// A name stands for all its addresses, not for those of the family that answers first.
    async fn host(&self, host: &str) -> Families {
        let names = match self.whole_names(host) {
            Ok(names) => names,
            Err(error) => return [Err(error.clone()), Err(error)],
        };
        let mut found: Families = [Ok(Vec::new()), Ok(Vec::new())];
        for name in names {
            let ([four, six], [to_four, to_six]) = (&mut found, self.leads);
            tokio::join!(
                self.find(&name, RecordType::A, to_four, four),
                self.find(&name, RecordType::AAAA, to_six, six)
            );
            if found.iter().flatten().any(|ips| !ips.is_empty()) {
                break;
            }
        }
        found
    }

    /// Asks for the addresses of a family, unless they are of no use, or an earlier domain failed to say what it has: what
    /// the name is in a later one may be another host.
    async fn find(
        &self,
        name: &Name,
        kind: RecordType,
        is_of_use: bool,
        found: &mut Result<Vec<IpAddr>, String>,
    ) {
        if is_of_use && found.is_ok() {
            let records = self.records(name, kind).await;
            *found = records.map(|records| records.iter().filter_map(RData::ip_addr).collect());
        }
    }

    /// The records of this type; none if it was said that there is none.
    async fn records(&self, name: &Name, kind: RecordType) -> Result<Vec<RData>, String> {
        let late = || format!("{name} {kind}: no answer in time");
        match timeout_at(self.deadline, self.resolver.lookup(name.clone(), kind)).await {
            Ok(Ok(found)) => Ok(found.iter().cloned().collect()),
            Ok(Err(error)) if has_none(&error) => Ok(Vec::new()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(late()),
        }
    }

    /// What a name may mean, in the order in which it is tried (resolv.conf(5): `domain`, `search`, `ndots`). The resolver
    /// would try them by itself, but tells only what came of the last one.
    fn whole_names(&self, name: &str) -> Result<Vec<Name>, String> {
        let name = Name::from_utf8(name).map_err(|error| error.to_string())?;
        let mut whole = name.clone();
        whole.set_fqdn(true);
        if name.is_fqdn() {
            return Ok(vec![whole]);
        }
        let config = self.resolver.config();
        let domains = config.domain().into_iter().chain(config.search());
        let mut names: Vec<_> =
            domains.filter_map(|domain| name.clone().append_domain(domain).ok()).collect();
        let is_first = usize::from(name.num_labels()) > self.resolver.options().ndots || name.is_localhost();
        names.insert(if is_first { 0 } else { names.len() }, whole);
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Ok(names)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use hickory_resolver::proto::op::{Message, MessageType};
    use hickory_resolver::proto::rr::Record;
    use hickory_resolver::proto::rr::rdata::{A, AAAA};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use tokio::net::UdpSocket;

    /// What was found of a name: these addresses, each of a host of its own.
    pub(in crate::control) fn found(shares: &[Share]) -> Found {
        let target = |&(address, share): &Share| {
            let (here, there) = (Ok(vec![address.ip()]), Ok(Vec::new()));
            let addresses = if address.is_ipv4() { [here, there] } else { [there, here] };
            Target { host: address.to_string(), port: address.port(), share, addresses }
        };
        Found { targets: shares.iter().map(target).collect(), absent: String::new() }
    }

    /// What is said of [`nothing`].
    pub(in crate::control) const ABSENT: &str = "the DNS has no A record of it";

    /// It was said that a name has no address.
    pub(in crate::control) fn nothing() -> Found {
        Found { absent: ABSENT.to_owned(), ..Found::default() }
    }

    /// Asks this server, for addresses of both families.
    pub(in crate::control) fn asking(server: SocketAddr) -> Resolver {
        Resolver::new(&[server], &["127.0.0.1:5060", "[::1]:5060"].map(bind))
    }

    fn bind(address: &str) -> Bind {
        let address = address.parse().unwrap();
        Bind { address, advertised: address }
    }

    /// A DNS server that knows these records, fails for names that begin with `broken`, and is silent for those that
    /// begin with `silent`.
    pub(in crate::control) async fn server(records: Vec<(&'static str, RData)>) -> SocketAddr {
        failing(records, Vec::new()).await
    }

    /// The same, which fails for these as well.
    pub(in crate::control) async fn failing(
        records: Vec<(&'static str, RData)>,
        fails: Vec<(&'static str, RecordType)>,
    ) -> SocketAddr {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 1500];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                let mut message = Message::from_vec(&buffer[..length]).unwrap();
                let query = message.queries()[0].clone();
                for (name, data) in &records {
                    let name = Name::from_ascii(name).unwrap();
                    if name == *query.name() && data.record_type() == query.query_type() {
                        message.add_answer(Record::from_rdata(name, 3600, data.clone()));
                    }
                }
                message.set_message_type(MessageType::Response);
                let name = query.name().to_string();
                if name.starts_with("silent") {
                    continue;
                }
                if name.starts_with("broken.") || fails.contains(&(&*name, query.query_type())) {
                    message.set_response_code(ResponseCode::ServFail);
                }
                socket.send_to(&message.to_vec().unwrap(), from).await.unwrap();
            }
        });
        address
    }

    pub(in crate::control) fn a(last: u8) -> RData {
        RData::A(A::new(192, 0, 2, last))
    }

    pub(in crate::control) fn aaaa(last: u16) -> RData {
        RData::AAAA(AAAA(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)))
    }

    pub(in crate::control) fn srv(priority: u16, weight: u16, target: &str) -> RData {
        RData::SRV(SRV::new(priority, weight, 5070, Name::from_ascii(target).unwrap()))
    }

    fn shares(expected: &[(&str, f64)]) -> Vec<Share> {
        expected.iter().map(|&(address, share)| (address.parse().unwrap(), share)).collect()
    }

    fn sip(name: &str) -> Question {
        Question::Sip { transport: Transport::Udp, name: name.to_owned() }
    }

    #[tokio::test]
    async fn addresses_count_only_where_there_is_no_srv_record() {
        let server = server(vec![
            ("plain.test.", a(1)),
            ("both.test.", a(1)),
            ("_sip._udp.both.test.", srv(1, 10, "one.test.")),
            ("_sip._udp.both.test.", srv(1, 30, "two.test.")),
            ("_sip._udp.both.test.", srv(2, 10, "plain.test.")),
            ("one.test.", a(4)),
            ("two.test.", a(3)),
            ("hollow.test.", a(1)),
            ("_sip._udp.hollow.test.", srv(1, 1, "nowhere.test.")),
        ]);
        let mut resolver = asking(server.await);
        let mut ask = async |question| resolver.ask(question).await.map(|found| found.shares());
        assert_eq!(ask(sip("plain.test.")).await, Ok(shares(&[("192.0.2.1:5060", 1.0)])));
        let both = Ok(shares(&[("192.0.2.3:5070", 1.5), ("192.0.2.4:5070", 0.5)]));
        assert_eq!(ask(sip("both.test.")).await, both);
        assert_eq!(ask(Question::Services("_sip._udp.both.test.".to_owned())).await, both);
        let addresses = Question::Addresses { name: "both.test.".to_owned(), port: 5080 };
        assert_eq!(ask(addresses).await, Ok(shares(&[("192.0.2.1:5080", 1.0)])));
        // RFC 3263 §4.2: SRV records were found, so the name's own address is not asked for.
        assert_eq!(ask(sip("hollow.test.")).await, Ok(shares(&[])));
        assert_eq!(ask(sip("nowhere.test.")).await, Ok(shares(&[])));
        let found = resolver.ask(sip("nowhere.test.")).await.unwrap();
        assert_eq!(found.failure(), None, "it was said that there is nothing");
    }

    /// A server that fails does not say that there is nothing.
    #[tokio::test]
    async fn a_failure_is_no_answer() {
        let mut resolver = asking(server(Vec::new()).await);
        let host = || "broken.test.".to_owned();
        assert!(resolver.ask(Question::Services(host())).await.is_err(), "nobody knows of which hosts");
        // No SRV record was found for the second one, by a server that answers, so the addresses are what fails.
        for question in [Question::Addresses { name: host(), port: 5060 }, sip("broken.test.")] {
            let found = resolver.ask(question).await.unwrap();
            assert!(found.targets.iter().flat_map(|target| &target.addresses).all(Result::is_err));
            assert!(found.shares().is_empty() && found.failure().is_some());
        }
    }

    #[tokio::test]
    async fn a_family_without_a_listener_is_not_asked_for() {
        let fails = vec![("four.test.", RecordType::AAAA), ("six.test.", RecordType::A)];
        let server = failing(vec![("four.test.", a(1)), ("six.test.", aaaa(1))], fails).await;
        for (listener, host, address) in [
            ("127.0.0.1:5060", "four.test.", "192.0.2.1:5060"),
            ("[::1]:5060", "six.test.", "[2001:db8::1]:5060"),
        ] {
            let question = || Question::Addresses { name: host.to_owned(), port: 5060 };
            let found = Resolver::new(&[server], &[bind(listener)]).ask(question()).await.unwrap();
            assert_eq!((found.shares(), found.failure()), (shares(&[(address, 1.0)]), None));
            let found = asking(server).ask(question()).await.unwrap();
            assert!(found.failure().is_some(), "it is of use where there are listeners of both");
        }
    }

    #[tokio::test]
    async fn more_hosts_than_are_asked_for_at_a_time_are_all_found() {
        // Short names: all of them fit a datagram.
        let hosts: Vec<&'static str> =
            ('a'..).take(HOSTS_AT_A_TIME + 1).map(|name| &*format!("{name}.t.").leak()).collect();
        let mut records: Vec<_> = hosts.iter().map(|host| ("_sip._udp.t.", srv(1, 1, host))).collect();
        records.extend((1..).zip(&hosts).map(|(last, host)| (*host, a(last))));
        let mut resolver = asking(server(records).await);
        let found = resolver.ask(sip("t.")).await.unwrap();
        assert_eq!((found.shares().len(), found.failure()), (hosts.len(), None));
    }

    /// Asks this server within two domains, for so long.
    fn look_up(server: SocketAddr, patience: Duration) -> LookUp {
        let mut group = NameServerConfigGroup::new();
        group.push(NameServerConfig::new(server, Protocol::Udp));
        let domains = ["site.test.", "other.test."].map(|name| Name::from_ascii(name).unwrap());
        let config = ResolverConfig::from_parts(None, domains.to_vec(), group);
        let builder = TokioResolver::builder_with_config(config, TokioConnectionProvider::default());
        LookUp { resolver: builder.build(), leads: [true; 2], deadline: Instant::now() + patience }
    }

    #[tokio::test]
    async fn hosts_that_are_silent_leave_time_for_the_others() {
        let silent = ('a'..).take(2 * HOSTS_AT_A_TIME).map(|name| format!("silent{name}.t."));
        let server = server(vec![("t.", a(1))]).await;
        // It is asked for last.
        let hosts = silent.chain(["t.".to_owned()]).collect();
        let found = look_up(server, Duration::from_secs(3)).hosts(hosts).await;
        assert_eq!(found["t."], [Ok(vec![IpAddr::from([192, 0, 2, 1])]), Ok(vec![])]);
        assert_eq!(found.values().filter(|families| families[0].is_err()).count(), 2 * HOSTS_AT_A_TIME);
    }

    #[tokio::test]
    async fn another_domain_does_not_say_what_the_first_one_failed_to_say() {
        let fails = [RecordType::A, RecordType::SRV].map(|kind| ("sip.site.test.", kind)).to_vec();
        let elsewhere = "sip.other.test.";
        let records = vec![
            (elsewhere, a(9)),
            (elsewhere, aaaa(9)),
            (elsewhere, srv(1, 1, elsewhere)),
            ("far.other.test.", srv(1, 1, elsewhere)),
        ];
        let look_up = look_up(failing(records, fails).await, PATIENCE);
        let [four, six] = look_up.host("sip").await;
        assert!(four.is_err(), "{four:?}");
        assert!(matches!(&six, Ok(ips) if ips.len() == 1), "that there is none here was said: {six:?}");
        assert!(look_up.services("sip").await.is_err());
        assert!(matches!(look_up.services("far").await, Ok(Some(_))));
    }

    #[tokio::test]
    async fn what_is_not_there_is_told_by_its_records() {
        let server = server(Vec::new()).await;
        let told = async |listeners: &[&str], question| {
            let binds: Vec<_> = listeners.iter().map(|address| bind(address)).collect();
            let found = Resolver::new(&[server], &binds).ask(question).await.unwrap();
            assert_eq!((found.shares(), found.failure()), (Vec::new(), None));
            found.absent().to_owned()
        };
        let (four, six) = ("127.0.0.1:5060", "[::1]:5060");
        let only_four = told(&[four], sip("x.test.")).await;
        assert!(
            only_four.starts_with("the DNS has no A record") && only_four.contains("no listener is IPv6")
        );
        assert!(told(&[six], sip("x.test.")).await.starts_with("the DNS has no AAAA record"));
        assert_eq!(told(&[four, six], sip("x.test.")).await, "the DNS has no A or AAAA record of it");
        let service = told(&[four], Question::Services("_sip._udp.x.test.".to_owned())).await;
        assert!(service.starts_with("the DNS has no SRV record"), "{service}");
    }

    #[tokio::test]
    async fn a_name_without_a_final_dot_is_tried_within_the_domains() {
        let fails = vec![("half.site.test.", RecordType::A), ("half.site.test.", RecordType::AAAA)];
        let server = failing(vec![("far.test.", a(1)), ("near.site.test.", a(2))], fails).await;
        let look_up = look_up(server, PATIENCE);
        let names = |name| look_up.whole_names(name).unwrap().iter().map(Name::to_string).collect::<Vec<_>>();
        assert_eq!(names("near"), ["near.site.test.", "near.other.test.", "near."]);
        assert_eq!(names("far.test"), ["far.test.", "far.test.site.test.", "far.test.other.test."]);
        assert_eq!(names("far.test."), ["far.test."]);
        let ip = |last| Ok(vec![IpAddr::from([192, 0, 2, last])]);
        assert_eq!(look_up.host("near").await, [ip(2), Ok(vec![])]);
        assert_eq!(look_up.host("far.test").await, [ip(1), Ok(vec![])]);
        // The others say that they have none; `site.test` may have one.
        let [four, six] = look_up.host("half").await;
        assert!(four.is_err() && six.is_err(), "{four:?} {six:?}");
    }
}
