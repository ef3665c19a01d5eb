//! Finds rules that can never match, since an earlier rule matches all of their requests, or their conditions
//! contradict each other.

use crate::field::Field;
use crate::rule::{MethodName, Origin, is_listener};
use crate::{Conditions, Pattern, Rule};

/// Reason why a rule can never match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The earlier rule with this index matches every request that this rule matches.
    Covered(usize),
    /// Two conditions exclude each other, so no request matches.
    Contradiction,
}

/// Rules that can never match, each with its index.
///
/// Compares rules in pairs, condition by condition. It does not find a rule that only several other rules together
/// cover, and does not compare regular expressions. So the result may be incomplete, but each entry is certain.
pub(crate) fn unreachable(rules: &[Rule]) -> Vec<(usize, Reason)> {
    let reason = |(index, rule): (usize, &Rule)| {
        if contradicts(&rule.conditions) {
            return Some((index, Reason::Contradiction));
        }
        let covers = |earlier: &Rule| covers(&earlier.conditions, &rule.conditions);
        rules[..index].iter().position(covers).map(|earlier| (index, Reason::Covered(earlier)))
    };
    rules.iter().enumerate().filter_map(reason).collect()
}

/// Whether `earlier` matches every request that `later` matches.
fn covers(earlier: &Conditions, later: &Conditions) -> bool {
    all_within(&later.methods, &earlier.methods, MethodName::eq)
        && (earlier.origin == Origin::Anyone || earlier.origin == later.origin)
        && all_within(&later.sources, &earlier.sources, |later, earlier| earlier.covers(later))
        && all_within(&later.hosts, &earlier.hosts, |later, earlier| earlier.covers(later))
        && all_within(&later.listeners, &earlier.listeners, |later, earlier| is_listener(*earlier, *later))
        && all_within(&later.transports, &earlier.transports, |later, earlier| later == earlier)
        && earlier.texts.iter().all(|(field, wider)| {
            let mut narrower = later.texts.iter().filter(|(other, _)| other.is(field));
            narrower.any(|(_, patterns)| implies(field, patterns, wider))
        })
}

/// Whether `earlier` accepts each value of `later`. An empty list accepts every value.
fn all_within<T>(later: &[T], earlier: &[T], takes: impl Fn(&T, &T) -> bool) -> bool {
    earlier.is_empty()
        || !later.is_empty() && later.iter().all(|value| earlier.iter().any(|taken| takes(value, taken)))
}

/// Whether a text that matches one of `narrower` also matches one of `wider`.
fn implies(field: &Field, narrower: &[Pattern], wider: &[Pattern]) -> bool {
    let any_case = field.any_case();
    narrower.iter().all(|pattern| wider.iter().any(|wider| pattern.implies(wider, any_case)))
}

/// Whether two conditions on one text of a URI exclude each other. Header fields are left out, since they may have
/// several values.
fn contradicts(conditions: &Conditions) -> bool {
    let texts = &conditions.texts;
    let is_impossible = |(field, patterns): &(Field, Vec<Pattern>)| {
        matches!(field, Field::Uri(..)) && {
            let mut others = texts.iter().filter(|(other, _)| other.is(field));
            others.any(|(_, others)| excludes(field, patterns, others))
        }
    };
    texts.iter().any(is_impossible)
}

/// Whether no text matches a pattern of each list.
fn excludes(field: &Field, one: &[Pattern], other: &[Pattern]) -> bool {
    let any_case = field.any_case();
    let differ = |one: &[u8], other: &[u8]| {
        one.iter().zip(other).any(
            |(one, other)| {
                if any_case { !one.eq_ignore_ascii_case(other) } else { one != other }
            },
        )
    };
    let apart = |one: &Pattern, other: &Pattern| match (one, other) {
        (Pattern::Exact(text), other) => !other.matches(text, any_case),
        (one, Pattern::Exact(text)) => !one.matches(text, any_case),
        (Pattern::Prefix(one), Pattern::Prefix(other)) => differ(one, other),
        (Pattern::Suffix(one), Pattern::Suffix(other)) => {
            let reversed = |text: &[u8]| text.iter().rev().copied().collect::<Vec<_>>();
            differ(&reversed(one), &reversed(other))
        }
        _ => false,
    };
    one.iter().all(|one| other.iter().all(|other| apart(one, other)))
}
