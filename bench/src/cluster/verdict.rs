//! What the balancing papers state about clusters, and what the runs say of it.

use papers::report::{Claim, ClaimVerdict};
use sim::stats::Interval;

use super::costs::Costs;
use super::runs::{Run, Runs, Shape, peak};
use super::simulated::{Simulated, simulated};
use super::sweep::{LevelResult, SweepPlan};
use super::{Product, Way};

/// The papers' number of servers.
pub const NODES: usize = 8;
/// "As the system approaches peak throughput": in parts of what the cluster carries.
const NEAR_PEAK: f64 = 0.9;
/// What the papers measured: BYEs that an INVITE costs.
const RATIO: f64 = 1.75;
/// How near to that is called the same.
const NEAR: f64 = 0.2;
/// The load at which the simulator is compared, as a part of what the cluster carries, and how near it is to be.
const COMPARED: f64 = 0.7;
const AS_SIMULATED: f64 = 0.15;

/// A cluster of eight equal servers, by this way.
pub fn equal(product: Product, way: Way) -> Run {
    Run { product, shape: Shape { nodes: NODES, is_unequal: false }, way, are_told: false, round: 0 }
}

impl Runs {
    /// A value of the load next to this one, by round.
    pub fn values(&self, run: &Run, load: f64, value: fn(&LevelResult) -> f64) -> Vec<(u32, f64)> {
        let at = |levels| nearest(levels, load).map_or(f64::NAN, value);
        self.like(run).into_iter().map(|(round, levels)| (round, at(levels))).collect()
    }

    /// What the simulator makes of a load of the plan, by round. Empty: it makes nothing of one of them.
    pub fn simulated(&self, costs: &Costs, run: &Run, plan: &SweepPlan, at: usize) -> Vec<(u32, Simulated)> {
        let of = |(round, levels): (u32, &[(f64, LevelResult)])| {
            let level = &levels.get(at)?.1;
            Some((round, simulated(costs, &Run { round, ..*run }, plan, at, level)?))
        };
        self.like(run).into_iter().map(of).collect::<Option<_>>().unwrap_or_default()
    }

    /// The peaks, by round.
    pub fn peaks(&self, run: &Run) -> Vec<(u32, f64)> {
        self.like(run).into_iter().map(|(round, levels)| (round, peak(levels))).collect()
    }

    /// Whether all that was offered was carried in a round: then the peak may be higher.
    fn end_before_the_peak(&self, run: &Run) -> bool {
        let is_last = |levels: &[(f64, LevelResult)]| {
            levels.last().is_some_and(|(_, level)| peak(levels) >= level.rate)
        };
        self.like(run).into_iter().any(|(_, levels)| is_last(levels))
    }
}

/// What came at the load nearest to this one.
fn nearest(levels: &[(f64, LevelResult)], load: f64) -> Option<&LevelResult> {
    let nearest = levels.iter().min_by(|a, b| (a.0 - load).abs().total_cmp(&(b.0 - load).abs()));
    nearest.map(|(_, level)| level)
}

/// The natural logarithm of how many times the first values are the second ones, by rounds that both have.
fn logarithm(first: &[(u32, f64)], second: &[(u32, f64)]) -> Interval {
    let ratio = |(round, value): &(u32, f64)| {
        let (_, other) = second.iter().find(|(other, _)| other == round)?;
        Some((value / other).ln())
    };
    let ratios: Vec<f64> = first.iter().filter_map(ratio).collect();
    if ratios.is_empty() {
        return Interval { mean: f64::NAN, half_width: f64::NAN };
    }
    Interval::over(ratios)
}

/// How many times a way's value is that of TLWL near the peak.
fn beside_tlwl(runs: &Runs, product: Product, way: Way, value: Value) -> Interval {
    let of = |way| runs.values(&equal(product, way), NEAR_PEAK, value);
    logarithm(&of(way), &of(Way::Tlwl))
}

type Value = fn(&LevelResult) -> f64;
const INVITE: Value = |level| level.invite.mean;
const BYE: Value = |level| level.bye.mean;

