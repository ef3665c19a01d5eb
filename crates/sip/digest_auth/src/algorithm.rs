//! Hash algorithms of RFC 7616 §3.2, §6.1 that challenges can offer, and their results.

use md5::Md5;
use sha2::{Digest, Sha256, Sha512_256};
use subtle::ConstantTimeEq;

/// Hash algorithm of the IANA registry. The variants named `-sess` are not offered, so no client may use them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Algorithm {
    /// For clients that know no other algorithm; NOT RECOMMENDED (RFC 8760 §3).
    Md5,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512/256 (FIPS 180-4). The example of RFC 7616 §3.9.2 shows the first half of SHA-512 instead, which is
    /// another function; its section 3.2 names this one.
    Sha512_256,
}

impl Algorithm {
    /// All algorithms, strongest first.
    pub const ALL: [Self; 3] = [Self::Sha512_256, Self::Sha256, Self::Md5];

    /// Name in the `algorithm` parameter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
            Self::Sha512_256 => "SHA-512-256",
        }
    }

    /// Algorithm with this name; MD5 without a name (RFC 7616 §3.3).
    pub fn of(name: Option<&[u8]>) -> Option<Self> {
        let Some(name) = name else { return Some(Self::Md5) };
        Self::ALL.into_iter().find(|known| name.eq_ignore_ascii_case(known.name().as_bytes()))
    }

    /// Length of a hash, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 | Self::Sha512_256 => 32,
        }
    }

    /// Hash of the parts, joined by colons: `H(a:b:c)`.
    pub fn hash(self, parts: &[&[u8]]) -> SecretHash {
        match self {
            Self::Md5 => join::<Md5>(self, parts),
            Self::Sha256 => join::<Sha256>(self, parts),
            Self::Sha512_256 => join::<Sha512_256>(self, parts),
        }
    }
}

fn join<D: Digest>(algorithm: Algorithm, parts: &[&[u8]]) -> SecretHash {
    let mut hasher = D::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            hasher.update(b":");
        }
        hasher.update(part);
    }
    let mut bytes = [0; 32];
    let result = hasher.finalize();
    bytes[..result.len()].copy_from_slice(&result);
    SecretHash { algorithm, bytes }
}

/// Hash value. Compared only in constant time, and never printed, since the hash of a password is as good as the
/// password.
#[derive(Clone, Copy)]
pub struct SecretHash {
    algorithm: Algorithm,
    /// Zero beyond the length of the hash.
    bytes: [u8; 32],
}

impl SecretHash {
    /// Reads exactly as many hexadecimal digits as the algorithm has. Upper-case digits are accepted too, although RFC
    /// 8760 §2.2 requires lower case.
    pub fn from_hex(algorithm: Algorithm, digits: &[u8]) -> Option<Self> {
        if digits.len() != 2 * algorithm.bytes() {
            return None;
        }
        let mut bytes = [0; 32];
        read_hex(digits, &mut bytes[..algorithm.bytes()])?;
        Some(Self { algorithm, bytes })
    }

    /// Algorithm of the hash.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// [2.2-1] Lower-case hexadecimal digits, most significant first (RFC 8760 §2.2). 32 or 64 bytes.
    pub fn hex(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        push_hex(&self.bytes[..self.algorithm.bytes()], &mut out);
        out
    }

    /// Whether both are equal, compared in constant time.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && bool::from(self.bytes.ct_eq(&other.bytes))
    }
}

impl core::fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Hash({})", self.algorithm.name())
    }
}

/// Appends lower-case hexadecimal digits.
pub(crate) fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(b"0123456789abcdef"[digit as usize]);
        }
    }
}

/// Reads `out.len()` bytes from twice as many digits.
pub(crate) fn read_hex(digits: &[u8], out: &mut [u8]) -> Option<()> {
    if digits.len() != 2 * out.len() {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16).map(|digit| digit as u8);
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(hash: SecretHash) -> String {
        String::from_utf8(hash.hex()).unwrap()
    }

    /// [2.2-1] FIPS 180-4 and RFC 1321 give these hashes of the empty text; RFC 8760 §2.6 (7) repeats the second.
    #[test]
    fn hashes_of_the_empty_text() {
        let empty = |algorithm: Algorithm| hex(algorithm.hash(&[b""]));
        assert_eq!(empty(Algorithm::Md5), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(
            empty(Algorithm::Sha256),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            empty(Algorithm::Sha512_256),
            "c672b8d1ef56ed28ab87c3622c5114069bdd3ad7b8f9737498d0c01ecef0967a"
        );
    }

    #[test]
    fn hexadecimal_digits_are_read_strictly() {
        let hash = Algorithm::Md5.hash(&[b"x"]);
        let text = hash.hex();
        assert!(SecretHash::from_hex(Algorithm::Md5, &text).is_some_and(|read| read.is(&hash)));
        assert!(
            SecretHash::from_hex(Algorithm::Md5, &text.to_ascii_uppercase())
                .is_some_and(|read| read.is(&hash))
        );
        for bad in [
            &text[..31],
            &text[..0],
            b"g41d8cd98f00b204e9800998ecf8427e",
            &[text.clone(), text.clone()].concat(),
        ] {
            assert!(SecretHash::from_hex(Algorithm::Md5, bad).is_none());
        }
        assert!(SecretHash::from_hex(Algorithm::Sha256, &text).is_none());
        assert_eq!(format!("{hash:?}"), "Hash(MD5)");
    }

    #[test]
    fn names() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::of(Some(algorithm.name().to_lowercase().as_bytes())), Some(algorithm));
        }
        assert_eq!(Algorithm::of(None), Some(Algorithm::Md5));
        for other in ["", "MD5-sess", "SHA-256-sess", "SHA-512", "token"] {
            assert_eq!(Algorithm::of(Some(other.as_bytes())), None, "{other}");
        }
    }
}
