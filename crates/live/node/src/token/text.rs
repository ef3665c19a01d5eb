//! Base 32 with the digits and the letters a to v (RFC 4648 §7), lower case, unpadded.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Value in [`VALUES`] for a byte that is no digit.
const NONE: u8 = 0xff;

/// The bits that eight digit values may have.
const DIGITS: u64 = u64::from_ne_bytes([31; 8]);

/// Values of the digits, in either case.
static VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = value as u8;
        values[ALPHABET[value].to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    values
};

/// Appends `bytes` as text, five bits a character.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let character = |bits: u64, index: usize| ALPHABET[(bits >> (35 - 5 * index) & 31) as usize];
    // Five bytes are eight characters.
    let (groups, rest) = bytes.as_chunks::<5>();
    for group in groups {
        let bits = group.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        let text: [u8; 8] = core::array::from_fn(|index| character(bits, index));
        out.extend_from_slice(&text);
    }
    if !rest.is_empty() {
        let mut group = [0; 5];
        group[..rest.len()].copy_from_slice(rest);
        let bits = group.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        out.extend((0..(rest.len() * 8).div_ceil(5)).map(|index| character(bits, index)));
    }
}

/// Returns whether the first byte of a text has the same high half as `byte`. The first character has five bits, of
/// which four are this half.
pub(super) fn begins_with(text: &[u8], byte: u8) -> bool {
    text.first().is_some_and(|&first| VALUES[first as usize] >> 1 == byte >> 4)
}

/// Reads exactly `N` bytes. `None` if the length, a character or an unused bit is invalid.
pub(super) fn decode<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != (N * 8).div_ceil(5) {
        return None;
    }
    let mut bytes = [0; N];
    let (groups, rest) = text.as_chunks::<8>();
    let (whole, last) = bytes.split_at_mut(N / 5 * 5);
    // Collects the bits of all values: a bit above the lowest five means that a character was no digit.
    let mut seen = 0;
    for (group, bytes) in groups.iter().zip(whole.as_chunks_mut::<5>().0) {
        let values = group.map(|character| VALUES[character as usize]);
        seen |= u64::from_ne_bytes(values);
        let bits = values.iter().fold(0, |bits, &value| bits << 5 | u64::from(value));
        bytes.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    if !last.is_empty() {
        // Padded to a whole group.
        let mut values = [0; 8];
        for (value, &character) in values.iter_mut().zip(rest) {
            *value = VALUES[character as usize];
        }
        seen |= u64::from_ne_bytes(values);
        let group = values.iter().fold(0, |bits, &value| bits << 5 | u64::from(value)).to_be_bytes();
        let (used, spare) = group[3..].split_at(last.len());
        if spare.iter().any(|&byte| byte != 0) {
            return None;
        }
        last.copy_from_slice(used);
    }
    (seen & !DIGITS == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoded_text_is_decoded_in_any_case(bytes: [u8; 18]) {
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            prop_assert_eq!(decode::<18>(&text), Some(bytes));
            prop_assert_eq!(decode::<18>(&text.to_ascii_uppercase()), Some(bytes));
            prop_assert_eq!(decode::<17>(&text), None);
            for high in 0..16_u8 {
                prop_assert_eq!(begins_with(&text, high << 4 | 5), bytes[0] >> 4 == high);
            }
        }
    }
}
