//! `sarabande load call`: callers.

use super::super::text::plural;
use super::carrier::Carrier;
use super::watch::{Ended, watch};
use super::{Common, connections, datagrams, duration, table};
use crate::{address, print};
use anyhow::{Context, Result, bail, ensure};
use base::{Rng, Transport};
use instruments::agents::{self, AgentLink, RunningAgent, Snapshot};
use load::{ArrivalPlan, ArrivalProcess, CallResults, CallerConfig, RandomTime, RateStep, Timers};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address or host name that is called: a proxy, a balancer or a server. The default port is 5060.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = target)]
    to: SocketAddr,
    /// Request-URI of the calls. Default: `sip:service@` and the target.
    #[arg(long)]
    uri: Option<String>,
    /// Send ACK and BYE to the Contact if a response has no Record-Route; by default they go to `--to`, as to an
    /// outbound proxy (RFC 3261 §12.2.1.1).
    #[arg(long)]
    direct: bool,
    /// Local address; by default chosen by the kernel, with any port. With several threads this is the port of the
    /// first one, and the others use the following ports.
    #[arg(long, value_name = "IP:PORT", value_parser = address::socket)]
    listen: Option<SocketAddr>,
    /// New calls a second.
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// Arrival process: random, as of many independent callers, or evenly spaced.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// Duration of answered calls: `10s`, `exp:100s` (mean) or `normal:60s,30s` (mean, standard deviation).
    #[arg(long, default_value = "10s", value_name = "TIME")]
    hold: RandomTime,
    /// Start at another rate and change linearly to `--rate`: `10:30s` starts at 10 and reaches it after 30 s.
    #[arg(long, value_name = "FROM:TIME", value_parser = ramp)]
    ramp: Option<Ramp>,
    /// End after this many calls.
    #[arg(long)]
    calls: Option<u64>,
    /// Time in which calls are started. Calls in progress then go on to their end.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Cancel a call that was not answered within this time.
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = duration)]
    answer_wait: Duration,
    /// Number of agents, each with a thread and a socket. One makes about ten thousand calls a second.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Connections of each thread, over which its calls are distributed; not with UDP.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=50_000))]
    connections: u16,
    /// With TLS: name that the server's certificate must have; by default the address of `--to`.
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
    #[command(flatten)]
    carrier: Carrier,
    #[command(flatten)]
    common: Common,
}

/// The rate at the start, and the time until the final rate.
#[derive(Clone, Copy)]
struct Ramp {
    from_rate: f64,
    over: Duration,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Arrivals {
    Poisson,
    Constant,
}

/// Longest wait for calls in progress after a signal: longer than a BYE or CANCEL is repeated (64*T1, RFC 3261
/// §17.1.2.2).
const LAST_CALLS: Duration = Duration::from_secs(35);

/// Results of all callers together.
type Total = Snapshot<CallResults>;

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let seed = arguments.common.seed();
    ensure!(
        arguments.rate > 0.0 || arguments.ramp.is_some(),
        "at --rate 0 no call starts; give a rate above 0, or a --ramp down from such a rate"
    );
    let callers = start(arguments, seed)?;
    print::note(announcement(arguments, &callers, seed));
    let mut started = 0;
    let mut line = || {
        let total = total(callers.iter().map(RunningAgent::snapshot));
        let new = total.results.calls_started - started;
        started = total.results.calls_started;
        let mut line = format!("{new} calls/s: {}", total.results.progress());
        if total.unreachable > 0 {
            write!(line, "; {} times unreachable", total.unreachable)
                .expect("writing to a String cannot fail");
        }
        line
    };
    let finished = || callers.iter().all(RunningAgent::is_finished);
    let ended = watch(&mut line, |_| finished())?;
    if ended.interrupted {
        print_note!("ending the calls in progress; a second Ctrl-C ends the program at once");
        callers.iter().for_each(RunningAgent::wind_down);
        watch(&mut line, |elapsed| finished() || elapsed >= LAST_CALLS)?;
    }
    let from: Vec<_> = callers.iter().map(|caller| caller.address().to_string()).collect();
    let snapshots: Result<Vec<_>, _> = callers.into_iter().map(RunningAgent::stop).collect();
    let total = total(snapshots?.into_iter());
    arguments.common.finish(&summary(&total, &ended), &result(arguments, seed, &from, &total, &ended))?;
    verdict(&total.results)
}

