//! The rules in order, indexed so that few of them are compared with a request.

use crate::cover::{self, Reason};
use crate::field::{Field, Key};
use crate::header_names::HeaderNames;
use crate::index::{TextIndex, Wanted};
use crate::network::NetworkIndex;
use crate::query::{Query, Reader};
use crate::rule::{MethodName, is_listener};
use crate::{AccessRefusal, Conditions, Network, Origin, Pattern, Rule, Target};
use core::fmt;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::Method;

/// Rules in order. The first rule that matches a request is used.
///
/// Each rule is indexed by the condition that probably matches least often: exact texts, prefixes and suffixes of one
/// text of a request, or source networks. A request is compared only with the rules that the indexes find, and with
/// rules that have no such condition. So the cost grows with the number of rules found, not with the number of all
/// rules.
#[derive(Clone)]
pub struct Table {
    rules: Vec<Rule>,
    compiled: Vec<Compiled>,
    /// Names of the header fields that rules test.
    names: HeaderNames,
    /// Indexes of users and hosts.
    texts: Vec<(Key, TextIndex)>,
    /// Indexes of header field values, by index of the name.
    values: Vec<Vec<TextIndex>>,
    networks: NetworkIndex<Vec<u32>>,
    /// Rules without a condition that can be indexed.
    others: Vec<u32>,
    asks_for_hosts: bool,
    may_be_silent: bool,
}

/// Conditions of a rule in the form in which they are compared.
#[derive(Clone, Debug)]
struct Compiled {
    origin: Origin,
    /// Bit set by `Method as usize`.
    methods: u16,
    other_methods: Vec<String>,
    /// Bit set by `Transport as usize`.
    transports: u8,
    /// Whether the rule includes a listener, by index of the listener; `None` for all listeners.
    listeners: Option<Vec<bool>>,
    sources: Vec<Network>,
    hosts: Vec<Network>,
    texts: Vec<(Key, Vec<Pattern>)>,
}

/// Condition of a rule that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mismatch {
    Origin,
    Method,
    Transport,
    Listener,
    Source,
    Host,
    /// The condition on a text, by index.
    Text(usize),
}

/// Condition by which a rule is indexed.
enum Anchor<'r> {
    Text { key: Key, from_end: bool, patterns: &'r [Pattern] },
    Sources(&'r [Network]),
}

impl Table {
    /// Renumbers the pools of the rules.
    pub fn number_pools(&mut self, number: impl Fn(u16) -> u16) {
        for rule in &mut self.rules {
            if let Target::Pools(pools) = &mut rule.target {
                pools.choices.iter_mut().for_each(|choice| choice.pool = number(choice.pool));
            }
        }
    }

    /// Builds a table. `listeners` are the bound addresses of the listeners, by index in
    /// [`Flow::listener`](base::Flow::listener).
    pub fn new(rules: Vec<Rule>, listeners: &[SocketAddr]) -> Self {
        let rules: Vec<Rule> =
            rules.into_iter().map(|rule| Rule { conditions: rule.conditions.normalised(), ..rule }).collect();
        let mut names = HeaderNames::default();
        let compiled: Vec<Compiled> =
            rules.iter().map(|rule| Compiled::new(&rule.conditions, listeners, &mut names)).collect();
        let mut wanted: BTreeMap<(Key, bool), Vec<Wanted>> = BTreeMap::new();
        let (mut networks, mut others) = (Vec::new(), Vec::new());
        for (rule, conditions) in compiled.iter().enumerate() {
            let rule = rule as u32;
            match conditions.anchor() {
                Some(Anchor::Text { key, from_end, patterns }) => {
                    let texts = patterns.iter().flat_map(|pattern| wanted_texts(pattern, rule));
                    wanted.entry((key, from_end)).or_default().extend(texts);
                }
                Some(Anchor::Sources(sources)) => {
                    networks.extend(sources.iter().map(|network| (*network, vec![rule])));
                }
                None => others.push(rule),
            }
        }
        let mut texts = Vec::new();
        let mut values: Vec<Vec<TextIndex>> = Vec::new();
        values.resize_with(names.len(), Vec::new);
        for ((key, from_end), wanted) in wanted {
            let index = TextIndex::new(from_end, key.any_case(), wanted);
            match key {
                Key::Uri(..) => texts.push((key, index)),
                Key::Header(name) => values[usize::from(name)].push(index),
            }
        }
        let networks = NetworkIndex::new(networks, |kept, more| {
            kept.extend(more);
            kept.dedup();
        });
        let asks_for_hosts = rules.iter().any(|rule| !rule.conditions.hosts.is_empty());
        let is_silent =
            |rule: &Rule| rule.target == Target::Silence || rule.access.refusal == AccessRefusal::Silence;
        let may_be_silent = rules.iter().any(is_silent);
        Self { rules, compiled, names, texts, values, networks, others, asks_for_hosts, may_be_silent }
    }

    /// Whether some rule leaves requests without a response.
    pub fn may_be_silent(&self) -> bool {
        self.may_be_silent
    }

    /// First rule that matches this request, with its index.
    pub fn find(&self, query: &Query<'_>) -> Option<(usize, &Rule)> {
        let reader = Reader::new(query, &self.names);
        let mut best = u32::MAX;
        // Each list is in order, so rules after the best rule so far need no comparison.
        let mut look = |rules: &[u32]| {
            let mut before = rules.iter().take_while(|rule| **rule < best);
            if let Some(rule) = before.find(|rule| self.compiled[**rule as usize].matches(&reader)) {
                best = *rule;
            }
        };
        for (key, index) in &self.texts {
            reader.any(*key, |text| {
                index.find(text, &mut look);
                false
            });
        }
        if self.values.iter().any(|of_name| !of_name.is_empty()) {
            for &(name, value) in reader.values() {
                self.values[usize::from(name)].iter().for_each(|index| index.find(value, &mut look));
            }
        }
        if !self.networks.is_empty() {
            self.networks.around(query.flow.peer.ip()).for_each(|rules| look(rules));
        }
        look(&self.others);
        let best = (best != u32::MAX).then_some(best as usize)?;
        Some((best, &self.rules[best]))
    }

    /// Returns the rules before the first rule that matches this request, or all rules if none matches: each with its
    /// index and the first of its conditions that does not hold, as a text with the name of its key.
    pub fn mismatches(&self, query: &Query<'_>) -> Vec<(usize, String)> {
        let reader = Reader::new(query, &self.names);
        let each = self.rules.iter().zip(&self.compiled).enumerate();
        let why = each.map_while(|(index, (rule, compiled))| {
            let mismatch = compiled.mismatch(&reader)?;
            Some((index, mismatch.text(rule, compiled, &reader)))
        });
        why.collect()
    }

    /// Whether some rule tests the address in the Request-URI.
    pub fn asks_for_hosts(&self) -> bool {
        self.asks_for_hosts
    }

    /// Rules in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Rules that can never match, with the reason. Only certain cases are reported.
    pub fn unreachable(&self) -> Vec<(usize, Reason)> {
        cover::unreachable(&self.rules)
    }
}

/// Tables are equal if they have the same rules for the same listeners.
impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        let listeners = |table: &Self| -> Vec<_> {
            table.compiled.iter().map(|compiled| compiled.listeners.clone()).collect()
        };
        self.rules == other.rules && listeners(self) == listeners(other)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rules).finish()
    }
}

