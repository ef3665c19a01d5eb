//! Tests of look-ups with a table as the DNS.

use super::*;
use crate::names::Share;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A DNS server: its records, names that it fails for, and names that it does not answer.
#[derive(Default)]
struct Zone {
    records: Vec<(&'static str, RecordKind, DnsRecord)>,
    fails: Vec<(&'static str, RecordKind)>,
    silent: &'static str,
}

fn a(last: u8) -> DnsRecord {
    DnsRecord::Address(Ipv4Addr::new(192, 0, 2, last).into())
}

fn aaaa(last: u16) -> DnsRecord {
    DnsRecord::Address(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into())
}

fn srv(priority: u16, weight: u16, target: &str) -> DnsRecord {
    DnsRecord::Service(ServiceRecord { priority, weight, port: 5070, target: target.to_owned() })
}

impl Zone {
    fn new(records: &[(&'static str, DnsRecord)]) -> Self {
        let kind = |record: &DnsRecord| match record {
            DnsRecord::Address(IpAddr::V4(_)) => RecordKind::A,
            DnsRecord::Address(IpAddr::V6(_)) => RecordKind::Aaaa,
            DnsRecord::Service(_) => RecordKind::Srv,
            DnsRecord::Pointer(_) => RecordKind::Naptr,
        };
        let records = records.iter().map(|(name, record)| (*name, kind(record), record.clone()));
        Self { records: records.collect(), ..Self::default() }
    }

    fn failing(self, fails: &[(&'static str, RecordKind)]) -> Self {
        Self { fails: fails.to_vec(), ..self }
    }

    /// `None`: no answer.
    fn answer(&self, query: &DnsQuery) -> Option<Answer> {
        if !self.silent.is_empty() && query.name.starts_with(self.silent) {
            return None;
        }
        if self.fails.contains(&(&*query.name, query.kind)) {
            return Some(Err("SERVFAIL".to_owned()));
        }
        let is_it =
            |(name, kind, _): &&(&str, RecordKind, DnsRecord)| (*name, *kind) == (&*query.name, query.kind);
        Some(Ok(self.records.iter().filter(is_it).map(|(.., record)| record.clone()).collect()))
    }
}

/// Result and course of a look-up.
struct Done {
    outcome: Result<FoundAddresses, String>,
    queries: Vec<DnsQuery>,
    /// Largest number of queries at the same time.
    most: usize,
    ended: Instant,
}

const BOTH: [bool; 2] = [true; 2];

fn usable(families: [bool; 2]) -> Usable {
    Usable { families, transports: vec![Transport::Udp, Transport::Tcp, Transport::Tls] }
}

/// Runs a question to its end. Queries without an answer fail at their deadline.
fn follow(zone: &Zone, question: DnsQuestion, of_use: [bool; 2], search: SearchList) -> Done {
    let mut now = Instant::ZERO;
    let mut look_up = LookUp::new(now, question, usable(of_use), search);
    let (mut queries, mut waiting, mut most) = (Vec::new(), Vec::new(), 0);
    loop {
        waiting.extend(look_up.drain_queries());
        most = most.max(waiting.len());
        if let Some(outcome) = look_up.outcome() {
            return Done { outcome: outcome.clone(), queries, most, ended: now };
        }
        let answered = waiting.iter().position(|query| zone.answer(query).is_some());
        let first = (0..waiting.len()).min_by_key(|&at| waiting[at].until);
        let query: DnsQuery =
            waiting.remove(answered.or(first).expect("a query is open as long as there is no outcome"));
        let answer = zone.answer(&query).unwrap_or_else(|| {
            now = now.max(query.until);
            Err(query.unanswered())
        });
        look_up.answered(now, query.number, answer);
        queries.push(query);
    }
}

fn ask(zone: &Zone, question: DnsQuestion) -> Result<FoundAddresses, String> {
    follow(zone, question, BOTH, SearchList::default()).outcome
}

fn shares(expected: &[(&str, f64)]) -> Vec<Share> {
    expected.iter().map(|&(address, share)| (address.parse().unwrap(), share)).collect()
}

fn sip(name: &str) -> DnsQuestion {
    DnsQuestion::Sip { transport: Transport::Udp, name: name.to_owned() }
}

fn addresses(name: &str) -> DnsQuestion {
    DnsQuestion::Addresses { name: name.to_owned(), port: 5080 }
}

#[test]
fn addresses_are_used_only_without_srv_records() {
    let zone = Zone::new(&[
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
    let seen = |question| ask(&zone, question).map(|found| found.shares());
    assert_eq!(seen(sip("plain.test.")), Ok(shares(&[("192.0.2.1:5060", 1.0)])));
    let both = Ok(shares(&[("192.0.2.3:5070", 1.5), ("192.0.2.4:5070", 0.5)]));
    assert_eq!(seen(sip("both.test.")), both);
    assert_eq!(seen(DnsQuestion::Services("_sip._udp.both.test.".to_owned())), both);
    assert_eq!(seen(addresses("both.test.")), Ok(shares(&[("192.0.2.1:5080", 1.0)])));
    // RFC 3263 §4.2: SRV records were found, so the name's own address is not queried.
    assert_eq!(seen(sip("hollow.test.")), Ok(shares(&[])));
    assert_eq!(seen(sip("nowhere.test.")), Ok(shares(&[])));
    let found = ask(&zone, sip("nowhere.test.")).unwrap();
    assert_eq!(found.failure(), None, "the DNS answered that there is no record");
}

#[test]
fn each_transport_has_its_service_and_its_port() {
    let zone = Zone::new(&[("host.test.", a(1))]);
    for (transport, service, port) in [
        (Transport::Udp, Some("_sip._udp.host.test."), 5060),
        (Transport::Tcp, Some("_sip._tcp.host.test."), 5060),
        (Transport::Tls, Some("_sips._tcp.host.test."), 5061),
        (Transport::Wss, None, 443),
    ] {
        let question = DnsQuestion::Sip { transport, name: "host.test.".to_owned() };
        let done = follow(&zone, question, BOTH, SearchList::default());
        let asked = done.queries.iter().find(|query| query.kind == RecordKind::Srv);
        assert_eq!(asked.map(|query| &*query.name), service);
        assert_eq!(done.outcome.unwrap().shares()[0].0.port(), port);
    }
}

#[test]
fn a_weight_of_zero_is_a_small_share() {
    let zone = Zone::new(&[
        ("s.test.", srv(0, 0, "one.test.")),
        ("s.test.", srv(0, 3, "two.test.")),
        ("one.test.", a(1)),
        ("two.test.", a(2)),
    ]);
    let found = ask(&zone, DnsQuestion::Services("s.test.".to_owned())).unwrap();
    assert_eq!(found.shares(), shares(&[("192.0.2.1:5070", 0.5), ("192.0.2.2:5070", 1.5)]));
}

/// A failing server does not prove that there are no records.
#[test]
fn a_failure_is_not_an_empty_answer() {
    use RecordKind::{A, Aaaa, Srv};
    let zone = Zone::default().failing(&[("broken.", A), ("broken.", Aaaa), ("broken.", Srv)]);
    assert!(
        ask(&zone, DnsQuestion::Services("broken.".to_owned())).is_err(),
        "the hosts of the name are unknown"
    );
    // For the second question a server answers that there is no SRV record, so the address queries fail.
    for question in [addresses("broken."), sip("broken.")] {
        let found = ask(&zone, question).unwrap();
        assert!(found.shares().is_empty() && found.failure().is_some());
    }
}

#[test]
fn a_family_without_a_listener_is_not_asked_for() {
    use RecordKind::{A, Aaaa};
    let zone = Zone::new(&[("four.test.", a(1)), ("six.test.", aaaa(1))])
        .failing(&[("four.test.", Aaaa), ("six.test.", A)]);
    for (of_use, host, address) in
        [([true, false], "four.test.", "192.0.2.1:5080"), ([false, true], "six.test.", "[2001:db8::1]:5080")]
    {
        let found = follow(&zone, addresses(host), of_use, SearchList::default()).outcome.unwrap();
        assert_eq!((found.shares(), found.failure()), (shares(&[(address, 1.0)]), None));
        let found = ask(&zone, addresses(host)).unwrap();
        assert!(found.failure().is_some(), "with listeners of both families the failure is reported");
    }
}

#[test]
fn more_hosts_than_are_asked_for_at_a_time_are_all_found() {
    let hosts: Vec<&'static str> =
        ('a'..).take(HOSTS_AT_A_TIME + 1).map(|name| &*format!("{name}.t.").leak()).collect();
    let mut records: Vec<_> = hosts.iter().map(|host| ("_sip._udp.t.", srv(1, 1, host))).collect();
    records.extend((1..).zip(&hosts).map(|(last, host)| (*host, a(last))));
    let done = follow(&Zone::new(&records), sip("t."), BOTH, SearchList::default());
    let found = done.outcome.unwrap();
    assert_eq!((found.shares().len(), found.failure()), (hosts.len(), None));
    assert_eq!(done.most, 2 * HOSTS_AT_A_TIME, "both families of each");
}

#[test]
fn hosts_that_are_silent_leave_time_for_the_others() {
    let silent: Vec<&'static str> =
        (0..2 * HOSTS_AT_A_TIME).map(|number| &*format!("silent{number}.t.").leak()).collect();
    // This host is queried last.
    let hosts = silent.iter().copied().chain(["t."]);
    let mut records: Vec<_> = hosts.map(|host| ("s.t.", srv(1, 1, host))).collect();
    records.push(("t.", a(1)));
    let zone = Zone { silent: "silent", ..Zone::new(&records) };
    let done = follow(&zone, DnsQuestion::Services("s.t.".to_owned()), BOTH, SearchList::default());
    assert_eq!(done.outcome.as_ref().unwrap().shares(), shares(&[("192.0.2.1:5070", 1.0)]));
    assert!(done.outcome.unwrap().failure().is_some());
    assert!(done.ended <= Instant::ZERO + PATIENCE, "{}", done.ended);
}

#[test]
fn a_failure_in_one_domain_is_not_replaced_by_another() {
    use RecordKind::{A, Srv};
    let elsewhere = "sip.other.test.";
    let zone = Zone::new(&[
        (elsewhere, a(9)),
        (elsewhere, aaaa(9)),
        (elsewhere, srv(1, 1, elsewhere)),
        ("far.other.test.", srv(1, 1, elsewhere)),
    ])
    .failing(&[("sip.site.test.", A), ("sip.site.test.", Srv)]);
    let search =
        || SearchList { domains: ["site.test.", "other.test."].map(str::to_owned).to_vec(), ndots: 1 };
    let seen = |question| follow(&zone, question, BOTH, search()).outcome;
    let found = seen(addresses("sip")).unwrap();
    assert!(found.failure().is_some(), "the address in the first domain is unknown");
    assert_eq!(
        found.shares(),
        shares(&[("[2001:db8::9]:5080", 1.0)]),
        "the DNS answered that the second domain has no IPv4 address"
    );
    assert!(seen(DnsQuestion::Services("sip".to_owned())).is_err());
    assert_eq!(seen(DnsQuestion::Services("far".to_owned())).unwrap().shares().len(), 2);
}

#[test]
fn an_absent_name_is_reported_by_its_record_types() {
    let zone = Zone::default();
    let absent = |of_use, question| {
        let found = follow(&zone, question, of_use, SearchList::default()).outcome.unwrap();
        assert_eq!((found.shares(), found.failure()), (Vec::new(), None));
        found.absent().to_owned()
    };
    let only_four = absent([true, false], sip("x.test."));
    assert!(only_four.starts_with("the DNS has no A record") && only_four.contains("no listener is IPv6"));
    assert!(absent([false, true], sip("x.test.")).starts_with("the DNS has no AAAA record"));
    assert_eq!(absent(BOTH, sip("x.test.")), "the DNS has no A or AAAA record of this name");
    let service = absent([true, false], DnsQuestion::Services("_sip._udp.x.test.".to_owned()));
    assert!(service.starts_with("the DNS has no SRV record"), "{service}");
}

#[test]
fn an_unexpected_answer_changes_nothing() {
    let mut look_up = LookUp::new(Instant::ZERO, addresses("a.test."), usable(BOTH), SearchList::default());
    let numbers: Vec<_> = look_up.drain_queries().map(|query| query.number).collect();
    look_up.answered(Instant::ZERO, 99, Ok(vec![a(7)]));
    look_up.answered(Instant::ZERO, numbers[0], Ok(vec![a(1)]));
    look_up.answered(Instant::ZERO, numbers[0], Ok(vec![a(2)]));
    assert!(look_up.outcome().is_none());
    look_up.answered(Instant::ZERO, numbers[1], Ok(vec![]));
    assert_eq!(look_up.outcome().unwrap().as_ref().unwrap().shares(), shares(&[("192.0.2.1:5080", 1.0)]));
}

fn naptr(order: u16, preference: u16, service: &str, replacement: &str) -> DnsRecord {
    let (flags, service, replacement) = ("s".to_owned(), service.to_owned(), replacement.to_owned());
    DnsRecord::Pointer(PointerRecord { order, preference, flags, service, replacement })
}

fn domain(is_secure: bool, name: &str) -> DnsQuestion {
    DnsQuestion::Domain { is_secure, name: name.to_owned() }
}

/// Returns transport and addresses of a domain, and the types of the queried records.
fn seen(
    zone: &Zone,
    question: DnsQuestion,
    transports: &[Transport],
) -> (Option<Transport>, Vec<Share>, String) {
    let usable = Usable { transports: transports.to_vec(), ..usable([true, false]) };
    let mut look_up = LookUp::new(Instant::ZERO, question, usable, SearchList::default());
    let mut asked = Vec::new();
    loop {
        let queries: Vec<_> = look_up.drain_queries().collect();
        for query in queries {
            let answer = zone.answer(&query).unwrap_or_else(|| Err(query.unanswered()));
            look_up.answered(Instant::ZERO, query.number, answer);
            asked.push(query.kind.to_string());
        }
        if let Some(outcome) = look_up.outcome() {
            let found = outcome.as_ref().unwrap();
            return (found.transport(), found.shares(), asked.join(" "));
        }
    }
}

const ALL: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];

/// Returns the zone of the example in RFC 3263 §4.1.
fn example() -> Zone {
    Zone::new(&[
        ("example.com.", naptr(100, 50, "SIP+D2U", "_sip._udp.example.com.")),
        ("example.com.", naptr(90, 50, "SIP+D2T", "_sip._tcp.example.com.")),
        ("example.com.", naptr(50, 50, "SIPS+D2T", "_sips._tcp.example.com.")),
        ("_sip._udp.example.com.", srv(0, 1, "udp.example.com.")),
        ("_sip._tcp.example.com.", srv(0, 1, "tcp.example.com.")),
        ("_sips._tcp.example.com.", srv(0, 1, "tls.example.com.")),
        ("udp.example.com.", a(1)),
        ("tcp.example.com.", a(2)),
        ("tls.example.com.", a(3)),
    ])
}

#[test]
fn naptr_determines_the_transport() {
    let at = |last: u8| shares(&[(&format!("192.0.2.{last}:5070"), 1.0)]);
    let asked = || "NAPTR SRV A".to_owned();
    // TLS only if requested, since the server of a SIP URI need not have a certificate that we trust.
    let example = example();
    let seen =
        |is_secure, transports: &[Transport]| seen(&example, domain(is_secure, "example.com."), transports);
    assert_eq!(seen(false, &ALL), (Some(Transport::Tcp), at(2), asked()));
    assert_eq!(seen(false, &ALL[..1]), (Some(Transport::Udp), at(1), asked()));
    assert_eq!(seen(true, &ALL), (Some(Transport::Tls), at(3), asked()));
}

#[test]
fn order_precedes_preference_and_useless_records_are_skipped() {
    let mut zone = Zone::new(&[
        ("a.test.", naptr(20, 1, "SIP+D2U", "udp.a.test.")),
        ("a.test.", naptr(10, 9, "sip+d2t", "tcp.a.test.")),
        ("a.test.", naptr(10, 5, "SIP+D2S", "sctp.a.test.")),
        ("a.test.", naptr(10, 4, "SIP+D2W", "ws.a.test.")),
        ("udp.a.test.", srv(0, 1, "one.test.")),
        ("tcp.a.test.", srv(0, 1, "two.test.")),
        ("one.test.", a(1)),
        ("two.test.", a(2)),
    ]);
    let seen = |zone: &Zone| seen(zone, domain(false, "a.test."), &ALL);
    let at = |last: u8| shares(&[(&format!("192.0.2.{last}:5070"), 1.0)]);
    assert_eq!(seen(&zone), (Some(Transport::Tcp), at(2), "NAPTR SRV A".to_owned()));
    zone.records.retain(|(name, ..)| *name != "tcp.a.test.");
    assert_eq!(seen(&zone), (Some(Transport::Udp), at(1), "NAPTR SRV SRV A".to_owned()));
    // A NAPTR record of addresses, or with a regular expression, does not belong to SIP.
    for (_, _, record) in &mut zone.records {
        if let DnsRecord::Pointer(pointer) = record {
            pointer.flags = "a".to_owned();
        }
    }
    zone.records.push(("a.test.", RecordKind::A, a(9)));
    let plain = shares(&[("192.0.2.9:5060", 1.0)]);
    assert_eq!(seen(&zone), (Some(Transport::Udp), plain, "NAPTR SRV SRV A".to_owned()));
}

/// RFC 3263 §4.1: without NAPTR records the SRV records of each transport count. Without SRV records the transport is
/// UDP, or TLS for a SIPS URI.
#[test]
fn without_naptr_srv_determines_the_transport() {
    let at = |last: u8| shares(&[(&format!("192.0.2.{last}:5070"), 1.0)]);
    let zone = Zone::new(&[
        ("_sip._tcp.a.test.", srv(0, 1, "two.test.")),
        ("_sips._tcp.a.test.", srv(0, 1, "three.test.")),
        ("two.test.", a(2)),
        ("three.test.", a(3)),
        ("a.test.", a(4)),
        ("b.test.", a(5)),
    ]);
    let seen = |name: &str, is_secure, transports: &[Transport]| {
        let (transport, found, _) = seen(&zone, domain(is_secure, name), transports);
        (transport, found)
    };
    assert_eq!(seen("a.test.", false, &ALL), (Some(Transport::Tcp), at(2)));
    assert_eq!(seen("a.test.", true, &ALL), (Some(Transport::Tls), at(3)));
    let plain = |last: u8, port: u16| shares(&[(&format!("192.0.2.{last}:{port}"), 1.0)]);
    assert_eq!(seen("a.test.", false, &ALL[..1]), (Some(Transport::Udp), plain(4, 5060)));
    assert_eq!(seen("b.test.", false, &ALL), (Some(Transport::Udp), plain(5, 5060)));
    assert_eq!(seen("b.test.", false, &ALL[1..]), (Some(Transport::Tcp), plain(5, 5060)));
    assert_eq!(seen("b.test.", true, &ALL), (Some(Transport::Tls), plain(5, 5061)));
}

/// A firewall that drops NAPTR queries must not make names unreachable.
#[test]
fn an_unanswered_naptr_query_leaves_time_for_the_others() {
    let records = [("_sip._udp.silent.test.", srv(0, 1, "one.test.")), ("one.test.", a(1))];
    let zone = Zone { silent: "silent", ..Zone::new(&records) };
    let done = follow(&zone, domain(false, "silent.test."), BOTH, SearchList::default());
    assert_eq!(done.outcome.unwrap().shares(), shares(&[("192.0.2.1:5070", 1.0)]));
    assert!(done.ended <= Instant::ZERO + NAPTR_PATIENCE, "{}", done.ended);
    let failing = Zone::new(&records).failing(&[("silent.test.", RecordKind::Naptr)]);
    assert_eq!(ask(&failing, domain(false, "silent.test.")).unwrap().shares().len(), 1);
}

#[test]
fn the_number_of_queries_for_a_zone_is_bounded() {
    let names: Vec<&'static str> = (0..100).map(|number| &*format!("_sip._udp.t{number}.").leak()).collect();
    let records: Vec<_> = names.iter().map(|name| ("a.test.", naptr(1, 1, "SIP+D2U", name))).collect();
    let (_, found, asked) = seen(&Zone::new(&records), domain(false, "a.test."), &ALL);
    assert_eq!((found, asked.matches("SRV").count()), (Vec::new(), POINTERS_MOST));
}
