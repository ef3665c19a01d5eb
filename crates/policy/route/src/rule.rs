//! A rule: conditions, actions and target.

use crate::field::{Field, Part};
use crate::{Access, Actions, Network, Pattern, Target};
use base::Transport;
use std::net::{IpAddr, SocketAddr};
use wire::Method;

/// A rule of a routing table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rule {
    /// Name in messages and metrics.
    pub name: String,
    /// Conditions on a request.
    pub conditions: Conditions,
    /// Access list for matching requests.
    pub access: Access,
    /// Whether senders other than members must authenticate (RFC 3261 §22.3).
    pub authenticate: bool,
    /// Edits before the request is forwarded.
    pub actions: Actions,
    /// Destination.
    pub target: Target,
}

impl Rule {
    /// Default name of the rule with this index.
    pub fn usual_name(index: usize) -> String {
        format!("route-{}", index + 1)
    }

    /// The configured name of the rule with this index; `None` if it has the default name.
    pub fn given_name(&self, index: usize) -> Option<&str> {
        let number = self.name.strip_prefix("route-").and_then(|number| number.parse::<usize>().ok());
        (number != Some(index + 1)).then_some(&self.name)
    }
}

/// Sender of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// Any sender that is not a member of a pool. This is the default, since otherwise a rule for all requests would
    /// send the calls of members back to their pool.
    #[default]
    Outside,
    /// A member of a pool.
    Members,
    /// Any sender, member or not.
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

/// Method in a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MethodName {
    /// A known method. ACK and CANCEL count as INVITE, since they follow the path of their INVITE. Rules do not name
    /// them.
    Known(Method),
    /// Another method, as written: methods are case-sensitive (RFC 3261 §7.1).
    Other(String),
}

impl MethodName {
    /// Method of this name.
    pub fn new(name: &str) -> Self {
        match Method::parse(name.as_bytes()) {
            Method::Other => Self::Other(name.to_owned()),
            Method::Ack | Method::Cancel => Self::Known(Method::Invite),
            method => Self::Known(method),
        }
    }
}

/// Conditions of a rule. A request must meet all of them. It meets a list if one of the values matches; it always meets
/// an empty list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conditions {
    /// Method.
    pub methods: Vec<MethodName>,
    /// Sender.
    pub origin: Origin,
    /// Networks of the source address.
    pub sources: Vec<Network>,
    /// Networks of the host in the Request-URI. A host name, or an address of this program, is in no network.
    pub hosts: Vec<Network>,
    /// Listeners that received the request, by bound address. A wildcard address includes each address of its family
    /// with the same port.
    pub listeners: Vec<SocketAddr>,
    /// Transports.
    pub transports: Vec<Transport>,
    /// Texts with patterns. If a field appears several times, the request must match each of its entries.
    pub texts: Vec<(Field, Vec<Pattern>)>,
}

impl Conditions {
    /// Normalises the form in which a table compares hosts: no final dot, no brackets, addresses in usual spelling.
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

/// Whether a rule that names `named` includes the listener bound to `at`: the addresses are equal, or `named` is a
/// matching wildcard.
pub(crate) fn is_listener(named: SocketAddr, at: SocketAddr) -> bool {
    named == at || named.ip().is_unspecified() && named.port() == at.port() && named.is_ipv4() == at.is_ipv4()
}

/// Host in the form in which hosts of requests are compared.
fn usual_host(host: &[u8]) -> Vec<u8> {
    let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
    let ip = core::str::from_utf8(bare).ok().and_then(|text| text.parse::<IpAddr>().ok());
    match ip {
        Some(ip) => ip.to_canonical().to_string().into_bytes(),
        None => host.strip_suffix(b".").unwrap_or(host).to_vec(),
    }
}
