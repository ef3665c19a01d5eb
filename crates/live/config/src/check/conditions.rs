//! Conditions of a `[[route]]`.

use super::listen::{no_such_listener, no_such_transport};
use crate::kind::{FieldText, Kind, NetworkText, Text, TransportName};
use crate::raw::{RawRoute, RawText, RawTexts};
use crate::report::Report;
use crate::setting::{Listed, Setting, Several};
use crate::structure::join;
use crate::typed::Listen;
use base::Transport;
use route::{Conditions, Field, MethodName, Network, Part, Pattern, Regex, UriPlace};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A way to compare texts.
#[derive(Clone, Copy)]
enum Way {
    Exact,
    Prefix,
    Suffix,
    Contains,
    Regex,
}

pub(super) fn check(
    path: &str,
    raw: &RawRoute,
    listen: &Listen,
    report: &mut Report<'_>,
) -> Option<Conditions> {
    let methods = several(raw.method.as_ref());
    let origin = raw.from.as_ref().map(Setting::value);
    let networks = |raw| several::<NetworkText>(raw).into_iter().map(|(value, _)| value).collect();
    let sources: Vec<Network> = networks(raw.source.as_ref());
    let hosts: Vec<Network> = networks(raw.host_network.as_ref());
    let listeners = listeners(raw, listen, report);
    let transports = transports(raw, listen, report);
    let mut texts = Vec::new();
    for (key, place, part, raw) in [
        ("user", UriPlace::RequestUri, Part::User, &raw.user),
        ("host", UriPlace::RequestUri, Part::Host, &raw.host),
        ("from_user", UriPlace::From, Part::User, &raw.from_user),
        ("from_host", UriPlace::From, Part::Host, &raw.from_host),
        ("to_user", UriPlace::To, Part::User, &raw.to_user),
        ("to_host", UriPlace::To, Part::Host, &raw.to_host),
    ] {
        if let Some(raw) = raw {
            texts_of(&join(path, key), &Field::Uri(place, part), raw, Some, &mut texts, report);
        }
    }
    headers(&join(path, "header"), &raw.header, &mut texts, report);
    Some(Conditions {
        methods: methods.into_iter().map(|(name, _)| MethodName::new(&name)).collect(),
        origin: origin.unwrap_or_else(|| Some(route::Origin::default()))?,
        sources,
        hosts,
        listeners,
        transports,
        texts,
    })
}

/// The values of a key with one or several values, each with its place.
pub(super) fn several<K: Kind>(raw: Option<&Several<K>>) -> Vec<(K::Value, &Setting<K>)> {
    let settings = match raw {
        None => &[][..],
        Some(Several::One(setting)) => std::slice::from_ref(setting),
        Some(Several::Many(settings)) => settings,
    };
    settings.iter().filter_map(|setting| Some((setting.value()?, setting))).collect()
}

/// The addresses that the listeners are bound to.
fn listeners(raw: &RawRoute, listen: &Listen, report: &mut Report<'_>) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for (address, setting) in several(raw.listener.as_ref()) {
        let is_named = |bind: SocketAddr, advertise| bind == address || advertise == Some(address);
        let named = listen.listeners.iter().find(|listener| is_named(listener.bind, listener.advertise));
        let is_within = listen.listeners.iter().any(|listener| {
            let bind = listener.bind;
            bind.ip().is_unspecified() && bind.port() == address.port() && bind.is_ipv4() == address.is_ipv4()
        });
        match named {
            Some(listener) => found.push(listener.bind),
            None if is_within || listen.listeners.is_empty() => found.push(address),
            None => report.conflict(setting, no_such_listener(&listen.listeners)),
        }
    }
    found
}

fn transports(raw: &RawRoute, listen: &Listen, report: &mut Report<'_>) -> Vec<Transport> {
    let mut found = Vec::new();
    for (TransportName(transport), setting) in several(raw.transport.as_ref()) {
        let listeners = &listen.listeners;
        if !listeners.is_empty() && !listeners.iter().any(|listener| listener.transport == transport) {
            report.conflict(setting, no_such_transport(listeners));
        }
        found.push(transport);
    }
    found
}

fn headers(
    path: &str,
    raw: &BTreeMap<String, RawTexts<FieldText>>,
    texts: &mut Vec<(Field, Vec<Pattern>)>,
    report: &mut Report<'_>,
) {
    for (name, raw) in raw {
        let path = join(path, name);
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
        if name.len() < 2 || name.len() > route::PATTERN_MAX || !name.bytes().all(is_token) {
            report.key_problem(&path, "expected the long name of a header field, such as \"User-Agent\"");
            continue;
        }
        texts_of(&path, &Field::Header(name.clone()), raw, |text| text, texts, report);
    }
}

