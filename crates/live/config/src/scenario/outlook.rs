//! Load of the hosts of a scenario before it is simulated, to find mistakes in a rate or capacity.

use std::fmt;
use std::time::Duration;

use super::typed::{Group, Scenario, Stream};
use load::RateStep;

/// A scenario in one line.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioOutlook {
    /// Hosts of all groups.
    pub hosts: usize,
    /// Streams of calls.
    pub streams: usize,
    /// Largest total rate of all streams at one time, in calls a second.
    pub rate: f64,
    /// Name of each group with a capacity, and the largest share of it that calls need. Above 1 the group is overloaded
    /// even without retransmissions. Faults, stalls and background work are ignored.
    pub groups: Vec<(String, f64)>,
}

impl Scenario {
    /// Returns the load of the hosts at the peak.
    pub fn outlook(&self) -> ScenarioOutlook {
        let groups = self.groups.iter().enumerate().filter(|(_, group)| !group.capacities.is_empty());
        let busy = |(index, group): (usize, &Group)| {
            // Calls pass a host, or are looked up in it for a host that they pass.
            let is_used = |at: &&usize| **at == index || self.groups[**at].database == Some(index);
            let passes = |stream: &Stream| stream.path.iter().filter(is_used).count() as f64;
            (group.name.clone(), self.peak(passes) / group.capacities.iter().sum::<f64>())
        };
        ScenarioOutlook {
            hosts: self.groups.iter().map(|group| usize::from(group.count)).sum(),
            streams: self.streams.len(),
            rate: self.peak(|_| 1.0),
            groups: groups.map(busy).collect(),
        }
    }

    /// Largest sum of all rates, each multiplied by the weight of its stream. Rates change direction only at steps, so
    /// the maximum is at a step, or just before it.
    fn peak(&self, weight: impl Fn(&Stream) -> f64) -> f64 {
        let sum = |rate: fn(&[RateStep], Duration) -> f64, at| {
            self.streams.iter().map(|stream| weight(stream) * rate(&stream.load, at)).sum::<f64>()
        };
        let instants = self.streams.iter().flat_map(|stream| &stream.load).map(|step| step.at);
        instants
            .chain([self.run.duration])
            .flat_map(|at| [sum(rate, at), sum(rate_before, at)])
            .fold(0.0, f64::max)
    }
}

/// Calls a second from `at` on.
fn rate(load: &[RateStep], at: Duration) -> f64 {
    along(load, load.partition_point(|step| step.at <= at), at)
}

/// Calls a second just before `at`.
fn rate_before(load: &[RateStep], at: Duration) -> f64 {
    along(load, load.partition_point(|step| step.at < at), at)
}

/// The rate at `at`, between the step before `next` and `next`.
fn along(load: &[RateStep], next: usize, at: Duration) -> f64 {
    let Some(step) = next.checked_sub(1).map(|last| load[last]) else { return 0.0 };
    match load.get(next).filter(|_| step.ramp) {
        Some(goal) => {
            let part = at.saturating_sub(step.at).div_duration_f64(goal.at.saturating_sub(step.at));
            step.rate + part * (goal.rate - step.rate)
        }
        None => step.rate,
    }
}

impl fmt::Display for ScenarioOutlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count| if count == 1 { "" } else { "s" };
        write!(f, "{} host{}, ", self.hosts, plural(self.hosts))?;
        write!(f, "{} stream{}, at most {} calls/s", self.streams, plural(self.streams), round(self.rate))?;
        for (index, (name, load)) in self.groups.iter().enumerate() {
            let lead = if index == 0 { ": " } else { ", " };
            let of = if index == 0 { " of its capacity" } else { "" };
            write!(f, "{lead}{name} at {:.0} %{of}", load * 100.0)?;
        }
        Ok(())
    }
}

/// Rounds to one digit after the point.
fn round(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook(second: &str) -> ScenarioOutlook {
        let text = format!(
            "[host.edge]\ncapacity = [100, 60]\n[host.core]\ncapacity = 160\n[host.free]\ncapacity = \"unlimited\"\n\
             [calls.a]\npath = [\"edge\", \"core\", \"edge\"]\nload = [{{ at = \"0s\", rate = 40, ramp = true }}, \
             {{ at = \"100s\", rate = 100 }}]\n[calls.b]\npath = [\"core\", \"free\"]\n{second}"
        );
        super::super::parse(&text, "a.toml").unwrap().outlook()
    }

    #[test]
    fn the_peak_of_all_streams_is_found_at_any_time() {
        // At the end of the ramp, and within it, just before the second stream ends.
        let peak = |second| outlook(second).rate.round() as u32;
        assert_eq!(peak("rate = 10"), 110);
        assert_eq!(peak("load = [{ at = \"20s\", rate = 80 }, { at = \"30s\", rate = 0 }]"), 138);
        let ramps = "load = [{ at = \"0s\", rate = 90, ramp = true }, { at = \"50s\", rate = 0 }]";
        assert_eq!(peak(ramps), 130);
    }

    #[test]
    fn a_database_has_the_calls_of_its_hosts() {
        let text = "[host.edge]\ncapacity = 100\ndatabase = \"users\"\n[host.core]\ncapacity = 100\n\
                    [host.users]\nrole = \"database\"\ncapacity = 200\n\
                    [calls.a]\npath = [\"edge\", \"core\", \"edge\"]\nrate = 25";
        let outlook = super::super::parse(text, "a.toml").unwrap().outlook();
        assert_eq!(outlook.groups[2], ("users".to_owned(), 0.25));
    }

    #[test]
    fn a_host_counts_each_time_on_a_path_unless_its_capacity_is_unlimited() {
        let outlook = outlook("rate = 60");
        assert_eq!(outlook.hosts, 4);
        assert_eq!(outlook.groups, [("edge".to_owned(), 1.25), ("core".to_owned(), 1.0)]);
        assert_eq!(
            outlook.to_string(),
            "4 hosts, 2 streams, at most 160 calls/s: edge at 125 % of its capacity, core at 100 %"
        );
    }
}
