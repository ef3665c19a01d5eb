//! `queue` of `[pool.<name>]`

use crate::kind::{AccrualName, CallRate, Choice, Fine, OverflowName, SECOND, Time};
use crate::setting::Setting;
use elastic::estimate::{Law, Settings};
use elastic::queue::{Choice as PullOrder, QueueSettings};
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
        /// The law by which capacity follows from that; `"smace"` is the Cloud paper's, `"proven"`
        /// recovers faster and does not grow unproven.
        law: Setting<Choice<Law>> = capacity.law,
        /// By what a member pulls calls. As it `"answers"`: what it may have unanswered bounds it, and `capacity` how
        /// many it gets a second; what was found out that it can take is no limit as such, so one that is too low
        /// makes no call wait. `"smooth"`: also no more a second than it was found to take, evenly. `"per-second"`:
        /// so many at the beginning of each second, as the Cloud paper has it.
        accrual: Setting<Choice<AccrualName>> = AccrualName::Answers,
        /// Which of the members with room gets a call: the one with the `"least-work"` left by its capacity (TLWL),
        /// with `"most-room"`, or the `"first"` of the list, so that the last ones have nothing to do and may be
        /// stopped.
        order: Setting<Choice<PullOrder>> = settings.choice,
        /// How long a call waits at most. Half of T1 is the longest time after which no copy of the INVITE has come
        /// yet; where it may wait for longer it is answered 100 at once, which needs `forward = "transaction"`.
        wait: Setting<Time<1, { 30 * SECOND }>> = settings.bound,
        /// How many calls may wait: as many as all members together take in this time, which is not more than `wait`,
        /// and at least 8.
        delay: Setting<Time<1, { 30 * SECOND }>> = settings.length.delay,
        /// What becomes of a call that finds the queue full, or has waited for too long: `"503"` with a Retry-After
        /// of 5 to 15 s, or `"drop"`, as in the paper: no answer, so that the caller sends it again, with a `wait` of
        /// 250 ms or less. Where its route has another pool for what is `"full"`, that gets it.
        overflow: Setting<Choice<OverflowName>> = OverflowName::Refuse,
    }
}
