//! Values that are one of a few names.

use std::marker::PhantomData;

use schemars::{Schema, json_schema};

use super::{Kind, Refusal, quoted};
use crate::nearest::nearest;
use crate::setting::Leaf;
use crate::typed::{Level, LogFormat, Orphans};

/// A type whose values have names in the file.
pub(crate) trait Names: Copy + 'static {
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
            // `orphans = 481` is a likely slip.
            Leaf::Integer(number) => Err(refusal.meant(nearest(&number.to_string(), names()).map(quoted))),
            _ => Err(refusal),
        }
    }

    fn schema() -> Schema {
        let names: Vec<_> = T::NAMES.iter().map(|(name, _)| *name).collect();
        let listed: Vec<_> = names.iter().map(|name| quoted(name)).collect();
        json_schema!({ "title": listed.join(", "), "type": "string", "enum": names })
    }
}

/// A policy as the file names it. The weights come from another key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PolicyName {
    RoundRobin,
    Hash,
    FnvHash,
    Cjsq,
    Tjsq,
    Tlwl,
    Tlwl175,
    Tlwl2,
    Rwma,
}

impl Names for PolicyName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("round-robin", Self::RoundRobin),
        ("hash", Self::Hash),
        ("fnv-hash", Self::FnvHash),
        ("cjsq", Self::Cjsq),
        ("tjsq", Self::Tjsq),
        ("tlwl", Self::Tlwl),
        ("tlwl-1.75", Self::Tlwl175),
        ("tlwl-2", Self::Tlwl2),
        ("rwma", Self::Rwma),
    ];
}

impl Names for Orphans {
    const NAMES: &'static [(&'static str, Self)] =
        &[("481", Self::Reject481), ("balance", Self::Balance), ("drop", Self::Drop)];
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

impl Names for LogFormat {
    const NAMES: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_exact_and_a_near_one_is_offered() {
        assert_eq!(Choice::<Orphans>::read(&"481".into()), Ok(Orphans::Reject481));
        assert_eq!(Choice::<Orphans>::read(&481.into()).unwrap_err().meant.as_deref(), Some("\"481\""));
        assert_eq!(
            Choice::<PolicyName>::read(&"TLWL".into()).unwrap_err().meant.as_deref(),
            Some("\"tlwl\"")
        );
    }
}
