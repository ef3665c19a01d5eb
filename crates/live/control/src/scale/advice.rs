//! How many servers there should be, where somebody else starts and stops them: the same scaler, with servers that
//! are only thought of and take as long to start as is expected.

use super::fleet::News;
use super::outlook::Outlook;
use super::view::{MemberLoad, PoolView};
use base::Instant;
use elastic::scale::{Decision, ScaleSettings, Scaler, Seen, ServerId, ServerLoad, ServerRow, ServerState};

/// How many servers there should be.
pub struct Advice {
    scaler: Scaler,
    settings: ScaleSettings,
    has_begun: bool,
    /// How many calls come, and what the scaler has said.
    pub outlook: Outlook,
}

impl Advice {
    /// Nothing has been decided yet.
    pub fn new(now: Instant, settings: ScaleSettings) -> Self {
        let scaler = Scaler::new(now, settings.clone());
        Self { scaler, settings, has_begun: false, outlook: Outlook::default() }
    }

    /// Looks at the pool, and says what would be done.
    pub fn step(&mut self, view: &PoolView, out: &mut Vec<News>) {
        let Some(rate) = self.outlook.rate(view.now, view.arrivals) else { return };
        let taking: Vec<_> = view.members.iter().filter(|member| takes(member)).collect();
        if !self.has_begun {
            // As many as there are, so that nothing changes but for a reason.
            self.has_begun = true;
            let ScaleSettings { least, most, .. } = self.settings;
            for id in 0..taking.len().clamp(least, most.max(least)) as u32 {
                self.scaler.adopt(view.now, ServerId(id));
            }
        }
        let each = match taking.len() {
            0 => self.settings.capacity,
            count => self.capacity(view) / count as f64,
        };
        let is_announced = taking.iter().all(|member| member.capacity.is_some());
        let servers: Vec<_> = self.thought_of(view.now, each, is_announced);
        let mut decisions = Vec::new();
        self.scaler.step(view.now, &Seen { rate, servers: &servers }, &mut decisions);
        for decision in decisions {
            self.outlook.note(decision);
            if let Decision::Stop(id) | Decision::GiveUp(id) = decision {
                self.scaler.on_stopped(view.now, id);
            }
            out.push(News::Decided(None, decision));
        }
    }

    /// Those that start are up after the time that a start takes, and none has calls.
    fn thought_of(&mut self, now: Instant, each: f64, is_announced: bool) -> Vec<ServerLoad> {
        let time = self.settings.start.time;
        let is_up = |row: &ServerRow| row.state == ServerState::Starting && now - row.since >= time;
        let up: Vec<_> = self.scaler.rows().filter(is_up).map(|row| row.id).collect();
        for id in up {
            self.scaler.on_started(now, id);
        }
        let capacity = |row: &ServerRow| (row.state == ServerState::Ready).then_some(each);
        let load =
            |row: ServerRow| ServerLoad { id: row.id, capacity: capacity(&row), is_announced, calls: 0 };
        self.scaler.rows().map(load).collect()
    }

    /// As many as there should be.
    pub fn wanted(&self) -> usize {
        let is_wanted = |state| matches!(state, ServerState::Starting | ServerState::Ready);
        self.scaler.rows().filter(|row| is_wanted(row.state)).count()
    }

    /// Calls a second that those carry that take any.
    pub fn capacity(&self, view: &PoolView) -> f64 {
        let of = |member: &MemberLoad| member.capacity.unwrap_or(self.settings.capacity * member.weight);
        // The sum of no floats is -0.0.
        view.members.iter().filter(|member| takes(member)).map(of).sum::<f64>() + 0.0
    }

    /// The rate of arrivals, smoothed.
    pub fn rate(&self) -> f64 {
        self.scaler.rate()
    }

    /// What it decides by.
    pub fn settings(&self) -> &ScaleSettings {
        &self.settings
    }
}

fn takes(member: &MemberLoad) -> bool {
    member.is_up && !member.drains.is_any()
}
