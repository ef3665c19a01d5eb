//! Pools whose servers are started and stopped.

use super::metric::figures;
use super::text::Page;
use control::scale::DecisionCounts;
use std::net::SocketAddr;

figures! {
    /// `GET /api/scale`
    ScalesView as "Scales" {
        /// Pools with a `scale`, in the order of the file.
        pools: Vec<ScaleView>,
    }
}

figures! {
    /// `GET /api/scale/POOL`
    #[derive(Default, PartialEq)]
    ScaleView as "Scale" {
        /// Name of the pool.
        pool: String,
        /// `none`, `command` or `kubernetes`.
        driver: String,
        /// Whether the running servers are known. Nothing is decided before.
        ready: bool,
        /// New requests a second, including refused ones, averaged over a 30th of `calm`, but at least 1 s and at most
        /// 10 s.
        rate: f64 => [gauge "sarabande_scale_rate" "New requests a second, including refused ones, averaged."],
        /// Requests a second that the members that take new calls can carry.
        capacity: f64 => [gauge "sarabande_scale_capacity" "Requests a second that the members can carry."],
        /// Rate divided by capacity; 0 without capacity.
        utilisation: f64 => [gauge "sarabande_scale_utilisation" "Rate divided by capacity."],
        /// Number of servers that should take calls, including the ones that are starting.
        wanted: usize => [gauge "sarabande_scale_servers_wanted" "Number of servers that should take calls."],
        /// Smallest number of servers.
        least: usize,
        /// Largest number of servers.
        most: usize,
        /// All servers that may run, in the order in which they are used; empty if no driver starts and stops servers.
        servers: Vec<ScaledServer>,
        /// Whether most servers announce much less capacity than usual. They then share a cause, and more servers would
        /// not help.
        cluster_latency: bool => [
            gauge "sarabande_scale_cluster_latency" "1 while most servers announce much less capacity than usual."
        ],
        /// Number of servers needed if it exceeds the largest number; `null` if there are enough.
        short: Option<usize> => [
            gauge "sarabande_scale_servers_short" "Servers needed beyond the largest number."
            |scale| scale.short.map_or(0, |needed| needed.saturating_sub(scale.most))
        ],
        /// Servers that answer although the driver does not list them. They are kept.
        unlisted: Vec<String>,
        /// Decisions so far.
        decisions: ScaleDecisions,
        /// Starts, stops and listings that the driver failed to do.
        driver_failures_total: u64 => [
            counter "sarabande_scale_driver_failures_total" "Starts, stops and listings that the driver failed to do."
        ],
        /// Last failure of the driver; `null` once a later request succeeds.
        trouble: Option<String> => [
            gauge "sarabande_scale_driver_trouble" "1 while requests to the driver fail."
            |scale| scale.trouble.is_some()
        ],
        /// Time until the driver is asked again or another server is started; 0 if nothing waits.
        retry_seconds: f64 => [gauge "sarabande_scale_retry_seconds" "Time until the driver is asked again."],
    }
}

impl ScaleView {
    /// Describes what does not work.
    pub(crate) fn degraded(&self) -> Vec<String> {
        let (pool, most) = (&self.pool, self.most);
        let latency = self.cluster_latency.then(|| {
            format!("pool {pool}: most servers announce much less capacity than usual, for a common cause")
        });
        let short = self.short.map(|needed| {
            format!("pool {pool}: {needed} servers are needed, but at most {most} are allowed")
        });
        let trouble = self.trouble.as_ref().map(|why| format!("pool {pool}: the driver fails: {why}"));
        let unlisted =
            |server: &String| format!("pool {pool}: server {server} answers but the driver does not list it");
        let unlisted = self.unlisted.iter().map(unlisted);
        [latency, short, trouble].into_iter().flatten().chain(unlisted).collect()
    }
}

figures! {
    /// Decisions, by kind.
    #[derive(Copy, Default, PartialEq, Eq)]
    ScaleDecisions as "ScaleDecisions" from (counts: DecisionCounts) {
        /// Servers to start.
        start: u64 = counts.start => [
            counter "sarabande_scale_decisions_total" (kind = "start") "Decisions about servers, by kind."
        ],
        /// Servers that get no new calls from now on.
        drain: u64 = counts.drain => [counter "sarabande_scale_decisions_total" (kind = "drain")],
        /// Drained servers that get new calls again.
        resume: u64 = counts.resume => [counter "sarabande_scale_decisions_total" (kind = "resume")],
        /// Servers to stop, repeated requests included.
        stop: u64 = counts.stop => [counter "sarabande_scale_decisions_total" (kind = "stop")],
        /// Servers to stop because they did not come up.
        give_up: u64 = counts.give_up => [counter "sarabande_scale_decisions_total" (kind = "give_up")],
    }
}

figures! {
    /// A server that may be started.
    #[derive(PartialEq)]
    ScaledServer as "ScaledServer" {
        /// Name of the member in the configuration.
        name: String,
        /// Address of the server; `null` if its name has no address yet.
        address: Option<SocketAddr>,
        /// State of the server: `off`, `starting`, `ready`, `draining`, `stopping` or `gone` (just stopped, failed or
        /// lost).
        state: String,
        /// Time in this state; 0 for `off`.
        since_seconds: f64,
        /// New requests a second that the server can carry; 0 for `off`.
        capacity: f64,
        /// Calls and transactions of the server.
        work: u64,
    }
}

/// All values of [`ScaledServer::state`].
const STATES: [&str; 6] = ["off", "starting", "ready", "draining", "stopping", "gone"];

impl ScalesView {
    pub(super) fn put(&self, page: &mut Page) {
        if self.pools.is_empty() {
            return;
        }
        let mut servers = page.gauge("sarabande_scale_servers", "Servers of a pool, by state.");
        for scale in &self.pools {
            for state in STATES {
                let count = scale.servers.iter().filter(|server| server.state == state).count();
                servers.sample(&[("pool", &scale.pool), ("state", state)], count);
            }
        }
        let driven = self.pools.iter().map(|each| ([("pool", &*each.pool), ("driver", &*each.driver)], each));
        page.parts(&driven.collect::<Vec<_>>());
        let decisions = self.pools.iter().map(|scale| ([("pool", &*scale.pool)], &scale.decisions));
        page.parts(&decisions.collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_server_that_answers_is_reported() {
        let scale =
            ScaleView { pool: "pbx".to_owned(), unlisted: vec!["a:5060".to_owned()], ..ScaleView::default() };
        assert_eq!(scale.degraded(), ["pool pbx: server a:5060 answers but the driver does not list it"]);
    }
}
