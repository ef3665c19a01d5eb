//! Servers that are started and stopped as calls come and go, compared with as many that always run.
//!
//! Kamailio servers, each limited to a fraction of a processor, started and stopped by the balancer. Calls rise and
//! fall, then a crowd comes at once. A call that fails only with scaling is lost by scaling.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use papers::report::Axis;

use super::cells::Second;
use super::{CALLERS, ElasticBench, LISTEN, QUOTA, kamailio};
use crate::generator::{Level, LoadGenerator, OfferedLoad};
use crate::process::ask;
use crate::rig::{BALANCER, MEASURED, Rig, address, at_port, beside, pool, server};
use crate::study::{Alternative, Bound, Cell, Over, Picture, Question, Samples, Study, Values};

/// Most servers.
const COUNT: usize = 4;
/// Configured calls a second of a server.
const CAPACITY: f64 = 150.0;
/// Lowest and highest rate in calls a second.
const RATES: [f64; 2] = [60.0, 440.0];

fn steady(rate: f64, seconds: usize) -> impl Iterator<Item = f64> {
    core::iter::repeat_n(rate, seconds)
}

/// Evenly from the lowest rate to the highest and back: rates of each second.
fn rise_and_fall() -> Vec<f64> {
    let [least, most] = RATES;
    let slope =
        |seconds: u32| (1..=seconds).map(move |at| f64::from(at) / f64::from(seconds) * (most - least));
    let rise = slope(30).map(|above| least + above);
    let fall = slope(20).map(|below| most - below);
    steady(least, 5).chain(rise).chain(steady(most, 10)).chain(fall).chain(steady(least, 10)).collect()
}

/// The same at once.
fn crowd() -> Vec<f64> {
    let [least, most] = RATES;
    steady(least, 8).chain(steady(most, 17)).chain(steady(least, 15)).collect()
}

/// Returns the scaling table of the balancer for this script. Its times are short, like the courses of calls.
fn scale(script: &Path) -> String {
    format!(
        "[pool.servers.scale]\ndriver = \"command\"\nstart = [\"sh\", \"{0}\", \"{{index}}\"]\n\
         stop = [\"sh\", \"-c\", \"f={1}/{{index}}.pid; kill $(cat $f); rm $f\"]\ncapacity = {CAPACITY}\nleast = 1\n\
         spare = 1\ncalm = \"5s\"\nidle = \"2s\"\nstart_time = \"2s\"\n",
        script.display(),
        script.parent().unwrap_or(script).display()
    )
}

/// Servers started by the balancer. For each, a file in this folder contains its process ID.
struct Started(PathBuf);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = Command::new("sh").args(["-c", "kill $(cat \"$0\"/*.pid)"]).arg(&self.0).status();
    }
}

/// Returns a line of a script that runs this command, on the servers' processor, if its argument is `index`.
fn start_line(index: usize, command: &Command) -> String {
    let words = core::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
    let words = words.join(" ");
    format!(
        "[ \"$1\" != {index} ] || {{ taskset -c {MEASURED} {words} >/dev/null 2>&1 & echo $! > \"${{0%/*}}/$1.pid\"; }}\n"
    )
}

/// Returns the number of servers that run, start or stop.
fn running() -> Result<f64> {
    let shown = ask(at_port(address(BALANCER), 8060), "/api/scale/servers")?;
    let servers = shown["servers"].as_array().context("a list of servers")?;
    let states = servers.iter().filter_map(|server| server["state"].as_str());
    Ok(states.filter(|state| ["starting", "ready", "draining", "stopping"].contains(state)).count() as f64)
}

impl ElasticBench {
    fn start_scaled(&self, is_scaled: bool, generator: &mut LoadGenerator) -> Result<(Rig, Option<Started>)> {
        let mut rig = Rig::new(&self.paths)?;
        let mut script = String::new();
        for (index, hop) in generator.answerers().into_iter().enumerate() {
            let kamailio = kamailio(&rig, index, hop)?;
            let group = rig.group(QUOTA)?;
            if is_scaled {
                script += &start_line(index, &rig.within(group, &kamailio));
            } else {
                rig.start_in(group, &format!("server-{index}"), &kamailio)?;
            }
        }
        let script = rig.scratch.write("start.sh", &script)?;
        let lines = format!(
            "forward = \"transaction\"\nprobe = {{ interval = \"250ms\", timeout = \"250ms\" }}\n\
             queue = {{ capacity = {CAPACITY}, source = \"fixed\", wait = \"4s\" }}\n"
        );
        let servers: Vec<_> = (0..COUNT).map(server).collect();
        let tables = pool(&servers, &lines) + &if is_scaled { scale(&script) } else { String::new() };
        let mut balancer = rig.sarabande(address(BALANCER), LISTEN, &tables)?;
        rig.start_beside("balancer", &mut balancer)?;
        rig.await_calls(generator, &[address(BALANCER)])?;
        let started = script.parent().filter(|_| is_scaled).map(|folder| Started(folder.to_owned()));
        Ok((rig, started))
    }

    /// Plays the calls and counts the servers meanwhile.
    fn scaled(&self, rates: &[f64], is_scaled: bool, seed: u64) -> Result<Samples<Second>> {
        let mut generator = LoadGenerator::repeating(CALLERS, COUNT)?;
        let _servers = self.start_scaled(is_scaled, &mut generator)?;
        generator.seed = Some(seed);
        let load = OfferedLoad::Open(rates.iter().map(|rate| Level { rate: *rate, seconds: 1.0 }).collect());
        let seconds: Vec<f64> = (0..rates.len()).map(|second| second as f64 + 0.5).collect();
        let count = |_| if is_scaled { running() } else { Ok(COUNT as f64) };
        let (log, servers) = beside(&seconds, count, || generator.play(&[address(BALANCER)], load))?;
        Ok(Second::all(&log, rates.len(), |second| servers[second]))
    }

    /// Each course of calls with all servers, and with scaling.
    pub(super) fn scaling(&self) -> Study<'_, Second> {
        let short = |rates: Vec<f64>| if self.quick { rates[..10].to_vec() } else { rates };
        let courses = [("rise and fall", short(rise_and_fall())), ("a crowd at once", short(crowd()))];
        let cell = |(name, rates): &(&str, Vec<f64>)| {
            let alternative = |(name, is_scaled): (&str, bool)| {
                let rates = rates.clone();
                Alternative::new(name, move |round| self.scaled(&rates, is_scaled, round.seed))
            };
            let alternatives = [("fixed", false), ("scaled", true)].map(alternative).into();
            Cell::new(*name, alternatives)
        };
        let picture =
            |title, column, y| Picture { title, column, over: Over::Places(Axis::linear("time (s)")), y };
        let servers = |cell: &str, alternative: &str, at| Values::new(cell, alternative, Some(at), "servers");
        Study {
            at: "time",
            cells: courses.iter().map(cell).collect(),
            measures: Second::measures(),
            questions: vec![Question {
                statement: "Before the calls rise, half of the servers are enough.".to_owned(),
                source: "the scaler",
                left: servers(courses[0].0, "scaled", 3.5),
                right: Some(servers(courses[0].0, "fixed", 3.5)),
                bound: Bound::Below(0.51),
            }],
            pictures: vec![
                picture("Servers", "servers", Axis::linear("servers that run")),
                picture("Lost calls", "lost", Axis::linear("calls of a second without an answer")),
            ],
            ..Study::new(
                "scaling",
                "Servers as calls come and go",
                "Second by second: servers that always run, and servers that the balancer starts and stops.",
            )
        }
    }
}