/// That a ratio, whose logarithm this is, is above the least.
fn more(source: &str, statement: impl Into<String>, logarithm: Interval, least: f64) -> Claim {
    let measured = format!("{} times", logarithm.ratio());
    Claim::check(source, statement, measured, ClaimVerdict::above(logarithm, least.ln()))
}

/// That the first peak is above the second one so many times. `None`: there are no runs of one of them.
fn higher(
    runs: &Runs,
    (source, statement): (&str, String),
    [first, second]: [&Run; 2],
    least: f64,
) -> Option<Claim> {
    let peaks = [first, second].map(|run| runs.peaks(run));
    if peaks.iter().any(Vec::is_empty) {
        return None;
    }
    let mut claim = more(source, statement, logarithm(&peaks[0], &peaks[1]), least);
    let [is_more, is_less] = [first, second].map(|run| runs.end_before_the_peak(run));
    if is_more && claim.verdict == ClaimVerdict::Fails || is_less && claim.verdict == ClaimVerdict::Holds {
        claim.verdict = ClaimVerdict::Open;
    }
    if is_more || is_less {
        claim.measured += ", by loads that end before the peak";
    }
    Some(claim)
}

/// Every statement that there are runs for.
pub fn statements(runs: &Runs, product: Product, costs: Option<&Costs>) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(costs.map(ratio));
    let has = |way: &Way| !runs.like(&equal(product, *way)).is_empty();
    if has(&Way::Tlwl) {
        claims.extend(response(runs, product, &has));
        claims.extend(throughput(runs, product, &has));
    }
    claims.extend(unequal(runs, product));
    claims
}

/// The mean time of an INVITE is that of the simulator with these pauses, and prices in these proportions.
pub fn as_simulated(runs: &Runs, product: Product, costs: &Costs, plan: &SweepPlan) -> Vec<Claim> {
    let Some(at) = plan.loads.iter().position(|load| (load - COMPARED).abs() < 1e-9) else {
        return Vec::new();
    };
    let of = |way| {
        let run = equal(product, way);
        let simulated = runs.simulated(costs, &run, plan, at);
        let simulated: Vec<_> = simulated.into_iter().map(|(round, it)| (round, it.invite)).collect();
        let ratio = logarithm(&runs.values(&run, COMPARED, INVITE), &simulated);
        let far = (1.0 + AS_SIMULATED).ln();
        let verdict = ClaimVerdict::above(ratio, -far).and(ClaimVerdict::below(ratio, far));
        let statement = format!(
            "By {way} an INVITE takes as long at 70 % load as in the simulator with these pauses and this use, within 15 %."
        );
        Claim::check("the model", statement, format!("{} times", ratio.ratio()), verdict)
    };
    let ways = [Way::Tlwl, Way::RoundRobin, Way::Hash].into_iter();
    ways.filter(|way| !runs.like(&equal(product, *way)).is_empty()).map(of).collect()
}

/// It holds if all of the interval is near the papers' ratio: a wide one says nothing.
fn ratio(costs: &Costs) -> Claim {
    let found = costs.ratio;
    let shown = if found.mean.is_nan() { "not known".to_owned() } else { format!("{found:.2}") };
    let verdict = ClaimVerdict::above(found, RATIO * (1.0 - NEAR))
        .and(ClaimVerdict::below(found, RATIO * (1.0 + NEAR)));
    Claim::check(
        "004, section VI",
        "An INVITE costs 1.75 times as much as a BYE, within a fifth.",
        format!("{shown}: {:.0} and {:.0} us", costs.invite_us.mean, costs.bye_us.mean),
        verdict,
    )
}

