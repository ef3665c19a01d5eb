//! Events of the demo as sentences: states of the servers, and the capacity of the server with a neighbour.

use super::cluster::{DISTURBED, name};
use super::scene::{Line, STOPPED};
use crate::command::demo::neighbour::SHARE;

/// Share of the earlier capacity below which a server is reported as fallen: at least one cut of the estimate. Above
/// `BACK` it has recovered.
const FALLEN: f64 = 0.9;
const BACK: f64 = 0.75;

/// Events so far.
#[derive(Default)]
pub(super) struct News {
    lines: Vec<String>,
    /// Last known states of the servers.
    states: Vec<String>,
    neighbour: bool,
    /// Capacity of the disturbed server before the neighbour came, while it is needed.
    before: Option<f64>,
    has_fallen: bool,
    cluster_latency: bool,
    pub(super) started: usize,
    pub(super) stopped: usize,
}

impl News {
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    fn add(&mut self, seconds: f64, text: &str) {
        self.lines.push(format!("{seconds:5.1} s  {text}"));
    }

    /// Adds the events of a moment.
    pub(super) fn see(&mut self, seconds: f64, lines: &[Line], cluster_latency: bool) {
        self.see_neighbour(seconds, &lines[DISTURBED]);
        self.states.resize(lines.len(), STOPPED.to_owned());
        for (index, line) in lines.iter().enumerate() {
            let before = std::mem::replace(&mut self.states[index], line.state.clone());
            if before != line.state {
                self.see_state(seconds, line, &before);
            }
        }
        if cluster_latency != self.cluster_latency {
            self.cluster_latency = cluster_latency;
            let text = if cluster_latency {
                "most servers carry much less than usual: no server is removed meanwhile"
            } else {
                "most servers carry their usual load again"
            };
            self.add(seconds, text);
        }
    }

    fn see_state(&mut self, seconds: f64, line: &Line, before: &str) {
        let name = &line.name;
        let text = match (before, &*line.state) {
            (STOPPED, "starting") => {
                self.started += 1;
                format!("{name} is started")
            }
            (STOPPED, "ready") => {
                self.started += 1;
                format!("{name} is started, and takes calls")
            }
            ("draining", "ready") => format!("{name} gets new calls again"),
            (_, "ready") => format!("{name} takes calls"),
            (_, "draining") => {
                format!("{name} is drained: it gets no new calls, and {} remain", line.calls)
            }
            ("draining" | "stopping", STOPPED) => {
                self.stopped += 1;
                format!("{name} is stopped: it had no calls left")
            }
            (_, STOPPED) => format!("{name} is lost"),
            // A drained server is stopped a moment later.
            _ => return,
        };
        self.add(seconds, &text);
    }

    fn see_neighbour(&mut self, seconds: f64, line: &Line) {
        let (name, share) = (name(DISTURBED), 100.0 * SHARE);
        if line.has_neighbour != self.neighbour {
            self.neighbour = line.has_neighbour;
            if line.has_neighbour {
                (self.before, self.has_fallen) = (line.capacity, false);
                self.add(seconds, &format!("a neighbour takes {share:.0} % of {name}'s processor"));
            } else {
                self.add(seconds, &format!("the neighbour of {name} is gone"));
            }
        }
        let Some((before, now)) = self.before.zip(line.capacity) else { return };
        let gets = line.calls_per_second;
        if !self.has_fallen && now < FALLEN * before {
            self.has_fallen = true;
            let text = format!(
                "{name} answers late: it gets {gets:.0} calls/s, and can take {now:.0}, not {before:.0}"
            );
            self.add(seconds, &text);
        } else if self.has_fallen && !line.has_neighbour && now > BACK * before {
            self.before = None;
            let text = format!("{name} answers in time: it gets {gets:.0} calls/s, and can take {now:.0}");
            self.add(seconds, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(state: &str, capacity: f64, has_neighbour: bool) -> Line {
        Line {
            name: name(DISTURBED),
            state: state.to_owned(),
            capacity: Some(capacity),
            calls_per_second: 9.0,
            calls: 7,
            p95_us: None,
            has_neighbour,
        }
    }

    #[test]
    fn each_change_is_printed_once() {
        let mut news = News::default();
        let moments = [
            ("stopped", 50.0, false),
            ("starting", 50.0, false),
            ("ready", 50.0, false),
            ("ready", 60.0, true),
            ("ready", 57.0, true),
            ("ready", 42.0, true),
            ("ready", 20.0, true),
            ("ready", 40.0, false),
            ("ready", 50.0, false),
            ("ready", 20.0, false),
            ("draining", 20.0, false),
            ("stopping", 20.0, false),
            ("stopped", 20.0, false),
        ];
        for (second, (state, capacity, has_neighbour)) in moments.into_iter().enumerate() {
            for fraction in [0.0, 0.5] {
                news.see(second as f64 + fraction, &[line(state, capacity, has_neighbour)], false);
            }
        }
        let lines = [
            "  1.0 s  pbx-1 is started",
            "  2.0 s  pbx-1 takes calls",
            "  3.0 s  a neighbour takes 85 % of pbx-1's processor",
            "  5.0 s  pbx-1 answers late: it gets 9 calls/s, and can take 42, not 60",
            "  7.0 s  the neighbour of pbx-1 is gone",
            "  8.0 s  pbx-1 answers in time: it gets 9 calls/s, and can take 50",
            " 10.0 s  pbx-1 is drained: it gets no new calls, and 7 remain",
            " 12.0 s  pbx-1 is stopped: it had no calls left",
        ];
        assert_eq!(news.lines(), lines);
        assert_eq!((news.started, news.stopped), (1, 1));
    }
}
