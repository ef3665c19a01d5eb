//! Values that are one of a few names.

use std::marker::PhantomData;

use serde_json::json;

use super::{Kind, Leaf, Refusal, Schema, Written, quoted};
use crate::nearest::nearest;
use crate::typed::{AdminPage, DriverName, HepCalls, Level, LogFormat};
use balance::{PolicyKind, Weights};
use base::Transport;
use digest_auth::Algorithm;
use distribute::ShareLaw;
use location::{PathRule, Reach};
use node::{CapacitySource, LargeRequests};
use overload::member::MemberLaw;
use route::{AccessRefusal, Dialogs, FailoverCause, Fork, Forward, Origin};

/// A type whose values have names in the file.
pub(crate) trait Names: Copy + PartialEq + 'static {
    const NAMES: &'static [(&'static str, Self)];
}

/// One of the names of `T`.
#[derive(Debug, Clone)]
pub(crate) struct Choice<T>(PhantomData<T>);

impl<T: Names> Kind for Choice<T> {
    type Value = T;

    fn read(leaf: &Leaf) -> Result<T, Refusal> {
        let names = || T::NAMES.iter().map(|(name, _)| *name);
        let listed: Vec<_> = names().map(quoted).collect();
        let refusal = Refusal::new(format!("expected one of {}", listed.join(", ")));
        match leaf {
            Leaf::Text(text) => match T::NAMES.iter().find(|(name, _)| name == text) {
                Some((_, value)) => Ok(*value),
                None => Err(refusal.meant(nearest(text, names()).map(quoted))),
            },
            // `refuse = 403` is a likely mistake.
            Leaf::Integer(number) => Err(refusal.meant(nearest(&number.to_string(), names()).map(quoted))),
            _ => Err(refusal),
        }
    }

    fn schema() -> Schema {
        let names: Vec<_> = T::NAMES.iter().map(|(name, _)| *name).collect();
        let listed: Vec<_> = names.iter().map(|name| quoted(name)).collect();
        json!({ "title": listed.join(", "), "type": "string", "enum": names })
    }
}

impl<T: Names> Written for Choice<T> {
    fn written(value: T) -> Leaf {
        name_of(value).into()
    }
}

/// The name of a value.
pub(crate) fn name_of<T: Names>(value: T) -> &'static str {
    let named = T::NAMES.iter().find(|(_, named)| *named == value);
    named.map(|(name, _)| *name).expect("`NAMES` has every value")
}

/// A policy as it is named in the file. Further weights are in another key.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PolicyName {
    pub(crate) kind: PolicyKind,
    /// Weight of an INVITE, if the name sets it.
    pub(crate) invite: Option<f64>,
}

impl PolicyName {
    /// The policy, and its default weights.
    pub(crate) fn meaning(self) -> (PolicyKind, Weights) {
        (self.kind, self.invite.map_or_else(Weights::default, Weights::invite))
    }
}

const fn policy(kind: PolicyKind) -> (&'static str, PolicyName) {
    (kind.name(), PolicyName { kind, invite: None })
}

const fn tlwl(name: &'static str, invite: f64) -> (&'static str, PolicyName) {
    (name, PolicyName { kind: PolicyKind::Tlwl, invite: Some(invite) })
}

impl Names for PolicyName {
    const NAMES: &'static [(&'static str, Self)] = &[
        policy(PolicyKind::RoundRobin),
        policy(PolicyKind::Hash),
        policy(PolicyKind::FnvHash),
        policy(PolicyKind::Cjsq),
        policy(PolicyKind::Tjsq),
        policy(PolicyKind::Tlwl),
        tlwl("tlwl-1.75", Weights::INVITE),
        tlwl("tlwl-2", 2.0),
        policy(PolicyKind::Rwma),
    ];
}

impl Names for LargeRequests {
    const NAMES: &'static [(&'static str, Self)] = &[("tcp", Self::Tcp), ("udp", Self::Udp)];
}

impl Names for Forward {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("stateless", Self::Stateless),
        ("transaction", Self::Transaction),
        ("dialog", Self::Dialog),
        ("distributed", Self::Distributed),
    ];
}

/// State that proxies of a chain can divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shared {
    /// The transactions of a call.
    Transaction,
    /// Its dialogs and its record.
    Dialog,
    /// The verification of its caller.
    Authentication,
}

impl Names for Shared {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("transaction", Self::Transaction),
        ("dialog", Self::Dialog),
        ("authentication", Self::Authentication),
    ];
}

impl Names for ShareLaw {
    const NAMES: &'static [(&'static str, Self)] =
        &[("level", Self::Level), ("paper", Self::Paper), ("fixed", Self::Fixed)];
}

