//! One side of an act: servers, callers, and a balancer between them.

use super::act::{Act, Event};
use super::balancer::Balancer;
use super::measured::DISTURBED;
use crate::command::demo::neighbour::Neighbour;
use crate::command::demo::stage::{SEED, call};
use anyhow::Result;
use base::Rng;
use instruments::agents::RunningAgent;
use load::{AnswererResults, CallResults};
use std::net::SocketAddr;
use std::time::Duration;

/// Mean duration of calls. It is short, so that an act ends soon after its last call has started.
const HOLD: Duration = Duration::from_millis(400);

pub(super) struct Side {
    is_plain: bool,
    servers: Vec<RunningAgent<AnswererResults>>,
    neighbour: Option<Neighbour>,
    balancer: Option<Balancer>,
    callers: Vec<RunningAgent<CallResults>>,
}

impl Side {
    /// Starts the servers, and the balancer if there is one.
    pub(super) async fn open(act: &Act, index: usize) -> Result<Self> {
        // The same seed for each side.
        let rng = Rng::from_seed(SEED);
        let servers = act.servers.iter().map(|part| part.start(act.ring, act.service, &rng));
        let servers = servers.collect::<Result<Vec<_>>>()?;
        let members: Vec<_> = servers.iter().map(RunningAgent::address).collect();
        let balancer = match &act.sides[index].1 {
            Some(pool) => Some(Balancer::start(&format!("-{index}"), pool, &members).await?),
            None => None,
        };
        Ok(Self { is_plain: index == 0, servers, neighbour: None, balancer, callers: Vec::new() })
    }

    /// Starts the callers.
    pub(super) fn call(&mut self, act: &Act) -> Result<()> {
        let targets: Vec<SocketAddr> = match &self.balancer {
            Some(balancer) => vec![balancer.address],
            None => self.servers.iter().map(RunningAgent::address).collect(),
        };
        let caller = |(index, &target): (usize, &SocketAddr)| {
            let rng = Rng::from_seed(SEED).fork(&format!("caller-{index}"));
            call(target, format!("sip:service@{target}"), act.arrivals(targets.len()), HOLD, rng)
        };
        self.callers = targets.iter().enumerate().map(caller).collect::<Result<_>>()?;
        Ok(())
    }

    /// Makes the event of the act happen.
    pub(super) async fn disturb(&mut self, act: &Act) -> Result<()> {
        match (act.event, &mut self.balancer) {
            // Its port is closed and its state is lost.
            (Event::Crash, _) => drop(self.servers.remove(DISTURBED).stop()?),
            (Event::Slowdown, _) => {
                self.neighbour = Some(Neighbour::of(self.servers[DISTURBED].address(), act.service)?);
            }
            (Event::Restart, Some(balancer)) => {
                if self.is_plain {
                    balancer.kill();
                }
                balancer.launch().await?;
            }
            // The plan of the callers has the higher rate.
            (Event::None | Event::Overload, _) | (Event::Restart, None) => {}
        }
        Ok(())
    }

    /// Returns recent results of all callers.
    pub(super) fn results(&self) -> CallResults {
        let mut sum = CallResults::default();
        self.callers.iter().for_each(|caller| sum.merge(&caller.snapshot().results));
        sum
    }
}
