//! The servers of all acts.

use crate::command::demo::stage::answer;
use anyhow::Result;
use base::Rng;
use instruments::agents::RunningAgent;
use load::{AnswererResults, ServiceModel};
use std::time::Duration;

/// A server.
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Factor on its service times.
    slowdown: f64,
}

/// Servers of unequal speed, which the configuration does not know.
pub(super) const CAST: [Part; 4] = [
    Part { name: "fast-1", slowdown: 1.0 },
    Part { name: "fast-2", slowdown: 1.0 },
    Part { name: "medium", slowdown: 1.3 },
    Part { name: "slow", slowdown: 1.6 },
];

/// Work of a call, INVITE and BYE, in BYEs.
const CALL_WORK: f64 = 2.75;

/// Calls a second at this share of the capacity of `servers`. `service` is the time of a BYE without slowdown.
pub(super) fn rate(load: f64, servers: &[Part], service: Duration) -> f64 {
    let speed: f64 = servers.iter().map(|part| 1.0 / part.slowdown).sum();
    load * speed / (service.as_secs_f64() * CALL_WORK)
}

impl Part {
    /// Starts the server, with exponentially distributed service times and an unlimited queue.
    pub(super) fn start(
        &self,
        ring: Duration,
        service: Duration,
        rng: &Rng,
    ) -> Result<RunningAgent<AnswererResults>> {
        let (service_per_work, slowdown) = (service, self.slowdown);
        let model = ServiceModel { service_per_work, exponential: true, slowdown, queue_max: None };
        answer(self.name, ring, model, rng)
    }
}
