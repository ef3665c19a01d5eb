//! Servers that are started and stopped.

use control::scale::DecisionCounts;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// `GET /api/scale`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Scales"))]
pub struct ScalesView {
    /// The pools that have a `scale`, in the order of the file.
    pub pools: Vec<ScaleView>,
}

/// `GET /api/scale/POOL`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Scale"))]
pub struct ScaleView {
    /// The pool.
    pub pool: String,
    /// `none`, `command`, `local` or `kubernetes`.
    pub driver: String,
    /// Whether it is known what runs. Before that nothing is decided.
    pub ready: bool,
    /// New requests a second, refused ones too, averaged over `smoothing`.
    pub rate: f64,
    /// Requests a second that the members carry that take any.
    pub capacity: f64,
    /// The rate as part of the capacity; 0 where there is no capacity.
    pub utilisation: f64,
    /// Servers that there should be: those that take calls, and those that are being started for that.
    pub wanted: usize,
    /// Fewest servers.
    pub least: usize,
    /// Most servers.
    pub most: usize,
    /// Every server that may be, in the order in which they are used; none where nobody starts and stops any.
    pub servers: Vec<ScaledServer>,
    /// Whether most servers announce much less than they use to: a cause that they share, which more servers do not cure.
    pub cluster_latency: bool,
    /// So many servers are needed, which are more than there may be; `null`: there are enough.
    pub short: Option<usize>,
    /// Servers that answer although the driver does not list them: they stay.
    pub unlisted: Vec<String>,
    /// Decisions so far.
    pub decisions: ScaleDecisions,
    /// Starts, stops and lists that the driver failed to do.
    pub driver_failures_total: u64,
    /// How the driver failed last, until it does what it is asked; `null`: it does.
    pub trouble: Option<String>,
    /// Until it is asked again, or another server is started; 0 where nothing waits.
    pub retry_seconds: f64,
}

impl ScaleView {
    /// What does not work, in words.
    pub(crate) fn degraded(&self) -> Vec<String> {
        let (pool, most) = (&self.pool, self.most);
        let latency = self.cluster_latency.then(|| {
            format!("pool {pool}: most servers carry much less than they use to, by a cause that they share")
        });
        let short = self
            .short
            .map(|needed| format!("pool {pool}: {needed} servers are needed, and there may be {most}"));
        let trouble = self.trouble.as_ref().map(|why| format!("pool {pool}: the driver fails: {why}"));
        let unlisted =
            |server: &String| format!("pool {pool}: the driver lists no server {server}, which answers");
        let unlisted = self.unlisted.iter().map(unlisted);
        [latency, short, trouble].into_iter().flatten().chain(unlisted).collect()
    }
}

/// Decisions by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScaleDecisions {
    /// Servers to be started.
    pub start: u64,
    /// Servers that get no new calls any more.
    pub drain: u64,
    /// Drained ones that get calls again.
    pub resume: u64,
    /// Servers to be stopped, those that are asked for again included.
    pub stop: u64,
    /// Servers to be stopped since they did not come up.
    pub give_up: u64,
}

impl From<DecisionCounts> for ScaleDecisions {
    fn from(counts: DecisionCounts) -> Self {
        let DecisionCounts { start, drain, resume, stop, give_up } = counts;
        Self { start, drain, resume, stop, give_up }
    }
}

impl ScaleDecisions {
    /// By their names.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Self { start, drain, resume, stop, give_up } = *self;
        [("start", start), ("drain", drain), ("resume", resume), ("stop", stop), ("give_up", give_up)]
    }
}

/// A server that may be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScaledServer {
    /// The member as the configuration has it.
    pub name: String,
    /// Where it is; `null` where its name stands for no address yet.
    pub address: Option<SocketAddr>,
    /// `off`, `starting`, `ready`, `draining`, `stopping` or `gone`, which is one that was just stopped, failed or lost.
    pub state: String,
    /// Since it is in this state; 0 for `off`.
    pub since_seconds: f64,
    /// What it carries, new requests a second; 0 for `off`.
    pub capacity: f64,
    /// Calls and transactions in it.
    pub work: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_driver_and_servers_say_against_each_other_is_told() {
        let scale =
            ScaleView { pool: "pbx".to_owned(), unlisted: vec!["a:5060".to_owned()], ..ScaleView::default() };
        assert_eq!(scale.degraded(), ["pool pbx: the driver lists no server a:5060, which answers"]);
    }
}
