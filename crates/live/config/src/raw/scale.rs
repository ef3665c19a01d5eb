//! `[pool.<name>.scale]` as it is written.

use crate::kind::{
    CallRate, Choice, Count, DAY, Flag, HOUR, ObjectName, SECOND, Share, Text, Time, WorkloadName,
};
use crate::setting::{Setting, Several};
use crate::table::REQUIRED;
use crate::typed::DriverName;
use elastic::scale::ScaleSettings;

table! {
    let settings = ScaleSettings::default();

    /// Starts and stops the servers of the pool as calls come and go ([elastic.md](elastic.md#scaling-live)). The
    /// members are all servers that may run, in the order in which they are used; those that do not run are drained.
    /// They belong to this pool alone, which has to count calls: no `fork`.
    struct RawScale {
        /// What starts and stops servers: `"command"`, programs; `"kubernetes"`, the number of replicas; `"none"`,
        /// nothing: only the wanted number is reported.
        driver: Option<Setting<Choice<DriverName>>> => REQUIRED,
        /// Never fewer servers.
        least: Setting<Count<1, 1000>> = settings.least as u32,
        /// Never more servers that start, run or drain; no more than there are members. Without a driver, and of a
        /// Deployment, whose pods are the members, any number.
        most: Option<Setting<Count<1, 1000>>> => "as many as there are members; 10 of a Deployment",
        /// Servers beyond those that are needed, since one takes its time to start.
        spare: Setting<Count<0, 100>> = settings.spare as u32,
        /// Calls a second that a member of `capacity` 1 carries, as long as it says nothing else itself.
        capacity: Setting<CallRate<1>> = settings.capacity,
        /// Servers are added when arrivals pass this share of what all carry.
        high: Setting<Share<50, 1000>> = settings.high,
        /// One is removed when the others would stay below this share; at most `high`.
        low: Setting<Share<10, 1000>> = settings.low,
        /// A server is drained only after the others were enough for this time. Two drains are a fifth of it apart, at
        /// most a minute. Arrivals are averaged over a thirtieth of it, 1 to 10 s.
        calm: Setting<Time<SECOND, DAY>> = settings.calm,
        /// A drained server is stopped when it has had no calls for so long.
        idle: Setting<Time<SECOND, DAY>> = settings.idle,
        /// How long a start takes, until some were measured. A server that takes no calls after 10/3 of `start_time`, at
        /// least 5 minutes, is stopped. After a failed start the next one waits a ninth of it, at least 1 s, and twice as
        /// long after each further one, up to 5 minutes. A program that runs for longer than `start_time`, at least a
        /// minute, is killed and has failed.
        start_time: Setting<Time<100, HOUR>> = settings.start.time,
        /// Whether servers are started ahead of what past days had at the same time. Past days are those since the
        /// process was started.
        forecast: Setting<Flag> = settings.forecast.is_some(),
        /// Of `"command"`, the program that starts a server, and its arguments. There is no shell unless one is
        /// named: `["sh", "-c", "..."]`. In an argument `{server}` stands for the member's
        /// address, `{host}` and `{port}` for its parts, `{name}` for the member as it is written here, `{pool}` for
        /// this pool and `{index}` for the number of the member, from 0. The environment says the same:
        /// `SARABANDE_SERVER`, `SARABANDE_HOST`, `SARABANDE_PORT`, `SARABANDE_NAME`, `SARABANDE_POOL`,
        /// `SARABANDE_INDEX`.
        start: Option<Several<Text>> => "none",
        /// Of `"command"`, the program that stops a server. It has no calls then.
        stop: Option<Several<Text>> => "none",
        /// Of `"command"`, a program that prints the servers that run, one a line, by address or as they are named
        /// here. Without one a server runs that answers.
        list: Option<Several<Text>> => "none",
        /// Of `"kubernetes"`, the workload. `"statefulset/NAME"`: the members are its pods by ordinal, from 0.
        /// `"deployment/NAME"`: the one member is the name of a headless service that resolves to the pods.
        workload: Option<Setting<WorkloadName>> => "none",
        /// Of `"kubernetes"`, the namespace of the workload.
        namespace: Option<Setting<ObjectName>> => "that of the pod of this process",
        /// Of `"kubernetes"`, the URL of its API. With `https://` it is shown the token of the pod, and only the
        /// certificates of the pod are trusted; with `http://` no token is shown, as with `kubectl proxy` on this host.
        api_server: Option<Setting<Text>> => "`https://`, and what the environment of a pod says",
    }
}
