//! Recent samples of the members, for rates and curves.

use server::figures::{MemberView, PeerText};
use std::collections::{BTreeMap, VecDeque};

/// Samples that are kept of each member.
pub(crate) const HISTORY: usize = 24;
/// Time over which a rate is computed, in seconds.
const RATE_OVER: f64 = 1.0;

/// The past of one member.
#[derive(Clone, Default)]
pub(crate) struct Past {
    /// Work left at the last samples, the newest at the end.
    pub(crate) work: VecDeque<f64>,
    /// Recent rate of new calls a second.
    pub(crate) calls_per_second: f64,
}

/// The past of all members.
#[derive(Default)]
pub(crate) struct Tracks(BTreeMap<PeerText, Track>);

#[derive(Default)]
struct Track {
    work: VecDeque<f64>,
    assigned: Rate,
}

impl Tracks {
    /// Takes a sample, and drops members that are not in it. Returns the past of each member, in their order.
    pub(crate) fn sample(&mut self, seconds: f64, members: &[MemberView]) -> Vec<Past> {
        self.0.retain(|address, _| members.iter().any(|member| member.address == *address));
        members
            .iter()
            .map(|member| self.0.entry(member.address).or_default().sample(seconds, member))
            .collect()
    }
}

impl Track {
    fn sample(&mut self, seconds: f64, member: &MemberView) -> Past {
        self.work.push_back(member.work);
        if self.work.len() > HISTORY {
            self.work.pop_front();
        }
        Past {
            work: self.work.clone(),
            calls_per_second: self.assigned.sample(seconds, member.assigned_total),
        }
    }
}

/// Growth of a counter: seconds and counts, back to the last sample that is old enough for a rate.
#[derive(Default)]
pub(crate) struct Rate(VecDeque<(f64, u64)>);

impl Rate {
    /// Takes a sample. Returns the recent increase a second; 0 with a single sample.
    pub(crate) fn sample(&mut self, seconds: f64, count: u64) -> f64 {
        // Another process counts from 0.
        if self.0.back().is_some_and(|last| last.1 > count) {
            self.0.clear();
        }
        self.0.push_back((seconds, count));
        while self.0.get(1).is_some_and(|next| seconds - next.0 >= RATE_OVER) {
            self.0.pop_front();
        }
        let (since, before) = self.0[0];
        if seconds > since { (count - before) as f64 / (seconds - since) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::status::tests::member;
    use serde_json::json;

    #[test]
    fn rates_are_of_the_last_second_and_survive_a_restart() {
        let mut tracks = Tracks::default();
        let mut rate = |seconds: f64, assigned: u64| {
            let more = json!({ "assigned_total": assigned, "work": 1.5 });
            tracks.sample(seconds, &[member("10.0.0.1:5060", "up", &more)])[0].calls_per_second
        };
        assert!(rate(0.0, 1_000).abs() < 1e-9);
        for tenth in 1..=20 {
            assert!((rate(f64::from(tenth) * 0.1, 1_000 + tenth as u64) - 10.0).abs() < 1e-6);
        }
        assert!((rate(2.5, 1_120) - 105.0).abs() < 1e-6, "since 1.5 s, when it was 1,015");
        assert!(rate(3.0, 5).abs() < 1e-9, "the counter restarted");
        assert!((rate(4.0, 25) - 20.0).abs() < 1e-6);
    }

    #[test]
    fn the_past_of_a_removed_member_is_dropped() {
        let mut tracks = Tracks::default();
        let members = ["10.0.0.1:5060", "10.0.0.2:5060"].map(|address| member(address, "up", &json!({})));
        for second in 0..30 {
            tracks.sample(f64::from(second), &members);
        }
        let past = tracks.sample(30.0, &members[1..]);
        assert_eq!((past.len(), past[0].work.len()), (1, HISTORY));
        assert_eq!(tracks.sample(31.0, &members)[0].work.len(), 1);
    }
}
