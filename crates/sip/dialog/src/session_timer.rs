//! Session timers at a proxy (RFC 4028 §8): the changes that it makes to Session-Expires and Min-SE.
//!
//! Marks in brackets, a section and a number, are the rules of `docs/evidence/rfc/4028.md`. A test compares the marks
//! with this page.

/// Least Min-SE in seconds. It is also the value for messages without Min-SE (§4, §5).
pub const LEAST: u32 = 90;

/// Session timer of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionTimer {
    /// Session interval in seconds that the proxy requests if the caller requests none, or a longer one. `None`: the
    /// proxy requests no interval, but still applies the interval on which both sides agree.
    pub expires: Option<u32>,
    /// Least interval, in seconds; at least [`LEAST`].
    pub least: u32,
}

impl Default for SessionTimer {
    fn default() -> Self {
        Self { expires: None, least: LEAST }
    }
}

/// Session timer fields of a session refresh request (INVITE, UPDATE).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionTimerRequest {
    /// Whether Supported has `timer`.
    pub supports: bool,
    /// Session-Expires, in seconds.
    pub expires: Option<u32>,
    /// Min-SE, in seconds.
    pub least: Option<u32>,
}

/// Changes of the forwarded request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forwarded {
    /// New Session-Expires, if changed.
    pub expires: Option<u32>,
    /// New Min-SE, if changed.
    pub least: Option<u32>,
    /// Data kept until the response: the requested interval, and whether the caller supports timers.
    pub kept: Kept,
}

/// Data of a request that are kept until its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Session-Expires of the forwarded request, in seconds.
    pub expires: Option<u32>,
    /// Whether the sender of the request supports timers.
    pub supports: bool,
}

/// Error: the interval is too small. The answer is a 422 with this Min-SE in seconds (§8.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooSmall(pub u32);

impl SessionTimer {
    /// Changes of a session refresh request.
    ///
    /// # Errors
    /// [`TooSmall`] if a client that supports timers requests less than the least interval.
    pub fn request(&self, asked: SessionTimerRequest) -> Result<Forwarded, TooSmall> {
        let mut forwarded = Forwarded::default();
        let asked_least = asked.least.unwrap_or(LEAST);
        let mut least = asked_least;
        if asked.expires.is_some_and(|expires| expires < self.least) && self.expires.is_some() {
            // [8.1-6] Only a client that supports timers can send the request again.
            if asked.supports {
                return Err(TooSmall(self.least));
            }
            // [8.1-7] [8.1-8] Min-SE is raised, never lowered.
            least = asked_least.max(self.least);
            forwarded.least = (asked.least != Some(least)).then_some(least);
        }
        let wanted = match (asked.expires, self.expires) {
            // [8.1-3] The requested interval is reduced, but not below Min-SE; [8.1-4] it is never increased.
            (Some(asked), Some(ours)) => Some(asked.min(ours.max(least))),
            // [8.1-1] The request has no interval.
            (None, Some(ours)) => Some(ours.max(least)),
            (asked, None) => asked,
        };
        // [8.1-5] An interval below Min-SE is raised to Min-SE.
        let raised = wanted.map(|wanted| if asked.expires.is_some() { wanted.max(least) } else { wanted });
        forwarded.expires = raised.filter(|_| raised != asked.expires);
        forwarded.kept = Kept { expires: raised, supports: asked.supports };
        Ok(forwarded)
    }
}

/// Change of a 2xx.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResponseEdit {
    /// Seconds of the added `Session-Expires: N;refresher=uac`, with `timer` in Require ([8.2-2], [8.2-3]).
    pub insert: Option<u32>,
    /// Seconds until the session ends unless it is refreshed. `None`: the session has no time limit.
    pub interval: Option<u32>,
}

