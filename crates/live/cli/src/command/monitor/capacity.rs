//! Options of the capacity estimate and of its reports.

use crate::admin::Exit;
use crate::command::load::duration;
use ::monitor::Pairing;
use anyhow::{Context as _, Result, bail};
use elastic::estimate::{CapacityLaw, EstimatorSettings};
use elastic::update::{CAPACITY_MAX, Key, ServerName};
use instruments::sender::Reporting;
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Environment variable with the key.
const VARIABLE: &str = "SARABANDE_CAPACITY_KEY";

#[derive(clap::Args)]
pub(super) struct CapacityArguments {
    /// Report the capacity of the server to this balancer every second, at the address of its `[capacity] listen`. Give
    /// it several times for all balancers of a cluster.
    #[arg(long, value_name = "HOST:PORT", value_parser = balancer)]
    report: Vec<String>,
    /// File with the key of this server, as in `[capacity]` of the balancers; without it the environment variable
    /// `SARABANDE_CAPACITY_KEY`.
    #[arg(long, value_name = "FILE", requires = "report")]
    key_file: Option<PathBuf>,
    /// The measured member of the balancers' pools, by address or by its name there; by default the first address of
    /// the server.
    #[arg(long = "as", value_name = "NAME_OR_ADDRESS", value_parser = member, requires = "report")]
    named: Option<ServerName>,
    /// Estimate the capacity at which the 95th percentile of the latency stays within this time. Default with
    /// `--report`: 1ms.
    #[arg(long, value_name = "TIME", value_parser = threshold)]
    threshold: Option<Duration>,
    /// Upper bound of the capacity, in calls a second, from a stress test. Default: 500.
    #[arg(long, value_name = "CALLS", value_parser = rate)]
    maximum: Option<f64>,
    /// Law by which the capacity follows the latency: `proven`, or `smace` of the Cloud paper.
    #[arg(long, value_name = "LAW", value_parser = law)]
    law: Option<CapacityLaw>,
    /// Initial capacity, in calls a second. Default: half of the maximum.
    #[arg(long, value_name = "CALLS", value_parser = rate)]
    capacity_start: Option<f64>,
}

/// A name and a port, which is required.
fn balancer(text: &str) -> Result<String, String> {
    if let Some(meant) = config::ipv6_without_brackets(text) {
        return Err(format!("an IPv6 address with a port needs brackets: {meant}"));
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_host = !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'));
    if is_host && port.parse::<u16>().is_ok_and(|port| port > 0) {
        Ok(text.to_owned())
    } else {
        Err("write HOST:PORT, such as edge1.example.com:8061: `listen` of [capacity] of the balancer"
            .to_owned())
    }
}

fn member(text: &str) -> Result<ServerName, String> {
    if let Some(meant) = config::ipv6_without_brackets(text) {
        return Err(format!("an IPv6 address with a port needs brackets: {meant}"));
    }
    match text.parse::<ServerName>().map_err(|error| error.to_string())? {
        ServerName::Address(address) if address.ip().is_unspecified() || address.port() == 0 => {
            Err("write the address of the server in the configuration of the balancers".to_owned())
        }
        server => Ok(server),
    }
}

fn threshold(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| {
        if time.is_zero() { Err("expected a time above 0, such as 1ms".to_owned()) } else { Ok(time) }
    })
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1.0..=CAPACITY_MAX).contains(rate));
    rate.ok_or_else(|| "write calls a second, 1 or more, such as 500".to_owned())
}

fn law(text: &str) -> Result<CapacityLaw, String> {
    match text {
        "proven" => Ok(CapacityLaw::Proven),
        "smace" => Ok(CapacityLaw::Smace),
        _ => Err("write proven or smace".to_owned()),
    }
}

impl CapacityArguments {
    /// Settings of the estimate; `None` if no option asks for one.
    pub(super) fn estimate(&self, pairing: &Pairing) -> Result<Option<EstimatorSettings>> {
        if self.report.is_empty() && self.threshold.is_none() {
            if self.maximum.is_some() || self.law.is_some() || self.capacity_start.is_some() {
                return Err(Exit::wrong_arguments(
                    "--maximum, --law and --capacity-start belong to the capacity estimate: add --threshold 1ms, or \
                    --report",
                ));
            }
            return Ok(None);
        }
        if let Pairing::Final(_) = pairing {
            return Err(Exit::wrong_arguments(
                "the time to the final response depends on the callee, or is not of calls, so the capacity cannot be \
                 estimated from it; use another --pair, such as invite",
            ));
        }
        let mut settings = EstimatorSettings::default();
        settings.law = self.law.unwrap_or(settings.law);
        settings.threshold = self.threshold.unwrap_or(settings.threshold);
        settings.maximum = self.maximum.unwrap_or(settings.maximum);
        if let Some(start) = self.capacity_start {
            if start > settings.maximum {
                let text = format!("--capacity-start {start} is more than --maximum {}", settings.maximum);
                return Err(Exit::wrong_arguments(text));
            }
            settings.start = start / settings.maximum;
        }
        Ok(Some(settings))
    }

    /// Receivers of the reports; `None` if there are none.
    pub(super) fn reporting(&self, servers: &[SocketAddr]) -> Result<Option<Reporting>> {
        if self.report.is_empty() {
            return Ok(None);
        }
        let server = match (&self.named, servers.first()) {
            (Some(named), _) => named.clone(),
            (None, Some(first)) => ServerName::Address(*first),
            (None, None) => bail!("the server has no address: give its name with --as"),
        };
        let say = |text: &str| print_note!("{text}");
        Ok(Some(Reporting { to: self.report.clone(), key: self.key()?, server, say }))
    }

    fn key(&self) -> Result<Key> {
        let (bytes, source) = match (&self.key_file, env::var_os(VARIABLE).filter(|text| !text.is_empty())) {
            (Some(file), _) => {
                let source = file.display().to_string();
                (fs::read(file).with_context(|| format!("--key-file {source}: cannot be read"))?, source)
            }
            (None, Some(text)) => (text.into_encoded_bytes(), format!("the environment variable {VARIABLE}")),
            (None, None) => bail!(
                "--report needs the key of this server in [capacity] of the balancers: --key-file FILE, or {VARIABLE}"
            ),
        };
        let key = config::key_from_bytes(&bytes).with_context(|| {
            format!("{source} does not hold 16 bytes, as they are, as 32 hex digits or in base64; make a key with `openssl rand -hex 16`")
        })?;
        Ok(Key::new(&key))
    }
}
