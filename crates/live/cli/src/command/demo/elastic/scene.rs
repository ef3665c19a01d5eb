//! What the demo shows: the servers, what happens to them, and what each phase has come to.

use super::story::{PHASES, Pace, Phase, Story};
use load::CallResults;
use server::figures::MemberView;

/// What the balancer knows at one moment.
pub(super) struct Moment {
    /// In the order of their names.
    pub(super) servers: Vec<Seen>,
    /// Calls a second that those can take together that take any.
    pub(super) capacity: f64,
    /// Servers that are to take calls.
    pub(super) wanted: usize,
    /// Calls that wait for a server with room.
    pub(super) waiting: usize,
    /// Whether most servers can take much less than usual.
    pub(super) cluster_latency: bool,
    /// Why no server can be started or stopped.
    pub(super) trouble: Option<String>,
}

/// What the balancer knows of a server.
pub(super) struct Seen {
    /// As the scaler has it.
    pub(super) state: String,
    /// Calls a second that it can take, by its response times.
    pub(super) announced: f64,
    pub(super) member: MemberView,
}

impl Moment {
    /// Servers that take calls.
    pub(super) fn ready(&self) -> usize {
        self.servers.iter().filter(|server| server.state == "ready").count()
    }

    /// Servers that have a machine, those included that start and end.
    pub(super) fn running(&self) -> usize {
        self.servers.iter().filter(|server| shown(&server.state) != STOPPED).count()
    }
}

pub(super) const STOPPED: &str = "stopped";

/// The state of a server as people are shown it.
pub(super) fn shown(state: &str) -> &str {
    match state {
        "off" | "gone" => STOPPED,
        other => other,
    }
}

/// What is shown of a server.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) state: String,
    /// Calls a second that it can take; `None` while it takes none.
    pub(super) capacity: Option<f64>,
    /// New calls a second that it gets.
    pub(super) calls_per_second: f64,
    /// Calls in progress.
    pub(super) calls: u32,
    /// In which 95 % of the INVITEs were answered, lately.
    pub(super) p95_us: Option<u64>,
    pub(super) has_neighbour: bool,
}

/// What was seen at a moment before, for curves.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    /// Calls a second.
    pub(super) offered: f64,
    pub(super) capacity: f64,
    /// Servers that have a machine.
    pub(super) running: usize,
}

/// Time of servers: one that runs for a second has used a second.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Usage {
    /// Of all together.
    pub(super) server_seconds: f64,
    /// Most that ran at a time.
    pub(super) most: usize,
    /// How long this is counted.
    pub(super) seconds: f64,
}

impl Usage {
    /// What it would have been with as many servers as ran at most, all the time.
    pub(super) fn fixed(&self) -> f64 {
        self.most as f64 * self.seconds
    }
}

/// One moment, to be shown.
pub(super) struct Scene<'a> {
    pub(super) story: &'a Story,
    /// Which phase it is.
    pub(super) index: usize,
    /// Since the callers have started.
    pub(super) seconds: f64,
    pub(super) lines: &'a [Line],
    /// This moment and those before.
    pub(super) samples: &'a [Sample],
    pub(super) wanted: usize,
    pub(super) ready: usize,
    pub(super) waiting: usize,
    pub(super) calls: &'a CallResults,
    pub(super) usage: Usage,
    /// What has happened.
    pub(super) news: &'a [String],
}

impl Scene<'_> {
    pub(super) fn phase(&self) -> &Phase {
        &PHASES[self.index]
    }

    /// This moment.
    pub(super) fn now(&self) -> Sample {
        self.samples.last().copied().unwrap_or_default()
    }
}

/// What is not as it is in a cloud.
pub(super) fn shortened(pace: &Pace) -> String {
    let [boot, calm, idle] = [pace.boot, pace.calm, pace.idle].map(|time| time.as_secs());
    format!("times are shortened: start {boot} s, drain after {calm} s, stop after {idle} s")
}

/// What the second half of a phase has come to.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Ended {
    pub(super) phase: &'static str,
    /// Calls a second.
    pub(super) offered: f64,
    /// Calls a second that the servers can take, at the end.
    pub(super) capacity: f64,
    /// Servers that take calls, at the end.
    pub(super) ready: usize,
    /// The part of the calls that the first server gets, from 0 to 1; `None` without calls.
    pub(super) share: Option<f64>,
    /// What the first server can take, at the end; `None` where it takes none.
    pub(super) first_capacity: Option<f64>,
    /// In which 95 % of its INVITEs were answered.
    pub(super) first_p95_us: Option<u64>,
}

/// What came of it all.
pub(super) struct Outcome {
    pub(super) ended: Vec<Ended>,
    pub(super) calls: CallResults,
    /// Servers that were started, and stopped again.
    pub(super) started: usize,
    pub(super) stopped: usize,
    pub(super) usage: Usage,
    /// What is missing since somebody has seen enough.
    pub(super) quit: Option<String>,
}
