//! How many servers there should be, where somebody else starts and stops them: the same scaler, with servers that
//! are only thought of and take as long to start as is expected.

use super::fleet::News;
use super::outlook::Outlook;
use super::view::PoolView;
use base::Instant;
use elastic::scale::{Decision, ScaleSettings, ServerId, ServerLoad, ServerRow, ServerState};

/// How many servers there should be.
pub struct Advice {
    has_begun: bool,
    /// The scaler, and what it has said.
    pub outlook: Outlook,
}

impl Advice {
    /// Nothing has been decided yet.
    pub fn new(now: Instant, settings: ScaleSettings) -> Self {
        Self { has_begun: false, outlook: Outlook::new(now, settings) }
    }

    /// Looks at the pool, and says what would be done.
    pub fn step(&mut self, view: &PoolView, out: &mut Vec<News>) {
        let Some(rate) = self.outlook.rate(view.now, view.arrivals) else { return };
        let count = view.taking().count();
        if !self.has_begun {
            // As many as there are, so that nothing changes but for a reason.
            self.has_begun = true;
            let ScaleSettings { least, most, .. } = self.outlook.settings;
            for id in 0..count.clamp(least, most.max(least)) as u32 {
                self.outlook.scaler.adopt(view.now, ServerId(id));
            }
        }
        let each = match count {
            0 => self.outlook.settings.capacity,
            count => self.outlook.capacity(view) / count as f64,
        };
        let is_announced = view.taking().all(|member| member.capacity.is_some());
        let servers = self.thought_of(view.now, each, is_announced);
        for decision in self.outlook.decide(view.now, rate, &servers) {
            if let Decision::Stop(id) | Decision::GiveUp(id) = decision {
                self.outlook.scaler.on_stopped(view.now, id);
            }
            out.push(News::Decided(None, decision));
        }
    }

    /// Those that start are up after the time that a start takes, and none has calls.
    fn thought_of(&mut self, now: Instant, each: f64, is_announced: bool) -> Vec<ServerLoad> {
        let time = self.outlook.settings.start.time;
        let is_up = |row: &ServerRow| row.state == ServerState::Starting && now - row.since >= time;
        let up: Vec<_> = self.outlook.scaler.rows().filter(is_up).map(|row| row.id).collect();
        for id in up {
            self.outlook.scaler.on_started(now, id);
        }
        let capacity = |row: &ServerRow| (row.state == ServerState::Ready).then_some(each);
        let load =
            |row: ServerRow| ServerLoad { id: row.id, capacity: capacity(&row), is_announced, calls: 0 };
        self.outlook.scaler.rows().map(load).collect()
    }
}
