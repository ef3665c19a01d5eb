//! Kamailio as a stateful proxy, held to a part of a processor: up to twice its capacity and down again (Overload paper,
//! section IV and figure 7); with the modules that it has against overload; and behind a balancer that limits it.

use anyhow::Result;
use std::process::Command;

use super::cluster::{Cluster, pool};
use super::load::LoadGenerator;
use super::result::{Course, Curve, PartResult};
use super::{CALLERS, OverloadBench, address, steps};

/// Its configuration.
const CONFIG: &str = include_str!("../../kamailio/overload.cfg");
/// Numbers of the balancer and of Kamailio.
const BALANCER: u8 = 94;
const KAMAILIO: u8 = 11;
const LOADS: [f64; 4] = [0.9, 1.1, 2.0, 10.0];
/// Up, past the capacity, and down: loads in capacities, and seconds of each.
const COURSE: [(f64, f64); 4] = [(0.9, 6.0), (1.5, 6.0), (0.9, 10.0), (0.1, 8.0)];

/// What protects it.
#[derive(Clone, Copy)]
enum Protection {
    Nothing,
    /// `ratelimit`, told its capacity.
    RateLimit,
    /// `pike`, told the share of a caller.
    Pike,
    /// A balancer before it, with the default law.
    Gradient,
}

const ALL: [(&str, Protection); 4] = [
    ("as it comes", Protection::Nothing),
    ("ratelimit", Protection::RateLimit),
    ("pike", Protection::Pike),
    ("behind gradient", Protection::Gradient),
];

impl Protection {
    fn target(self) -> u8 {
        if matches!(self, Self::Gradient) { BALANCER } else { KAMAILIO }
    }

    /// What the configuration is told.
    fn defines(self, capacity: f64) -> Vec<String> {
        match self {
            Self::Nothing | Self::Gradient => Vec::new(),
            Self::RateLimit => {
                vec!["RATE=1".to_owned(), format!("PIPE=\"0:TAILDROP:{:.0}\"", 0.9 * capacity)]
            }
            // All callers have one address: INVITE, ACK and BYE of each call.
            Self::Pike => vec![format!("DENSITY={:.0}", 3.0 * capacity)],
        }
    }

    fn start<'a>(
        self,
        bench: &'a OverloadBench,
        generator: &LoadGenerator,
        capacity: f64,
    ) -> Result<Cluster<'a>> {
        let mut cluster = Cluster::new(bench)?;
        let hop = format!("HOP=\"sip:{}\"", generator.answerers()[0]);
        let file = cluster.scratch.write("kamailio/kamailio.cfg", CONFIG)?;
        let mut command = Command::new(&bench.kamailio);
        command.args(["-DD", "-E", "-m", "1024", "-M", "16", "-f"]).arg(file);
        command.arg("-Y").arg(cluster.scratch.path().join("kamailio"));
        command.arg("-l").arg(format!("udp:{}", address(KAMAILIO)));
        for define in self.defines(capacity).into_iter().chain([hop]) {
            command.arg("-A").arg(define);
        }
        cluster.start_limited("kamailio", &command)?;
        if let Self::Gradient = self {
            let pool = pool(&[address(KAMAILIO)], "overload = { law = \"gradient\" }");
            let balancer = cluster.sarabande(address(BALANCER), &pool)?;
            cluster.start("sarabande", &balancer)?;
        }
        Ok(cluster)
    }
}

/// Measures each protection.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &OverloadBench, say: &dyn Fn(&str)) -> Result<PartResult> {
    let mut generator = LoadGenerator::new(CALLERS, 1)?;
    let capacity = {
        let _cluster = Protection::Nothing.start(bench, &generator, f64::NAN)?;
        bench.capacity(&mut generator, &[address(KAMAILIO)])?
    };
    say(&format!("kamailio: it takes {capacity:.0} calls/s"));
    let mut curves = Vec::new();
    for (name, protection) in ALL {
        say(&format!("kamailio: {name}"));
        let target = [address(protection.target())];
        let _cluster = protection.start(bench, &generator, capacity)?;
        let points = bench.sweep(&mut generator, &target, capacity, &LOADS)?;
        curves.push(Curve { name: name.to_owned(), points });
    }
    let mut course = Course::new("course", "Kamailio past its capacity and back (figure 7)");
    let mut at = 0.0;
    for (before, after) in COURSE.iter().zip(&COURSE[1..]) {
        at += before.1;
        course.marks.push((format!("{} times", after.0), at));
    }
    for (name, protection) in [ALL[0], ALL[3]] {
        say(&format!("kamailio: up and down, {name}"));
        let target = [address(protection.target())];
        let _cluster = protection.start(bench, &generator, capacity)?;
        generator.await_calls(&target)?;
        course.add(name, &steps(&mut generator, &target, capacity, &COURSE)?, capacity);
    }
    Ok(PartResult {
        name: "kamailio",
        title: "Kamailio, a stateful proxy",
        capacity,
        curves,
        courses: vec![course],
        others: Vec::new(),
    })
}