fn response(runs: &Runs, product: Product, has: &dyn Fn(&Way) -> bool) -> Vec<Claim> {
    let said = "000, section V-A, figure 2";
    let others = [Way::Tjsq, Way::Cjsq, Way::RoundRobin, Way::Hash, Way::Rwma].into_iter().filter(has);
    let longer = |way| {
        let statement = format!("An INVITE takes longer by {way} than by tlwl near the peak.");
        more(said, statement, beside_tlwl(runs, product, way, INVITE), 1.0)
    };
    let mut claims: Vec<Claim> = others.map(longer).collect();
    let worst = |value| {
        let ways = [Way::Cjsq, Way::RoundRobin, Way::Hash].into_iter().filter(has);
        let ratios = ways.map(|way| beside_tlwl(runs, product, way, value));
        ratios.max_by(|a, b| a.mean.total_cmp(&b.mean))
    };
    if let (Some(invites), Some(byes)) = (worst(INVITE), worst(BYE)) {
        let statement = "Near the peak the worst way takes a hundred times as long as tlwl.";
        claims.push(more(said, statement, invites, 100.0));
        let half_width = byes.half_width.hypot(invites.half_width);
        let difference = Interval { mean: byes.mean - invites.mean, half_width };
        claims.push(Claim::check(
            "000, section V-A, figure 3",
            "Ways differ less in how long a BYE takes.",
            format!("the worst {} times", byes.ratio()),
            ClaimVerdict::below(difference, 0.0),
        ));
    }
    let of = |value| runs.values(&equal(product, Way::Tlwl), NEAR_PEAK, value);
    let statement = "An INVITE takes longer than a BYE.";
    claims.push(more("000, section V-A", statement, logarithm(&of(INVITE), &of(BYE)), 1.0));
    claims
}

fn throughput(runs: &Runs, product: Product, has: &dyn Fn(&Way) -> bool) -> Vec<Claim> {
    let tlwl = equal(product, Way::Tlwl);
    let others = [Way::RoundRobin, Way::Hash, Way::Cjsq, Way::KamailioLoad].into_iter().filter(has);
    let above = |way| {
        let statement = format!("The peak throughput of tlwl is 25 % above that of {way}.");
        higher(runs, ("000, section VII, figure 4", statement), [&tlwl, &equal(product, way)], 1.25)
    };
    let one = Run { shape: Shape { nodes: 1, is_unequal: false }, ..tlwl };
    let statement = "Eight servers carry eight times what one does (95 % of that at least).".to_owned();
    let scaled = higher(runs, ("000, section V-B, figure 5", statement), [&tlwl, &one], 0.95 * NODES as f64);
    others.filter_map(above).chain(scaled).collect()
}

fn unequal(runs: &Runs, product: Product) -> Vec<Claim> {
    let shape = Shape { nodes: NODES, is_unequal: true };
    let of = |way, are_told| Run { shape, are_told, ..equal(product, way) };
    let tlwl = of(Way::Tlwl, false);
    let others = [Way::RoundRobin, Way::Hash].map(|way| {
        let statement = format!(
            "Before servers of which half have half the speed, and nobody says so, tlwl carries 60 % more than {way}."
        );
        higher(runs, ("000, section V-B, figure 6", statement), [&tlwl, &of(way, false)], 1.6)
    });
    let near =
        "There, tlwl without the capacities carries nearly what it does with them (95 % of that at least).";
    let near = higher(runs, ("000, section V-B", near.to_owned()), [&tlwl, &of(Way::Tlwl, true)], 0.95);
    others.into_iter().chain([near]).flatten().collect()
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
                // A load that is too much.
                let last = LevelResult { rate: level.rate * 1.1, ..LevelResult::default() };
                let levels = vec![(NEAR_PEAK, level), (1.0, last)];
                runs.0.push((Run { round, ..equal(Product::Java, *way) }, levels));
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

    /// Both carry all that was offered: nobody knows how much more they would.
    #[test]
    fn loads_that_end_before_the_peak_refute_nothing() {
        let mut runs = runs(&[(Way::Tlwl, [2.0, 100.0]), (Way::Hash, [2.0, 100.0])]);
        for (_, levels) in &mut runs.0 {
            levels.pop();
        }
        let found = verdicts(&runs);
        assert!(found.iter().any(|(it, verdict)| it.contains("25 %") && *verdict == Open), "{found:?}");
    }

    #[test]
    fn one_round_leaves_all_open() {
        let mut few = runs(&[(Way::Tlwl, [2.0, 130.0]), (Way::Hash, [300.0, 100.0])]);
        few.0.retain(|(run, _)| run.round == 0);
        assert!(verdicts(&few).iter().all(|(_, verdict)| *verdict == Open));
    }
}
