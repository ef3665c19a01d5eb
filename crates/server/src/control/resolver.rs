//! Questions to the DNS: addresses, SRV records (RFC 2782), and which of the two counts (RFC 3263 §4.2).

use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, NameServerConfigGroup, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::xfer::Protocol;
use hickory_resolver::proto::{ProtoError, ProtoErrorKind};
use hickory_resolver::{ResolveError, TokioResolver};
use std::net::SocketAddr;
use std::time::Duration;

/// An address that a name stands for, and what it is worth relative to the mean of the name's addresses.
pub(super) type Share = (SocketAddr, f64);

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// The A and AAAA records of a name.
    Addresses { name: String, port: u16 },
    /// The SRV records of a name.
    Services(String),
    /// Where a name takes requests over UDP: SRV records come first, and A and AAAA records, with this port, count only
    /// where there is no SRV record (RFC 3263 §4.2). NAPTR (§4.1) would choose among transports, and there is one.
    Sip { name: String, port: u16 },
}

/// Asks the DNS. It remembers no answers: who asks keeps them, and asks again when it wants to know.
#[derive(Debug)]
pub(crate) struct Resolver {
    servers: Vec<SocketAddr>,
    /// Set up at the first question, for all of them.
    resolver: Option<TokioResolver>,
}

/// A look-up that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(5);

impl Resolver {
    /// Asks these servers; without any those of the system, as its configuration has them at the first question.
    pub(crate) fn new(servers: &[SocketAddr]) -> Self {
        Self { servers: servers.to_vec(), resolver: None }
    }

    /// The addresses, in an order that does not change; none if the name has none.
    pub(super) fn ask(
        &mut self,
        question: Question,
    ) -> impl Future<Output = Result<Vec<Share>, String>> + Send + use<> {
        let resolver = self.resolver();
        async move {
            let asked = async { answer(&resolver?, question).await };
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            answer.unwrap_or_else(|_| Err("no answer in time".to_owned()))
        }
    }

