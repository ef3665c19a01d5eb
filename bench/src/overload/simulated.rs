//! The simulator's answer to a part of the experiment: the same capacity, loads and laws.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::OverloadBench;
use super::log::WindowResult;
use super::result::Curve;
use crate::scratch::Scratch;

/// What a refused call takes, with its ACK, as a share of a call that is set up: of a balancer, by the instructions of
/// both (`bench/instructions.toml`: a refusal, and six messages).
const REFUSAL: f64 = 24_400.0 / (6.0 * 16_590.0);
/// Messages of a call at a balancer, of a millisecond each at the capacity that the simulator's costs are given for.
const MESSAGES: f64 = 6.0;
/// Messages that the buffer of a socket of Sarabande holds, some.
const BUFFER: u32 = 3_000;

/// Hosts, and the calls that pass them.
pub(super) struct Simulated<'a> {
    /// Tables of the hosts.
    pub(super) hosts: String,
    /// Their names, from the callers' side.
    pub(super) path: &'a [&'a str],
}

/// The table of a server with this capacity and these keys of overload control: a proxy, since the simulator's
/// balancers have no overload control. What a transaction of a proxy costs more than a balanced call is no part of
/// its costs.
pub(super) fn proxy(name: &str, capacity: f64, overload: &str) -> String {
    format!("[host.{name}]\ncapacity = {capacity:.1}\nbuffer = {BUFFER}\noverload = {{ {overload} }}\n")
}

impl Simulated<'_> {
    fn scenario(&self) -> String {
        let refusal_us = 1_000.0 * MESSAGES * REFUSAL;
        let ack_us = refusal_us / 3.0;
        format!(
            "[run]\nduration = \"30s\"\nwarm_up = \"10s\"\nbin = \"1s\"\n\n\
             [costs]\ntimer = \"0s\"\nmessage = \"1ms\"\nbase_capacity = {:.3}\nreject = \"{:.0}us\"\nreject_ack = \"{ack_us:.0}us\"\n\n\
             {}\n[calls.main]\npath = {:?}\nrate = 1\nholding = \"1ms\"\npatience = \"32s\"\n",
            1_000.0 / MESSAGES,
            refusal_us - ack_us,
            self.hosts,
            self.path,
        )
    }

    /// What these loads come to, multiples of the capacity.
    ///
    /// # Errors
    /// The simulator does not take the scenario.
    pub(super) fn curve(
        &self,
        bench: &OverloadBench,
        name: &str,
        capacity: f64,
        loads: &[f64],
    ) -> Result<Curve> {
        let scratch = Scratch::new("overload-sim")?;
        let file = scratch.write("scenario.toml", &self.scenario())?;
        let rates: Vec<String> = loads.iter().map(|load| format!("{:.1}", load * capacity)).collect();
        let mut command = Command::new(&bench.sarabande);
        command.args(["sim", "run", "--json", "--vary", &format!("calls.main.rate={}", rates.join(","))]);
        let output = command.arg(file).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout)?;
        let points = loads.iter().zip(&rows).map(|(load, row)| Ok((*load, result(row)?)));
        Ok(Curve { name: format!("{name}, simulated"), points: points.collect::<Result<_>>()? })
    }
}

/// What a row of the simulator says. Calls that were set up late count as set up alone; where the laws work there are
/// none.
fn result(row: &Value) -> Result<WindowResult> {
    let stream = row.pointer("/survey/streams/0").context("no stream of calls")?;
    let mean = |path: &str| stream.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let (offered, set_up) = (mean("/offered/mean"), mean("/set_up/mean"));
    let p99_ms = 1e3 * mean("/response_p99_seconds/mean");
    let resends = row.pointer("/survey/hosts").and_then(Value::as_array);
    let agents = resends.and_then(|hosts| hosts.iter().find(|host| host["name"] == "agents"));
    Ok(WindowResult {
        offered,
        goodput: if p99_ms > 500.0 { f64::NAN } else { set_up },
        set_up,
        refused: offered * mean("/ended/refused/mean"),
        repetitions: agents.and_then(|host| host["resends"]["mean"].as_f64()).unwrap_or(f64::NAN),
        p50_ms: f64::NAN,
        p99_ms,
    })
}
