//! Patterns with which a condition compares a text.

use crate::Regex;
use core::fmt;

/// Longest text of a pattern, in bytes. A host name has at most 255 bytes, and longer users or values are probably a
/// mistake.
pub const PATTERN_MAX: usize = 255;

/// A pattern for a text.
#[derive(Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Any text, as long as it is present.
    Present,
    /// Exactly this text.
    Exact(Vec<u8>),
    /// A text that starts with this text.
    Prefix(Vec<u8>),
    /// A text that ends with this text.
    Suffix(Vec<u8>),
    /// A text that contains this text.
    Contains(Vec<u8>),
    /// A text in which the expression is found.
    Regex(Regex),
}

impl Pattern {
    /// Whether `text` matches. `any_case`: case is ignored. Expressions have their own flag for this.
    pub(crate) fn matches(&self, text: &[u8], any_case: bool) -> bool {
        let same = |one: &[u8], other: &[u8]| {
            if any_case { one.eq_ignore_ascii_case(other) } else { one == other }
        };
        match self {
            Self::Present => true,
            Self::Exact(exact) => same(text, exact),
            Self::Prefix(prefix) => text.get(..prefix.len()).is_some_and(|start| same(start, prefix)),
            Self::Suffix(suffix) => {
                text.len().checked_sub(suffix.len()).is_some_and(|at| same(&text[at..], suffix))
            }
            Self::Contains(part) => {
                part.is_empty() || text.windows(part.len()).any(|window| same(window, part))
            }
            Self::Regex(regex) => regex.is_match(text),
        }
    }

    /// Whether every text that matches this pattern also matches `other`. True only if this is certain without
    /// analysing expressions.
    pub(crate) fn implies(&self, other: &Self, any_case: bool) -> bool {
        if self == other || *other == Self::Present {
            return true;
        }
        match self {
            // An expression has its own case flag. A case-sensitive expression may match only one spelling.
            Self::Exact(text) => match other {
                Self::Regex(regex) if any_case && !regex.any_case() => false,
                other => other.matches(text, any_case),
            },
            Self::Prefix(text) => match other {
                // The end of a longer text is unknown, so only prefixes and contained texts are certain.
                Self::Prefix(_) | Self::Contains(_) => other.matches(text, any_case),
                other => other.is_empty_end(),
            },
            Self::Suffix(text) => match other {
                Self::Suffix(_) | Self::Contains(_) => other.matches(text, any_case),
                other => other.is_empty_end(),
            },
            Self::Contains(text) => match other {
                Self::Contains(_) => other.matches(text, any_case),
                other => other.is_empty_end(),
            },
            Self::Present | Self::Regex(_) => other.is_empty_end(),
        }
    }

    /// Whether every text matches, since the text of the pattern is empty.
    fn is_empty_end(&self) -> bool {
        matches!(self, Self::Prefix(text) | Self::Suffix(text) | Self::Contains(text) if text.is_empty())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = match self {
            Self::Present => return f.write_str("Present"),
            Self::Regex(regex) => return regex.fmt(f),
            Self::Exact(text) => ("Exact", text),
            Self::Prefix(text) => ("Prefix", text),
            Self::Suffix(text) => ("Suffix", text),
            Self::Contains(text) => ("Contains", text),
        };
        write!(f, "{name}(\"{}\")", text.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern() -> impl Strategy<Value = Pattern> {
        let text = || "[aAb]{0,3}".prop_map(String::into_bytes);
        prop_oneof![
            Just(Pattern::Present),
            text().prop_map(Pattern::Exact),
            text().prop_map(Pattern::Prefix),
            text().prop_map(Pattern::Suffix),
            text().prop_map(Pattern::Contains),
            any::<bool>().prop_map(|any_case| Pattern::Regex(Regex::new("^a+b", any_case).unwrap())),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn an_implied_pattern_matches_each_text_of_the_pattern(
            one in pattern(),
            other in pattern(),
            texts in prop::collection::vec("[aAb]{0,5}", 20),
            any_case in any::<bool>(),
        ) {
            if one.implies(&other, any_case) {
                for text in texts {
                    let text = text.as_bytes();
                    prop_assert!(!one.matches(text, any_case) || other.matches(text, any_case), "{:?}", text);
                }
            }
        }
    }

    #[test]
    fn certain_implications_are_found() {
        let all = ["ab", "a", "b", ""].map(|text| text.as_bytes().to_vec());
        let [ab, a, b, nothing] = all;
        let implies = |one: &Pattern, other: &Pattern| one.implies(other, false);
        assert!(implies(&Pattern::Exact(ab.clone()), &Pattern::Prefix(a.clone())));
        assert!(implies(&Pattern::Exact(ab.clone()), &Pattern::Suffix(b.clone())));
        assert!(implies(&Pattern::Prefix(ab.clone()), &Pattern::Prefix(a.clone())));
        assert!(implies(&Pattern::Prefix(ab.clone()), &Pattern::Contains(b.clone())));
        assert!(implies(&Pattern::Suffix(ab.clone()), &Pattern::Suffix(b)));
        assert!(implies(&Pattern::Contains(ab.clone()), &Pattern::Contains(a)));
        assert!(implies(&Pattern::Contains(ab), &Pattern::Prefix(nothing)));
        assert!(!implies(&Pattern::Present, &Pattern::Exact(Vec::new())));
    }
}
