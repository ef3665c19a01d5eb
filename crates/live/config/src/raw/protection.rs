//! Keys of `overload` of `[pool.<name>]`.

use crate::kind::{Choice, LimitLaw};
use crate::setting::Setting;

table! {
    /// Protection of the members from more new requests than they can answer in time, for servers without overload
    /// control. It limits the unanswered requests of each member, by the delay of its answers (`docs/overload.md`).
    /// Requests above the limit go to other members. If all members are at their limits, requests get 503 with a
    /// Retry-After from 1 to 5 s. It is random, so that callers do not return together. Requests within dialogs, and
    /// accepted ones, are never refused. Emergency calls (`urn:service:sos`) may exceed the limit up to twice. Requests
    /// above `max_rate` are refused in the same way.
    struct RawProtection {
        /// Law of the limit: `"gradient"`, which does best in the simulator, `"vegas"` or `"aimd"`; or `"none"`, no
        /// limit. Set it if members answer late under load and their capacity is not known. Not with a `queue`, which
        /// has its own limit.
        law: Setting<Choice<LimitLaw>> = None,
    }
}
