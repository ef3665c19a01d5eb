//! A rule: which requests it is for, what is done to them first, and where they go.

use crate::field::{Field, Part};
use crate::{Access, Actions, Network, Pattern, Target};
use base::Transport;
use std::net::{IpAddr, SocketAddr};
use wire::Method;

/// A rule of a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rule {
    /// What messages and metrics call it.
    pub name: String,
    /// Which requests it is for.
    pub conditions: Conditions,
    /// Who of those that it is for may use it.
    pub access: Access,
    /// Who is no member of a pool has to prove who it is (RFC 3261 §22.3).
    pub authenticate: bool,
    /// What is done to a request before it goes on.
    pub actions: Actions,
    /// Where it goes.
    pub target: Target,
}

impl Rule {
    /// The name of a rule that is given none, by its index in the table.
    pub fn usual_name(index: usize) -> String {
        format!("route-{}", index + 1)
    }

    /// The name that it was given, if it was given one; `index`: its place in the table.
    pub fn given_name(&self, index: usize) -> Option<&str> {
        let number = self.name.strip_prefix("route-").and_then(|number| number.parse::<usize>().ok());
        (number != Some(index + 1)).then_some(&self.name)
    }
}

/// Who sends a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// Whoever is no member of a pool. A rule that says nothing is for them alone: otherwise a rule for all requests
    /// would send the calls of members back to their pool.
    #[default]
    Outside,
    /// A member of a pool.
    Members,
    /// Both.
    Anyone,
}

impl Origin {
    pub(crate) fn has(self, from_member: bool) -> bool {
        match self {
            Self::Outside => !from_member,
            Self::Members => from_member,
            Self::Anyone => true,
        }
    }
}

/// A method that a rule names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MethodName {
    /// One that is known by name. ACK and CANCEL count as INVITE, since they go where it went; a rule does not name
    /// them.
    Known(Method),
    /// Another, as it is written: methods are case-sensitive (RFC 3261 §7.1).
    Other(String),
}

impl MethodName {
    /// The method of this name.
    pub fn new(name: &str) -> Self {
        match Method::parse(name.as_bytes()) {
            Method::Other => Self::Other(name.to_owned()),
            Method::Ack | Method::Cancel => Self::Known(Method::Invite),
            method => Self::Known(method),
        }
    }
}

/// What has to hold of a request: all of these, and of several values of one any. A list without values asks for
/// nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conditions {
    /// Its method.
    pub methods: Vec<MethodName>,
    /// Who sends it.
    pub origin: Origin,
    /// Where it comes from.
    pub sources: Vec<Network>,
    /// The host of its Request-URI is an address in one of these; a name is in none, nor is an address of ours.
    pub hosts: Vec<Network>,
    /// The listener that it came to, by the address that it is bound to; a wildcard is each address of its family
    /// with its port.
    pub listeners: Vec<SocketAddr>,
    /// What carried it.
    pub transports: Vec<Transport>,
    /// What its texts are like. One may be named several times: then all have to hold.
    pub texts: Vec<(Field, Vec<Pattern>)>,
}

impl Conditions {
    /// In the one form in which a table compares them: hosts without a final dot or brackets, addresses as they are
    /// usually written.
    pub(crate) fn normalised(mut self) -> Self {
        self.texts.retain(|(_, patterns)| !patterns.is_empty());
        for (field, patterns) in &mut self.texts {
            if !matches!(field, Field::Uri(_, Part::Host)) {
                continue;
            }
            for pattern in patterns {
                match pattern {
                    Pattern::Exact(host) => *host = usual_host(host),
                    Pattern::Suffix(end) if end.ends_with(b".") => {
                        end.pop();
                    }
                    _ => {}
                }
            }
        }
        self
    }
}

/// Whether the listener that is bound to `at` is the one that a rule names, or one of those that it names by a
/// wildcard.
pub(crate) fn is_listener(named: SocketAddr, at: SocketAddr) -> bool {
    named == at || named.ip().is_unspecified() && named.port() == at.port() && named.is_ipv4() == at.is_ipv4()
}

/// A host as a request's is compared.
fn usual_host(host: &[u8]) -> Vec<u8> {
    let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
    let ip = core::str::from_utf8(bare).ok().and_then(|text| text.parse::<IpAddr>().ok());
    match ip {
        Some(ip) => ip.to_canonical().to_string().into_bytes(),
        None => host.strip_suffix(b".").unwrap_or(host).to_vec(),
    }
}
