//! Random rules and requests with much in common, and a simple reference for which rules match.

use base::{Connection, Flow, Transport};
use core::num::NonZeroU32;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use route::{Conditions, Field, MethodName, Network, Origin, Part, Pattern, Query, Regex, Rule, UriPlace};
use std::net::{IpAddr, SocketAddr};
use testkit::TestRequest;
use wire::Message;

/// A request by its parts.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// Further header lines, with their line ends.
    pub(crate) lines: String,
    pub(crate) flow: Flow,
    pub(crate) from_member: bool,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            method: "INVITE".to_owned(),
            uri: "sip:b@x.example".to_owned(),
            from: "<sip:a@x.example>".to_owned(),
            to: "<sip:b@x.example>".to_owned(),
            lines: String::new(),
            flow: Flow::udp(0, SocketAddr::from(([10, 0, 0, 1], 5060))),
            from_member: false,
        }
    }
}

impl Call {
    pub(crate) fn text(&self) -> String {
        let request = TestRequest {
            uri: self.uri.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            contact: String::new(),
            ..TestRequest::new(&self.method, "c", self.flow.peer)
        };
        self.lines.lines().fold(request, TestRequest::line).text()
    }
}

pub(crate) fn query<'m>(message: &'m Message<'m>, call: &Call) -> Query<'m> {
    Query::new(message, call.flow, call.from_member)
}

pub(crate) fn rule(conditions: Conditions) -> Rule {
    Rule { conditions, ..Rule::default() }
}

// Requests. Each URI comes with its user and host as expected results.

const USERS: [(&str, &str); 11] = [
    ("4410", "4410"),
    ("00441", "00441"),
    ("44", "44"),
    ("441", "441"),
    ("4411", "4411"),
    ("%34%341", "441"),
    ("0044", "0044"),
    ("1144;x=1", "1144"),
    ("Bob", "Bob"),
    ("bob", "bob"),
    ("b%6fb:secret", "bob"),
];

const HOSTS: [(&str, &str); 7] = [
    ("x.example", "x.example"),
    ("X.Example.", "x.example"),
    ("a.x.example:5070", "a.x.example"),
    ("10.0.0.1", "10.0.0.1"),
    ("[2001:db8::1]:5060", "2001:db8::1"),
    ("[2001:DB8:0::1]", "2001:db8::1"),
    ("[::ffff:10.0.0.1]", "10.0.0.1"),
];

const SOURCES: [&str; 6] =
    ["10.0.0.1", "10.0.1.1", "11.0.0.1", "2001:db8::5", "2001:db9::5", "::ffff:10.0.0.1"];

const VALUES: [&str; 6] = ["gold", "Gold-1", "ungold", "tin", "", "a, gold"];

fn uri() -> impl Strategy<Value = String> {
    let params = select(vec!["", ";transport=udp", ";lr;x=1"]);
    let sip = (
        select(vec!["sip", "sips", "SIP"]),
        option::weighted(0.8, select(&USERS[..])),
        select(&HOSTS[..]),
        params,
    )
        .prop_map(|(scheme, user, (host, _), params)| {
            let user = user.map(|(user, _)| format!("{user}@")).unwrap_or_default();
            format!("{scheme}:{user}{host}{params}")
        });
    prop_oneof![9 => sip, 1 => Just("tel:441;phone-context=+1".to_owned()), 1 => Just("urn:service:sos".to_owned())]
}

fn party() -> impl Strategy<Value = String> {
    (select(vec!["", "\"4, <sip:44@h>\" ", "Bob "]), uri()).prop_map(|(name, uri)| format!("{name}<{uri}>"))
}

fn lines() -> impl Strategy<Value = String> {
    let line = (select(vec!["X-A", "x-a", "X-B", "s", "Subject", "X-C"]), select(&VALUES[..]));
    vec(line.prop_map(|(name, value)| format!("{name}: {value}\r\n")), 0..4).prop_map(|lines| lines.concat())
}

fn flow() -> impl Strategy<Value = Flow> {
    (select(&SOURCES[..]), 0..4_u16, select(vec![Transport::Udp, Transport::Tls])).prop_map(
        |(ip, listener, transport)| {
            let connection = transport.is_reliable().then_some(Connection(NonZeroU32::MIN));
            Flow { transport, listener, peer: SocketAddr::new(ip.parse().unwrap(), 5060), connection }
        },
    )
}

