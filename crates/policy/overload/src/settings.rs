//! Settings of a host's overload control.

use crate::end_to_end::Targets;
use crate::hop::{HopReceiver, HopSender, ReceiverLaw};
use crate::local::{BangBang, Controller, Delay, None as NoControl, Occupancy, bang_bang, delay, occupancy};
use crate::retry_after::{self, During, RetryAfter};
use crate::{RejectAt, RejectState, Scope, Triage};
use core::time::Duration;

/// Local law of a host, with its constants.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum LocalLaw {
    /// Nothing is rejected.
    #[default]
    None,
    /// Watermarks of the queue.
    BangBang(bang_bang::BangBangSettings),
    /// Watermarks of the queue, with a pause requested from neighbours.
    RetryAfter(retry_after::RetryAfterSettings),
    /// Utilisation.
    Occupancy(occupancy::OccupancySettings),
    /// Expected wait.
    Delay(delay::DelaySettings),
}

impl LocalLaw {
    /// Creates a controller of this law.
    pub(crate) fn controller(&self) -> Box<dyn Controller> {
        match *self {
            Self::None => Box::new(NoControl),
            Self::BangBang(settings) => Box::new(BangBang::new(settings)),
            Self::RetryAfter(settings) => Box::new(RetryAfter::new(settings)),
            Self::Occupancy(settings) => Box::new(Occupancy::new(settings)),
            Self::Delay(settings) => Box::new(Delay::new(settings)),
        }
    }
}

/// Feedback that a host gives upstream neighbours and takes from downstream neighbours.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum FeedbackLaw {
    /// No feedback.
    #[default]
    None,
    /// A fraction, a rate or a window for each neighbour.
    Hop(ReceiverLaw),
    /// The acceptance f of the local law for each target, along the whole path.
    EndToEnd,
}

/// Settings of overload control. The default is no control.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct OverloadSettings {
    /// Local law.
    pub local: LocalLaw,
    /// Time of the decision.
    pub reject_at: RejectAt,
    /// Form of the rejection.
    pub reject_state: RejectState,
    /// Feedback between neighbours.
    pub feedback: FeedbackLaw,
    /// Messages that fractions and rates count. It must be the same for all hosts of a network.
    pub scope: Scope,
    /// Whether a request that a downstream neighbour rejected with 503 is tried at another neighbour (Overload paper,
    /// VI-C, case 3).
    pub alternate: bool,
    /// Meaning of a 503 with Retry-After from a neighbour that already pauses.
    pub during: During,
    /// Rules of the queue; `None`: first come, first served.
    pub triage: Option<Triage>,
}

impl OverloadSettings {
    /// Default of a server: new requests are accepted by their wait, and messages that finish calls are served first.
    pub fn by_wait() -> Self {
        let local = LocalLaw::Delay(delay::DelaySettings::ORDERED);
        Self { local, triage: Some(Triage::default()), ..Self::default() }
    }

    /// Whether no law and no feedback is in use.
    pub fn is_off(&self) -> bool {
        *self == Self { alternate: self.alternate, ..Self::default() }
    }

    /// Wait from which a new request counts as late: the onset of the law `delay`, or T1/8 with other laws.
    pub fn late(&self) -> Duration {
        match self.local {
            LocalLaw::Delay(settings) => settings.onset,
            _ => delay::DelaySettings::ORDERED.onset,
        }
    }

    /// Creates the local controller.
    pub(crate) fn controller(&self) -> Box<dyn Controller> {
        self.local.controller()
    }

    /// Creates the server side of hop-by-hop feedback; `None` if it is not used.
    pub(crate) fn receiver<N: Ord + Copy>(&self) -> Option<HopReceiver<N>> {
        match self.feedback {
            FeedbackLaw::Hop(law) => Some(HopReceiver::new(law, self.scope)),
            FeedbackLaw::None | FeedbackLaw::EndToEnd => None,
        }
    }

    /// Creates the client side of hop-by-hop feedback for one downstream neighbour; `None` if it is not used.
    pub(crate) fn sender(&self) -> Option<HopSender> {
        matches!(self.feedback, FeedbackLaw::Hop(_)).then(|| HopSender::new(self.scope))
    }

    /// Creates the table of end-to-end feedback; `None` if it is not used.
    pub(crate) fn targets<N: Ord + Copy>(&self) -> Option<Targets<N>> {
        (self.feedback == FeedbackLaw::EndToEnd).then(Targets::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_configured_side_of_feedback() {
        let of = |feedback| {
            let settings = OverloadSettings { feedback, ..OverloadSettings::default() };
            [
                settings.receiver::<u32>().is_some(),
                settings.sender().is_some(),
                settings.targets::<u32>().is_some(),
            ]
        };
        assert_eq!(of(FeedbackLaw::None), [false; 3]);
        assert_eq!(
            of(FeedbackLaw::Hop(ReceiverLaw::Loss(occupancy::OccupancySettings::default()))),
            [true, true, false]
        );
        assert_eq!(of(FeedbackLaw::EndToEnd), [false, false, true]);
    }
}
