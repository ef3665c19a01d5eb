//! Sends the DNS queries of a look-up.

use base::{Instant, Transport};
use control::{
    DnsQuery, DnsQuestion, DnsRecord, FoundAddresses, LookUp, PointerRecord, RecordKind, SearchList,
    ServiceRecord, Usable,
};
use hickory_resolver::config::{
    NameServerConfig, NameServerConfigGroup, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::proto::xfer::Protocol;
use hickory_resolver::proto::{ProtoError, ProtoErrorKind};
use hickory_resolver::{ResolveError, TokioResolver};
use node::Ports;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Sends DNS queries. It caches no answers; the caller keeps them and asks again when they expire.
#[derive(Debug)]
pub(crate) struct Resolver {
    servers: Vec<SocketAddr>,
    /// Address families and transports that our listeners can reach.
    usable: Usable,
    /// Set up at the first question, then used for all.
    client: Option<TokioResolver>,
}

impl Resolver {
    /// Uses these servers; if there are none, the servers of the system's configuration at the first question. Only
    /// addresses that these ports can reach are queried.
    pub(crate) fn new(servers: &[SocketAddr], ports: &Ports) -> Self {
        let mut ours = ports.iter().flat_map(|port| [port.local, port.advertised]);
        let families = [ours.clone().any(|ours| ours.is_ipv4()), ours.any(|ours| ours.is_ipv6())];
        let is_there = |transport: &Transport| ports.iter().any(|port| port.transport == *transport);
        let transports = Transport::ALL.into_iter().filter(is_there).collect();
        Self { servers: servers.to_vec(), usable: Usable { families, transports }, client: None }
    }

    /// Looks up the hosts and addresses of a name. It fails if no server could be asked, or if the hosts of the name
    /// could not be determined.
    pub(super) fn ask(
        &mut self,
        question: DnsQuestion,
    ) -> impl Future<Output = Result<FoundAddresses, String>> + Send + use<> {
        let (client, usable) = (self.client(), self.usable.clone());
        async move {
            let client = client?;
            let search = search_list(&client);
            follow(&client, LookUp::new(Instant::ZERO, question, usable, search)).await
        }
    }

    /// Returns whether it uses the same servers and search domains as `other` did.
    pub(super) fn asks_as(&mut self, other: &Self) -> bool {
        let key = |resolver: &TokioResolver| {
            let config = resolver.config();
            let servers = config.name_servers().iter().map(|server| (server.socket_addr, server.protocol));
            (servers.collect::<Vec<_>>(), config.domain().cloned(), config.search().to_vec())
        };
        // A client that could not be set up has asked no server.
        self.client().as_ref().ok().map(key) == other.client.as_ref().map(key)
    }

    fn client(&mut self) -> Result<TokioResolver, String> {
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

/// Returns whether a server said that there is no such record. The resolver also reports servers that fail or refuse as
/// "no record found".
fn has_none(error: &ResolveError) -> bool {
    let kind = error.proto().map(ProtoError::kind);
    let said = |code| matches!(code, ResponseCode::NoError | ResponseCode::NXDomain);
    matches!(kind, Some(ProtoErrorKind::NoRecordsFound { response_code, .. }) if said(*response_code))
}

/// Runs a look-up that has just started to its end.
async fn follow(client: &TokioResolver, mut look_up: LookUp) -> Result<FoundAddresses, String> {
    let began = tokio::time::Instant::now();
    let now = || Instant::ZERO + began.elapsed();
    let (mut under_way, mut numbers) = (JoinSet::new(), BTreeMap::new());
    loop {
        for query in look_up.drain_queries() {
            let (client, patience, number) =
                (client.clone(), query.until.saturating_since(now()), query.number);
            let records = async move {
                let answer = timeout(patience, records(&client, &query)).await;
                answer.unwrap_or_else(|_| Err(query.unanswered()))
            };
            numbers.insert(under_way.spawn(records).id(), number);
        }
        if let Some(outcome) = look_up.outcome() {
            return outcome.clone();
        }
        let (id, answer) = match under_way.join_next_with_id().await {
            Some(Ok(answered)) => answered,
            // A bug of the resolver must not end the process.
            Some(Err(error)) => (error.id(), Err(error.to_string())),
            None => return Err("the look-up ended early".to_owned()),
        };
        if let Some(number) = numbers.remove(&id) {
            look_up.answered(now(), number, answer);
        }
    }
}

/// Returns the records that a query asks for; an empty list if a server said that there are none.
async fn records(client: &TokioResolver, query: &DnsQuery) -> Result<Vec<DnsRecord>, String> {
    let name = Name::from_utf8(&query.name).map_err(|error| error.to_string())?;
    let kind = match query.kind {
        RecordKind::A => RecordType::A,
        RecordKind::Aaaa => RecordType::AAAA,
        RecordKind::Srv => RecordType::SRV,
        RecordKind::Naptr => RecordType::NAPTR,
    };
    match client.lookup(name, kind).await {
        Ok(found) => Ok(found.iter().filter_map(record).collect()),
        Err(error) if has_none(&error) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn record(data: &RData) -> Option<DnsRecord> {
    if let Some(srv) = data.as_srv() {
        return Some(DnsRecord::Service(ServiceRecord {
            priority: srv.priority(),
            weight: srv.weight(),
            port: srv.port(),
            target: srv.target().to_utf8(),
        }));
    }
    if let Some(naptr) = data.as_naptr() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // RFC 3263 §4.1: NAPTR records of SIP have no regular expression.
        return naptr.regexp().is_empty().then(|| {
            DnsRecord::Pointer(PointerRecord {
                order: naptr.order(),
                preference: naptr.preference(),
                flags: text(naptr.flags()),
                service: text(naptr.services()),
                replacement: naptr.replacement().to_utf8(),
            })
        });
    }
    data.ip_addr().map(DnsRecord::Address)
}

/// Returns the search list of the resolver's configuration for names without a final dot. The resolver could try them
/// itself, but reports only the result of the last name.
fn search_list(client: &TokioResolver) -> SearchList {
    let config = client.config();
    let domains = config.domain().into_iter().chain(config.search()).map(Name::to_utf8);
    SearchList { domains: domains.collect(), ndots: client.options().ndots }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use hickory_resolver::proto::op::{Message, MessageType};
    use hickory_resolver::proto::rr::Record as Answer;
    use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
    use node::Port;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use tokio::net::UdpSocket;

    /// Returns a resolver that asks this server for addresses of both families.
    pub(in crate::control) fn asking(server: SocketAddr) -> Resolver {
        Resolver::new(&[server], &ports(&["127.0.0.1:5060", "[::1]:5060"]))
    }

    fn ports(addresses: &[&str]) -> Ports {
        addresses.iter().map(|text| Port::udp(text.parse().unwrap())).collect::<Vec<_>>().into()
    }

    /// Starts a DNS server with these records. It fails for names that begin with `broken`, and does not answer names
    /// that begin with `silent`.
    pub(in crate::control) async fn server(records: Vec<(&'static str, RData)>) -> SocketAddr {
        failing(records, Vec::new()).await
    }

    /// Starts a server like [`server`] that also fails for the names in `fails`.
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
                        message.add_answer(Answer::from_rdata(name, 3600, data.clone()));
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

    /// The look-up gets the server's answer unchanged: records of each type, the absence of records, and failure.
    #[tokio::test]
    async fn a_question_is_answered_by_a_server() {
        let records = vec![
            ("_sip._udp.pool.test.", srv(1, 10, "one.test.")),
            ("_sip._udp.pool.test.", srv(1, 30, "two.test.")),
            ("one.test.", a(1)),
            ("one.test.", aaaa(1)),
            ("two.test.", a(2)),
        ];
        let server = failing(records, vec![("two.test.", RecordType::AAAA)]).await;
        let ask = async |question| asking(server).ask(question).await;
        let name = "_sip._udp.pool.test.".to_owned();
        let found = ask(DnsQuestion::Services(name)).await.unwrap();
        let expected = [("192.0.2.1:5070", 0.5), ("192.0.2.2:5070", 1.5), ("[2001:db8::1]:5070", 0.5)];
        assert_eq!(found.shares(), expected.map(|(address, share)| (address.parse().unwrap(), share)));
        assert!(found.failure().is_some(), "a part of the look-up failed");
        let nothing =
            ask(DnsQuestion::Addresses { name: "none.test.".to_owned(), port: 5060 }).await.unwrap();
        assert_eq!(
            (nothing.shares(), nothing.failure()),
            (vec![], None),
            "the server answered that there is no record"
        );
        let broken = ask(DnsQuestion::Services("broken.test.".to_owned())).await;
        assert!(broken.is_err(), "a failing server does not answer that there is no record");
    }

    /// Names are tried within the domains of the resolver's configuration.
    #[tokio::test]
    async fn the_domains_of_the_resolver_are_tried() {
        let records = vec![("far.test.", a(1)), ("near.site.test.", a(2))];
        let mut group = NameServerConfigGroup::new();
        group.push(NameServerConfig::new(server(records).await, Protocol::Udp));
        let domains = ["site.test.", "other.test."].map(|name| Name::from_ascii(name).unwrap());
        let config = ResolverConfig::from_parts(None, domains.to_vec(), group);
        let builder = TokioResolver::builder_with_config(config, TokioConnectionProvider::default());
        let client = builder.build();
        for (name, address) in [("near", "192.0.2.2:5060"), ("far.test", "192.0.2.1:5060")] {
            let question = DnsQuestion::Addresses { name: name.to_owned(), port: 5060 };
            let usable = Usable { families: [true; 2], transports: vec![Transport::Udp] };
            let look_up = LookUp::new(Instant::ZERO, question, usable, search_list(&client));
            let found = follow(&client, look_up).await.unwrap();
            assert_eq!(found.shares(), [(address.parse().unwrap(), 1.0)], "{name}");
        }
    }

    /// A query without an answer ends at its time-out, and the other queries count.
    #[tokio::test]
    async fn an_unanswered_query_is_a_failure() {
        let service = "_sip._udp.half.test.";
        let records = ["silent.test.", "one.test."].map(|host| (service, srv(1, 1, host)));
        let records = records.into_iter().chain([("one.test.", a(1))]).collect();
        let found =
            asking(server(records).await).ask(DnsQuestion::Services(service.to_owned())).await.unwrap();
        assert_eq!(found.shares().len(), 1);
        assert!(found.failure().is_some(), "the other query is unanswered");
    }
}
