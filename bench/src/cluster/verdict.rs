//! What the balancing papers state about clusters, and what the runs say of it.

use papers::report::{Claim, ClaimVerdict};
use sim::stats::{Confidence, Interval, Moments};

use super::costs::Costs;
use super::runs::{Run, Runs, Shape, peak};
use super::sweep::LevelResult;
use super::{Product, Way};

/// The papers' number of servers.
pub const NODES: usize = 8;
/// "As the system approaches peak throughput": in parts of what the cluster carries.
const NEAR_PEAK: f64 = 0.9;
/// What the papers measured: BYEs that an INVITE costs.
const RATIO: f64 = 1.75;

/// A cluster of eight equal servers, by this way.
pub fn equal(product: Product, way: Way) -> Run {
    Run { product, shape: Shape { nodes: NODES, is_unequal: false }, way, are_told: false, round: 0 }
}

/// The mean of several values with its interval.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Interval {
    Interval::of(&values.into_iter().collect::<Moments>(), Confidence::P95)
}

impl Runs {
    /// A value of the load next to this one, by round.
    pub fn values(&self, run: &Run, load: f64, value: fn(&LevelResult) -> f64) -> Vec<(u32, f64)> {
        let at = |levels: &[(f64, LevelResult)]| {
            let next = levels.iter().min_by(|a, b| (a.0 - load).abs().total_cmp(&(b.0 - load).abs()));
            next.map_or(f64::NAN, |(_, level)| value(level))
        };
        self.like(run).into_iter().map(|(round, levels)| (round, at(levels))).collect()
    }

    /// The peaks, by round.
    pub fn peaks(&self, run: &Run) -> Vec<(u32, f64)> {
        self.like(run).into_iter().map(|(round, levels)| (round, peak(levels))).collect()
    }
}

/// The natural logarithm of how many times the first values are the second ones, by rounds that both have.
fn logarithm(first: &[(u32, f64)], second: &[(u32, f64)]) -> Interval {
    let ratio = |(round, value): &(u32, f64)| {
        let (_, other) = second.iter().find(|(other, _)| other == round)?;
        Some((value / other).ln())
    };
    mean(first.iter().filter_map(ratio))
}

/// How many times, with the interval.
fn times(logarithm: Interval) -> String {
    let Interval { mean, half_width } = logarithm;
    if mean.is_nan() {
        return "unknown".to_owned();
    }
    if half_width.is_finite() {
        format!("{:.2} ({:.2} - {:.2})", mean.exp(), (mean - half_width).exp(), (mean + half_width).exp())
    } else {
        format!("{:.2} (one round)", mean.exp())
    }
}

/// Whether a ratio is surely above this one.
fn above(logarithm: Interval, least: f64) -> ClaimVerdict {
    ClaimVerdict::above_zero(Interval { mean: logarithm.mean - least.ln(), ..logarithm })
}

fn below(logarithm: Interval, most: f64) -> ClaimVerdict {
    above(Interval { mean: -logarithm.mean, ..logarithm }, 1.0 / most)
}

/// How many times a way's value is that of TLWL near the peak.
fn beside_tlwl(runs: &Runs, product: Product, way: Way, value: fn(&LevelResult) -> f64) -> Interval {
    let of = |way| runs.values(&equal(product, way), NEAR_PEAK, value);
    logarithm(&of(way), &of(Way::Tlwl))
}

fn invite(level: &LevelResult) -> f64 {
    level.invite.mean
}

fn bye(level: &LevelResult) -> f64 {
    level.bye.mean
}

/// Every statement that there are runs for.
pub fn statements(runs: &Runs, product: Product, costs: Option<&Costs>) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(costs.map(ratio));
    let has = |way| !runs.like(&equal(product, way)).is_empty();
    if has(Way::Tlwl) {
        claims.extend(response(runs, product, &has));
        claims.extend(throughput(runs, product, &has));
    }
    claims.extend(unequal(runs, product));
    claims
}

fn ratio(costs: &Costs) -> Claim {
    let found = costs.ratio();
    let verdict = if found.contains(RATIO) {
        ClaimVerdict::Holds
    } else if found.half_width.is_finite() {
        ClaimVerdict::Fails
    } else {
        ClaimVerdict::Open
    };
    Claim::check(
        "004, section VI",
        "An INVITE costs 1.75 times as much as a BYE.",
        format!("{found:.2}: {:.0} and {:.0} us", costs.invite_us.mean, costs.bye_us.mean),
        verdict,
    )
}

fn response(runs: &Runs, product: Product, has: &dyn Fn(Way) -> bool) -> Vec<Claim> {
    let mut claims = Vec::new();
    let said = "000, section V-A, figure 2";
    for way in
        [Way::Tjsq, Way::Cjsq, Way::RoundRobin, Way::Hash, Way::Rwma].into_iter().filter(|way| has(*way))
    {
        let more = beside_tlwl(runs, product, way, invite);
        claims.push(Claim::check(
            said,
            format!("An INVITE takes longer by {way} than by tlwl near the peak."),
            format!("{} times", times(more)),
            above(more, 1.0),
        ));
    }
    let worst = [Way::Cjsq, Way::RoundRobin, Way::Hash].into_iter().filter(|way| has(*way));
    let worst = worst.map(|way| beside_tlwl(runs, product, way, invite));
    if let Some(most) = worst.max_by(|a, b| a.mean.total_cmp(&b.mean)) {
        claims.push(Claim::check(
            said,
            "Near the peak the worst way takes a hundred times as long as tlwl.",
            format!("{} times", times(most)),
            above(most, 100.0),
        ));
        let byes = [Way::Cjsq, Way::RoundRobin, Way::Hash].into_iter().filter(|way| has(*way));
        let byes = byes.map(|way| beside_tlwl(runs, product, way, bye));
        let byes = byes.max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap_or(most);
        claims.push(Claim::check(
            "000, section V-A, figure 3",
            "Ways differ less in how long a BYE takes.",
            format!("the worst {} times", times(byes)),
            below(
                Interval { mean: byes.mean - most.mean, half_width: byes.half_width.hypot(most.half_width) },
                1.0,
            ),
        ));
    }
    let of = |value| runs.values(&equal(product, Way::Tlwl), NEAR_PEAK, value);
    let less = logarithm(&of(bye), &of(invite));
    claims.push(Claim::check(
        "000, section V-A",
        "A BYE is answered sooner than an INVITE.",
        format!("in {} of the time", times(less)),
        below(less, 1.0),
    ));
    claims
}