impl Kept {
    /// Change of a 2xx with this Session-Expires.
    pub fn response(self, expires: Option<u32>) -> ResponseEdit {
        match (expires, self.expires) {
            // [8.2-4] The interval of the response is used, and not changed.
            (Some(_), _) => ResponseEdit { insert: None, interval: expires },
            // [8.2-2] The UAS does not support timers, but the UAC does.
            (None, Some(kept)) if self.supports => ResponseEdit { insert: Some(kept), interval: Some(kept) },
            // [8.2-1] Neither side supports timers.
            (None, _) => ResponseEdit::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OURS: SessionTimer = SessionTimer { expires: Some(1800), least: 120 };

    fn asked(supports: bool, expires: Option<u32>, least: Option<u32>) -> SessionTimerRequest {
        SessionTimerRequest { supports, expires, least }
    }

    /// [8.1-1]
    #[test]
    fn an_interval_is_requested_if_the_request_has_none() {
        let forwarded = OURS.request(asked(true, None, None)).expect("taken");
        assert_eq!((forwarded.expires, forwarded.least), (Some(1800), None));
        assert_eq!(forwarded.kept, Kept { expires: Some(1800), supports: true });
        let forwarded = OURS.request(asked(false, None, Some(3600))).expect("taken");
        assert_eq!(forwarded.expires, Some(3600), "the interval is not below Min-SE");
    }

    /// [8.1-3] [8.1-4]
    #[test]
    fn a_requested_interval_is_reduced_and_never_increased() {
        let reduced =
            |expires, least| OURS.request(asked(true, Some(expires), least)).expect("taken").expires;
        assert_eq!(reduced(7200, None), Some(1800));
        assert_eq!(reduced(7200, Some(3600)), Some(3600), "the interval is not below Min-SE");
        assert_eq!(reduced(600, None), None);
        assert_eq!(reduced(1800, None), None);
    }

    /// [8.1-6] [8.1-7]
    #[test]
    fn an_interval_that_is_too_small_is_refused_or_raised() {
        assert_eq!(OURS.request(asked(true, Some(90), None)), Err(TooSmall(120)));
        let forwarded =
            OURS.request(asked(false, Some(60), None)).expect("a client without timers is not refused");
        assert_eq!((forwarded.expires, forwarded.least), (Some(120), Some(120)));
        let forwarded =
            OURS.request(asked(false, Some(60), Some(300))).expect("a client without timers is not refused");
        assert_eq!((forwarded.expires, forwarded.least), (Some(300), None), "Min-SE is not lowered");
    }

    /// [8.1-5]
    #[test]
    fn without_an_interval_of_its_own_the_proxy_changes_nothing() {
        for (expires, least) in [(None, None), (Some(30), None), (Some(9000), Some(600))] {
            let forwarded = SessionTimer::default().request(asked(true, expires, least)).expect("taken");
            let raised = expires.map(|expires: u32| expires.max(least.unwrap_or(LEAST)));
            assert_eq!(forwarded.expires, raised.filter(|_| raised != expires));
            assert_eq!(forwarded.least, None);
        }
    }

    /// [8.2-1] [8.2-2] [8.2-4]
    #[test]
    fn the_answer_says_when_the_session_ends() {
        let kept = |supports| Kept { expires: Some(1800), supports };
        assert_eq!(kept(true).response(Some(600)), ResponseEdit { insert: None, interval: Some(600) });
        assert_eq!(kept(true).response(None), ResponseEdit { insert: Some(1800), interval: Some(1800) });
        assert_eq!(kept(false).response(None), ResponseEdit::default());
        assert_eq!(Kept { expires: None, supports: true }.response(None), ResponseEdit::default());
    }

    proptest! {
        /// [8.1-4] [8.1-5] [8.1-7] [8.1-8] §8.1, for any request: Min-SE is never lowered, and not changed if `timer`
        /// is supported. The forwarded interval is never below Min-SE, and no interval that is large enough is
        /// increased.
        #[test]
        fn the_rules_hold_for_all(
            supports: bool,
            expires in prop::option::of(0..10_000_u32),
            least in prop::option::of(0..10_000_u32),
            ours in prop::option::of(90..10_000_u32),
            our_least in 90..10_000_u32,
        ) {
            let timer = SessionTimer { expires: ours, least: our_least };
            match timer.request(SessionTimerRequest { supports, expires, least }) {
                Err(TooSmall(told)) => {
                    prop_assert!(supports && told == our_least && told >= LEAST);
                    prop_assert!(expires.is_some_and(|expires| expires < our_least));
                }
                Ok(forwarded) => {
                    prop_assert!(!supports || forwarded.least.is_none());
                    prop_assert!(forwarded.least.unwrap_or(u32::MAX) >= least.unwrap_or(0));
                    let went = forwarded.expires.or(expires);
                    let in_force = forwarded.least.or(least).unwrap_or(LEAST);
                    prop_assert!(went.is_none_or(|went| went >= in_force));
                    prop_assert_eq!(forwarded.kept.expires, went);
                    if let (Some(asked), Some(went)) = (expires, went) && asked >= in_force {
                        prop_assert!(went <= asked);
                    }
                }
            }
        }
    }
}
