//! Searches that read sixteen bytes at a time. Most lines and values are so short that the call of `memchr` would cost
//! more than the search.

use crate::chars::{self, VALUE};
use wide::u8x16;

/// Position of the first CR or LF from `from` on.
#[inline]
pub(crate) fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    let among = |bytes: u8x16| bytes.simd_eq(all(b'\r')) | bytes.simd_eq(all(b'\n'));
    let at = search(bytes, from, bytes.len(), among, |byte| matches!(byte, b'\r' | b'\n'));
    (at < bytes.len()).then_some(at)
}

/// Position of the first `wanted` from `from` on; `end` if there is none before.
#[inline]
pub(crate) fn find(bytes: &[u8], from: usize, end: usize, wanted: u8) -> usize {
    search(bytes, from, end, |bytes| bytes.simd_eq(all(wanted)), |byte| byte == wanted)
}

/// Position of the first `wanted` in a block.
#[inline]
pub(crate) fn position(block: &[u8; 16], wanted: u8) -> Option<usize> {
    let found = u8x16::new(*block).simd_eq(all(wanted)).to_bitmask();
    (found != 0).then_some(found.trailing_zeros() as usize)
}

/// Whether no byte is a space or a control character below it.
#[inline]
pub(crate) fn is_without_space(bytes: &[u8]) -> bool {
    let end = bytes.len();
    search(bytes, 0, end, |bytes| bytes.min(all(b' ')).simd_eq(bytes), |byte| byte <= b' ') == end
}

/// Position of the first byte from `from` on that does not belong to [`VALUE`](crate::chars::VALUE); `end` if there is
/// none before.
#[inline]
pub(crate) fn value_end(bytes: &[u8], from: usize, end: usize) -> usize {
    let among = |bytes: u8x16| {
        let is_low = bytes.min(all(b' ')).simd_eq(bytes);
        let others = [b';', b',', b'"', b'<', b'>', 0x7f];
        others.iter().fold(is_low, |found, byte| found | bytes.simd_eq(all(*byte)))
    };
    search(bytes, from, end, among, |byte| !chars::is(byte, VALUE))
}

/// Length of the longest prefix of whole blocks in which all bytes are letters, digits or one of `-.:;=`.
#[inline]
pub(crate) fn plain_run(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<16>();
    let is_plain = |block: &[u8; 16]| {
        let bytes = u8x16::new(*block);
        let within = |bytes: u8x16, first: u8, last: u8| bytes.max(all(first)).min(all(last)).simd_eq(bytes);
        let letter = within(bytes | all(0x20), b'a', b'z');
        let others = within(bytes, b'0', b';') | within(bytes, b'-', b'.') | bytes.simd_eq(all(b'='));
        (letter | others).to_bitmask() == 0xffff
    };
    16 * blocks.iter().position(|block| !is_plain(block)).unwrap_or(blocks.len())
}

#[inline]
fn all(byte: u8) -> u8x16 {
    u8x16::splat(byte)
}

/// Position of the first match from `from` to `end`; `end` if there is none. `among` tests sixteen bytes at once, and
/// `is` tests single bytes if `bytes` has fewer than sixteen. A block may reach beyond `end`, but matches there do not
/// count.
#[inline]
fn search(
    bytes: &[u8],
    from: usize,
    end: usize,
    among: impl Fn(u8x16) -> u8x16,
    is: impl Fn(u8) -> bool,
) -> usize {
    let mut at = from;
    while at < end {
        let Some(next) = bytes[at..].first_chunk::<16>() else {
            return search_last(bytes, at, end, among, is);
        };
        let found = among(u8x16::new(*next)).to_bitmask();
        if found != 0 {
            return end.min(at + found.trailing_zeros() as usize);
        }
        at += 16;
    }
    end
}

/// The same from a position less than sixteen bytes before the end of `bytes`.
#[inline(never)]
fn search_last(
    bytes: &[u8],
    from: usize,
    end: usize,
    among: impl Fn(u8x16) -> u8x16,
    is: impl Fn(u8) -> bool,
) -> usize {
    let Some(last) = bytes.last_chunk::<16>() else {
        return from + bytes[from..end].iter().position(|byte| is(*byte)).unwrap_or(end - from);
    };
    // Without the bytes of the block before `from`.
    let found = among(u8x16::new(*last)).to_bitmask() >> (from + 16 - bytes.len());
    if found == 0 { end } else { end.min(from + found.trailing_zeros() as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each search finds the same as reading byte by byte, for every byte at every place of a block.
        #[test]
        fn finds_the_first(bytes in prop::collection::vec(any::<u8>(), 0..80), from in 0usize..80, end in 0usize..80) {
            let end = end.min(bytes.len());
            let from = from.min(end);
            let first = |end: usize, is: &dyn Fn(u8) -> bool| {
                bytes[from..end].iter().position(|b| is(*b)).map(|at| from + at)
            };
            let is_value = |b: u8| chars::is(b, VALUE);
            prop_assert_eq!(line_end(&bytes, from), first(bytes.len(), &|b| b == b'\r' || b == b'\n'));
            prop_assert_eq!(value_end(&bytes, from, end), first(end, &|b| !is_value(b)).unwrap_or(end));
            prop_assert_eq!(is_without_space(&bytes[from..end]), first(end, &|b| b <= b' ').is_none());
            for wanted in 0..=u8::MAX {
                prop_assert_eq!(find(&bytes, from, end, wanted), first(end, &|b| b == wanted).unwrap_or(end));
            }
        }
    }

    #[test]
    fn a_value_ends_at_each_byte_of_another_class() {
        for byte in 0..=u8::MAX {
            let text = [&[b'a'; 20][..], &[byte], &[b'a'; 20]].concat();
            let end = if chars::is(byte, VALUE) { text.len() } else { 20 };
            assert_eq!(value_end(&text, 0, text.len()), end, "{byte:#x}");
        }
    }
}
