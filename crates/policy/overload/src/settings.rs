//! All that a host can be told about overload control.

use crate::end_to_end::Targets;
use crate::hop::{Law, Receiver, Sender};
use crate::local::{BangBang, Controller, Delay, None as NoControl, Occupancy, bang_bang, delay, occupancy};
use crate::retry_after::{self, During, RetryAfter};
use crate::{RejectAt, RejectState, Scope, Triage};
use core::time::Duration;

/// The local law of a host, with its constants.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum LocalLaw {
    /// Nothing is rejected.
    #[default]
    None,
    /// Watermarks of the queue.
    BangBang(bang_bang::BangBangSettings),
    /// Watermarks of the queue, and a pause for the neighbour.
    RetryAfter(retry_after::RetryAfterSettings),
    /// Utilisation.
    Occupancy(occupancy::OccupancySettings),
    /// Expected wait.
    Delay(delay::DelaySettings),
}

impl LocalLaw {
    /// A controller of this law.
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

/// What a host tells those who send to it, and takes from those that it sends to.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum FeedbackLaw {
    /// Nothing.
    #[default]
    None,
    /// Each neighbour a fraction, a rate or a window.
    Hop(Law),
    /// The f of the local law for each target, along the path.
    EndToEnd,
}

/// Everything about overload that a host can be told. The default is no control at all.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct OverloadSettings {
    /// What it decides on its own.
    pub local: LocalLaw,
    /// When it decides.
    pub reject_at: RejectAt,
    /// How it rejects.
    pub reject_state: RejectState,
    /// What travels between neighbours.
    pub feedback: FeedbackLaw,
    /// What fractions and rates count; the same in all of a network.
    pub scope: Scope,
    /// Whether a request that a downstream neighbour rejected with a 503 is tried at another one (Overload paper,
    /// VI-C, case 3).
    pub alternate: bool,
    /// What a 503 with Retry-After means to this host while it spares the neighbour already.
    pub during: During,
    /// The rules of the queue; first come first served without.
    pub triage: Option<Triage>,
}

impl OverloadSettings {
    /// What a server does unless it is told otherwise: new requests are taken by their wait, and what finishes calls
    /// comes first.
    pub fn by_wait() -> Self {
        let local = LocalLaw::Delay(delay::DelaySettings::default());
        Self { local, triage: Some(Triage::default()), ..Self::default() }
    }

    /// Whether no law and no feedback is in use.
    pub fn is_off(&self) -> bool {
        *self == Self { alternate: self.alternate, ..Self::default() }
    }

    /// The wait from which on a new request is late: where the law `delay` begins to refuse; T1/16 with the others.
    pub fn late(&self) -> Duration {
        match self.local {
            LocalLaw::Delay(settings) => settings.onset,
            _ => delay::DelaySettings::default().onset,
        }
    }

    /// The local controller.
    pub(crate) fn controller(&self) -> Box<dyn Controller> {
        self.local.controller()
    }

    /// The server's side of hop-by-hop feedback, if there is any.
    pub(crate) fn receiver<N: Ord + Copy>(&self) -> Option<Receiver<N>> {
        match self.feedback {
            FeedbackLaw::Hop(law) => Some(Receiver::new(law, self.scope)),
            FeedbackLaw::None | FeedbackLaw::EndToEnd => None,
        }
    }

    /// The client's side of hop-by-hop feedback, for one downstream neighbour, if there is any.
    pub(crate) fn sender(&self) -> Option<Sender> {
        matches!(self.feedback, FeedbackLaw::Hop(_)).then(|| Sender::new(self.scope))
    }

    /// The table of end-to-end feedback, if there is any.
    pub(crate) fn targets<N: Ord + Copy>(&self) -> Option<Targets<N>> {
        (self.feedback == FeedbackLaw::EndToEnd).then(Targets::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_side_of_the_feedback_that_it_was_told() {
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
            of(FeedbackLaw::Hop(Law::Loss(occupancy::OccupancySettings::default()))),
            [true, true, false]
        );
        assert_eq!(of(FeedbackLaw::EndToEnd), [false, false, true]);
    }
}
