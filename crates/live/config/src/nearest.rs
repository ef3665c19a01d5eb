//! "Did you mean": the nearest legal word.

use strsim::damerau_levenshtein;

/// The candidate that is most similar to `word`; `None` if all differ by more than one edit for each three letters. The
/// Rust compiler has the same limit for its suggestions. Case is ignored.
pub(crate) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word = word.to_lowercase();
    let slips_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|&(slips, _)| slips <= slips_max)
        .min_by_key(|&(slips, _)| slips)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_is_recognised_and_another_word_is_not() {
        let policies = ["round-robin", "cjsq", "tjsq", "tlwl"];
        assert_eq!(nearest("tlw", policies), Some("tlwl"));
        assert_eq!(nearest("TJSQ", policies), Some("tjsq"));
        assert_eq!(nearest("roundrobin", policies), Some("round-robin"));
        assert_eq!(nearest("random", policies), None);
        assert_eq!(nearest("", policies), None);
    }
}
