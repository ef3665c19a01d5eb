//! Two SIPp servers, each held to a part of a processor, behind a balancer that is not.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::cluster::{Cluster, pool};
use super::load::LoadGenerator;
use super::result::{Course, Curve, PartResult};
use super::{CALLERS, OverloadBench, address, steps};
use crate::process::Program;

/// The balancer's number.
const BALANCER: u8 = 99;
/// The servers' numbers.
const MEMBERS: [u8; 2] = [1, 2];
/// What is offered, in capacities of both together.
const LOADS: [f64; 6] = [0.5, 0.9, 1.1, 2.0, 5.0, 10.0];
const LAWS: [&str; 4] = ["none", "gradient", "vegas", "aimd"];
/// A step and back: loads in capacities, and seconds of each.
const STEP: [(f64, f64); 3] = [(0.8, 4.0), (2.4, 8.0), (0.8, 8.0)];
/// The load while a member fails, as a part of the capacity of both, and for how many seconds.
const FAILING_LOAD: (f64, f64) = (0.45, 30.0);
/// Seconds from the start until a member stalls, goes on, dies, returns.
const FAILING: [f64; 4] = [4.0, 6.0, 12.0, 20.0];

fn start<'a>(bench: &'a OverloadBench, lines: &str) -> Result<(Cluster<'a>, Vec<Program>)> {
    let mut cluster = Cluster::new(bench)?;
    let members = MEMBERS.map(address);
    let mut programs = Vec::new();
    for member in members {
        let sipp = cluster.sipp(member);
        programs.push(cluster.launch_limited(&format!("sipp-{}", member.ip()), &sipp)?);
    }
    let balancer = cluster.sarabande(address(BALANCER), &pool(&members, lines))?;
    cluster.start("sarabande", &balancer)?;
    Ok((cluster, programs))
}

fn law(name: &str) -> String {
    format!("overload = {{ law = \"{name}\" }}")
}

/// Measures each law, a rate that is told, a step, and a member that fails.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &OverloadBench, say: &dyn Fn(&str)) -> Result<PartResult> {
    let target = [address(BALANCER)];
    let mut generator = LoadGenerator::new(CALLERS, 0)?;
    let capacity = {
        let _programs = start(bench, &law("none"))?;
        bench.capacity(&mut generator, &target)?
    };
    say(&format!("members: two take {capacity:.0} calls/s"));
    let told = format!("max_rate = {:.0}", 0.95 * capacity / MEMBERS.len() as f64);
    let ways = LAWS.map(|name| (name, law(name)));
    let mut curves = Vec::new();
    for (name, lines) in ways.into_iter().chain([("max_rate", told)]) {
        say(&format!("members: {name}"));
        let _programs = start(bench, &lines)?;
        let points = bench.sweep(&mut generator, &target, capacity, &LOADS)?;
        curves.push(Curve { name: name.to_owned(), points });
    }
    let mut courses = vec![Course::new("step", "A step to 2.4 times the capacity and back")];
    courses[0].marks = vec![("2.4 times".to_owned(), STEP[0].1), ("back".to_owned(), STEP[0].1 + STEP[1].1)];
    for name in ["none", "gradient"] {
        say(&format!("members: a step, {name}"));
        let _programs = start(bench, &law(name))?;
        generator.await_calls(&target)?;
        let log = steps(&mut generator, &target, capacity, &STEP)?;
        courses[0].add(name, &log, capacity);
    }
    courses.push(failing(bench, &mut generator, capacity, say)?);
    Ok(PartResult {
        name: "members",
        title: "Two SIPp servers that know nothing of overload, behind a balancer",
        capacity,
        curves,
        courses,
        others: Vec::new(),
    })
}

/// One of the members stalls, dies, and returns.
fn failing(
    bench: &OverloadBench,
    generator: &mut LoadGenerator,
    capacity: f64,
    say: &dyn Fn(&str),
) -> Result<Course> {
    let mut course = Course::new("failing", "A member stalls for two seconds, dies, and returns");
    let names = ["stalls", "goes on", "dies", "returns"].map(str::to_owned);
    course.marks = names.into_iter().zip(FAILING).collect();
    say("members: one fails");
    let (mut cluster, mut programs) = start(bench, &law("gradient"))?;
    generator.await_calls(&[address(BALANCER)])?;
    let log = thread::scope(|scope| {
        let script = scope.spawn(|| fail(&mut cluster, &mut programs));
        let log = steps(generator, &[address(BALANCER)], capacity, &[FAILING_LOAD])?;
        script.join().expect("it does not panic")?;
        anyhow::Ok(log)
    })?;
    course.add("gradient", &log, capacity);
    Ok(course)
}

fn fail(cluster: &mut Cluster<'_>, programs: &mut Vec<Program>) -> Result<()> {
    let [stalls, goes_on, dies, returns] = FAILING;
    let wait = |from: f64, to: f64| thread::sleep(Duration::from_secs_f64(to - from));
    let member = programs.pop().context("no member runs")?;
    wait(0.0, stalls);
    member.pause(true)?;
    wait(stalls, goes_on);
    member.pause(false)?;
    wait(goes_on, dies);
    member.kill()?;
    wait(dies, returns);
    let sipp = cluster.sipp(address(MEMBERS[1]));
    programs.push(cluster.launch_limited("sipp-again", &sipp)?);
    Ok(())
}
