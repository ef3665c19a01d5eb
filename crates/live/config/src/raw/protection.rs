//! `overload` of `[pool.<name>]`

use crate::kind::{Choice, HOUR, LimitLaw, Share, Time};
use crate::setting::Setting;
use std::time::Duration;

/// As many seconds as callers that were refused together are spread over.
const RETRY_AFTER: Duration = Duration::from_secs(5);

table! {
    /// What keeps the members from more new requests than they can answer in time, though they know nothing of
    /// overload control: how many they may have without any answer, found by the delay of their answers
    /// (`docs/overload/adaptive.md`). What is beyond goes to other members; where all are at their limit, it is
    /// refused with 503. Never what belongs to a dialog or was let in before. Emergency calls (`urn:service:sos`) pass
    /// the limit up to twice. `max_rate` is refused in the same way.
    struct RawProtection {
        /// The law of the limit: `"gradient"`, which does best in the simulator, `"vegas"` or `"aimd"`; or `"none"`,
        /// so that members get all that comes. Not with a `queue`, which has a limit of its own.
        law: Setting<Choice<LimitLaw>> = None,
        /// The longest Retry-After of a request that is refused: each caller is told a whole number of seconds from 1
        /// to this, at random, so that they do not come back together. `"0s"` = none is told.
        retry_after: Setting<Time<0, HOUR>> = RETRY_AFTER,
        /// Where a larger share of the members than this is dead, the pool goes on with all of them, but for those
        /// whose port is closed: more likely the probes fail than the servers, and the others could not bear the
        /// load. At 1 it does so only where no member takes calls.
        panic: Setting<Share<10, 1000>> = 1.0,
    }
}
