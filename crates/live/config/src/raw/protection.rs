//! `overload` of `[pool.<name>]`

use crate::kind::{Choice, LimitLaw};
use crate::setting::Setting;

table! {
    /// What keeps the members from more new requests than they can answer in time, though they know nothing of
    /// overload control: how many they may have without any answer, found by the delay of their answers
    /// (`docs/overload/adaptive.md`). Requests above the limit go to other members; where all are at their limit, they
    /// are refused with 503 and a Retry-After from 1 to 5 s, at random, so that callers do not come back together.
    /// Requests within dialogs and those let in before are never refused. Emergency calls (`urn:service:sos`) may be
    /// twice as many as the limit. Requests above `max_rate` are refused in the same way.
    struct RawProtection {
        /// The law of the limit: `"gradient"`, which does best in the simulator, `"vegas"` or `"aimd"`; or `"none"`,
        /// so that members get all that comes. Not with a `queue`, which has a limit of its own.
        law: Setting<Choice<LimitLaw>> = None,
    }
}