fn throughput(runs: &Runs, product: Product, has: &dyn Fn(Way) -> bool) -> Vec<Claim> {
    let mut claims = Vec::new();
    let tlwl = runs.peaks(&equal(product, Way::Tlwl));
    for way in [Way::RoundRobin, Way::Hash, Way::Cjsq, Way::KamailioLoad].into_iter().filter(|way| has(*way))
    {
        let more = logarithm(&tlwl, &runs.peaks(&equal(product, way)));
        claims.push(Claim::check(
            "000, section VII, figure 4",
            format!("The peak throughput of tlwl is 25 % above that of {way}."),
            format!("{} times", times(more)),
            above(more, 1.25),
        ));
    }
    let one = Run { shape: Shape { nodes: 1, is_unequal: false }, ..equal(product, Way::Tlwl) };
    let one = runs.peaks(&one);
    if !one.is_empty() {
        let scaled: Vec<_> = one.iter().map(|(round, peak)| (*round, NODES as f64 * peak)).collect();
        let part = logarithm(&tlwl, &scaled);
        claims.push(Claim::check(
            "000, section V-B, figure 5",
            "Eight servers carry eight times what one does (95 % of it at least).",
            format!("{} of that", times(part)),
            above(part, 0.95),
        ));
    }
    claims
}

fn unequal(runs: &Runs, product: Product) -> Vec<Claim> {
    let shape = Shape { nodes: NODES, is_unequal: true };
    let of = |way, are_told| runs.peaks(&Run { shape, are_told, ..equal(product, way) });
    let [tlwl, told] = [false, true].map(|are_told| of(Way::Tlwl, are_told));
    let mut claims = Vec::new();
    for way in [Way::RoundRobin, Way::Hash] {
        let other = of(way, false);
        if !other.is_empty() && !tlwl.is_empty() {
            let more = logarithm(&tlwl, &other);
            claims.push(Claim::check(
                "000, section V-B, figure 6",
                format!("Before servers of which half have half the speed, and nobody says so, tlwl carries 60 % more than {way}."),
                format!("{} times", times(more)),
                above(more, 1.6),
            ));
        }
    }
    if !told.is_empty() && !tlwl.is_empty() {
        let part = logarithm(&tlwl, &told);
        claims.push(Claim::check(
            "000, section V-B",
            "There, what tlwl carries without knowing the capacities is near the best (95 % of what it does with them).",
            format!("{} of that", times(part)),
            above(part, 0.95),
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::sweep::Times;
    use ClaimVerdict::{Fails, Holds, Open};

    fn runs(of: &[(Way, [f64; 2])]) -> Runs {
        let mut runs = Runs::default();
        for (way, [invite_ms, rate]) in of {
            for round in 0..3 {
                // A slow hour is in all ways of a round.
                let slow = 1.0 + 0.3 * f64::from(round);
                let times = Times { mean: slow * invite_ms, ..Times::default() };
                let bye = Times { mean: slow * invite_ms.sqrt(), ..Times::default() };
                let level = LevelResult {
                    invite: times,
                    bye,
                    rate: rate / slow,
                    done: 1.0,
                    ..LevelResult::default()
                };
                runs.0.push((Run { round, ..equal(Product::Java, *way) }, vec![(NEAR_PEAK, level)]));
            }
        }
        runs
    }

    fn verdicts(runs: &Runs) -> Vec<(String, ClaimVerdict)> {
        let claims = statements(runs, Product::Java, None);
        claims.into_iter().map(|claim| (claim.statement, claim.verdict)).collect()
    }

    #[test]
    fn a_slow_hour_decides_nothing_and_a_difference_does() {
        let found = verdicts(&runs(&[
            (Way::Tlwl, [2.0, 130.0]),
            (Way::Cjsq, [300.0, 100.0]),
            (Way::Tjsq, [1.9, 1.0]),
        ]));
        let of = |part: &str| {
            found.iter().find(|(statement, _)| statement.contains(part)).map(|(_, it)| it.clone())
        };
        assert_eq!(of("longer by cjsq"), Some(Holds));
        assert_eq!(of("longer by tjsq"), Some(Fails));
        assert_eq!(of("a hundred times"), Some(Holds));
        assert_eq!(of("differ less"), Some(Holds));
        assert_eq!(of("25 % above that of cjsq"), Some(Holds));
        assert_eq!(of("by hash"), None, "there are no runs of it");

        let found = verdicts(&runs(&[(Way::Tlwl, [2.0, 120.0]), (Way::Cjsq, [100.0, 100.0])]));
        assert!(found.iter().any(|(it, verdict)| it.contains("25 %") && *verdict == Fails), "{found:?}");
    }

    #[test]
    fn one_round_leaves_all_open() {
        let mut few = runs(&[(Way::Tlwl, [2.0, 130.0]), (Way::Hash, [300.0, 100.0])]);
        few.0.retain(|(run, _)| run.round == 0);
        assert!(verdicts(&few).iter().all(|(_, verdict)| *verdict == Open));
    }
}
