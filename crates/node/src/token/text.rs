//! Base 32 with the digits and the letters a to v (RFC 4648 §7), lower case, unpadded.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// What is in [`VALUES`] for a byte that is no digit.
const NONE: u8 = 0xff;

/// The value of each digit, in either case.
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
    // Five bytes are eight characters.
    for group in bytes.chunks(5) {
        let mut bits = [0; 8];
        bits[3..3 + group.len()].copy_from_slice(group);
        let bits = u64::from_be_bytes(bits);
        let text: [u8; 8] = core::array::from_fn(|index| ALPHABET[(bits >> (35 - 5 * index) & 31) as usize]);
        out.extend_from_slice(&text[..(group.len() * 8).div_ceil(5)]);
    }
}

/// Reads exactly `N` bytes back; `None` when the length, a character or a spare bit is not as written.
pub(super) fn decode<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != (N * 8).div_ceil(5) {
        return None;
    }
    let mut bytes = [0; N];
    // Of all the values: a bit above the five means that a character was no digit.
    let mut seen = 0;
    for (group, bytes) in text.chunks(8).zip(bytes.chunks_mut(5)) {
        let mut bits = 0;
        for (index, &character) in group.iter().enumerate() {
            let value = VALUES[character as usize];
            seen |= value;
            bits |= u64::from(value & 31) << (35 - 5 * index);
        }
        let whole = bits.to_be_bytes();
        let (used, spare) = whole[3..].split_at(bytes.len());
        if spare.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.copy_from_slice(used);
    }
    (seen <= 31).then_some(bytes)
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