pub(crate) fn call() -> impl Strategy<Value = Call> {
    let method = select(vec!["INVITE", "INVITE", "ACK", "CANCEL", "REGISTER", "PING", "PONG"]);
    (method, uri(), party(), party(), lines(), flow(), any::<bool>()).prop_map(
        |(method, uri, from, to, lines, flow, from_member)| Call {
            method: method.to_owned(),
            uri,
            from,
            to,
            lines,
            flow,
            from_member,
        },
    )
}

// Rules.

fn pattern(
    words: &'static [&'static str],
    expressions: &'static [&'static str],
    any_case: bool,
) -> BoxedStrategy<Pattern> {
    // A word, or a part of one.
    let piece = (select(words), 0..4_usize, any::<bool>()).prop_map(|(word, cut, front)| {
        let cut = cut.min(word.len());
        if front { word[cut..].to_owned() } else { word[..word.len() - cut].to_owned() }
    });
    prop_oneof![
        1 => Just(Pattern::Present),
        4 => select(words).prop_map(|word| Pattern::Exact(word.into())),
        4 => piece.clone().prop_map(|text| Pattern::Prefix(text.into())),
        3 => piece.clone().prop_map(|text| Pattern::Suffix(text.into())),
        2 => piece.prop_map(|text| Pattern::Contains(text.into())),
        2 => select(expressions).prop_map(move |source| Pattern::Regex(Regex::new(source, any_case).unwrap())),
    ]
    .boxed()
}

fn text() -> impl Strategy<Value = (Field, Vec<Pattern>)> {
    let place = select(vec![UriPlace::RequestUri, UriPlace::RequestUri, UriPlace::From, UriPlace::To]);
    let users =
        pattern(&["44", "441", "4411", "0044", "1144", "Bob", "bob"], &["^44", "1+$", "[Bb]ob"], false);
    let hosts = pattern(
        &["x.example", "X.example.", "a.x.example", "10.0.0.1", "[2001:db8::1]"],
        &["^10", "example$"],
        true,
    );
    let values = pattern(&["gold", "GOLD-1", "ungold", "tin"], &["gold$", "^.$"], true);
    let header = select(vec!["X-A", "x-a", "X-B", "Subject"]);
    prop_oneof![
        3 => (place.clone(), vec(users, 1..3))
            .prop_map(|(place, patterns)| (Field::Uri(place, Part::User), patterns)),
        2 => (place, vec(hosts, 1..3)).prop_map(|(place, patterns)| (Field::Uri(place, Part::Host), patterns)),
        1 => (header, vec(values, 1..3)).prop_map(|(name, patterns)| (Field::Header(name.to_owned()), patterns)),
    ]
}

fn some<T: Clone + core::fmt::Debug + 'static>(values: Vec<T>) -> impl Strategy<Value = Vec<T>> {
    option::weighted(0.2, vec(select(values), 1..3)).prop_map(Option::unwrap_or_default)
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let methods = some(["INVITE", "REGISTER", "PING"].map(MethodName::new).to_vec());
    let origin = select(vec![Origin::Outside, Origin::Outside, Origin::Members, Origin::Anyone]);
    let networks = ["10.0.0.0/8", "10.0.0.0/24", "10.0.0.1", "0.0.0.0/0", "::/0", "2001:db8::/32"];
    let networks = || some(networks.map(|network| network.parse::<Network>().unwrap()).to_vec());
    let listeners = ["192.0.2.1:5060", "0.0.0.0:5060", "0.0.0.0:5070", "[::]:5060"]
        .map(|at| at.parse::<SocketAddr>().unwrap());
    let transports = some(vec![Transport::Udp, Transport::Tls, Transport::Tcp]);
    let places = (networks(), networks(), some(listeners.to_vec()));
    (methods, origin, places, transports, vec(text(), 0..3)).prop_map(
        |(methods, origin, (sources, hosts, listeners), transports, texts)| Conditions {
            methods,
            origin,
            sources,
            hosts,
            listeners,
            transports,
            texts,
        },
    )
}

pub(crate) fn rules() -> impl Strategy<Value = Vec<Conditions>> {
    vec(conditions(), 0..30)
}

// Simple reference, following the documentation.