impl Default for Table {
    /// Table without rules.
    fn default() -> Self {
        Self::new(Vec::new(), &[])
    }
}

/// Index entries of a pattern: each matching text equals, starts with or ends with one of them.
fn wanted_texts(pattern: &Pattern, rule: u32) -> impl Iterator<Item = Wanted> + '_ {
    let (texts, is_exact): (&[Vec<u8>], _) = match pattern {
        Pattern::Exact(text) => (core::slice::from_ref(text), true),
        Pattern::Prefix(text) | Pattern::Suffix(text) => (core::slice::from_ref(text), false),
        Pattern::Regex(regex) => (regex.beginnings().unwrap_or_default(), false),
        Pattern::Present | Pattern::Contains(_) => (&[], false),
    };
    texts.iter().map(move |text| Wanted { text: text.clone(), is_exact, rule })
}

/// Estimate of how rarely a text matches this pattern; 0 if an index cannot contain the pattern.
fn rarity(pattern: &Pattern, from_end: bool) -> usize {
    match pattern {
        Pattern::Exact(text) => 1_000 + text.len(),
        Pattern::Prefix(text) if !from_end => 10 * text.len(),
        Pattern::Suffix(text) if from_end => 10 * text.len(),
        Pattern::Regex(regex) if !from_end => {
            10 * regex.beginnings().unwrap_or_default().iter().map(Vec::len).min().unwrap_or(0)
        }
        _ => 0,
    }
}

impl Compiled {
    fn new(conditions: &Conditions, listeners: &[SocketAddr], names: &mut HeaderNames) -> Self {
        let mut methods = if conditions.methods.is_empty() { u16::MAX } else { 0 };
        let mut other_methods = Vec::new();
        for method in &conditions.methods {
            match method {
                MethodName::Known(method) => methods |= 1 << *method as usize,
                MethodName::Other(name) => other_methods.push(name.clone()),
            }
        }
        let transports = match &conditions.transports[..] {
            [] => u8::MAX,
            some => some.iter().fold(0, |set, transport| set | 1 << *transport as usize),
        };
        let is_named = |at: &SocketAddr| conditions.listeners.iter().any(|named| is_listener(*named, *at));
        let listeners =
            (!conditions.listeners.is_empty()).then(|| listeners.iter().map(is_named).collect::<Vec<_>>());
        let texts = conditions.texts.iter().map(|(field, patterns)| (key(field, names), patterns.clone()));
        Self {
            origin: conditions.origin,
            methods,
            other_methods,
            transports,
            listeners,
            sources: conditions.sources.clone(),
            hosts: conditions.hosts.clone(),
            texts: texts.collect(),
        }
    }

