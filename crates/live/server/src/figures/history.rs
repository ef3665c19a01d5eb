//! Curves of the last ten minutes: one point every two seconds, kept by the process, so that the page shows them at once.

use super::View;
use super::metric::figures;
use balance::TimeSum;
use control::ListedMember;
use shards::AllShards;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time between two points.
pub(crate) const STEP: Duration = Duration::from_secs(2);
/// Points that are kept: ten minutes of them.
const POINTS: usize = 300;
/// Most members with a curve each. With more members a pool has three curves: the highest, mean and lowest load.
const MEMBERS_MOST: usize = 12;
/// Most curves of a kind: it bounds the memory.
const CURVES_MOST: usize = 64;

figures! {
    /// `GET /api/history`: curves of the last ten minutes.
    HistoryView as "History" {
        /// Unix time of each point in seconds.
        times: Vec<f64>,
        /// New requests a second, by pool: those assigned to its members. `all`: those that reached this process.
        requests: Vec<CurveView>,
        /// Mean time until the 2xx in milliseconds, by pool and method.
        response_ms: Vec<CurveView>,
        /// Requests a second that this process refused, by status and reason phrase.
        refusals: Vec<CurveView>,
        /// Calls in progress, by member. With many members the highest, mean and lowest number, by pool.
        calls: Vec<CurveView>,
    }
}

figures! {
    /// One curve.
    CurveView as "Curve" {
        /// Pool, member or reason.
        name: String,
        /// One value for each point; `null` if there was none.
        values: Vec<Option<f64>>,
    }
}

/// Kind of a curve, in the order of the fields of [`HistoryView`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Requests,
    Response,
    Refusals,
    Calls,
}

/// Present state of a curve.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// The value of the curve.
    Level(f64),
    /// A counter, of which the curve shows the increase a second.
    Count(u64),
    /// Response times, of which the curve shows the mean since the last point.
    Times(TimeSum),
}

/// Readings of all curves at one moment.
pub(crate) type Sample = BTreeMap<(Kind, String), Reading>;

/// Reads all curves.
pub(crate) fn sample(view: &View, shards: AllShards<'_>) -> Sample {
    let mut sample = Sample::new();
    let members: Vec<_> = view.members.iter().filter(|member| member.node.member).collect();
    let calls = |member: &ListedMember| f64::from(shards.load(member).calls);
    let shows_each = members.len() <= MEMBERS_MOST;
    if shows_each {
        let each = members.iter().map(|member| ((Kind::Calls, member.peer.to_string()), calls(member)));
        sample.extend(each.map(|(key, calls)| (key, Reading::Level(calls))));
    }
    for pool in &view.pools {
        let members: Vec<_> = members.iter().filter(|member| member.pools.contains(&pool.id)).collect();
        let (mut assigned, mut invites, mut byes) = (0, TimeSum::default(), TimeSum::default());
        for totals in members.iter().map(|member| shards.totals(member)) {
            assigned += totals.assigned;
            invites += totals.invites;
            byes += totals.byes;
        }
        let name = &pool.name;
        sample.insert((Kind::Requests, name.clone()), Reading::Count(assigned));
        sample.insert((Kind::Response, format!("{name} INVITE")), Reading::Times(invites));
        sample.insert((Kind::Response, format!("{name} BYE")), Reading::Times(byes));
        let loads = || members.iter().map(|member| calls(member));
        if let (false, Some(most), Some(least)) =
            (shows_each, loads().reduce(f64::max), loads().reduce(f64::min))
        {
            let mean = loads().sum::<f64>() / members.len() as f64;
            for (which, value) in [("highest", most), ("mean", mean), ("lowest", least)] {
                sample.insert((Kind::Calls, format!("{name} {which}")), Reading::Level(value));
            }
        }
    }
    if let Some(overload) = shards.overload() {
        let all = overload.usual.offered + overload.priority.offered;
        sample.insert((Kind::Requests, "all".to_owned()), Reading::Count(all));
    }
    for (reason, count) in shards.refused() {
        sample.insert((Kind::Refusals, reason), Reading::Count(count));
    }
    sample
}

/// Curves of the last ten minutes.
#[derive(Debug, Default)]
pub(crate) struct History {
    times: VecDeque<f64>,
    curves: BTreeMap<(Kind, String), VecDeque<Option<f64>>>,
    /// The last sample with its time.
    last: Option<(f64, Sample)>,
}

