//! The servers, the balancer and the callers of the demo.

use anyhow::{Context, Result, anyhow};
use base::Rng;
use load::{
    AnswererConfig, AnswererResults, ArrivalPlan, ArrivalProcess, CallResults, CallerConfig, RandomTime,
    ServiceModel, Timers,
};
use server::admin::view::MemberView;
use server::agents::{self, Running};
use server::{Handle, Server, StartError};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A server behind the balancer.
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Factor on its service times.
    pub(super) slowdown: f64,
}

/// Of unequal speed, and the configuration does not say so.
pub(super) const CAST: [Part; 4] = [
    Part { name: "fast-1", slowdown: 1.0 },
    Part { name: "fast-2", slowdown: 1.0 },
    Part { name: "medium", slowdown: 1.3 },
    Part { name: "slow", slowdown: 1.6 },
];

/// Service time of a BYE on a server without slowdown; exponentially distributed, as is everything here.
const SERVICE: Duration = Duration::from_millis(2);
/// Work of a call, INVITE and BYE, in BYEs.
const CALL_WORK: f64 = 2.75;
/// Requests that a server holds: at most 0.45 s of work, less than T1, so that nobody repeats what only waits.
const QUEUE_MAX: usize = 100;
/// Mean time that calls last. Short, so that an act has an end soon after its last call has started.
const HOLD: Duration = Duration::from_millis(400);

/// Calls a second at this share of all servers' capacity.
pub(super) fn rate(load: f64) -> f64 {
    let speed: f64 = CAST.iter().map(|part| 1.0 / part.slowdown).sum();
    load * speed / (SERVICE.as_secs_f64() * CALL_WORK)
}

/// Everything that runs during an act.
pub(super) struct Stage {
    rng: Rng,
    servers: Vec<Option<Running<AnswererResults>>>,
    addresses: Vec<SocketAddr>,
    pub(super) caller: Running<CallResults>,
    handle: Handle,
    server: JoinHandle<Result<(), String>>,
}

impl Stage {
    /// Starts the servers, the balancer before them, and calls at `rate` a second for `seconds`.
    pub(super) async fn open(policy: &str, rate: f64, seconds: f64, seed: u64) -> Result<Self> {
        let rng = Rng::from_seed(seed);
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let servers = (0..CAST.len()).map(|index| Ok(Some(answerer(index, any, &rng)?)));
        let servers = servers.collect::<Result<Vec<_>>>()?;
        let addresses: Vec<_> = servers.iter().flatten().map(Running::address).collect();
        let (target, server) = balancer(policy, &addresses).await?;
        let handle = server.handle();
        let server = tokio::task::spawn_local(server.run());
        let socket = agents::bind(any)?;
        let config = CallerConfig {
            listener: 0,
            local: socket.local_addr()?,
            target,
            outbound: false,
            uri: format!("sip:service@{target}"),
            arrivals: ArrivalPlan {
                duration: Some(Duration::from_secs_f64(seconds)),
                ..ArrivalPlan::steady(ArrivalProcess::Poisson, rate)
            },
            holding: RandomTime::Exponential(HOLD),
            answer_wait: Duration::from_mins(1),
            timers: Timers::default(),
        };
        let caller = agents::start_caller(socket, config, rng.fork("caller"))?;
        Ok(Self { rng, servers, addresses, caller, handle, server })
    }

    /// Kills a server: its port is closed, what it knew is forgotten.
    pub(super) fn crash(&mut self, index: usize) -> Result<()> {
        if let Some(running) = self.servers[index].take() {
            running.stop()?;
        }
        Ok(())
    }

    /// Starts it again.
    pub(super) fn restart(&mut self, index: usize) -> Result<()> {
        self.servers[index] = Some(answerer(index, self.addresses[index], &self.rng)?);
        Ok(())
    }

    pub(super) async fn drain(&self, index: usize, draining: bool) -> Result<()> {
        let drained = self.handle.drain(&self.addresses[index].to_string(), draining).await;
        drained.map(drop).map_err(|error| anyhow!(error))
    }

    /// What the balancer knows of each server, in the order of the cast.
    pub(super) async fn members(&self) -> Result<Vec<MemberView>> {
        let reports = self.handle.figures(false).await.map_err(|error| anyhow!(error))?.members;
        let mut members: Vec<_> = reports.into_iter().map(|report| report.shown).collect();
        members.sort_by_key(|member| self.addresses.iter().position(|&at| at == member.address));
        Ok(members)
    }

    /// Ends everything; what the callers measured.
    pub(super) async fn close(self) -> Result<CallResults> {
        let results = self.caller.stop()?.results;
        self.handle.stop();
        self.server.await?.map_err(|error| anyhow!(error))?;
        Ok(results)
    }
}

fn answerer(index: usize, address: SocketAddr, rng: &Rng) -> Result<Running<AnswererResults>> {
    let part = &CAST[index];
    let socket = agents::bind(address)?;
    let config = AnswererConfig {
        listener: 0,
        local: socket.local_addr()?,
        name: part.name.to_owned(),
        ring: RandomTime::Fixed(Duration::ZERO),
        trying: false,
        service: ServiceModel {
            service_per_work: SERVICE,
            exponential: true,
            slowdown: part.slowdown,
            queue_max: Some(QUEUE_MAX),
        },
        timers: Timers::default(),
    };
    Ok(agents::start_answerer(socket, config, rng.fork(part.name))?)
}

/// The server, on a port that was free a moment ago.
async fn balancer(policy: &str, members: &[SocketAddr]) -> Result<(SocketAddr, Server)> {
    start(Ipv4Addr::LOCALHOST.into(), async |address| {
        let text = configuration(policy, address, members);
        let config = config::parse(&text, "demo").map_err(|errors| anyhow!("{errors}"))?;
        Ok(Server::start(config, None).await)
    })
    .await
}

/// Starts a server at this address, on a port that was free a moment ago; on another one when somebody was faster.
pub(super) async fn start(
    ip: IpAddr,
    server_at: impl AsyncFn(SocketAddr) -> Result<Result<Server, StartError>>,
) -> Result<(SocketAddr, Server)> {
    const TRIES: usize = 5;
    let mut tries = 0;
    loop {
        let port = std::net::UdpSocket::bind((ip, 0)).context("no free port")?;
        let address = port.local_addr()?;
        drop(port);
        tries += 1;
        match server_at(address).await? {
            Ok(server) => return Ok((address, server)),
            Err(StartError::Io(_)) if tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn configuration(policy: &str, address: SocketAddr, members: &[SocketAddr]) -> String {
    let members: Vec<_> = members.iter().map(ToString::to_string).collect();
    format!(
        r#"
        [listen]
        udp = ["{address}"]
        threads = 1
        [admin]
        listen = false
        [stop]
        wait = "0s"
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

    #[test]
    fn every_policy_makes_a_right_configuration() {
        for policy in super::super::KNOWN {
            let members = ["127.0.0.1:5071".parse().unwrap()];
            let text = configuration(policy, "127.0.0.1:5070".parse().unwrap(), &members);
            assert_eq!(config::parse(&text, "demo").unwrap().members().len(), 1);
        }
    }

    #[test]
    fn an_equal_share_of_the_calls_nearly_fills_the_slow_server() {
        let work = rate(super::super::LOAD) / CAST.len() as f64 * CALL_WORK * SERVICE.as_secs_f64();
        let slowest = CAST.iter().map(|part| work * part.slowdown).fold(0.0, f64::max);
        assert!((0.93..0.99).contains(&slowest), "{slowest}");
    }
}
