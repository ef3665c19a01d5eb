use super::stage::CAST;
use server::MemberReport;
use std::collections::VecDeque;

/// Samples that are kept of each server.
pub(super) const HISTORY: usize = 24;
/// Samples that a rate is taken over: a second's.
const RATE_SAMPLES: usize = 5;

/// What is shown of a server.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) slowdown: f64,
    pub(super) state: String,
    pub(super) calls: u32,
    pub(super) transactions: u32,
    /// Work left, in BYEs.
    pub(super) work: f64,
    /// The same of the last samples, the newest at the end.
    pub(super) history: VecDeque<f64>,
    /// New calls a second, lately.
    pub(super) calls_per_second: f64,
    pub(super) invite_p50_us: u64,
    pub(super) invite_p99_us: u64,
}

/// Past samples of the servers, for rates and curves.
#[derive(Default)]
pub(super) struct Tracks {
    /// Seconds, and the calls assigned to each server until then.
    assigned: VecDeque<(f64, Vec<u64>)>,
    work: Vec<VecDeque<f64>>,
}

impl Tracks {
    /// Takes a sample; `members` are in the order of the cast.
    pub(super) fn sample(&mut self, seconds: f64, members: &[MemberReport]) -> Vec<Line> {
        self.work.resize_with(members.len(), VecDeque::new);
        let assigned: Vec<_> = members.iter().map(|member| member.stats.assigned).collect();
        self.assigned.push_back((seconds, assigned));
        if self.assigned.len() > RATE_SAMPLES + 1 {
            self.assigned.pop_front();
        }
        members.iter().enumerate().map(|(index, member)| self.line(index, member)).collect()
    }

    fn line(&mut self, index: usize, member: &MemberReport) -> Line {
        let work = member.shown.work;
        let history = &mut self.work[index];
        history.push_back(work);
        if history.len() > HISTORY {
            history.pop_front();
        }
        let invite = &member.stats.invite_micros;
        Line {
            name: CAST[index].name,
            slowdown: CAST[index].slowdown,
            state: member.shown.state.clone(),
            calls: member.shown.calls,
            transactions: member.shown.transactions,
            work,
            history: history.clone(),
            calls_per_second: self.calls_per_second(index),
            invite_p50_us: invite.value_at_percentile(50.0),
            invite_p99_us: invite.value_at_percentile(99.0),
        }
    }

    fn calls_per_second(&self, index: usize) -> f64 {
        let sample = |sample: &(f64, Vec<u64>)| (sample.0, sample.1[index]);
        match (self.assigned.front(), self.assigned.back()) {
            (Some(first), Some(last)) => rate(sample(first), sample(last)),
            _ => 0.0,
        }
    }
}

/// Increase a second from one sample to another.
fn rate(from: (f64, u64), until: (f64, u64)) -> f64 {
    if until.0 > from.0 { (until.1 - from.1) as f64 / (until.0 - from.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_two_samples() {
        assert!((rate((1.0, 100), (1.4, 160)) - 150.0).abs() < 1e-6);
        assert!(rate((1.0, 100), (1.0, 100)).abs() < 1e-6);
    }
}
