//! Keys of `overload` of `[pool.<name>]`.

use crate::kind::{Choice, LimitLaw};
use crate::setting::Setting;

table! {
    /// Protection of members without overload control from more new requests than they can answer in time
    /// (`docs/overload.md`). The unanswered requests of each member are limited by the delay of its answers. Requests
    /// above the limit or `max_rate` go to other members; if all are at their limits, they get 503 with a random
    /// Retry-After from 1 to 5 s. Requests within dialogs are never refused, and emergency calls (`urn:service:sos`)
    /// may exceed the limit up to twice or by eight.
    struct RawProtection {
        /// Law of the limit: `"gradient"`, which does best in the simulator, `"vegas"` or `"aimd"`; or `"none"`, no
        /// limit. There is no limit while a member answers in time. The default is `"none"` in a pool with a `queue`,
        /// and in a pool whose requests are not counted (`fork`, or a `policy` that finds the member of a dialog again).
        law: Option<Setting<Choice<LimitLaw>>> => "`\"gradient\"`",
    }
}
