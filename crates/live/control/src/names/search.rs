//! Meaning of a name without a final dot (resolv.conf(5): `domain`, `search`, `ndots`).

use std::collections::BTreeSet;

/// Domains in which a name without a final dot is tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchList {
    /// The domains in the order in which they are tried.
    pub domains: Vec<String>,
    /// A name with at least this many dots is first tried unchanged.
    pub ndots: usize,
}

impl Default for SearchList {
    /// The search list of a resolver without domains.
    fn default() -> Self {
        Self { domains: Vec::new(), ndots: 1 }
    }
}

/// Longest name with its final dot (RFC 1035 §3.1): 255 octets on the wire, including a length before each label and
/// the root's length.
const LONGEST: usize = 254;

impl SearchList {
    /// Returns the absolute names that a name may mean, in the order in which they are tried.
    pub(super) fn whole_names(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let within = |domain: &String| match domain.trim_end_matches('.') {
            "" => format!("{name}."),
            domain => format!("{name}.{domain}."),
        };
        let mut names: Vec<_> =
            self.domains.iter().map(within).filter(|name| name.len() <= LONGEST).collect();
        let dots = name.matches('.').count();
        let is_localhost = name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"));
        let is_first = dots >= self.ndots || is_localhost;
        names.insert(if is_first { 0 } else { names.len() }, format!("{name}."));
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.to_ascii_lowercase()));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_final_dot_is_tried_within_the_domains() {
        let domains = ["site.test.", "other.test", "SITE.test."].map(str::to_owned).to_vec();
        let list = SearchList { domains, ndots: 1 };
        assert_eq!(list.whole_names("near"), ["near.site.test.", "near.other.test.", "near."]);
        assert_eq!(
            list.whole_names("far.test"),
            ["far.test.", "far.test.site.test.", "far.test.other.test."]
        );
        assert_eq!(list.whole_names("far.test."), ["far.test."]);
        assert_eq!(list.whole_names("localhost")[0], "localhost.");
        let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(55));
        assert_eq!(list.whole_names(&long), [format!("{long}.")], "the name is too long for any domain");
        let careful = SearchList { ndots: 2, ..list };
        assert_eq!(careful.whole_names("far.test").last().unwrap(), "far.test.");
        assert_eq!(SearchList::default().whole_names("near"), ["near."]);
    }
}
