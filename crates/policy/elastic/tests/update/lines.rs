//! Splitting bytes into lines.

use elastic::update::{LINE_MAX, Lines, UpdateRefusal};
use proptest::prelude::*;

/// Lines of these bytes, received in pieces of these lengths, and the error at the end.
fn lines(mut bytes: &[u8], mut pieces: impl Iterator<Item = usize>) -> (Vec<Vec<u8>>, Option<UpdateRefusal>) {
    let (mut lines, mut all) = (Lines::default(), Vec::new());
    while !bytes.is_empty() {
        let room = lines.room();
        assert!(!room.is_empty(), "reading lines makes room");
        let count = pieces.next().unwrap_or(LINE_MAX).clamp(1, room.len()).min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        lines.filled(count);
        bytes = &bytes[count..];
        loop {
            match lines.next() {
                Ok(Some(line)) => all.push(line.to_vec()),
                Ok(None) => break,
                Err(refusal) => return (all, Some(refusal)),
            }
        }
    }
    (all, None)
}

#[test]
fn a_line_has_a_maximum_length() {
    let of = |length: usize| lines(&[&vec![b'a'; length][..], b"\n"].concat(), std::iter::empty());
    assert_eq!(of(LINE_MAX - 1), (vec![vec![b'a'; LINE_MAX - 1]], None));
    assert_eq!(of(LINE_MAX), (Vec::new(), Some(UpdateRefusal::TooLong)));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        texts in prop::collection::vec("[a-z ]{0,200}", 0..20),
        pieces in prop::collection::vec(1..700_usize, 0..40),
    ) {
        let bytes = texts.iter().flat_map(|text| [text, "\n"]).collect::<String>();
        let expected: Vec<_> = texts.iter().map(|text| text.clone().into_bytes()).collect();
        prop_assert_eq!(lines(bytes.as_bytes(), pieces.into_iter()), (expected, None));
    }
}
