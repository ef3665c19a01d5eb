//! The servers, the balancer and the callers of an act.

use crate::command::demo::stage::{ANY, Element, SEED, answer, call};
use anyhow::{Result, anyhow};
use base::Rng;
use instruments::agents::RunningAgent;
use load::{AnswererResults, ArrivalPlan, ArrivalProcess, CallResults, ServiceModel};
use server::figures::MemberView;
use std::net::SocketAddr;
use std::time::Duration;

/// A server behind the balancer.
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Factor on its service times.
    pub(super) slowdown: f64,
}

/// Servers of unequal speed, which the configuration does not know.
pub(super) const CAST: [Part; 4] = [
    Part { name: "fast-1", slowdown: 1.0 },
    Part { name: "fast-2", slowdown: 1.0 },
    Part { name: "medium", slowdown: 1.3 },
    Part { name: "slow", slowdown: 1.6 },
];

/// Mean service time of a BYE on a server without slowdown. Service times are exponentially distributed.
const SERVICE: Duration = Duration::from_millis(2);
/// Work of a call, INVITE and BYE, in BYEs.
const CALL_WORK: f64 = 2.75;
/// Requests that a server holds: at most 0.45 s of work, less than T1, so that waiting requests are not retransmitted.
const QUEUE_MAX: usize = 100;
/// Mean duration of calls. It is short, so that an act ends soon after its last call has started.
const HOLD: Duration = Duration::from_millis(400);

/// Calls a second at this share of the capacity of all servers.
pub(super) fn rate(load: f64) -> f64 {
    let speed: f64 = CAST.iter().map(|part| 1.0 / part.slowdown).sum();
    load * speed / (SERVICE.as_secs_f64() * CALL_WORK)
}

/// All programs of an act.
pub(super) struct Cast {
    rng: Rng,
    servers: Vec<Option<RunningAgent<AnswererResults>>>,
    addresses: Vec<SocketAddr>,
    pub(super) caller: RunningAgent<CallResults>,
    balancer: Element,
}

impl Cast {
    /// Starts the servers, the balancer before them, and calls at `rate` a second for `seconds`.
    pub(super) async fn open(policy: &str, rate: f64, seconds: f64) -> Result<Self> {
        // The same seed for each policy.
        let rng = Rng::from_seed(SEED);
        let servers = CAST.iter().map(|part| Ok(Some(part.start(ANY, &rng)?)));
        let servers = servers.collect::<Result<Vec<_>>>()?;
        let addresses: Vec<_> = servers.iter().flatten().map(RunningAgent::address).collect();
        let balancer = Element::start(ANY.ip(), &pool(policy, &addresses), None).await?;
        let arrivals = ArrivalPlan {
            duration: Some(Duration::from_secs_f64(seconds)),
            ..ArrivalPlan::steady(ArrivalProcess::Poisson, rate)
        };
        let uri = format!("sip:service@{}", balancer.address);
        let caller = call(balancer.address, uri, arrivals, HOLD, rng.fork("caller"))?;
        Ok(Self { rng, servers, addresses, caller, balancer })
    }

    /// Kills a server: its port is closed and its state is lost.
    pub(super) fn crash(&mut self, index: usize) -> Result<()> {
        if let Some(running) = self.servers[index].take() {
            running.stop()?;
        }
        Ok(())
    }

    /// Starts a killed server again.
    pub(super) fn restart(&mut self, index: usize) -> Result<()> {
        self.servers[index] = Some(CAST[index].start(self.addresses[index], &self.rng)?);
        Ok(())
    }

    pub(super) async fn drain(&self, index: usize, draining: bool) -> Result<()> {
        let drained = self.balancer.handle.drain(&self.addresses[index].to_string(), draining).await;
        drained.map(drop).map_err(|error| anyhow!(error))
    }

    /// Returns the members of the balancer, in the order of the cast.
    pub(super) async fn members(&self) -> Result<Vec<MemberView>> {
        let figures = self.balancer.handle.figures(false).await.map_err(|error| anyhow!(error))?;
        let mut members = figures.members.members;
        members.sort_by_key(|member| self.addresses.iter().position(|&at| at == member.address.0.address));
        Ok(members)
    }

    /// Stops everything, and returns the results of the callers.
    pub(super) async fn close(self) -> Result<CallResults> {
        let results = self.caller.stop()?.results;
        self.balancer.close().await?;
        Ok(results)
    }
}

impl Part {
    fn start(&self, address: SocketAddr, rng: &Rng) -> Result<RunningAgent<AnswererResults>> {
        let service = ServiceModel {
            service_per_work: SERVICE,
            exponential: true,
            slowdown: self.slowdown,
            queue_max: Some(QUEUE_MAX),
        };
        answer(address, self.name, service, rng)
    }
}

/// The table of the pool.
fn pool(policy: &str, members: &[SocketAddr]) -> String {
    let members: Vec<_> = members.iter().map(ToString::to_string).collect();
    format!(
        r#"
        [pool.demo]
        policy = "{policy}"
        members = {members:?}
        slow_start = "2s"
        probe = {{ interval = "500ms", timeout = "500ms", fall = 4 }}
        "#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::demo::stage::configuration;

    #[test]
    fn every_policy_makes_a_valid_configuration() {
        for policy in super::super::KNOWN {
            let members = ["127.0.0.1:5071".parse().unwrap()];
            let config = configuration("127.0.0.1:5070".parse().unwrap(), &pool(policy, &members));
            assert_eq!(config.unwrap().members().len(), 1);
        }
    }
}