fn start(arguments: &Arguments, seed: u64) -> Result<Vec<RunningAgent<CallResults>>> {
    let (local, transport) = (local(arguments)?, arguments.carrier.transport());
    let is_one = transport == Transport::Udp;
    ensure!(!is_one || arguments.connections == 1, "--connections is not for --transport udp");
    let name = arguments.tls_name.clone().map(|name| (arguments.to, name));
    let tls = arguments.carrier.tls(name)?;
    let sockets = (0..arguments.threads).map(|index| {
        let port = match local.port() {
            0 => Some(0),
            first => first.checked_add(index),
        };
        let port = port.context("the port of --listen is too high for this number of threads")?;
        arguments.carrier.bind(SocketAddr::new(local.ip(), port), arguments.connections, tls.as_ref())
    });
    // All sockets are bound before one sends, so that no caller starts if one cannot.
    let sockets: Vec<_> = sockets.collect::<Result<_>>()?;
    let rng = Rng::from_seed(seed);
    let start_one = |(index, link): (u16, AgentLink)| {
        let config = CallerConfig {
            transport,
            listener: 0,
            connections: arguments.connections,
            local: link.local_addr()?,
            target: arguments.to,
            outbound: !arguments.direct,
            uri: arguments
                .uri
                .clone()
                .unwrap_or_else(|| format!("sip:service@{}{}", arguments.to, transport.uri_param())),
            arrivals: share(arguments, index),
            holding: arguments.hold,
            answer_wait: arguments.answer_wait,
            timers: Timers::default(),
        };
        Ok(agents::start_caller(link, config, rng.fork(&format!("caller {index}")))?)
    };
    (0..).zip(sockets).map(start_one).collect()
}

/// The source address.
fn local(arguments: &Arguments) -> Result<SocketAddr> {
    let listen = arguments.listen;
    if let Some(listen) = listen.filter(|listen| !listen.ip().is_unspecified()) {
        ensure!(
            listen.is_ipv4() == arguments.to.is_ipv4(),
            "--listen {listen} cannot reach {}: one is IPv4, the other IPv6",
            arguments.to
        );
        return Ok(listen);
    }
    // Via and Contact need an address that the other side can reach.
    let source = sockets::source_address_for(arguments.to)
        .with_context(|| format!("there is no route to {}", arguments.to))?;
    Ok(SocketAddr::new(source, listen.map_or(0, |listen| listen.port())))
}

/// The part of the schedule of one caller.
fn share(arguments: &Arguments, index: u16) -> ArrivalPlan {
    let threads = f64::from(arguments.threads);
    let split = |calls: u64| {
        let (each, rest) = (calls / u64::from(arguments.threads), calls % u64::from(arguments.threads));
        each + u64::from(u64::from(index) < rest)
    };
    let step = |at, rate, ramp| RateStep { at, rate: rate / threads, ramp };
    let begin = arguments.ramp.map(|ramp| step(Duration::ZERO, ramp.from_rate, true));
    let settled = step(arguments.ramp.map_or(Duration::ZERO, |ramp| ramp.over), arguments.rate, false);
    ArrivalPlan {
        process: match arguments.arrivals {
            Arrivals::Poisson => ArrivalProcess::Poisson,
            Arrivals::Constant => ArrivalProcess::Constant,
        },
        steps: begin.into_iter().chain([settled]).collect(),
        calls_max: arguments.calls.map(split),
        duration: arguments.duration,
    }
}

