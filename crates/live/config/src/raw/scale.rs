//! `[pool.<name>.scale]` as it is written.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{CallRate, Choice, Count, DAY, Flag, HOUR, KeyPath, MINUTE, SECOND, Share, Text, Time};
use crate::setting::{Setting, Several};
use crate::typed::{CA_FILE, DriverName, TOKEN_FILE};
use elastic::scale::ScaleSettings;

/// How often arrivals and calls are looked at.
const STEP: Duration = Duration::from_secs(2);
/// A command, or a request to an API server, that takes longer has failed.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Starts and stops the servers of the pool as calls come and go ([elastic.md](elastic.md#scaling-live)). The members are all
/// servers that may run, in the order in which they are used; those that do not run are drained. They belong to this pool alone,
/// which has to count calls: no `fork`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["driver"]))]
pub(crate) struct RawScale {
    /// Who starts and stops servers: `"none"`, nobody, it is only said how many there should be; `"command"`, a program;
    /// `"local"`, this process, whose children the servers are: for tests and demonstrations; `"kubernetes"`, by the number
    /// of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Choice<DriverName>>")]
    pub(crate) driver: Option<Setting<Choice<DriverName>>>,
    /// Never fewer servers.
    pub(crate) least: Setting<Count<1, 1000>>,
    /// Never more servers that start, run or drain; no more than there are members. Without a driver, and of a Deployment,
    /// whose pods are the members, any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Count<1, 1000>>", extend("x-default" = "as many as there are members; 10 of a Deployment"))]
    pub(crate) most: Option<Setting<Count<1, 1000>>>,
    /// Servers beyond those that are needed, since one takes its time to start.
    pub(crate) spare: Setting<Count<0, 100>>,
    /// Calls a second that a member of `capacity` 1 carries, as long as it says nothing else itself.
    pub(crate) capacity: Setting<CallRate<1>>,
    /// Servers are added when arrivals pass this share of what all carry.
    pub(crate) high: Setting<Share<50, 1000>>,
    /// One is removed when the others would stay below this share; at most `high`.
    pub(crate) low: Setting<Share<10, 1000>>,
    /// Arrivals are averaged over this time.
    pub(crate) smoothing: Setting<Time<100, HOUR>>,
    /// The others must have been enough for so long before one is removed.
    pub(crate) calm: Setting<Time<SECOND, DAY>>,
    /// Time between two servers that are drained.
    pub(crate) drain_gap: Setting<Time<0, DAY>>,
    /// A drained server is stopped when it has had no calls for so long.
    pub(crate) idle: Setting<Time<SECOND, DAY>>,
    /// How long a start takes, until some were seen.
    pub(crate) start_time: Setting<Time<100, HOUR>>,
    /// A server that takes no calls so long after it was started is given up.
    pub(crate) start_time_max: Setting<Time<SECOND, DAY>>,
    /// None is started for so long after a start that failed, and twice as long after each further one.
    pub(crate) back_off: Setting<Time<100, HOUR>>,
    /// At most.
    pub(crate) back_off_max: Setting<Time<SECOND, DAY>>,
    /// Whether servers are started ahead of what past days had at the same time. Past days are those since the process was
    /// started.
    pub(crate) forecast: Setting<Flag>,
    /// How often arrivals and calls are looked at.
    pub(crate) step: Setting<Time<100, MINUTE>>,
    /// Of `"command"`, the program that starts a server, and its arguments; of `"local"` the server itself. There is no shell
    /// unless one is named: `["sh", "-c", "..."]`. In an argument `{server}` stands for the member's address, `{host}` and
    /// `{port}` for its parts, `{name}` for the member as it is written here, `{pool}` for this pool and `{index}` for the
    /// number of the member, from 0. The environment says the same: `SARABANDE_SERVER`, `SARABANDE_HOST`, `SARABANDE_PORT`,
    /// `SARABANDE_NAME`, `SARABANDE_POOL`, `SARABANDE_INDEX`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>", extend("x-default" = "none"))]
    pub(crate) start: Option<Several<Text>>,
    /// Of `"command"`, the program that stops a server. It has no calls then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>", extend("x-default" = "none"))]
    pub(crate) stop: Option<Several<Text>>,
    /// Of `"command"`, a program that prints the servers that run, one a line, by address or as they are named here. Without
    /// one a server runs that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>", extend("x-default" = "none"))]
    pub(crate) list: Option<Several<Text>>,
    /// A program that takes longer is killed, and has failed; so has a request to an API server.
    pub(crate) timeout: Setting<Time<100, HOUR>>,
    /// Of `"kubernetes"`: the `StatefulSet` whose pods the members are, the first member that of ordinal 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "none"))]
    pub(crate) stateful_set: Option<Setting<Text>>,
    /// Of `"kubernetes"`: the Deployment whose pods the addresses of the one member are, the name of a headless service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "none"))]
    pub(crate) deployment: Option<Setting<Text>>,
    /// Of `"kubernetes"`: where that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "that of the pod of this process"))]
    pub(crate) namespace: Option<Setting<Text>>,
    /// Of `"kubernetes"`: where its API is answered. With `https://` over TLS; with `http://` nothing is encrypted, as
    /// with `kubectl proxy` beside this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "`https://`, and what the environment of a pod says"))]
    pub(crate) api_server: Option<Setting<Text>>,
    /// Of `"kubernetes"`: file with the certificates, in PEM, one of which has to have signed that of the API server; read anew
    /// for each connection. No other ones are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<KeyPath>", extend("x-default" = CA_FILE))]
    pub(crate) ca_file: Option<Setting<KeyPath>>,
    /// Of `"kubernetes"`: file with the token to be shown there, read anew for each request. Over `http://` only where
    /// `api_server` is on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<KeyPath>", extend("x-default" = format!("{TOKEN_FILE}; none over `http://`")))]
    pub(crate) token_file: Option<Setting<KeyPath>>,
}

impl Default for RawScale {
    fn default() -> Self {
        let settings = ScaleSettings::default();
        let start = settings.start;
        Self {
            driver: None,
            least: Setting::of(settings.least as u32),
            most: None,
            spare: Setting::of(settings.spare as u32),
            capacity: Setting::of(settings.capacity),
            high: Setting::of(settings.high),
            low: Setting::of(settings.low),
            smoothing: Setting::of(settings.smoothing),
            calm: Setting::of(settings.calm),
            drain_gap: Setting::of(settings.drain_gap),
            idle: Setting::of(settings.idle),
            start_time: Setting::of(start.time),
            start_time_max: Setting::of(start.time_max),
            back_off: Setting::of(start.back_off),
            back_off_max: Setting::of(start.back_off_max),
            forecast: settings.forecast.is_some().into(),
            step: Setting::of(STEP),
            start: None,
            stop: None,
            list: None,
            timeout: Setting::of(TIMEOUT),
            stateful_set: None,
            deployment: None,
            namespace: None,
            api_server: None,
            ca_file: None,
            token_file: None,
        }
    }
}