pub(crate) fn naive(rule: &Conditions, call: &Call, listeners: &[SocketAddr]) -> bool {
    let method = if ["ACK", "CANCEL"].contains(&&call.method[..]) { "INVITE" } else { &call.method };
    let has_origin = match rule.origin {
        Origin::Outside => !call.from_member,
        Origin::Members => call.from_member,
        Origin::Anyone => true,
    };
    let peer = call.flow.peer.ip();
    let listener = listeners.get(usize::from(call.flow.listener));
    let is_at = |named: &SocketAddr| {
        listener.is_some_and(|at| {
            let wildcard = named.ip().is_unspecified();
            at.port() == named.port()
                && at.is_ipv4() == named.is_ipv4()
                && (wildcard || at.ip() == named.ip())
        })
    };
    let host =
        texts(&Field::Uri(UriPlace::RequestUri, Part::Host), call).first().and_then(|host| host.parse().ok());
    let is_method = |name: &MethodName| *name == MethodName::new(method);
    has_origin
        && (rule.methods.is_empty() || rule.methods.iter().any(is_method))
        && (rule.sources.is_empty() || rule.sources.iter().any(|network| holds(network, peer)))
        && (rule.hosts.is_empty()
            || host.is_some_and(|ip| rule.hosts.iter().any(|network| holds(network, ip))))
        && (rule.listeners.is_empty() || rule.listeners.iter().any(is_at))
        && (rule.transports.is_empty() || rule.transports.contains(&call.flow.transport))
        && rule.texts.iter().all(|(field, patterns)| {
            let texts = texts(field, call);
            texts.iter().any(|text| patterns.iter().any(|pattern| is_like(pattern, text, field)))
        })
}

/// Compares whole bytes: the networks above end at byte boundaries.
fn holds(network: &Network, ip: IpAddr) -> bool {
    let bytes = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (first, at, length) = (bytes(network.first()), bytes(ip), usize::from(network.length() / 8));
    first.len() == at.len() && first[..length] == at[..length]
}

/// Texts of a field, in lower case if case is ignored.
fn texts(field: &Field, call: &Call) -> Vec<String> {
    match field {
        Field::Header(name) => {
            let name = name.to_lowercase();
            let lines = call.lines.lines().filter_map(|line| line.split_once(": "));
            lines
                .filter(|(written, _)| written.to_lowercase() == name || *written == "s" && name == "subject")
                .map(|(_, value)| value.to_lowercase())
                .collect()
        }
        Field::Uri(place, part) => {
            let uri = match place {
                UriPlace::RequestUri => &call.uri,
                UriPlace::From => &call.from,
                UriPlace::To => &call.to,
            };
            let uri = uri.rsplit_once('<').map_or(&uri[..], |(_, uri)| uri);
            if uri.starts_with("urn") || uri.starts_with("tel") && *part == Part::Host {
                return Vec::new();
            }
            if uri.starts_with("tel") {
                return vec!["441".to_owned()];
            }
            let (user, host) = uri.rsplit_once('@').map_or((None, uri), |(user, host)| (Some(user), host));
            let user = user.and_then(|user| user.split_once(':')).map(|(_, user)| user);
            let host = if user.is_none() { uri.split_once(':').unwrap().1 } else { host };
            let host = host.split([';', '>']).next().unwrap();
            let read = |table: &[(&str, &str)], written: &str| {
                table.iter().find(|(text, _)| *text == written).unwrap().1.to_owned()
            };
            match part {
                Part::User => user.map(|user| read(&USERS, user)).into_iter().collect(),
                Part::Host => vec![read(&HOSTS, host)],
            }
        }
    }
}

fn is_like(pattern: &Pattern, text: &str, field: &Field) -> bool {
    let is_host = matches!(field, Field::Uri(_, Part::Host));
    let wanted = |bytes: &[u8]| {
        let wanted = String::from_utf8(bytes.to_vec()).unwrap();
        if matches!(field, Field::Uri(_, Part::User)) { wanted } else { wanted.to_lowercase() }
    };
    match pattern {
        Pattern::Present => true,
        Pattern::Exact(bytes) if is_host => {
            text == wanted(bytes).trim_end_matches('.').trim_matches(['[', ']'])
        }
        Pattern::Exact(bytes) => text == wanted(bytes),
        Pattern::Prefix(bytes) => text.starts_with(&wanted(bytes)),
        Pattern::Suffix(bytes) if is_host => text.ends_with(wanted(bytes).trim_end_matches('.')),
        Pattern::Suffix(bytes) => text.ends_with(&wanted(bytes)),
        Pattern::Contains(bytes) => text.contains(&wanted(bytes)),
        Pattern::Regex(regex) => match regex.source() {
            "^44" => text.starts_with("44"),
            "1+$" => text.ends_with('1'),
            "[Bb]ob" => text.contains("Bob") || text.contains("bob"),
            "^10" => text.starts_with("10"),
            "example$" => text.ends_with("example"),
            "gold$" => text.ends_with("gold"),
            "^.$" => text.len() == 1,
            other => panic!("{other} is not a Request-URI of these tests"),
        },
    }
}