/// Text about the run that starts.
fn announcement(arguments: &Arguments, callers: &[RunningAgent<CallResults>], seed: u64) -> String {
    let mut text = format!("calling {} from {}", arguments.to, callers[0].address());
    if callers.len() > 1 {
        write!(text, " and {} more", callers.len() - 1).expect("writing to a String cannot fail");
    }
    let process = match arguments.arrivals {
        Arrivals::Poisson => "Poisson",
        Arrivals::Constant => "constant",
    };
    write!(text, ": {} calls/s ({process})", arguments.rate).expect("writing to a String cannot fail");
    if let Some(ramp) = arguments.ramp {
        write!(text, ", from {} over {:?}", ramp.from_rate, ramp.over)
            .expect("writing to a String cannot fail");
    }
    match (arguments.calls, arguments.duration) {
        (None, None) => text.push_str(", until Ctrl-C"),
        (calls, duration) => {
            let calls = calls.map(|calls| format!(", {}", plural(calls, "call")));
            let duration = duration.map(|duration| format!(", for {duration:?}"));
            [calls, duration].into_iter().flatten().for_each(|part| text.push_str(&part));
        }
    }
    write!(text, ", seed {seed}").expect("writing to a String cannot fail");
    text
}

fn total(snapshots: impl Iterator<Item = Total>) -> Total {
    let mut sum = Total::default();
    for more in snapshots {
        sum.results.merge(&more.results);
        sum.wrong_call_ids.extend(more.wrong_call_ids);
        sum.received += more.received;
        sum.sent += more.sent;
        sum.send_failed += more.send_failed;
        sum.receive_lost += more.receive_lost;
        sum.unreachable += more.unreachable;
        sum.connections = sum.connections.merge(&more.connections);
    }
    sum
}

fn summary(total: &Total, ended: &Ended) -> String {
    let results = &total.results;
    let seconds = ended.elapsed.as_secs_f64();
    let mut text = format!(
        "\n{} calls started in {seconds:.1} s: {} completed, {} failed, {} abandoned, {} answered late, {} left in \
         progress\n",
        results.calls_started,
        results.calls_completed,
        results.calls_failed(),
        results.calls_abandoned,
        results.calls_answered_late,
        results.calls_in_progress
    );
    let mut rows = vec![("INVITE to 2xx", &results.invite_response), ("BYE to final", &results.bye_response)];
    if results.refusal_response.count() > 0 {
        rows.insert(1, ("INVITE to refusal", &results.refusal_response));
    }
    text += &table::times(&rows).to_string();
    text.push('\n');
    let mut line = |name: &str, value: String| {
        writeln!(text, " {name:<34}{value}").expect("writing to a String cannot fail");
    };
    for (name, statuses) in
        [("INVITE refused", &results.calls_refused), ("BYE refused", &results.bye_refused)]
    {
        for (status, count) in statuses {
            line(&format!("{name} with {status}"), count.to_string());
        }
    }
    let always = [("retransmissions", results.retransmissions_sent), ("wrong server", results.wrong_server)];
    let seldom = [
        ("INVITE without a final response", results.invite_timeouts),
        ("BYE without a final response", results.bye_timeouts),
        ("second answers hung up", results.forks_hung_up),
        ("stray datagrams", total.results.stray_datagrams),
        ("reported unreachable", total.unreachable),
        ("not sent by this machine", total.send_failed),
        ("lost by this machine, too slow", total.receive_lost),
    ];
    for (name, count) in always.into_iter().chain(seldom.into_iter().filter(|&(_, count)| count > 0)) {
        line(name, count.to_string());
    }
    line("latest start behind schedule", format!("{} ms", table::milliseconds(results.start_lag_max_us)));
    for (name, count) in &results.calls_by_server {
        line(&format!("answered by {name}"), count.to_string());
    }
    for call_id in &total.wrong_call_ids {
        line("wrong server in call", call_id.to_string());
    }
    text.trim_end().to_owned()
}

