//! Regular expressions in linear time and bounded memory.

use core::fmt;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, Look};
use std::error::Error;
use std::sync::Arc;

/// Most memory of a compiled expression, in bytes. The compilation may use `WORK_MAX` in addition.
const SIZE_MAX: usize = 256 << 10;
const WORK_MAX: usize = 4 * SIZE_MAX;

/// Most literal beginnings by which an expression is indexed.
const BEGINNINGS_MAX: usize = 64;

/// Regular expression over bytes in the syntax of Rust's `regex`, without back references and look-around. Matches
/// anywhere in a text unless anchored by `^` and `$`.
///
/// The expression is compiled once to a DFA, when the configuration is read. A search takes one step per byte for any
/// text, and needs neither memory nor a lock.
#[derive(Clone)]
pub struct Regex {
    source: Arc<str>,
    any_case: bool,
    /// Beginnings of all matching texts; `None` if unknown.
    beginnings: Option<Arc<[Vec<u8>]>>,
    states: Arc<dense::DFA<Vec<u32>>>,
}

impl Regex {
    /// Compiles `source`. `any_case`: case is ignored.
    ///
    /// # Errors
    /// The text describes the mistake in a few words, or says that the expression needs too much memory.
    pub fn new(source: &str, any_case: bool) -> Result<Self, String> {
        // The expression matches bytes and not UTF-8: a sender may write any bytes, and all must be searchable.
        let syntax = syntax::Config::new().unicode(false).utf8(false).case_insensitive(any_case);
        let parsed = syntax::parse_with(source, &syntax).map_err(|error| last_line(&error))?;
        let limits = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(SIZE_MAX))
            .determinize_size_limit(Some(WORK_MAX));
        let states = dense::Builder::new()
            .syntax(syntax)
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(SIZE_MAX)))
            .configure(limits)
            .build(source)
            .map_err(|_| {
                format!(
                    "the expression takes more than {} KiB of memory; write a simpler one",
                    SIZE_MAX >> 10
                )
            })?;
        Ok(Self {
            source: source.into(),
            any_case,
            beginnings: beginnings(&parsed),
            states: Arc::new(states),
        })
    }

    /// Source text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether case is ignored.
    pub fn any_case(&self) -> bool {
        self.any_case
    }

    /// Beginnings of all matching texts; `None` if unknown.
    pub(crate) fn beginnings(&self) -> Option<&[Vec<u8>]> {
        self.beginnings.as_deref()
    }

    /// Whether it matches `text`.
    pub fn is_match(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(Anchored::No).earliest(true);
        // The search fails only with quit bytes or if it is anchored, and neither is used.
        matches!(self.states.try_search_fwd(&input), Ok(Some(_)))
    }
}

/// Possible beginnings of matching texts, for an expression anchored at the start.
fn beginnings(expression: &Hir) -> Option<Arc<[Vec<u8>]>> {
    if !expression.properties().look_set_prefix().contains(Look::Start) {
        return None;
    }
    let found = Extractor::new().limit_total(BEGINNINGS_MAX).extract(expression);
    let mut texts: Vec<Vec<u8>> = found.literals()?.iter().map(|text| text.as_bytes().to_vec()).collect();
    texts.sort_unstable();
    texts.dedup();
    // An empty beginning excludes no text.
    let tells = texts.first().is_some_and(|first| !first.is_empty());
    tells.then(|| texts.into())
}

/// Last line of an error message, without the marked source text above it.
fn last_line(error: &dyn Error) -> String {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let line = text.lines().next_back().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, self.any_case) == (&other.source, other.any_case)
    }
}

impl Eq for Regex {}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = if self.any_case { "i" } else { "" };
        write!(f, "/{}/{flag}", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions_match_anywhere_unless_anchored() {
        let is_match = |source: &str, any_case, text: &str| {
            Regex::new(source, any_case)
                .unwrap_or_else(|error| panic!("{source}: {error}"))
                .is_match(text.as_bytes())
        };
        assert!(is_match("4[45]", false, "0044"));
        assert!(!is_match("^4[45]", false, "0044"));
        assert!(is_match(r"^\+?(44|49)\d{3,}$", false, "+44207"));
        assert!(!is_match(r"^\+?(44|49)\d{3,}$", false, "+44207x"));
        assert!(is_match("sipvicious|scanner", true, "Friendly-Scanner"));
        assert!(!is_match("scanner", false, "Friendly-Scanner"));
        assert!(is_match("", false, ""));
        assert!(is_match(".", false, "\u{fc}") && is_match("^\u{fc}$", false, "\u{fc}"));
    }

    #[test]
    fn beginnings_of_matching_texts_are_known() {
        let of = |source: &str, any_case| {
            let regex = Regex::new(source, any_case).unwrap_or_else(|error| panic!("{source}: {error}"));
            let texts = regex.beginnings().unwrap_or_default().iter();
            texts.map(|text| String::from_utf8(text.clone()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of("^[+]?44$", false), ["+44", "44"]);
        assert_eq!(of("^[+]?44[0-9]{9,10}$", false).len(), 20, "two beginnings with one more digit each");
        assert_eq!(of("^[0-9]*5", false).len(), 10);
        assert_eq!(of("^(11[02]|911)$", false), ["110", "112", "911"]);
        assert_eq!(of("^a.*b", false), ["a"]);
        assert_eq!(of("^ab", true), ["AB", "Ab", "aB", "ab"]);
        for open in ["44", "44$", "^44|49", "(?m)^44", "^", "^4*", "^(44)?", "^.x", ""] {
            assert_eq!(of(open, false), Vec::<String>::new(), "{open}");
        }
    }

    proptest! {
        #[test]
        fn each_matching_text_has_a_known_beginning(
            source in r"\^?(\(\^?[ab]?\|\^?a[ab]\)|[ab]|\[ab\]|\(ab\)\?|a\*|\.|b\{1,2\}){0,4}\$?",
            texts in prop::collection::vec("[abAB\n]{0,5}", 20),
            any_case in any::<bool>(),
        ) {
            let regex = Regex::new(&source, any_case).unwrap();
            if let Some(beginnings) = regex.beginnings() {
                for text in texts {
                    let begins = beginnings.iter().any(|beginning| text.as_bytes().starts_with(beginning));
                    prop_assert!(begins || !regex.is_match(text.as_bytes()), "{:?} in {:?}", source, text);
                }
            }
        }
    }

    #[test]
    fn an_error_is_described_in_one_line() {
        for (source, words) in [
            ("(44", "unclosed group"),
            ("4{9", "unclosed counted repetition"),
            (r"(4)\1", "backreferences are not supported"),
            ("(?=4)", "look-around"),
            ("(((a{100}){100}){100}", "unclosed group"),
            ("((a{100}){100}){100}", "takes more than 256 KiB"),
            ("(a|b)*a(a|b){20}", "takes more than 256 KiB"),
        ] {
            let error = Regex::new(source, false).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{source}: {error}");
        }
    }

    #[test]
    fn a_text_that_makes_backtracking_slow_is_searched_in_linear_time() {
        let regex = Regex::new("^(a+)+$", false).unwrap();
        let mut text = vec![b'a'; 60_000];
        assert!(regex.is_match(&text));
        text.push(b'!');
        assert!(!regex.is_match(&text));
    }
}
