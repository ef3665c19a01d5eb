//! Recommended number of servers for a pool whose servers are started and stopped by other means. It uses the same
//! scaler with imaginary servers, which take the expected time to start.

use super::fleet::News;
use super::outlook::ScalerOutlook;
use super::view::PoolView;
use base::Instant;
use elastic::scale::{ScaleSettings, ScalingDecision, ServerId, ServerLoad, ServerRow, ServerState};

/// Recommends a number of servers.
pub struct Advice {
    has_begun: bool,
    /// The scaler and its figures.
    pub outlook: ScalerOutlook,
}

impl Advice {
    /// Creates advice without any decision yet.
    pub fn new(now: Instant, settings: ScaleSettings) -> Self {
        Self { has_begun: false, outlook: ScalerOutlook::new(now, settings) }
    }

    /// Observes the pool and appends the decisions that would be made.
    pub fn step(&mut self, view: &PoolView, out: &mut Vec<News>) {
        let Some(rate) = self.outlook.rate(view.now, view.arrivals) else { return };
        let count = view.taking().count();
        if !self.has_begun {
            // Starts with the present number of servers, so that nothing changes without a reason.
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
        let servers = self.imaginary_loads(view.now, each, is_announced);
        for decision in self.outlook.decide(view.now, rate, &servers) {
            if let ScalingDecision::Stop(id) | ScalingDecision::GiveUp(id) = decision {
                self.outlook.scaler.on_stopped(view.now, id);
            }
            out.push(News::Decided(None, decision));
        }
    }

    /// Returns the load of the imaginary servers. A server is up after the expected start time, and has no calls.
    fn imaginary_loads(&mut self, now: Instant, each: f64, is_announced: bool) -> Vec<ServerLoad> {
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
