//! The token of a call in its Call-ID, From tag and branches.

/// Text length of a token.
const LENGTH: usize = 24;

/// Identifies a call in its Call-ID, From tag and branches. The first 16 hex digits differ between calls like random
/// numbers, because a hash policy in the path reads them. The last 8 are the slot of the call, so that responses are
/// matched without a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) id: u64,
    pub(super) slot: u32,
}

impl Token {
    /// Returns the id of an agent's call. Distinct call numbers give distinct ids, because each step is invertible
    /// (finalizer of splitmix64, Steele, Lea and Flood, OOPSLA 2014).
    pub(super) fn id(agent: u64, call: u64) -> u64 {
        let mut z = agent ^ call.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the token at the start of `text`, and the rest of the text.
    pub(super) fn split(text: &[u8]) -> Option<(Self, &[u8])> {
        let (token, rest) = text.split_at_checked(LENGTH)?;
        let (id, slot) = token.split_at(16);
        Some((Self { id: hex(id)?, slot: u32::try_from(hex(slot)?).ok()? }, rest))
    }

    fn text(self) -> [u8; LENGTH] {
        let mut text = [0; LENGTH];
        let digits = (u128::from(self.id) << 32) | u128::from(self.slot);
        for (at, byte) in text.iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(digits >> (4 * (LENGTH - 1 - at))) as usize & 15];
        }
        text
    }
}

fn hex(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |sum, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(sum << 4 | u64::from(value))
    })
}

/// Placeholder of a token in a [`Pattern`]'s text. No other text of a caller contains it.
pub(super) const HOLE: &str = "########################";

/// Part of a message that is the same for every call except for the tokens in it.
#[derive(Debug)]
pub(super) struct Pattern {
    text: Vec<u8>,
    holes: Vec<usize>,
}

impl Pattern {
    /// Returns the pattern of a text with [`HOLE`]s.
    pub(super) fn new(text: Vec<u8>) -> Self {
        let holes = text.windows(LENGTH).enumerate();
        let holes = holes.filter(|(_, window)| *window == HOLE.as_bytes()).map(|(at, _)| at).collect();
        Self { text, holes }
    }

    /// Appends the text with this token.
    pub(super) fn write(&self, token: Token, out: &mut Vec<u8>) {
        let (start, token) = (out.len(), token.text());
        out.extend_from_slice(&self.text);
        for hole in &self.holes {
            out[start + hole..][..LENGTH].copy_from_slice(&token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_from_where_a_pattern_put_it() {
        let token = Token { id: Token::id(7, 42), slot: 0xbeef };
        let mut text = b"kept".to_vec();
        Pattern::new(format!("a{HOLE}b{HOLE}").into_bytes()).write(token, &mut text);
        assert!(text.starts_with(b"kepta") && text.len() == 4 + 2 + 2 * LENGTH);
        let (first, rest) = Token::split(&text[5..]).unwrap();
        let (second, rest) = Token::split(rest.strip_prefix(b"b").unwrap()).unwrap();
        assert_eq!((first, second, rest), (token, token, &b""[..]));
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
        for text in ["", "0123456789abcdef0123456", "0123456789ABCDEF01234567", HOLE] {
            assert_eq!(Token::split(text.as_bytes()), None);
        }
    }
}
