//! Short texts, written without allocating.

use crate::vector;

/// Number of digits of the largest `u32`.
pub(crate) const DIGITS_MAX: usize = 10;

/// Writes `n` in decimal at the end of `digits`.
pub(crate) fn decimal(mut n: u32, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            return &digits[at..];
        }
    }
}

/// Appends `n` in decimal.
pub(crate) fn push_decimal(n: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(decimal(n, &mut [0; DIGITS_MAX]));
}

/// Appends a header value on one line: each CR and LF becomes a space, which is the meaning of a fold by RFC 3261
/// §7.3.1. So no value can start a new header line, whatever its source is.
pub(crate) fn push_unfolded(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value);
    // Folds are rare.
    let mut at = start;
    while let Some(end) = vector::line_end(out, at) {
        out[end] = b' ';
        at = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        for n in [0, 7, 10, 5060, u32::MAX] {
            let mut out = Vec::new();
            push_decimal(n, &mut out);
            assert_eq!(out, n.to_string().into_bytes());
        }
    }

    #[test]
    fn no_line_end_survives() {
        let mut out = b"s: ".to_vec();
        push_unfolded(b"a\r\n b\nEvil: x\r", &mut out);
        assert_eq!(out, b"s: a   b Evil: x ");
    }
}