/// Adds the conditions of a key on a text. `exact` returns the text of a value outside a table, or `None` for any text.
fn texts_of<K: Kind>(
    path: &str,
    field: &Field,
    raw: &RawTexts<K>,
    exact: impl Fn(K::Value) -> Option<String>,
    texts: &mut Vec<(Field, Vec<Pattern>)>,
    report: &mut Report<'_>,
) {
    let settings = match raw {
        Listed::One(setting) => std::slice::from_ref(setting),
        Listed::Many(settings) => settings,
        Listed::Table(table) => return table_of(path, field, table, texts, report),
    };
    let mut patterns = Vec::new();
    for setting in settings {
        let Some(value) = setting.value() else { continue };
        let made = exact(value).map_or(Ok(Pattern::Present), |text| pattern(field, Way::Exact, text));
        match made {
            Ok(pattern) => patterns.push(pattern),
            Err(remedy) => report.conflict(setting, remedy),
        }
    }
    if settings.is_empty() {
        report.missing(path, "expected at least one value");
    }
    texts.push((field.clone(), patterns));
}

fn table_of(
    path: &str,
    field: &Field,
    table: &RawText,
    texts: &mut Vec<(Field, Vec<Pattern>)>,
    report: &mut Report<'_>,
) {
    let RawText { exact, prefix, suffix, contains, regex } = table;
    let ways = [
        (Way::Exact, exact),
        (Way::Prefix, prefix),
        (Way::Suffix, suffix),
        (Way::Contains, contains),
        (Way::Regex, regex),
    ];
    for (way, raw) in ways {
        let Some(raw) = raw else { continue };
        let mut patterns = Vec::new();
        for (text, setting) in several::<Text>(Some(raw)) {
            match pattern(field, way, text) {
                Ok(pattern) => patterns.push(pattern),
                Err(remedy) => report.conflict(setting, remedy),
            }
        }
        texts.push((field.clone(), patterns));
    }
    if ways.iter().all(|(_, raw)| raw.is_none()) {
        report.missing(path, "expected at least one of `exact`, `prefix`, `suffix`, `contains` and `regex`");
    }
}

/// Returns the pattern, or a remedy. A text that no request can have is a mistake.
fn pattern(field: &Field, way: Way, text: String) -> Result<Pattern, String> {
    if matches!(way, Way::Regex) {
        let regex = Regex::new(&text, field.any_case());
        return regex
            .map(Pattern::Regex)
            .map_err(|error| format!("this is not a regular expression: {error}"));
    }
    match field {
        Field::Uri(_, Part::User) => check_user(&text)?,
        Field::Uri(_, Part::Host) => check_host(way, &text)?,
        Field::Header(_) if text.trim() != text => {
            return Err(
                "values are compared without white space around them; remove the white space".to_owned()
            );
        }
        Field::Header(_) => {}
    }
    let text = text.into_bytes();
    Ok(match way {
        Way::Exact => Pattern::Exact(text),
        Way::Prefix => Pattern::Prefix(text),
        Way::Suffix => Pattern::Suffix(text),
        Way::Contains => Pattern::Contains(text),
        Way::Regex => unreachable!("a regular expression was compiled above"),
    })
}

fn check_user(text: &str) -> Result<(), String> {
    if text.contains(';') {
        return Err("a user is compared without its parameters; expected no \";\"".to_owned());
    }
    let decoded: Vec<u8> = wire::unescape(text.as_bytes()).collect();
    if decoded != text.as_bytes() {
        let meant = String::from_utf8_lossy(&decoded);
        return Err(format!("a user is compared with its escapes decoded; did you mean {meant:?}?"));
    }
    if text.contains('@') {
        return Err("expected a user without its host; `host` is the condition on the host".to_owned());
    }
    Ok(())
}

fn check_host(way: Way, text: &str) -> Result<(), String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let is_address = bare.parse::<std::net::Ipv6Addr>().is_ok();
    if !text.bytes().all(is_part) {
        return Err("expected a host name or an address".to_owned());
    }
    if !matches!(way, Way::Exact) || is_address {
        return Ok(());
    }
    match wire::Host::parse(text.as_bytes()) {
        Some(_) => Ok(()),
        None => Err("expected a host name or an address, without a port".to_owned()),
    }
}
