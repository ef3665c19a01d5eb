//! Data that the demo shows: the servers, events, and the results of each phase.

use super::story::{PHASES, Pace, Phase, Story};
use load::CallResults;
use server::figures::MemberView;

/// State that the balancer knows at one moment.
pub(super) struct Moment {
    /// Servers, in the order of their names.
    pub(super) servers: Vec<Seen>,
    /// Calls a second that all servers that take calls carry together.
    pub(super) capacity: f64,
    /// Wanted number of servers.
    pub(super) wanted: usize,
    /// Calls that wait in the queue.
    pub(super) waiting: usize,
    /// Whether most servers carry much less than usual.
    pub(super) cluster_latency: bool,
    /// Reason why no server can be started or stopped.
    pub(super) trouble: Option<String>,
}

/// State of one server.
pub(super) struct Seen {
    /// State, as in the scaler.
    pub(super) state: String,
    /// Estimated capacity, in calls a second.
    pub(super) announced: f64,
    pub(super) member: MemberView,
}

impl Moment {
    /// Number of servers that take calls.
    pub(super) fn ready(&self) -> usize {
        self.servers.iter().filter(|server| server.state == "ready").count()
    }

    /// Number of servers with a machine, including those that start or stop.
    pub(super) fn running(&self) -> usize {
        self.servers.iter().filter(|server| shown(&server.state) != STOPPED).count()
    }
}

pub(super) const STOPPED: &str = "stopped";

/// State of a server in the output.
pub(super) fn shown(state: &str) -> &str {
    match state {
        "off" | "gone" => STOPPED,
        other => other,
    }
}

/// Row of a server in the output.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) state: String,
    /// Capacity, in calls a second; `None` while the server takes none.
    pub(super) capacity: Option<f64>,
    /// New calls a second.
    pub(super) calls_per_second: f64,
    /// Calls in progress.
    pub(super) calls: u32,
    /// Time within which 95 % of the recent INVITEs were answered.
    pub(super) p95_us: Option<u64>,
    pub(super) has_neighbour: bool,
}

/// Figures of an earlier moment, for curves.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    /// Arrivals, in calls a second.
    pub(super) offered: f64,
    pub(super) capacity: f64,
    /// Servers with a machine.
    pub(super) running: usize,
}

/// Use of servers: a server that runs for a second counts one second.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Usage {
    /// Sum over all servers.
    pub(super) server_seconds: f64,
    /// Largest number of servers that ran at a time.
    pub(super) most: usize,
    /// Time over which it is counted.
    pub(super) seconds: f64,
}

impl Usage {
    /// Use if the largest number of servers had run all the time.
    pub(super) fn fixed(&self) -> f64 {
        self.most as f64 * self.seconds
    }
}

/// A moment to show.
pub(super) struct Scene<'a> {
    pub(super) story: &'a Story,
    /// Index of the phase.
    pub(super) index: usize,
    /// Seconds since the first call.
    pub(super) seconds: f64,
    pub(super) lines: &'a [Line],
    /// This moment and earlier ones.
    pub(super) samples: &'a [Sample],
    pub(super) wanted: usize,
    pub(super) ready: usize,
    pub(super) waiting: usize,
    pub(super) calls: &'a CallResults,
    pub(super) usage: Usage,
    /// Events so far.
    pub(super) news: &'a [String],
}

impl Scene<'_> {
    pub(super) fn phase(&self) -> &Phase {
        &PHASES[self.index]
    }

    /// Figures of this moment.
    pub(super) fn now(&self) -> Sample {
        self.samples.last().copied().unwrap_or_default()
    }
}

/// Text about times that are shorter than in a cloud.
pub(super) fn shortened(pace: &Pace) -> String {
    let [boot, calm, idle] = [pace.boot, pace.calm, pace.idle].map(|time| time.as_secs());
    format!("times are shortened: start {boot} s, drain after {calm} s, stop after {idle} s")
}

/// Results of the second half of a phase.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Ended {
    pub(super) phase: &'static str,
    /// Arrivals, in calls a second.
    pub(super) offered: f64,
    /// Capacity of all servers at the end, in calls a second.
    pub(super) capacity: f64,
    /// Servers that take calls at the end.
    pub(super) ready: usize,
    /// Share of the calls that the first server got, from 0 to 1; `None` without calls.
    pub(super) share: Option<f64>,
    /// Capacity of the first server at the end; `None` if it takes no calls.
    pub(super) first_capacity: Option<f64>,
    /// Time within which 95 % of its INVITEs were answered.
    pub(super) first_p95_us: Option<u64>,
}

/// Results of the demo.
pub(super) struct Outcome {
    pub(super) ended: Vec<Ended>,
    pub(super) calls: CallResults,
    /// Servers that were started, and how many of them were stopped again.
    pub(super) started: usize,
    pub(super) stopped: usize,
    pub(super) usage: Usage,
    /// Note on the phases without figures after the user has quit.
    pub(super) quit: Option<String>,
}
