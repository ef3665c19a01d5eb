//! `queue` of `[pool.<name>]`

use crate::kind::{CallRate, Choice, Fine, QueueRules, SECOND, Time};
use crate::setting::Setting;
use elastic::estimate::Settings;
use elastic::queue::QueueSettings;
use node::CapacitySource;
use std::time::Duration;

/// Ten seconds.
const LONGEST_THRESHOLD: u64 = 10_000_000_000;

/// For the first answer of a server that is asked over a network, and has just one millisecond in the paper, where
/// both ends of what is measured are at the server.
const THRESHOLD: Duration = Duration::from_millis(10);

table! {
    let (settings, capacity) = (QueueSettings::default(), Settings::default());

    /// A queue in front of the pool: members pull new calls as fast as they can take them, and a call waits until one
    /// does. What belongs to a call goes to its member at once. Takes the place of `policy` for INVITEs that begin
    /// calls. The front-end queue of the Cloud paper (`docs/elastic.md`).
    struct RawQueue {
        /// The most new calls a second that a member can take, from a stress test of it. With `source = "fixed"` it has
        /// to be set; otherwise it is the bound of what is found out, which begins with half of it.
        capacity: Setting<CallRate<1000>> = capacity.maximum,
        /// Who says how many new calls a second a member can take: `"fixed"`, `capacity` alone; its `"responses"`, by
        /// how long it takes for the first answer to an INVITE; or a `"monitor"` beside it, by way of the table
        /// `[capacity]`, which has to be there, and while that is silent the response times.
        source: Setting<Choice<CapacitySource>> = CapacitySource::Fixed,
        /// How long 95 % of the first answers to INVITEs may take at most, as they are seen here. A member that takes
        /// longer gets fewer calls: with `"responses"`, and with `"monitor"` while the monitor is silent, whose own
        /// threshold is another. And whoever says what a member can take: it gets no call while it has as many
        /// unanswered as it can take in this time (and in that of its shortest answer, which is the way there and
        /// back), but one at a time.
        threshold: Setting<Fine<LONGEST_THRESHOLD>> = THRESHOLD,
        /// The longest wait of a call. The queue holds as many calls as all members take in this time, at least 8. Above
        /// 250 ms (T1/2) a call is answered 100 at once, so that its caller does not send it again, which needs
        /// `forward = "transaction"`.
        wait: Setting<Time<1, { 30 * SECOND }>> = settings.bound,
        /// `"smace"`: the Cloud paper's rules in place of ours. The law that finds capacities out is SMACE; a member
        /// gets as many calls as its capacity at the beginning of each second; the member with the most room is next;
        /// a call that finds the queue full, or has waited for too long, is dropped without an answer, so that its
        /// caller sends it again, with a `wait` of 250 ms or less. By our rules capacity recovers faster and does not
        /// grow unproven; members pull as they answer, up to `capacity` calls a second, so that one which was found
        /// out too low makes no call wait; the member with the least work left by its capacity is next (TLWL); and
        /// that call gets 503 with a Retry-After of 5 to 15 s. By either, another pool of its route gets it first if
        /// there is one for what is `"full"`.
        rules: Option<Setting<Choice<QueueRules>>> => "none",
    }
}
