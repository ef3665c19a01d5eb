//! Base 32 with the digits and the letters a to v (RFC 4648 §7), lower case, unpadded.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Appends `bytes` as text, five bits a character.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u32, 0);
    for &byte in bytes {
        bits = bits << 8 | u32::from(byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(ALPHABET[(bits >> count & 31) as usize]);
        }
    }
    if count > 0 {
        out.push(ALPHABET[(bits << (5 - count) & 31) as usize]);
    }
}

/// Reads exactly `N` bytes back; `None` when the length, a character or a spare bit is not as written.
pub(super) fn decode<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != (N * 8).div_ceil(5) {
        return None;
    }
    let mut bytes = [0; N];
    let (mut bits, mut count, mut at) = (0_u32, 0, 0);
    for &character in text {
        let value = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'v' => character - b'a' + 10,
            b'A'..=b'V' => character - b'A' + 10,
            _ => return None,
        };
        bits = bits << 5 | u32::from(value);
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes[at] = (bits >> count) as u8;
            at += 1;
        }
    }
    (bits & ((1 << count) - 1) == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_in_any_case(bytes: [u8; 18]) {
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(decode::<18>(&text), Some(bytes));
            prop_assert_eq!(decode::<18>(&text.to_ascii_uppercase()), Some(bytes));
            prop_assert_eq!(decode::<17>(&text), None);
        }
    }
}