    fn resolver(&mut self) -> Result<TokioResolver, String> {
        if let Some(resolver) = &self.resolver {
            return Ok(resolver.clone());
        }
        let resolver = set_up(&self.servers)?;
        self.resolver = Some(resolver.clone());
        Ok(resolver)
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
    let options = builder.options_mut();
    // A name stands for all its addresses, not for those of the family that answers first.
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.cache_size = 0;
    Ok(builder.build())
}

async fn answer(resolver: &TokioResolver, question: Question) -> Result<Vec<Share>, String> {
    match question {
        Question::Addresses { name, port } => addresses(resolver, &name, port).await,
        Question::Services(name) => Ok(services(resolver, &name).await?.unwrap_or_default()),
        Question::Sip { name, port } => match services(resolver, &format!("_sip._udp.{name}")).await? {
            Some(shares) => Ok(shares),
            None => addresses(resolver, &name, port).await,
        },
    }
}

/// Whether a server said that there is no such record. One that fails or refuses has not said so, though the resolver
/// counts that as no record found too.
fn has_none(error: &ResolveError) -> bool {
    let kind = error.proto().map(ProtoError::kind);
    let said = |code| matches!(code, ResponseCode::NoError | ResponseCode::NXDomain);
    matches!(kind, Some(ProtoErrorKind::NoRecordsFound { response_code, .. }) if said(*response_code))
}

async fn addresses(resolver: &TokioResolver, name: &str, port: u16) -> Result<Vec<Share>, String> {
    let found = match resolver.lookup_ip(name).await {
        Err(error) if has_none(&error) => return Ok(Vec::new()),
        found => found.map_err(|error| error.to_string())?,
    };
    let mut addresses: Vec<_> = found.iter().map(|ip| SocketAddr::new(ip, port)).collect();
    // Answers come in changing order; slots and shares should not.
    addresses.sort_unstable();
    Ok(addresses.into_iter().map(|address| (address, 1.0)).collect())
}

/// The targets of the most preferred priority, each with its weight relative to their mean (RFC 2782): the weights of a
/// name share out the capacity that the configuration gives. `None` if there is no SRV record.
async fn services(resolver: &TokioResolver, name: &str) -> Result<Option<Vec<Share>>, String> {
    let found = match resolver.srv_lookup(name).await {
        Err(error) if has_none(&error) => return Ok(None),
        found => found.map_err(|error| error.to_string())?,
    };
    let Some(best) = found.iter().map(SRV::priority).min() else { return Ok(None) };
    let preferred: Vec<_> = found.iter().filter(|srv| srv.priority() == best).collect();
    // Weight 0 means a very small share, not none.
    let weight = |weight: u16| f64::from(weight.max(1));
    let mean = preferred.iter().map(|srv| weight(srv.weight())).sum::<f64>() / preferred.len() as f64;
    let (mut shares, mut failure) = (Vec::new(), None);
    for srv in preferred {
        match addresses(resolver, &srv.target().to_utf8(), srv.port()).await {
            Ok(found) => {
                shares.extend(found.into_iter().map(|(address, _)| (address, weight(srv.weight()) / mean)));
            }
            Err(error) => failure = Some(error),
        }
    }
    // One target that cannot be found does not take the others away.
    if let (true, Some(failure)) = (shares.is_empty(), failure) {
        return Err(failure);
    }
    shares.sort_by_key(|&(address, _)| address);
    Ok(Some(shares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::proto::op::{Message, MessageType};
    use hickory_resolver::proto::rr::rdata::A;
    use hickory_resolver::proto::rr::{Name, RData, Record};
    use std::net::Ipv4Addr;
    use tokio::net::UdpSocket;

    /// A DNS server that knows these records.
    async fn server(records: Vec<(&'static str, RData)>) -> SocketAddr {
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
                if query.name().to_string().starts_with("broken.") {
                    message.set_response_code(ResponseCode::ServFail);
                }
                socket.send_to(&message.to_vec().unwrap(), from).await.unwrap();
            }
        });
        address
    }

    fn a(last: u8) -> RData {
        RData::A(A::new(192, 0, 2, last))
    }

    fn srv(priority: u16, weight: u16, target: &str) -> RData {
        RData::SRV(SRV::new(priority, weight, 5070, Name::from_ascii(target).unwrap()))
    }

    fn shares(expected: &[(&str, f64)]) -> Vec<Share> {
        expected.iter().map(|&(address, share)| (address.parse().unwrap(), share)).collect()
    }

    fn sip(name: &str) -> Question {
        Question::Sip { name: name.to_owned(), port: 5060 }
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
        let mut resolver = Resolver::new(&[server.await]);
        assert_eq!(resolver.ask(sip("plain.test.")).await, Ok(shares(&[("192.0.2.1:5060", 1.0)])));
        let both = Ok(shares(&[("192.0.2.3:5070", 1.5), ("192.0.2.4:5070", 0.5)]));
        assert_eq!(resolver.ask(sip("both.test.")).await, both);
        assert_eq!(resolver.ask(Question::Services("_sip._udp.both.test.".to_owned())).await, both);
        let addresses = Question::Addresses { name: "both.test.".to_owned(), port: 5080 };
        assert_eq!(resolver.ask(addresses).await, Ok(shares(&[("192.0.2.1:5080", 1.0)])));
        // RFC 3263 §4.2: SRV records were found, so the name's own address is not asked for.
        assert_eq!(resolver.ask(sip("hollow.test.")).await, Ok(shares(&[])));
        assert_eq!(resolver.ask(sip("nowhere.test.")).await, Ok(shares(&[])));
        // A server that fails does not say that there is nothing.
        resolver.ask(sip("broken.test.")).await.unwrap_err();
        let addresses = Question::Addresses { name: "broken.test.".to_owned(), port: 5060 };
        resolver.ask(addresses).await.unwrap_err();
    }
}
