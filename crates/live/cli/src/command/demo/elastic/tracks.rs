//! Recent samples, for rates, curves and the results of each phase.

use super::cluster::{DISTURBED, name};
use super::news::News;
use super::scene::{Ended, Line, Moment, Sample, Scene, Usage, shown};
use super::story::{PHASES, Story};
use crate::picture::Rate;
use load::CallResults;
use server::figures::MemberView;
use std::collections::VecDeque;

/// Time over which percentiles are computed, in seconds: two windows of the estimators.
const TIMES_OVER: f64 = 2.0;

/// Samples of earlier moments.
pub(super) struct Tracks<'a> {
    story: &'a Story,
    offered: Rate,
    servers: Vec<Track>,
    lines: Vec<Line>,
    samples: Vec<Sample>,
    usage: Usage,
    pub(super) news: News,
    /// Figures at the middle of the present phase.
    middle: Option<Middle>,
    pub(super) ended: Vec<Ended>,
    wanted: usize,
    ready: usize,
    waiting: usize,
    calls: CallResults,
}

/// Samples of one server.
#[derive(Default)]
struct Track {
    assigned: Rate,
    /// Samples by seconds, as far back as percentiles need.
    members: VecDeque<(f64, MemberView)>,
}

/// Counts at the middle of a phase.
struct Middle {
    seconds: f64,
    started: u64,
    assigned: Vec<u64>,
    first: MemberView,
}

impl<'a> Tracks<'a> {
    pub(super) fn new(story: &'a Story) -> Self {
        Self {
            story,
            offered: Rate::default(),
            servers: Vec::new(),
            lines: Vec::new(),
            samples: Vec::new(),
            usage: Usage::default(),
            news: News::default(),
            middle: None,
            ended: Vec::new(),
            wanted: 0,
            ready: 0,
            waiting: 0,
            calls: CallResults::default(),
        }
    }

    /// Adds a moment.
    pub(super) fn see(&mut self, seconds: f64, moment: Moment, calls: CallResults, has_neighbour: bool) {
        self.end_phases(seconds, &moment, &calls);
        let running = moment.running();
        self.usage.server_seconds += running as f64 * (seconds - self.usage.seconds);
        self.usage = Usage { most: self.usage.most.max(running), seconds, ..self.usage };
        let offered = self.offered.sample(seconds, calls.calls_started);
        self.samples.push(Sample { seconds, offered, capacity: moment.capacity, running });
        (self.wanted, self.ready, self.waiting) = (moment.wanted, moment.ready(), moment.waiting);
        self.servers.resize_with(moment.servers.len(), Track::default);
        self.lines.clear();
        for (index, (track, seen)) in self.servers.iter_mut().zip(moment.servers).enumerate() {
            let member = &seen.member;
            self.lines.push(Line {
                name: name(index),
                state: shown(&seen.state).to_owned(),
                capacity: (seen.state == "ready").then_some(seen.announced),
                calls_per_second: track.assigned.sample(seconds, member.assigned_total),
                calls: member.calls,
                p95_us: track.p95_us(seconds, seen.member),
                has_neighbour: has_neighbour && index == DISTURBED,
            });
        }
        self.news.see(seconds, &self.lines, moment.cluster_latency);
        self.calls = calls;
    }

    /// Adds the results of phases that are over: the difference between their middle and now.
    fn end_phases(&mut self, seconds: f64, moment: &Moment, calls: &CallResults) {
        let assigned = || moment.servers.iter().map(|server| server.member.assigned_total);
        let first = &moment.servers[DISTURBED];
        let index = self.ended.len();
        if index == PHASES.len() {
            return;
        }
        if self.middle.is_none() && seconds >= self.story.middle(index) {
            let (started, first) = (calls.calls_started, first.member.clone());
            self.middle = Some(Middle { seconds, started, assigned: assigned().collect(), first });
        }
        if self.story.over(seconds) <= index {
            return;
        }
        let Some(middle) = self.middle.take() else { return };
        let gained: Vec<u64> =
            assigned().zip(&middle.assigned).map(|(now, before)| now.saturating_sub(*before)).collect();
        let all: u64 = gained.iter().sum();
        self.ended.push(Ended {
            phase: PHASES[index].name,
            offered: (calls.calls_started - middle.started) as f64 / (seconds - middle.seconds).max(1e-3),
            capacity: moment.capacity,
            ready: moment.ready(),
            share: (all > 0).then(|| gained[DISTURBED] as f64 / all as f64),
            first_capacity: (first.state == "ready").then_some(first.announced),
            first_p95_us: p95_us(&first.member, &middle.first),
        });
    }

    /// The last moment.
    pub(super) fn scene(&self) -> Scene<'_> {
        Scene {
            story: self.story,
            index: self.story.over(self.usage.seconds).min(PHASES.len() - 1),
            seconds: self.usage.seconds,
            lines: &self.lines,
            samples: &self.samples,
            wanted: self.wanted,
            ready: self.ready,
            waiting: self.waiting,
            calls: &self.calls,
            usage: self.usage,
            news: self.news.lines(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }
}

impl Track {
    fn p95_us(&mut self, seconds: f64, member: MemberView) -> Option<u64> {
        self.members.push_back((seconds, member));
        while self.members.get(1).is_some_and(|next| seconds - next.0 >= TIMES_OVER) {
            self.members.pop_front();
        }
        let (_, first) = self.members.front()?;
        let (_, last) = self.members.back()?;
        p95_us(last, first)
    }
}

/// Time within which 95 % of the INVITEs between two reports were answered; `None` without INVITEs. These servers do
/// not ring, so the 200 is the first response.
fn p95_us<'m>(now: &'m MemberView, before: &'m MemberView) -> Option<u64> {
    let of = |member: &'m MemberView| Some(&member.stats.as_ref()?.histograms.as_ref()?.invite_micros);
    let mut times = of(now)?.clone();
    // Counts of a member only grow, so the earlier ones can be subtracted.
    if let Some(before) = of(before) {
        times.subtract(before).ok()?;
    }
    (!times.is_empty()).then(|| times.value_at_quantile(0.95))
}
