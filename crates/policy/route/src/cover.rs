//! Which rules can never win, since an earlier one takes all of theirs, or since nothing is as they want it.

use crate::field::Field;
use crate::rule::{MethodName, Origin, is_listener};
use crate::{Conditions, Pattern, Rule};

/// Why a rule can never win.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The earlier rule of this index is for whatever this one is for.
    Covered(usize),
    /// No request can be as it wants it: two of its conditions exclude each other.
    Contradiction,
}

/// All of them, each with its index.
///
/// Rules are compared in pairs, condition by condition: that several rules together take all of another is not found,
/// nor what expressions have in common. So not everything is told, but what is told is so.
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

/// Whether every request that `later` is for is one that `earlier` is for.
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

/// Whether each of the later rule's values is one that the earlier one takes. Without values, a rule takes all.
fn all_within<T>(later: &[T], earlier: &[T], takes: impl Fn(&T, &T) -> bool) -> bool {
    earlier.is_empty()
        || !later.is_empty() && later.iter().all(|value| earlier.iter().any(|taken| takes(value, taken)))
}

/// Whether a text that is like one of `narrower` is like one of `wider`.
fn implies(field: &Field, narrower: &[Pattern], wider: &[Pattern]) -> bool {
    let any_case = field.any_case();
    narrower.iter().all(|pattern| wider.iter().any(|wider| pattern.implies(wider, any_case)))
}

/// Whether two conditions on one text of a URI exclude each other. Header fields may have several values.
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

/// Whether no text is like one of each.
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
