//! Index of exact texts, prefixes and suffixes: finds the rules that match a text without testing the others.

use core::cmp::Ordering;

/// Texts, with the rules that require them.
///
/// The entries are sorted, so that a prefix precedes all texts that start with it. Each entry links to the longest
/// other entry that is a prefix of it. A binary search finds the last entry that does not sort after the text. All
/// prefixes of the text are among this entry and the entries to which it links. For suffixes, the texts are stored and
/// read in reverse order.
#[derive(Clone, Debug)]
pub(crate) struct TextIndex {
    from_end: bool,
    any_case: bool,
    /// Common start of all texts, in reading order. It is compared only once, and the heads start after it. For
    /// example, host names often have a long common end.
    common: Box<[u8]>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// First bytes of `text` after the common start, so that most comparisons are of two numbers.
    head: u64,
    /// Text in reading order; in lower case if case is ignored.
    text: Box<[u8]>,
    shorter: Option<u32>,
    /// Rules that require exactly this text, in order.
    exact: Vec<u32>,
    /// Rules that require a text that starts with this one, in order.
    open: Vec<u32>,
}

/// A text of a rule, to be added to an index.
pub(crate) struct Wanted {
    pub(crate) text: Vec<u8>,
    pub(crate) is_exact: bool,
    pub(crate) rule: u32,
}

impl TextIndex {
    /// Builds the index; `wanted` must be in the order of the rules.
    pub(crate) fn new(from_end: bool, any_case: bool, wanted: impl IntoIterator<Item = Wanted>) -> Self {
        let mut all: Vec<Wanted> = wanted.into_iter().collect();
        for wanted in &mut all {
            if from_end {
                wanted.text.reverse();
            }
            if any_case {
                wanted.text.make_ascii_lowercase();
            }
        }
        // A stable sort keeps rules of one text in order.
        all.sort_by(|one, other| one.text.cmp(&other.text));
        let common: Box<[u8]> = match (all.first(), all.last()) {
            // The texts are sorted: the common start of the first and the last is common to all.
            (Some(first), Some(last)) => first
                .text
                .iter()
                .zip(&last.text)
                .take_while(|(one, other)| one == other)
                .map(|(one, _)| *one)
                .collect(),
            _ => Box::default(),
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(all.len());
        for Wanted { text, is_exact, rule } in all {
            if entries.last().is_none_or(|last| *last.text != *text) {
                let mut shorter = entries.len().checked_sub(1);
                while let Some(index) = shorter
                    && !text.starts_with(&entries[index].text)
                {
                    shorter = entries[index].shorter.map(|index| index as usize);
                }
                let shorter = shorter.map(|index| index as u32);
                let head = head(text[common.len()..].iter().copied());
                entries.push(Entry { head, text: text.into(), shorter, exact: Vec::new(), open: Vec::new() });
            }
            let entry = entries.last_mut().expect("an entry was pushed if there was none");
            let rules = if is_exact { &mut entry.exact } else { &mut entry.open };
            // A rule may contain a text twice.
            if rules.last() != Some(&rule) {
                rules.push(rule);
            }
        }
        Self { from_end, any_case, common, entries }
    }

    /// Calls `visit` with each list of rules whose text, prefix or suffix this text has.
    pub(crate) fn find(&self, text: &[u8], mut visit: impl FnMut(&[u32])) {
        if !self.begins_with(text, &self.common, 0) {
            return;
        }
        let start = head((self.common.len()..text.len()).map(|at| self.read(text, at)));
        let behind = self.entries.partition_point(|entry| {
            let order = entry.head.cmp(&start).then_with(|| self.order(&entry.text, text));
            order != Ordering::Greater
        });
        let mut next = behind.checked_sub(1);
        // If an entry is a prefix of the text, the entries to which it links are also prefixes.
        let mut begins = false;
        while let Some(index) = next {
            let entry = &self.entries[index];
            begins = begins || self.begins_with(text, &entry.text, self.common.len());
            if begins {
                if entry.text.len() == text.len() {
                    visit(&entry.exact);
                }
                visit(&entry.open);
            }
            next = entry.shorter.map(|index| index as usize);
        }
    }

    /// A byte of the text in reading order; in lower case if case is ignored.
    fn read(&self, text: &[u8], at: usize) -> u8 {
        let byte = if self.from_end { text[text.len() - 1 - at] } else { text[at] };
        if self.any_case { byte.to_ascii_lowercase() } else { byte }
    }

    fn order(&self, key: &[u8], text: &[u8]) -> Ordering {
        let known = self.common.len();
        if !self.from_end && !self.any_case {
            return key[known..].cmp(&text[known..]);
        }
        let differ = (known..key.len().min(text.len())).find(|&at| key[at] != self.read(text, at));
        differ.map_or(key.len().cmp(&text.len()), |at| key[at].cmp(&self.read(text, at)))
    }

    /// Whether `text` starts with `key`. The first `known` bytes are known to be equal.
    fn begins_with(&self, text: &[u8], key: &[u8], known: usize) -> bool {
        key.len() <= text.len() && (known..key.len()).all(|at| key[at] == self.read(text, at))
    }
}

/// The first eight bytes as a number of the same order, padded with zeros. Equal heads do not imply equal texts.
fn head(text: impl Iterator<Item = u8>) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(text).for_each(|(byte, read)| *byte = read);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rules_found_equal_those_of_a_linear_search(
            texts in prop::collection::vec(("([abA\u{0}]{0,4}|aaaaaa[abA]{0,5}|[ab]{0,2}aaaaaa)", any::<bool>()), 0..20),
            text in "([abAB\u{0}]{0,6}|aaaaaa[abAB]{0,7}|[abA]{0,3}aaaaaa)",
            from_end in any::<bool>(),
            any_case in any::<bool>(),
        ) {
            let wanted = texts.iter().enumerate().map(|(rule, (text, is_exact))| Wanted {
                text: text.clone().into_bytes(), is_exact: *is_exact, rule: rule as u32,
            });
            let index = TextIndex::new(from_end, any_case, wanted);
            let mut found = Vec::new();
            index.find(text.as_bytes(), |rules| {
                assert!(rules.is_sorted());
                found.extend_from_slice(rules);
            });
            found.sort_unstable();
            let fold = |text: &str| if any_case { text.to_ascii_lowercase() } else { text.to_owned() };
            let text = fold(&text);
            let is_right = |(wanted, is_exact): &(String, bool)| {
                let wanted = fold(wanted);
                match (is_exact, from_end) {
                    (true, _) => text == wanted,
                    (false, true) => text.ends_with(&wanted),
                    (false, false) => text.starts_with(&wanted),
                }
            };
            let expected: Vec<u32> =
                (0..texts.len()).filter(|&rule| is_right(&texts[rule])).map(|rule| rule as u32).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