impl History {
    /// Adds a point at this Unix time.
    pub(crate) fn add(&mut self, at: f64, sample: Sample) {
        if let Some((before, last)) = &self.last {
            let mut values: BTreeMap<_, _> = sample
                .iter()
                .map(|(key, now)| (key, value(*now, last.get(key).copied(), at - before)))
                .collect();
            for (key, curve) in &mut self.curves {
                curve.push_back(values.remove(key).flatten());
            }
            for (key, value) in values {
                let of_kind = self.curves.keys().filter(|(kind, _)| *kind == key.0).count();
                if value.is_some() && of_kind < CURVES_MOST {
                    let mut curve: VecDeque<_> = self.times.iter().map(|_| None).collect();
                    curve.push_back(value);
                    self.curves.insert(key.clone(), curve);
                }
            }
            self.times.push_back(at);
            if self.times.len() > POINTS {
                self.times.pop_front();
                for curve in self.curves.values_mut() {
                    curve.pop_front();
                }
            }
            self.curves.retain(|_, curve| curve.iter().any(Option::is_some));
        }
        self.last = Some((at, sample));
    }

    /// Returns all curves.
    pub(crate) fn view(&self) -> HistoryView {
        let curves = |wanted| {
            let of_kind = self.curves.iter().filter(|((kind, _), _)| *kind == wanted);
            of_kind
                .map(|((_, name), values)| CurveView {
                    name: name.clone(),
                    values: values.iter().copied().collect(),
                })
                .collect()
        };
        HistoryView {
            times: self.times.iter().copied().collect(),
            requests: curves(Kind::Requests),
            response_ms: curves(Kind::Response),
            refusals: curves(Kind::Refusals),
            calls: curves(Kind::Calls),
        }
    }
}

/// Returns the value of a curve, `seconds` after the reading `before`. A counter that starts again has no value.
fn value(now: Reading, before: Option<Reading>, seconds: f64) -> Option<f64> {
    let value = match (now, before) {
        (Reading::Level(level), _) => level,
        (Reading::Count(now), Some(Reading::Count(before))) => now.checked_sub(before)? as f64 / seconds,
        // A reason is new when it first occurs.
        (Reading::Count(now), _) => now as f64 / seconds,
        (Reading::Times(now), Some(Reading::Times(before))) => {
            let count = now.count.checked_sub(before.count)?;
            TimeSum { count, micros: now.micros.checked_sub(before.micros)? }.mean_ms()?
        }
        (Reading::Times(_), _) => return None,
    };
    // Three digits suffice for a curve.
    Some((value * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, reading: Reading) -> Sample {
        Sample::from([((Kind::Requests, name.to_owned()), reading)])
    }

    fn values(history: &History, name: &str) -> Option<Vec<Option<f64>>> {
        let HistoryView { requests, .. } = history.view();
        requests.into_iter().find(|curve| curve.name == name).map(|curve| curve.values)
    }

    #[test]
    fn counters_become_rates_and_sums_become_means() {
        let mut history = History::default();
        for (time, count) in [(0.0, 10), (2.0, 16), (4.0, 16), (6.0, 3)] {
            history.add(time, at("a", Reading::Count(count)));
        }
        assert_eq!(values(&history, "a"), Some(vec![Some(3.0), Some(0.0), None]), "a new start is no rate");
        let mut history = History::default();
        for (time, count, micros) in [(0.0, 1, 9_000), (2.0, 3, 13_000), (4.0, 3, 13_000)] {
            history.add(time, at("t", Reading::Times(TimeSum { count, micros })));
        }
        assert_eq!(values(&history, "t"), Some(vec![Some(2.0), None]));
    }

    #[test]
    fn all_curves_have_the_length_of_the_times_and_old_ones_vanish() {
        let mut history = History::default();
        for point in 0..=POINTS + 5 {
            let name = if point < 3 { "old" } else { "new" };
            history.add(point as f64, at(name, Reading::Level(1.0)));
            let view = history.view();
            assert!(view.requests.iter().all(|curve| curve.values.len() == view.times.len()));
        }
        assert_eq!(history.view().times.len(), POINTS);
        assert_eq!((values(&history, "old"), history.view().requests.len()), (None, 1));
    }

    #[test]
    fn the_number_of_curves_is_bounded() {
        let mut history = History::default();
        let many =
            || (0..1_000).flat_map(|name| at(&name.to_string(), Reading::Level(0.0))).collect::<Sample>();
        history.add(0.0, many());
        history.add(2.0, many());
        assert_eq!(history.view().requests.len(), CURVES_MOST);
    }
}