    /// Of the conditions that an index can contain, the condition that probably matches least often.
    fn anchor(&self) -> Option<Anchor<'_>> {
        let texts = self.texts.iter().flat_map(|(key, patterns)| {
            // Of two equally rare conditions the last one is used: host names differ more at their beginnings than at
            // their ends.
            [true, false].map(|from_end| {
                let rarity = patterns.iter().map(|pattern| rarity(pattern, from_end)).min().unwrap_or(0);
                (rarity, Anchor::Text { key: *key, from_end, patterns })
            })
        });
        // A decimal digit counts as three bits of an address, and a bit of an IPv6 network as a quarter of a bit of an
        // IPv4 network.
        let bits = |network: &Network| {
            let length = usize::from(network.length());
            if network.first().is_ipv4() { length } else { length / 4 }
        };
        let sources = self.sources.iter().map(bits).min().unwrap_or(0) * 3;
        texts
            .chain([(sources, Anchor::Sources(&self.sources))])
            .filter(|(rarity, _)| *rarity > 0)
            .max_by_key(|(rarity, _)| *rarity)
            .map(|(_, anchor)| anchor)
    }

    fn matches(&self, reader: &Reader<'_, '_>) -> bool {
        self.mismatch(reader).is_none()
    }

    /// Returns the first condition that does not hold.
    fn mismatch(&self, reader: &Reader<'_, '_>) -> Option<Mismatch> {
        let query = reader.query;
        let is_listed =
            |listeners: &Vec<bool>| listeners.get(usize::from(query.flow.listener)).copied().unwrap_or(false);
        if !self.origin.has(query.from_member) {
            Some(Mismatch::Origin)
        } else if !self.has_method(query) {
            Some(Mismatch::Method)
        } else if self.transports & 1 << query.flow.transport as usize == 0 {
            Some(Mismatch::Transport)
        } else if !self.listeners.as_ref().is_none_or(is_listed) {
            Some(Mismatch::Listener)
        } else if !is_in(&self.sources, || Some(query.flow.peer.ip())) {
            Some(Mismatch::Source)
        } else if !is_in(&self.hosts, || query.address()) {
            Some(Mismatch::Host)
        } else {
            let holds = |(key, patterns): &(Key, Vec<Pattern>)| {
                reader.any(*key, |text| patterns.iter().any(|pattern| pattern.matches(text, key.any_case())))
            };
            self.texts.iter().position(|text| !holds(text)).map(Mismatch::Text)
        }
    }

    fn has_method(&self, query: &Query<'_>) -> bool {
        let method = query.method();
        self.methods & 1 << method as usize != 0
            || method == Method::Other
                && self.other_methods.iter().any(|name| name.as_bytes() == query.method_name())
    }
}

impl Mismatch {
    fn text(self, rule: &Rule, compiled: &Compiled, reader: &Reader<'_, '_>) -> String {
        let query = reader.query;
        let method = || String::from_utf8_lossy(query.method_name()).into_owned();
        match self {
            Self::Origin if query.from_member => "from: a member sent the request".to_owned(),
            Self::Origin => "from: no member sent the request".to_owned(),
            Self::Method => format!("method: it is {}", method()),
            Self::Transport => format!("transport: it is {}", query.flow.transport.name()),
            Self::Listener => "listener: another one received the request".to_owned(),
            Self::Source => format!("source: it is {}", query.flow.peer.ip()),
            Self::Host => match query.address() {
                Some(address) => format!("host_network: it is {address}"),
                None => "host_network: the Request-URI has no foreign address".to_owned(),
            },
            Self::Text(index) => {
                let (name, mut value) = (rule.conditions.texts[index].0.key(), None);
                reader.any(compiled.texts[index].0, |text| {
                    value = Some(String::from_utf8_lossy(text).into_owned());
                    true
                });
                let value = value.map_or("there is none".to_owned(), |value| format!("it is {value:?}"));
                format!("{name}: {value}")
            }
        }
    }
}

/// Whether an address is in one of these networks. True if there are no networks.
fn is_in(networks: &[Network], address: impl FnOnce() -> Option<IpAddr>) -> bool {
    networks.is_empty()
        || address().is_some_and(|address| networks.iter().any(|network| network.contains(address)))
}

fn key(field: &Field, names: &mut HeaderNames) -> Key {
    match field {
        Field::Uri(place, part) => Key::Uri(*place, *part),
        Field::Header(name) => Key::Header(names.add(name)),
    }
}
