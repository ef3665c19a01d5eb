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

    /// A queue in front of the pool: new calls wait until a member has room for them. Other requests of a call go to
    /// its member at once. The queue replaces `policy` for INVITEs that begin calls. It is the front-end queue of the
    /// Cloud paper (`docs/queue.md`).
    struct RawQueue {
        /// Most new calls a second that a member can take; measure it in a stress test. It must be set with
        /// `source = "fixed"`. Otherwise it is the upper bound of the estimate, which starts at half of it.
        capacity: Setting<CallRate<1000>> = capacity.maximum,
        /// Source of the capacity of a member. `"fixed"`: `capacity` alone. `"responses"`: estimated from the time to
        /// the first response to an INVITE. `"monitor"`: updates of a monitor beside the member, which need the table
        /// `[capacity]`; without updates the response times are used. Choose `"responses"` if the capacity is not
        /// known.
        source: Setting<Choice<CapacitySource>> = CapacitySource::Fixed,
        /// Time within which 95 % of the first responses to INVITEs should arrive, measured here. With `"responses"`,
        /// and with `"monitor"` while the monitor sends no updates, a slower member gets fewer calls; the monitor has a
        /// threshold of its own. With any source, a member may have as many unanswered calls as it can take in this
        /// time and its shortest response time together, which stands for the network. Each thread grants at least two,
        /// and one while the member answers nothing. Set it higher if your servers are slow to send the first response.
        threshold: Setting<Fine<LONGEST_THRESHOLD>> = THRESHOLD,
        /// Longest wait of a call. The queue holds as many calls as all members take in this time, at least 8. Above
        /// 250 ms (T1/2) a waiting call gets 100 at once, so that the caller does not retransmit, which needs
        /// `forward = "transaction"`. Set it higher if callers should rather wait than be refused.
        wait: Setting<Time<1, { 30 * SECOND }>> = settings.bound,
        /// `"smace"`: the rules of the Cloud paper in place of ours, to compare them. The paper: SMACE estimates
        /// capacities. Each member gets its capacity in calls at the start of each second, and the member with the most
        /// room is next. A call that finds the queue full, or has waited too long, is dropped without a response, so
        /// that the caller retransmits; this needs a `wait` of 250 ms or less. Ours: capacity recovers faster and does
        /// not grow unproven. Members take calls as they answer, up to `capacity` calls a second, so that a low
        /// estimate delays no call. The member with the least work for its capacity is next (TLWL), and such a call
        /// gets 503 with a Retry-After of 5 to 15 s. With both, the next pool of the route gets the call first, if
        /// `failover` has `"full"`.
        rules: Option<Setting<Choice<QueueRules>>> => "none",
    }
}