fn result(arguments: &Arguments, seed: u64, from: &[String], total: &Total, ended: &Ended) -> Value {
    json!({
        "to": arguments.to.to_string(),
        "from": from,
        "rate_per_second": arguments.rate,
        "seed": seed,
        "elapsed_seconds": ended.elapsed.as_secs_f64(),
        "interrupted": ended.interrupted,
        "calls_failed": total.results.calls_failed(),
        "results": total.results,
        "wrong_server_call_ids": total.wrong_call_ids,
        "datagrams": datagrams(total),
        "connections": connections(total),
    })
}

/// Returns an error if calls failed, for the exit code.
fn verdict(results: &CallResults) -> Result<()> {
    match (results.calls_failed(), results.wrong_server) {
        (0, 0) => Ok(()),
        (failed, 0) => bail!("{failed} calls failed"),
        (failed, wrong) => bail!("{failed} calls failed, {wrong} messages at a wrong server"),
    }
}

fn target(text: &str) -> Result<SocketAddr, String> {
    address::host(text, config::SIP_PORT)
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| "write a number of calls a second, such as 100 or 0.5".to_owned())
}

fn ramp(text: &str) -> Result<Ramp, String> {
    let parts = text.split_once(':').ok_or("write a rate and a time, such as 10:30s")?;
    let over = duration(parts.1)?;
    if over.is_zero() {
        return Err("a ramp takes time".to_owned());
    }
    Ok(Ramp { from_rate: rate(parts.0)?, over })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Result<Arguments, String> {
        let words = std::iter::once("call").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn rate_ramp_and_calls_are_divided_among_threads_without_a_rest() {
        let line = "--to 127.0.0.1 --rate 90 --ramp 30:10s --calls 100 --threads 3";
        let arguments = parse(line).unwrap();
        assert_eq!(arguments.to.port(), 5060);
        let shares: Vec<_> = (0..3).map(|index| share(&arguments, index)).collect();
        let step = |at, rate, ramp| RateStep { at: Duration::from_secs(at), rate, ramp };
        assert!(shares.iter().all(|share| share.steps == [step(0, 10.0, true), step(10, 30.0, false)]));
        assert_eq!(shares.iter().map(|share| share.calls_max.unwrap()).collect::<Vec<_>>(), [34, 33, 33]);
    }

    #[test]
    fn invalid_options_are_refused_with_a_valid_form() {
        for (line, remedy) in [
            ("--to 127.0.0.1 --rate=-1", "calls a second"),
            ("--to 127.0.0.1 --rate 1 --ramp 5", "10:30s"),
            ("--to 127.0.0.1 --rate 1 --ramp 5:0s", "takes time"),
            ("--to 127.0.0.1 --rate 1 --duration 5", "such as 10s"),
            ("--to 127.0.0.1 --rate 1 --duration exp:5s", "such as 10s"),
            ("--to 127.0.0.1 --rate 1 --hold 5", "exp:100s"),
            ("--to 127.0.0.1:x --rate 1", "HOST:PORT"),
            ("--to 127.0.0.1 --rate 1 --threads 0", "1..=256"),
        ] {
            let error = parse(line).err().unwrap_or_default();
            assert!(error.contains(remedy), "{line}: {error}");
        }
        let mixed = parse("--to 127.0.0.1 --rate 1 --listen [::1]:5070").unwrap();
        assert!(local(&mixed).unwrap_err().to_string().contains("IPv6"));
    }

    #[test]
    fn a_wildcard_becomes_a_reachable_address() {
        let arguments = parse("--to [::1]:5070 --rate 1 --listen [::]:5080").unwrap();
        assert_eq!(local(&arguments).unwrap().to_string(), "[::1]:5080");
    }

    #[test]
    fn failed_and_wrong_calls_make_the_command_fail() {
        let mut results = CallResults { calls_completed: 5, ..CallResults::default() };
        assert!(verdict(&results).is_ok());
        results.bye_timeouts = 1;
        assert_eq!(verdict(&results).unwrap_err().to_string(), "1 calls failed");
        let results = CallResults { wrong_server: 1, ..CallResults::default() };
        assert!(verdict(&results).is_err());
    }
}
