//! Keys of `queue` of `[pool.<name>]`.

use crate::kind::{CallRate, Choice, Fine, QueueRules, SECOND, Time};
use crate::setting::Setting;
use elastic::estimate::EstimatorSettings;
use elastic::queue::QueueSettings;
use node::CapacitySource;
use std::time::Duration;

/// Ten seconds, in nanoseconds.
const LONGEST_THRESHOLD: u64 = 10_000_000_000;

/// Default for a server behind a network. The paper has one millisecond, but measures at the server itself.
const THRESHOLD: Duration = Duration::from_millis(10);

table! {
    let (settings, capacity) = (QueueSettings::default(), EstimatorSettings::default());

    /// A queue in front of the pool (`docs/queue.md`), the front-end queue of the Cloud paper: new calls wait until a
    /// member has a free place. It replaces `policy` for INVITEs that begin calls; other requests go to their member at
    /// once.
    struct RawQueue {
        /// Most new calls a second that a member can take; measure it in a stress test. Required with `source =
        /// "fixed"`; otherwise it is the upper bound of the estimate, which starts at half of it.
        capacity: Setting<CallRate<1000>> = capacity.maximum,
        /// Source of the capacity of a member. `"fixed"`: `capacity` alone. `"responses"`: estimated from the time to
        /// the first response to an INVITE; choose it if the capacity is not known. `"monitor"`: updates of a monitor
        /// beside the member, with the table `[capacity]`; without updates as `"responses"`.
        source: Setting<Choice<CapacitySource>> = CapacitySource::Fixed,
        /// Time within which 95 % of the first responses to INVITEs should arrive here. A slower member gets fewer
        /// calls, except with `"fixed"`, or while its monitor, which has its own threshold, sends updates. With any
        /// source, it bounds the unanswered calls of a member (`docs/queue.md`). Set it higher if your servers are slow
        /// to send the first response.
        threshold: Setting<Fine<LONGEST_THRESHOLD>> = THRESHOLD,
        /// Longest wait of a call. The queue holds the calls that all members take in this time, at least 8. Above 250
        /// ms (T1/2) a waiting call gets 100 at once, against retransmissions, which needs `forward = "transaction"`.
        /// Set it higher if callers should rather wait than be refused.
        wait: Setting<Time<1, { 30 * SECOND }>> = settings.bound,
        /// `"smace"`: the rules of the Cloud paper in place of ours, to compare them (`docs/queue.md`). SMACE estimates
        /// capacities. Each member gets its capacity in calls at the start of each second, and the member with the most
        /// free places is next. A call that finds the queue full, or waits too long, is dropped without a response, so
        /// that the caller retransmits; this needs a `wait` of at most 250 ms. By our rules it gets 503 with a
        /// Retry-After of 5 to 15 s.
        rules: Option<Setting<Choice<QueueRules>>> => "none",
    }
}
