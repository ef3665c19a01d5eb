//! Changes and faults in the course of a scenario.

use config::scenario::{FaultKind, HostFault, LinkFaults, Scenario, Stream};
use core::time::Duration;

/// Maximum of load steps that a plot names. With more steps, the curve of the offered calls is enough.
const STEPS_MAX: usize = 8;

/// Returns the changes within the run with their times, in order of time.
pub(super) fn events(scenario: &Scenario) -> Vec<(Duration, String)> {
    let mut events = Vec::new();
    for stream in scenario.streams.iter().filter(|stream| stream.load.len() <= STEPS_MAX) {
        steps(stream, &mut events);
    }
    for fault in &scenario.faults {
        of_fault(scenario, fault, &mut events);
    }
    for rule in scenario.links.iter().filter(|link| !what(link).is_empty()) {
        of_link(scenario, rule, &mut events);
    }
    events.retain(|(at, _)| *at > Duration::ZERO && *at < scenario.run.duration);
    // The sort is stable: events of the same time stay in the order of the file.
    events.sort_by_key(|(at, _)| *at);
    events
}

/// Whether the conditions of the run change after the warm-up.
pub(super) fn change_after_warm_up(scenario: &Scenario) -> bool {
    let from = scenario.run.warm_up;
    let ramps = |stream: &Stream| stream.load.iter().any(|step| step.at > from);
    scenario.streams.iter().any(ramps) || events(scenario).iter().any(|(at, _)| *at > from)
}

fn steps(stream: &Stream, events: &mut Vec<(Duration, String)>) {
    for step in &stream.load {
        let from = if step.ramp { "from " } else { "" };
        events.push((step.at, format!("{}: {from}{} calls/s", stream.name, step.rate)));
    }
}

fn of_fault(scenario: &Scenario, fault: &HostFault, events: &mut Vec<(Duration, String)>) {
    let name = scenario.groups[fault.group].host_name(fault.host);
    match fault.kind {
        FaultKind::Restart(length) => {
            events.push((fault.at, format!("{name} fails")));
            events.push((fault.at + length, format!("{name} is back")));
        }
        FaultKind::Stall(length) => {
            events.push((fault.at, format!("{name} stalls")));
            events.push((fault.at + length, format!("{name} goes on")));
        }
        FaultKind::Failing(share) => {
            events.push((fault.at, format!("{name} fails {} % of its calls", (share * 1e4).round() / 1e2)));
        }
        FaultKind::Slowdown(share) => {
            events.push((fault.at, format!("{name} at {} %", (share * 1e4).round() / 1e2)));
        }
        FaultKind::Card(share) => {
            events.push((fault.at, format!("card of {name} at {} %", (share * 1e4).round() / 1e2)));
        }
    }
}

/// Adds a short text that fits into a legend; [`impairment`] has the details.
fn of_link(scenario: &Scenario, link: &LinkFaults, events: &mut Vec<(Duration, String)>) {
    let between = between(scenario, link);
    let what = if link.loss >= 1.0 { "cut" } else { "impaired" };
    events.push((link.since, format!("{between} {what}")));
    events.push((link.until, format!("{between} restored")));
}

fn between(scenario: &Scenario, link: &LinkFaults) -> String {
    let name = |group: Option<usize>| group.map_or("agents", |group| &scenario.groups[group].name);
    format!("{}-{}", name(link.from), name(link.to))
}

/// Describes the effects of a link and their time, as a sentence; `None` if it has no effect.
pub(super) fn impairment(scenario: &Scenario, link: &LinkFaults) -> Option<String> {
    let what = what(link);
    let (between, since, until) = (between(scenario, link), link.since, link.until);
    (!what.is_empty()).then(|| format!("Link {between} from {since:?} to {until:?}: {}.", what.join(", ")))
}

/// Describes the effects of a link on messages.
fn what(link: &LinkFaults) -> Vec<String> {
    let mut what = Vec::new();
    for (share, word) in
        [(link.loss, "loss"), (link.duplication, "duplication"), (link.reordering, "reordering")]
    {
        if share > 0.0 {
            what.push(format!("{word} {} %", (share * 1e4).round() / 1e2));
        }
    }
    for (time, word) in [(link.delay, "delay"), (link.jitter, "jitter")] {
        if !time.is_zero() {
            what.push(format!("{word} {time:?}"));
        }
    }
    what
}
