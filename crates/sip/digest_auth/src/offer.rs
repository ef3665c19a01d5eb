//! Algorithms that challenges offer.

use crate::Algorithm;
use core::fmt;

/// [2.3-1] Offered algorithms, the most preferred first (RFC 8760 §2.3): at least one, and none twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer(Vec<Algorithm>);

/// Reason why algorithms cannot be offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfferError {
    /// No algorithm is named.
    Empty,
    /// This algorithm is named more than once.
    Twice(Algorithm),
}

impl Offer {
    /// Makes an offer of these, in this order.
    pub fn new(algorithms: Vec<Algorithm>) -> Result<Self, OfferError> {
        let mut rest = &algorithms[..];
        while let [first, others @ ..] = rest {
            if others.contains(first) {
                return Err(OfferError::Twice(*first));
            }
            rest = others;
        }
        if algorithms.is_empty() { Err(OfferError::Empty) } else { Ok(Self(algorithms)) }
    }

    /// Makes an offer of this algorithm alone.
    pub fn of(algorithm: Algorithm) -> Self {
        Self(vec![algorithm])
    }

    /// Algorithms, the most preferred first.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.0
    }
}

impl Default for Offer {
    /// All algorithms, strongest first.
    fn default() -> Self {
        Self(Algorithm::ALL.to_vec())
    }
}

impl fmt::Display for OfferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("no algorithm is offered: name at least one of ")?;
                f.write_str(&Algorithm::ALL.map(Algorithm::name).join(", "))
            }
            Self::Twice(algorithm) => write!(f, "{} is offered twice: name it once", algorithm.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [2.3-1]
    #[test]
    fn an_offer_names_each_algorithm_once() {
        let [strongest, .., weakest] = Algorithm::ALL;
        let offer = Offer::new(vec![weakest, strongest]).unwrap();
        assert_eq!(offer.algorithms(), [weakest, strongest]);
        let twice = Offer::new(vec![strongest, weakest, strongest]).unwrap_err();
        assert_eq!(twice.to_string(), "SHA-512-256 is offered twice: name it once");
        let empty = Offer::new(Vec::new()).unwrap_err();
        assert_eq!(
            empty.to_string(),
            "no algorithm is offered: name at least one of SHA-512-256, SHA-256, MD5"
        );
    }
}
