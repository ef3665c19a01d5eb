//! `sarabande load answer`: servers that answer calls.

use super::carrier::Carrier;
use super::watch::{Ended, watch};
use super::{Common, connections, datagrams, duration, table};
use crate::address;
use anyhow::{Result, bail, ensure};
use base::Rng;
use instruments::agents::{self, AgentLink, RunningAgent, Snapshot};
use load::{AnswererConfig, AnswererResults, RandomTime, ServiceModel, Timers};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address at which calls are answered; give it several times for several servers.
    #[arg(long, required = true, value_name = "IP:PORT", value_parser = local)]
    listen: Vec<SocketAddr>,
    /// Name in the Server header field, by which callers distinguish servers; by default the address. With several
    /// servers a number is added.
    #[arg(long)]
    name: Option<String>,
    /// Ring time: `2s`, `exp:5s` or `normal:5s,2s`.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    ring: RandomTime,
    /// Answer each INVITE with 100 (Trying) at once.
    #[arg(long)]
    trying: bool,
    /// Service time of a request; requests are served one after another. An INVITE takes 1.75 times as long.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = duration)]
    service: Duration,
    /// Make service times exponentially distributed instead of constant.
    #[arg(long)]
    exponential: bool,
    /// Factor on all service times: with 2 the server is half as fast.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    slowdown: f64,
    /// Drop requests while this many wait or are served.
    #[arg(long, value_name = "REQUESTS")]
    queue_max: Option<usize>,
    /// End after this time; by default only Ctrl-C ends it.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    carrier: Carrier,
    #[command(flatten)]
    common: Common,
}

/// A server with its name.
struct Named {
    name: String,
    agent: RunningAgent<AnswererResults>,
}

type Outcome = (String, SocketAddr, Snapshot<AnswererResults>);

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let seed = arguments.common.seed();
    let servers = start(arguments, seed)?;
    for Named { name, agent } in &servers {
        print_note!("{name} takes calls on {}, seed {seed}", agent.address());
    }
    let mut answered = 0;
    let line = || {
        let mut sum = AnswererResults::default();
        for server in &servers {
            sum.merge(&server.agent.snapshot().results);
        }
        let new = sum.calls_answered - answered;
        answered = sum.calls_answered;
        progress(new, &sum)
    };
    let limit = arguments.duration;
    let done = |elapsed| {
        limit.is_some_and(|limit| elapsed >= limit) || servers.iter().any(|server| server.agent.is_finished())
    };
    let ended = watch(line, done)?;
    let stop = |Named { name, agent }| {
        let address = agent.address();
        Ok((name, address, agent.stop()?))
    };
    let outcomes: Vec<Outcome> = servers.into_iter().map(stop).collect::<Result<_>>()?;
    arguments.common.finish(&summary(&outcomes), &result(seed, &outcomes, &ended))?;
    match outcomes.iter().map(|(_, _, snapshot)| snapshot.results.wrong_server).sum() {
        0_u64 => Ok(()),
        wrong => bail!("{wrong} requests belonged to calls of other servers"),
    }
}

fn start(arguments: &Arguments, seed: u64) -> Result<Vec<Named>> {
    let (carrier, transport) = (&arguments.carrier, arguments.carrier.transport());
    ensure!(!carrier.has_tls() || carrier.has_certificate(), "a TLS server needs --certificate and --key");
    let tls = carrier.tls(None)?;
    let bind = |&address: &SocketAddr| carrier.bind(address, 1, tls.as_ref());
    let sockets: Vec<_> = arguments.listen.iter().map(bind).collect::<Result<_, _>>()?;
    let rng = Rng::from_seed(seed);
    let count = sockets.len();
    let start_one = |(number, link): (usize, AgentLink)| {
        let address = link.local_addr()?;
        let name = match &arguments.name {
            None => address.to_string(),
            Some(name) if count == 1 => name.clone(),
            Some(name) => format!("{name}-{number}"),
        };
        let config = AnswererConfig {
            transport,
            listener: 0,
            local: address,
            name: name.clone(),
            ring: arguments.ring,
            trying: arguments.trying,
            service: ServiceModel {
                service_per_work: arguments.service,
                exponential: arguments.exponential,
                slowdown: arguments.slowdown,
                queue_max: arguments.queue_max,
            },
            timers: Timers::default(),
        };
        let agent = agents::start_answerer(link, config, rng.fork(&format!("answerer {number}")))?;
        Ok(Named { name, agent })
    };
    (1..).zip(sockets).map(start_one).collect()
}

fn progress(new: u64, sum: &AnswererResults) -> String {
    let AnswererResults { calls_in_progress, calls_completed, queue_drops, wrong_server, .. } = sum;
    let mut line = format!("{new} calls/s: {calls_in_progress} in progress, {calls_completed} completed");
    for (name, count) in [("dropped", queue_drops), ("WRONG SERVER", wrong_server)] {
        if *count > 0 {
            write!(line, ", {count} {name}").expect("writing to a String cannot fail");
        }
    }
    line
}

fn summary(outcomes: &[Outcome]) -> String {
    let mut table = table::table(&[
        "server",
        "answered",
        "completed",
        "cancelled",
        "left",
        "repeats in",
        "repeats out",
        "no ACK",
        "late",
        "dropped",
        "wrong server",
    ]);
    for (name, _, Snapshot { results, .. }) in outcomes {
        let counts = [
            results.calls_answered,
            results.calls_completed,
            results.calls_cancelled,
            results.calls_in_progress,
            results.retransmissions_received,
            results.retransmissions_sent,
            results.ack_timeouts,
            results.late_requests,
            results.queue_drops,
            results.wrong_server,
        ];
        table.add_row(std::iter::once(name.clone()).chain(counts.map(|count| count.to_string())));
    }
    format!("\n{table}")
}

fn result(seed: u64, outcomes: &[Outcome], ended: &Ended) -> Value {
    let server = |(name, address, snapshot): &Outcome| {
        json!({
            "name": name,
            "listen": address.to_string(),
            "results": snapshot.results,
            "wrong_server_call_ids": snapshot.wrong_call_ids,
            "datagrams": datagrams(snapshot),
            "connections": connections(snapshot),
        })
    };
    json!({
        "seed": seed,
        "elapsed_seconds": ended.elapsed.as_secs_f64(),
        "interrupted": ended.interrupted,
        "servers": outcomes.iter().map(server).collect::<Vec<_>>(),
    })
}

fn local(text: &str) -> Result<SocketAddr, String> {
    let address = address::socket(text)?;
    if address.ip().is_unspecified() {
        return Err("callers need one address of this machine: give an address other than 0.0.0.0 and [::]"
            .to_owned());
    }
    Ok(address)
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
    factor.ok_or_else(|| "write a number, such as 2 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answerer_cannot_have_a_wildcard_address() {
        assert!(local("0.0.0.0:5070").unwrap_err().contains("other than"));
        assert!(local("127.0.0.1").unwrap_err().contains("IP:PORT"));
        assert!(local("[::1]:5070").is_ok());
    }
}
