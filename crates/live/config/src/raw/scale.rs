//! `[pool.<name>.scale]` as it is written.

use std::time::Duration;

use crate::kind::{CallRate, Choice, Count, DAY, Flag, HOUR, KeyPath, MINUTE, SECOND, Share, Text, Time};
use crate::setting::{Setting, Several};
use crate::table::REQUIRED;
use crate::typed::{CA_FILE, DriverName, TOKEN_FILE};
use elastic::scale::ScaleSettings;

/// How often arrivals and calls are looked at.
const STEP: Duration = Duration::from_secs(2);
/// A command, or a request to an API server, that takes longer has failed.
const TIMEOUT: Duration = Duration::from_mins(1);

table! {
    let settings = ScaleSettings::default();
    let start = settings.start;

    /// Starts and stops the servers of the pool as calls come and go ([elastic.md](elastic.md#scaling-live)). The
    /// members are all servers that may run, in the order in which they are used; those that do not run are drained.
    /// They belong to this pool alone, which has to count calls: no `fork`.
    struct RawScale {
        /// Who starts and stops servers: `"none"`, nobody, it is only said how many there should be; `"command"`, a
        /// program; `"local"`, this process, whose children the servers are: for tests and demonstrations;
        /// `"kubernetes"`, by the number of replicas.
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
        /// Arrivals are averaged over this time.
        smoothing: Setting<Time<100, HOUR>> = settings.smoothing,
        /// The others must have been enough for so long before one is removed.
        calm: Setting<Time<SECOND, DAY>> = settings.calm,
        /// Time between two servers that are drained.
        drain_gap: Setting<Time<0, DAY>> = settings.drain_gap,
        /// A drained server is stopped when it has had no calls for so long.
        idle: Setting<Time<SECOND, DAY>> = settings.idle,
        /// How long a start takes, until some were seen.
        start_time: Setting<Time<100, HOUR>> = start.time,
        /// A server that takes no calls so long after it was started is given up.
        start_time_max: Setting<Time<SECOND, DAY>> = start.time_max,
        /// None is started for so long after a start that failed, and twice as long after each further one.
        back_off: Setting<Time<100, HOUR>> = start.back_off,
        /// At most.
        back_off_max: Setting<Time<SECOND, DAY>> = start.back_off_max,
        /// Whether servers are started ahead of what past days had at the same time. Past days are those since the
        /// process was started.
        forecast: Setting<Flag> = settings.forecast.is_some(),
        /// How often arrivals and calls are looked at.
        step: Setting<Time<100, MINUTE>> = STEP,
        /// Of `"command"`, the program that starts a server, and its arguments; of `"local"` the server itself. There
        /// is no shell unless one is named: `["sh", "-c", "..."]`. In an argument `{server}` stands for the member's
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
        /// A program that takes longer is killed, and has failed; so has a request to an API server.
        timeout: Setting<Time<100, HOUR>> = TIMEOUT,
        /// Of `"kubernetes"`: the `StatefulSet` whose pods the members are, the first member that of ordinal 0.
        stateful_set: Option<Setting<Text>> => "none",
        /// Of `"kubernetes"`: the Deployment whose pods the addresses of the one member are, the name of a headless
        /// service.
        deployment: Option<Setting<Text>> => "none",
        /// Of `"kubernetes"`: where that is.
        namespace: Option<Setting<Text>> => "that of the pod of this process",
        /// Of `"kubernetes"`: where its API is answered. With `https://` over TLS; with `http://` nothing is
        /// encrypted, as with `kubectl proxy` beside this process.
        api_server: Option<Setting<Text>> => "`https://`, and what the environment of a pod says",
        /// Of `"kubernetes"`: file with the certificates, in PEM, one of which has to have signed that of the API
        /// server; read anew for each connection. No other ones are trusted.
        ca_file: Option<Setting<KeyPath>> => CA_FILE,
        /// Of `"kubernetes"`: file with the token to be shown there, read anew for each request. Over `http://` only
        /// where `api_server` is on this host.
        token_file: Option<Setting<KeyPath>> => format!("{TOKEN_FILE}; none over `http://`"),
    }
}
