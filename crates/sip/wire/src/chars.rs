//! Byte classes of the grammar (RFC 3261 §25.1), with one table look-up for each byte.

use crate::vector;

/// `token`.
pub(crate) const TOKEN: u8 = 1;
/// Linear white space of a folded value: SP, HTAB and the CR LF of a fold.
pub(crate) const LWS: u8 = 2;
/// Value of a header parameter: any bytes except separators. It allows more than `gen-value`, because branches with `=`
/// or `@` are common, and the text is only compared or copied.
pub(crate) const VALUE: u8 = 4;
/// `userinfo` of a SIP URI, except `%`. `#` is added, since phones send it unescaped in feature codes.
pub(crate) const USER: u8 = 8;
/// `uri-parameters` of a SIP URI with their separators, except `%`.
pub(crate) const PARAM: u8 = 16;
/// `uric` of any URI (RFC 2396) with the brackets of RFC 2732, except `%`.
pub(crate) const URIC: u8 = 32;
/// `hostname`, and `_`, which occurs in names of container networks.
pub(crate) const HOST: u8 = 64;

const fn add(mut table: [u8; 256], bytes: &[u8], class: u8) -> [u8; 256] {
    let mut i = 0;
    while i < bytes.len() {
        table[bytes[i] as usize] |= class;
        i += 1;
    }
    table
}

const fn build() -> [u8; 256] {
    let mut t = [0; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        if byte.is_ascii_alphanumeric() {
            t[b] |= TOKEN | USER | PARAM | URIC | HOST;
        }
        if byte > b' ' && byte != 0x7f {
            t[b] |= VALUE;
        }
        b += 1;
    }
    t = add(t, b"-.!%*_+`'~", TOKEN);
    t = add(t, b" \t\r\n", LWS);
    // `unreserved` (here its `mark`) may occur in every part of a URI.
    t = add(t, b"-_.!~*'()", USER | PARAM | URIC);
    t = add(t, b":&=+$,;?/#", USER);
    t = add(t, b"[]/:&+$;=", PARAM);
    t = add(t, b";/?:@&=+$,#[]", URIC);
    t = add(t, b"-._", HOST);
    let separators = b";,\"<>";
    let mut i = 0;
    while i < separators.len() {
        t[separators[i] as usize] &= !VALUE;
        i += 1;
    }
    t
}

static CLASSES: [u8; 256] = build();

/// Whether `byte` is in one of the classes `class`.
pub(crate) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Whether every byte is in `class`, or part of a `%HH` escape.
pub(crate) fn all_or_escaped(text: &[u8], class: u8) -> bool {
    // Letters, digits and `-.:;=`, which all classes contain but that of hosts, make up nearly every text.
    let mut i = vector::plain_run(text);
    while let Some(&b) = text.get(i) {
        if is(b, class) {
            i += 1;
        } else if b == b'%' && text.get(i + 1..i + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
        {
            i += 3;
        } else {
            return false;
        }
    }
    true
}

/// Reads decimal digits as a number. `None` if there are no digits, if there are other characters, or if the number is
/// above `max`.
pub(crate) fn number(digits: &[u8], max: u32) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    let mut n: u64 = 0;
    for &d in digits {
        if !d.is_ascii_digit() {
            return None;
        }
        n = n * 10 + u64::from(d - b'0');
        // The check follows each digit: any number of leading zeros is legal, but other long numbers would overflow.
        if n > u64::from(max) {
            return None;
        }
    }
    Some(n as u32)
}

/// `text` without the white space around it.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&b| !is(b, LWS)).unwrap_or(text.len());
    let end = text.iter().rposition(|&b| !is(b, LWS)).map_or(start, |i| i + 1);
    &text[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bounded() {
        assert_eq!(number(b"0068", 255), Some(68));
        assert_eq!(number(b"2147483647", i32::MAX as u32), Some(i32::MAX as u32));
        assert_eq!(number(b"2147483648", i32::MAX as u32), None);
        assert_eq!(number(b"36893488147419103232", u32::MAX), None);
        assert_eq!(number(b"", 9), None);
        assert_eq!(number(b"-1", 9), None);
    }

    /// Blocks are read in one go, and the result is the same.
    #[test]
    fn texts_of_any_length_are_read_like_their_bytes() {
        for class in [USER, PARAM, URIC] {
            for byte in (0..=u8::MAX).filter(|byte| *byte != b'%') {
                for length in [15, 16, 33] {
                    let mut text = vec![b'a'; length];
                    text[length / 2] = byte;
                    assert_eq!(all_or_escaped(&text, class), is(byte, class), "{byte:#x} of {length}");
                }
            }
        }
    }

    #[test]
    fn escapes_need_two_hex_digits() {
        assert!(all_or_escaped(b"se%72", USER));
        for bad in [&b"a%7"[..], b"a%", b"%zz", b"a b", b"a<", b"\"a", b"\x80"] {
            assert!(!all_or_escaped(bad, USER), "{bad:?}");
        }
    }
}