impl Names for CapacitySource {
    const NAMES: &'static [(&'static str, Self)] =
        &[("responses", Self::Responses), ("monitor", Self::Announced), ("fixed", Self::Fixed)];
}

/// Rules of a queue from a paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum QueueRules {
    Smace,
}

impl Names for QueueRules {
    const NAMES: &'static [(&'static str, Self)] = &[("smace", Self::Smace)];
}

/// Law of the limits of members; `None` without a limit.
pub(crate) type LimitLaw = Option<MemberLaw>;

impl Names for LimitLaw {
    const NAMES: &'static [(&'static str, Self)] = &[
        (MemberLaw::Gradient.name(), Some(MemberLaw::Gradient)),
        (MemberLaw::Vegas.name(), Some(MemberLaw::Vegas)),
        (MemberLaw::Aimd.name(), Some(MemberLaw::Aimd)),
        ("none", None),
    ];
}

impl Names for Dialogs {
    const NAMES: &'static [(&'static str, Self)] = &[("member", Self::Member), ("route", Self::Route)];
}

impl Names for Reach {
    const NAMES: &'static [(&'static str, Self)] = &[("source", Self::Source), ("contact", Self::Contact)];
}

impl Names for PathRule {
    const NAMES: &'static [(&'static str, Self)] = &[("420", Self::Refuse), ("accept", Self::Accept)];
}

impl Names for Algorithm {
    const NAMES: &'static [(&'static str, Self)] =
        &[("SHA-512-256", Self::Sha512_256), ("SHA-256", Self::Sha256), ("MD5", Self::Md5)];
}

impl Names for Fork {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("parallel", Self::Parallel), ("sequential", Self::Sequential)];
}

impl Names for Origin {
    const NAMES: &'static [(&'static str, Self)] =
        &[("outside", Self::Outside), ("members", Self::Members), ("anyone", Self::Anyone)];
}

/// A transport of a listener; a simulated network has fewer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TransportName(pub(crate) Transport);

impl Names for TransportName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("udp", Self(Transport::Udp)),
        ("tcp", Self(Transport::Tcp)),
        ("tls", Self(Transport::Tls)),
        ("ws", Self(Transport::Ws)),
        ("wss", Self(Transport::Wss)),
    ];
}

impl Names for FailoverCause {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("dead", Self::NoneAlive),
        ("full", Self::Full),
        ("503", Self::Unavailable),
        ("timeout", Self::Timeout),
    ];
}

impl Names for AccessRefusal {
    const NAMES: &'static [(&'static str, Self)] =
        &[("403", Self::Forbidden), ("503", Self::Unavailable), ("silence", Self::Silence)];
}

impl Names for Level {
    const NAMES: &'static [(&'static str, Self)] = &[
        (Self::Off.as_str(), Self::Off),
        (Self::Error.as_str(), Self::Error),
        (Self::Warn.as_str(), Self::Warn),
        (Self::Info.as_str(), Self::Info),
        (Self::Debug.as_str(), Self::Debug),
        (Self::Trace.as_str(), Self::Trace),
    ];
}

impl Level {
    /// Returns the level with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(other, _)| *other == name).map(|(_, level)| *level)
    }
}

impl Names for DriverName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("command", Self::Command), ("kubernetes", Self::Kubernetes)];
}

impl Names for LogFormat {
    const NAMES: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

impl Names for HepCalls {
    const NAMES: &'static [(&'static str, Self)] = &[("all", Self::All), ("failed", Self::Failed)];
}

impl Names for AdminPage {
    const NAMES: &'static [(&'static str, Self)] =
        &[("read-only", Self::ReadOnly), ("drain", Self::Drain), ("off", Self::Off)];
}

/// Feedback to neighbours, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedbackName {
    None,
    Loss,
    Rate,
}

impl Names for FeedbackName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("loss", Self::Loss), ("rate", Self::Rate)];
}

#[cfg(test)]
mod tests {
    use super::*;
    use route::AccessRefusal;

    #[test]
    fn a_name_is_exact_and_a_similar_one_is_suggested() {
        assert_eq!(Choice::<AccessRefusal>::read(&"403".into()), Ok(AccessRefusal::Forbidden));
        assert_eq!(Choice::<AccessRefusal>::read(&403.into()).unwrap_err().meant.as_deref(), Some("\"403\""));
        assert_eq!(
            Choice::<PolicyName>::read(&"TLWL".into()).unwrap_err().meant.as_deref(),
            Some("\"tlwl\"")
        );
    }
}
