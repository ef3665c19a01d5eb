//! Keys of `[pool.<name>.scale]`.

use crate::kind::{
    CallRate, Choice, Count, DAY, Flag, HOUR, ObjectName, SECOND, Share, Text, Time, WorkloadName,
};
use crate::setting::{Setting, Several};
use crate::table::REQUIRED;
use crate::typed::DriverName;
use elastic::scale::ScaleSettings;

table! {
    let settings = ScaleSettings::default();

    /// Starts and stops the servers of the pool as the load changes ([scaling.md](scaling.md)). `members` are all
    /// servers that may run, in the order of use; the others are drained. They must not be in another pool, and this
    /// pool must count calls: no `fork`.
    struct RawScale {
        /// How servers are started and stopped. `"command"`: by programs. `"kubernetes"`: by the number of replicas.
        /// `"none"`: not at all; only the wanted number is reported, for an external autoscaler.
        driver: Option<Setting<Choice<DriverName>>> => REQUIRED,
        /// Smallest number of servers. Set it to what the load needs at any time of day.
        least: Setting<Count<1, 1000>> = settings.least as u32,
        /// Largest number of servers that start, run or drain; at most the number of members. Any number with `"none"`,
        /// and with a Deployment, whose pods are the members.
        most: Option<Setting<Count<1, 1000>>> => "number of members; 10 for a Deployment",
        /// Servers beyond those that are needed. Set it higher if calls are refused while a server starts.
        spare: Setting<Count<0, 100>> = settings.spare as u32,
        /// Calls a second that a member of `capacity` 1 carries; a `queue` with another source measures it instead.
        /// Measure it in a stress test.
        capacity: Setting<CallRate<1>> = settings.capacity,
        /// Share of the total capacity above which servers are added. Set it lower if the load rises faster than
        /// servers start.
        high: Setting<Share<50, 1000>> = settings.high,
        /// Share of the capacity of the other servers below which one server is removed; at most `high`. Set it further
        /// below `high` if servers are started and stopped too often.
        low: Setting<Share<10, 1000>> = settings.low,
        /// Time for which the other servers must have been enough before a server is drained; the next drain is a fifth
        /// of it later, at most a minute. Arrivals are averaged over a thirtieth of it, 1 to 10 s. Set it higher if
        /// servers are stopped and started again too often.
        calm: Setting<Time<SECOND, DAY>> = settings.calm,
        /// Time without calls after which a drained server is stopped. Set it higher if servers have work after their
        /// last call.
        idle: Setting<Time<SECOND, DAY>> = settings.idle,
        /// Expected time of a start, until some were measured; set it to what a server needs to take its first call. A
        /// server without calls after 10/3 of it, at least 5 minutes, is stopped, and a program that runs longer than
        /// it, at least a minute, is killed. After a failed start the next one waits a ninth of it, at least 1 s, then
        /// twice as long each time, up to 5 minutes.
        start_time: Setting<Time<100, HOUR>> = settings.start.time,
        /// Whether servers are started ahead of the load that past days had at the same time. Days before the start of
        /// this process are not known. Set it if your load rises steeply every day.
        forecast: Setting<Flag> = settings.forecast.is_some(),
        /// Program that starts a server, and its arguments, for `"command"`, without a shell unless you name one:
        /// `["sh", "-c", "..."]`. In arguments `{server}` is the member's address, with the parts `{host}` and
        /// `{port}`, `{name}` the member as written in `members`, `{index}` its number, from 0, and `{pool}` this pool.
        /// The environment has the same values, as `SARABANDE_SERVER` and so on.
        start: Option<Several<Text>> => "none",
        /// Program that stops a server, for `"command"`. The server has no calls at this time.
        stop: Option<Several<Text>> => "none",
        /// Program that prints the running servers, one a line, by address or as in `members`, for `"command"`. Without
        /// it a server runs if it answers.
        list: Option<Several<Text>> => "none",
        /// Workload, for `"kubernetes"`. `"statefulset/NAME"`: the members are its pods by ordinal, from 0.
        /// `"deployment/NAME"`: the one member is the name of a headless service that resolves to the pods.
        workload: Option<Setting<WorkloadName>> => "none",
        /// Namespace of the workload, for `"kubernetes"`.
        namespace: Option<Setting<ObjectName>> => "namespace of the pod of this process",
        /// URL of the API server, for `"kubernetes"`. With `https://` the token of the pod is sent, and only its
        /// certificates are trusted. With `http://` no token is sent, as for `kubectl proxy` on this host.
        api_server: Option<Setting<Text>> => "`https://` and the address in the environment of the pod",
    }
}
