//! Feedback in the form of Via parameters (RFC 7339 §4, RFC 7415 §3.2).

use super::{ClientLimit, Feedback};
use core::time::Duration;
use wire::{OverloadAlgorithm, OverloadFeedback};

/// Longest accepted validity. So a client is not limited for longer by a server that has stopped.
const VALIDITY_MAX: Duration = Duration::from_mins(1);

impl Feedback {
    /// Converts the parameters of a Via. `sequence` is used if the Via has no `oc-seq`.
    pub fn of_via(read: &OverloadFeedback, sequence: u64) -> Self {
        let limit = match read.algorithm {
            OverloadAlgorithm::Loss => ClientLimit::Loss(1.0 - f64::from(read.value.min(100)) / 100.0),
            OverloadAlgorithm::Rate => ClientLimit::Rate(f64::from(read.value)),
        };
        let validity = Duration::from_millis(read.validity.into()).min(VALIDITY_MAX);
        Self {
            limit: (!validity.is_zero()).then_some(limit),
            validity,
            sequence: read.sequence.unwrap_or(sequence),
        }
    }

    /// Converts to Via parameters for a client that uses `algorithm`; `None` if the limit is of another kind.
    ///
    /// `oc` is a whole number. A fraction is rounded to the nearest percent. A rate is rounded down, but not to 0,
    /// which would stop the client (RFC 7415 §3.5.1).
    pub fn to_via(&self, algorithm: OverloadAlgorithm) -> Option<OverloadFeedback> {
        let value = match (self.limit, algorithm) {
            (None, _) => 0,
            (Some(ClientLimit::Loss(acceptance)), OverloadAlgorithm::Loss) => {
                ((1.0 - acceptance.clamp(0.0, 1.0)) * 100.0).round() as u32
            }
            (Some(ClientLimit::Rate(rate)), OverloadAlgorithm::Rate) => (rate as u32).max(1),
            (Some(_), _) => return None,
        };
        let validity = if self.limit.is_some() { self.validity } else { Duration::ZERO };
        let validity = validity.as_millis().try_into().unwrap_or(u32::MAX);
        Some(OverloadFeedback { algorithm, value, validity, sequence: Some(self.sequence) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: OverloadAlgorithm = OverloadAlgorithm::Rate;
    const LOSS: OverloadAlgorithm = OverloadAlgorithm::Loss;

    #[test]
    fn no_limit_is_written_as_the_end_of_control() {
        let none = Feedback { limit: None, validity: Duration::from_secs(2), sequence: 7 };
        let written = none.to_via(RATE).expect("the end of control exists for every algorithm");
        assert_eq!((written.value, written.validity, written.sequence), (0, 0, Some(7)));
        assert_eq!(Feedback::of_via(&written, 9).limit, None);
    }

    #[test]
    fn a_rate_of_0_stops_a_client_and_is_never_written() {
        let of = |value, validity| {
            let read = OverloadFeedback { algorithm: RATE, value, validity, sequence: None };
            Feedback::of_via(&read, 9)
        };
        assert_eq!(of(0, 500).limit, Some(ClientLimit::Rate(0.0)));
        assert_eq!((of(0, 0).limit, of(0, 0).sequence), (None, 9));
        assert_eq!(of(5, u32::MAX).validity, VALIDITY_MAX);
        let tell =
            |rate| Feedback { limit: Some(ClientLimit::Rate(rate)), validity: VALIDITY_MAX, sequence: 1 };
        let told = |rate| tell(rate).to_via(RATE).map(|told| told.value);
        assert_eq!([0.2, 1.9, 150.0].map(told), [Some(1), Some(1), Some(150)]);
        assert_eq!(tell(5.0).to_via(LOSS), None);
    }

    proptest! {
        #[test]
        fn written_feedback_is_read_back(percent in 0_u32..=100, rate in 1_u32..1_000_000, ms in 1_u64..60_000, sequence: u64) {
            let validity = Duration::from_millis(ms);
            for (limit, algorithm) in [
                (ClientLimit::Loss(1.0 - f64::from(percent) / 100.0), LOSS),
                (ClientLimit::Rate(f64::from(rate)), RATE),
            ] {
                let told = Feedback { limit: Some(limit), validity, sequence };
                let heard = Feedback::of_via(&told.to_via(algorithm).expect("the limit has a form on the wire"), 0);
                prop_assert_eq!(heard, told);
            }
        }
    }
}
