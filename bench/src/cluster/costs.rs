//! Processor time of an INVITE, a BYE and a REGISTER at a server, including the kernel's. Least squares over runs with
//! different mixes.
//!
//! At each of two loads, a round has these runs: no requests; registrations; calls that end at once; calls that only
//! begin; and calls that only end. For each, `used = idle * seconds + sum of cost * number + cost of keeping *
//! transaction seconds`. An ACK is part of its INVITE. A server keeps an answered BYE or REGISTER for timer J, 32 s
//! (RFC 3261 §17.2.2), which costs some work all that time. The idle use of a server is measured first, while it keeps
//! nothing.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum as _;
use papers::report::Axis;

use super::fit::fit;
use super::servers::Servers;
use super::{CALLERS, ClusterBench, Product, figure};
use crate::callers::HoldingTime;
use crate::generator::{LoadGenerator, OfferedLoad, poisson_ns};
use crate::log::{CallLog, CallRecord};
use crate::report::name;
use crate::rig::{beside, server};
use crate::study::{Alternative, Bound, Cell, Measure, Over, Picture, Question, Round, Study, Values};

/// Loads as fractions of the capacity with a whole processor, which is measured over some seconds. Higher loads are too
/// much for longer runs, as kept transactions accumulate and add work.
const LOADS: [f64; 2] = [0.15, 0.3];
/// Highest rate in calls a second.
const RATE_MAX: f64 = 2_000.0;
/// The same for a fraction of a processor, as fractions of that fraction of the capacity with a whole one. A call costs
/// more at low rates.
const PART_LOADS: [f64; 2] = [0.08, 0.16];
/// Seconds of the capacity measurement, and of the pause after a run in which late work is done.
const CAPACITY_S: f64 = 4.0;
const SILENCE: f64 = 0.3;
/// Seconds for the measurement of an idle server.
const REST: f64 = 20.0;
/// Cost of an INVITE in BYEs, as measured by the papers. A ratio within a fifth of it counts as equal.
const RATIO: f64 = 1.75;
const NEAR: f64 = 0.2;

/// Processor of a server while its transactions are measured: a whole one, or the fraction that a server of a cluster
/// has. The load is near the capacity in both cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pricing {
    Whole,
    Part,
}

impl Pricing {
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "a whole processor",
            Self::Part => "a fraction of a processor",
        }
    }

    fn quota(self, product: Product) -> f64 {
        if self == Self::Part { product.quota() } else { 1.0 }
    }

    /// Returns the rates in calls a second, for a server with this capacity on a whole processor.
    fn rates(self, product: Product, capacity: f64) -> [f64; 2] {
        match self {
            Self::Whole => LOADS.map(|load| load * capacity.min(RATE_MAX / LOADS[1])),
            Self::Part => PART_LOADS.map(|load| load * product.quota() * capacity),
        }
    }

    /// Returns the seconds of a run.
    fn seconds(self) -> f64 {
        if self == Self::Whole { 4.0 } else { 8.0 }
    }
}

/// One run, or half of one.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CostRun {
    /// Length.
    seconds: f64,
    /// INVITE transactions, BYE transactions, REGISTER transactions.
    numbers: [f64; 3],
    /// Total seconds for which transactions were kept after their response (timer J).
    kept: f64,
    /// Processor time, in seconds.
    used: f64,
}

/// Costs of a server, from the runs of one round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Costs {
    /// Processors used while it has nothing to do and keeps nothing.
    idle: f64,
    /// Microseconds of an INVITE with its ACK, and of a BYE.
    invite_us: f64,
    bye_us: f64,
    /// Microseconds of a REGISTER; NaN if it answers none.
    register_us: f64,
    /// Microseconds a second of each BYE or REGISTER that is kept after its response; 0 if none is.
    kept_us: f64,
    /// Memory of a call while it lasts, in KiB, of the server's first process. A lower bound if freed memory is reused;
    /// memory of other processes is not counted.
    call_kib: f64,
}

impl Costs {
    /// Fits the costs to the runs. `None`: the runs do not separate the kinds, or none shows the idle server.
    fn of(runs: &[CostRun], call_kib: f64) -> Option<Self> {
        let registers = runs.iter().any(|run| run.numbers[2] > 0.0);
        let columns = if registers { 3 } else { 2 };
        let mut at_rest = runs.iter().filter(|run| run.numbers.iter().sum::<f64>() + run.kept < 1.0);
        let idle = at_rest.next().map(|run| run.used / run.seconds)?;
        let keeps = runs.iter().any(|run| run.kept > 0.0);
        let row = |run: &CostRun| {
            let mut x = run.numbers[..columns].to_vec();
            x.extend(keeps.then_some(run.kept));
            (x, run.used - idle * run.seconds)
        };
        let found = fit(&runs.iter().map(row).collect::<Vec<_>>())?;
        let us = |column: usize| 1e6 * found[column];
        Some(Self {
            idle,
            invite_us: us(0),
            bye_us: us(1),
            register_us: if registers { us(2) } else { f64::NAN },
            kept_us: if keeps { us(columns) } else { 0.0 },
            call_kib,
        })
    }

    /// Returns the cost of an INVITE divided by that of a BYE, as a policy weighs it; NaN if a BYE seems to cost
    /// nothing.
    fn ratio(&self) -> f64 {
        if self.bye_us > 0.0 { self.invite_us / self.bye_us } else { f64::NAN }
    }
}

/// Usage of the server since the start of a run.
#[derive(Clone, Copy)]
struct Look {
    at: f64,
    used: f64,
    resident: f64,
}

/// The measurement set-up.
struct Meter {
    generator: LoadGenerator,
    servers: Servers,
    /// Start, and the times when a BYE or REGISTER was answered, in seconds since then.
    since: Instant,
    answered: Vec<f64>,
    /// Seconds for which an answered BYE or REGISTER is kept.
    keeps: f64,
    /// Seconds of a run, and of the idle measurement.
    seconds: f64,
    rest: f64,
}

/// Played calls and registrations.
struct Played {
    log: CallLog,
    /// Start in seconds.
    from: f64,
    /// Usage in the middle, if requested, and at the end.
    looks: Vec<Look>,
}

impl Meter {
    fn play(
        &mut self,
        calls: Vec<u64>,
        holds: f64,
        registrations: &[u64],
        middle: Option<f64>,
    ) -> Result<Played> {
        self.generator.holding = HoldingTime { mean: holds, deviation: 0.0 };
        let load = OfferedLoad::Given(calls.into());
        let registrations: Vec<f64> = registrations.iter().map(|at_ns| *at_ns as f64 / 1e9).collect();
        let (epoch, before) = (Instant::now(), self.servers.used()?);
        let (servers, generator) = (&self.servers, &mut self.generator);
        let look = |_| {
            let (at, used) = (epoch.elapsed().as_secs_f64(), servers.used()? - before);
            anyhow::Ok(Look { at, used, resident: servers.resident()? as f64 })
        };
        let times: Vec<f64> = middle.into_iter().collect();
        let (log, mut looks) =
            beside(&times, look, || generator.play_with(&[server(0)], load, &registrations))?;
        thread::sleep(Duration::from_secs_f64(SILENCE));
        looks.push(look(0)?);
        let repeated = log.repetitions_ns.len();
        ensure!(repeated * 50 < log.calls.len(), "{repeated} requests were repeated: the load is too high");
        let from = epoch.duration_since(self.since).as_secs_f64();
        self.answered.extend(log.calls.iter().filter_map(answered_ns).map(|ns| from + ns as f64 / 1e9));
        Ok(Played { log, from, looks })
    }

    /// Waits until the server keeps no transactions any more, and measures it idle.
    fn at_rest(&mut self) -> Result<CostRun> {
        thread::sleep(Duration::from_secs_f64(self.keeps + SILENCE));
        let (at, before) = (Instant::now(), self.servers.used()?);
        thread::sleep(Duration::from_secs_f64(self.rest));
        let used = self.servers.used()? - before;
        Ok(CostRun { seconds: at.elapsed().as_secs_f64(), numbers: [0.0; 3], kept: 0.0, used })
    }

    /// Makes a run from its start and length in seconds, its numbers of transactions and its processor time.
    fn run(&self, from: f64, seconds: f64, numbers: [f64; 3], used: f64) -> CostRun {
        CostRun { seconds, numbers, kept: kept(&self.answered, self.keeps, from..from + seconds), used }
    }

    /// Makes all runs at this rate. Returns them and the memory of a call in bytes.
    fn runs(&mut self, rate: f64, registers: bool, seed: u64) -> Result<(Vec<CostRun>, f64)> {
        let mut runs = Vec::new();
        let length = self.seconds;
        let times_ns = |seed| poisson_ns(rate, length, seed);
        let (at, before) = (self.since.elapsed().as_secs_f64(), self.servers.used()?);
        thread::sleep(Duration::from_secs_f64(length));
        let (used, seconds) = (self.servers.used()? - before, self.since.elapsed().as_secs_f64() - at);
        runs.push(self.run(at, seconds, [0.0; 3], used));
        let whole = |meter: &Self, played: &Played, numbers| {
            meter.run(played.from, played.looks[0].at, numbers, played.looks[0].used)
        };
        if registers {
            let played = self.play(Vec::new(), 0.0, &times_ns(seed), None)?;
            let calls = &played.log.calls;
            let answered = calls.iter().filter(|call| call.set_up_ns.is_some()).count();
            ensure!(answered == calls.len(), "{answered} of {} REGISTERs were answered", calls.len());
            runs.push(whole(self, &played, [0.0, 0.0, answered as f64]));
        }
        let both = |log: &CallLog| {
            let ended = log.calls.iter().filter(|call| call.ended_ns.is_some()).count();
            ensure!(ended == log.calls.len(), "{ended} of {} calls have ended", log.calls.len());
            Ok(ended as f64)
        };
        let played = self.play(times_ns(seed + 1), 0.0, &[], None)?;
        let calls = both(&played.log)?;
        runs.push(whole(self, &played, [calls, calls, 0.0]));
        let before = played.looks[0];
        // All calls last until after the last one has begun.
        let holds = length + 2.0 * SILENCE;
        let played = self.play(times_ns(seed + 2), holds, &[], Some(length + SILENCE))?;
        let calls = both(&played.log)?;
        let [middle, end] = played.looks[..] else { unreachable!("two readings were requested") };
        runs.push(self.run(played.from, middle.at, [calls, 0.0, 0.0], middle.used));
        let (from, seconds) = (played.from + middle.at, end.at - middle.at);
        runs.push(self.run(from, seconds, [0.0, calls, 0.0], end.used - middle.used));
        Ok((runs, (middle.resident - before.resident).max(0.0) / calls))
    }
}

/// Returns the total seconds within `within` for which transactions answered at these times are kept.
fn kept(answered: &[f64], keeps: f64, within: Range<f64>) -> f64 {
    let part = |at: &f64| ((at + keeps).min(within.end) - at.max(within.start)).max(0.0);
    answered.iter().map(part).sum()
}

/// Returns when its BYE, or its REGISTER, was answered, since the start of the run.
fn answered_ns(call: &CallRecord) -> Option<u64> {
    if call.is_registration {
        return call.set_up_ns.map(|taken| call.due_ns + taken);
    }
    Some(call.hung_up_ns? + call.ended_ns?)
}

impl ClusterBench {
    /// The study of transaction costs at these servers.
    pub(super) fn costs(&self, products: &[Product]) -> Study<'_, Costs> {
        let all = Product::value_variants().iter();
        let products: Vec<Product> =
            all.copied().filter(|product| !self.quick || products.contains(product)).collect();
        let cell = |product: &Product| {
            let product = *product;
            let alternative = |pricing: Pricing| {
                Alternative::new(pricing.name(), move |round| {
                    Ok(vec![(0.0, self.priced(product, pricing, round)?)])
                })
            };
            let pricings =
                if self.quick { vec![Pricing::Whole] } else { vec![Pricing::Whole, Pricing::Part] };
            let alternatives = pricings.into_iter().map(alternative).collect();
            Cell::new(name(&product), alternatives)
        };
        let question = |product: &Product| Question {
            statement: format!(
                "An INVITE costs 1.75 times as much as a BYE, within a fifth: {}.",
                name(product)
            ),
            source: "004, section VI",
            left: Values::new(name(product), Pricing::Whole.name(), None, "invite_by_bye"),
            right: None,
            bound: Bound::Between(RATIO * (1.0 - NEAR), RATIO * (1.0 + NEAR)),
        };
        let measure = |column, digits, of| Measure { column, digits: Some(digits), of };
        Study {
            cells: products.iter().map(cell).collect(),
            measures: vec![
                measure("invite_us", 0, |it: &Costs| it.invite_us),
                measure("bye_us", 0, |it| it.bye_us),
                measure("invite_by_bye", 2, Costs::ratio),
                measure("register_us", 0, |it| it.register_us),
                measure("kept_us_a_second", 1, |it| it.kept_us),
                measure("idle_processors", 4, |it| it.idle),
                measure("call_kib", 1, |it| it.call_kib),
            ],
            questions: products.iter().map(question).collect(),
            pictures: vec![Picture {
                title: "Processor time of an INVITE",
                column: "invite_us",
                over: Over::Alternatives,
                y: Axis::linear("us"),
            }],
            ..Study::new("costs", "Costs of transactions", "Processor time, including the kernel's.")
        }
    }

    /// Measures one round. The costs with a fraction of a processor go to the simulator and are measured first.
    fn priced(&self, product: Product, pricing: Pricing, round: &mut Round<'_>) -> Result<Costs> {
        let mut generator = LoadGenerator::new(CALLERS, 0)?;
        let servers = Servers::start(self, product, vec![1.0], &mut generator)?;
        let closed = OfferedLoad::Closed { calls: 30, seconds: CAPACITY_S };
        let capacity = generator.play(&[server(0)], closed)?.window(1.0..CAPACITY_S).set_up;
        ensure!(capacity > 10.0, "{product:?} carries {capacity} calls/s, which is too little to measure");
        let (since, answered) = (Instant::now(), Vec::new());
        // Quick runs assume a shorter time for kept transactions. This makes their costs wrong, but nothing else.
        let (keeps, seconds, rest) =
            if self.quick { (1.0, 1.0, 1.0) } else { (product.keeps(), pricing.seconds(), REST) };
        let mut meter = Meter { generator, servers, since, answered, keeps, seconds, rest };
        let (mut runs, mut memory) = (vec![meter.at_rest()?], 0.0_f64);
        // Limited only after the server is idle: with a small fraction of a processor, earlier work would take long.
        meter.servers.limit(pricing.quota(product))?;
        for (index, rate) in pricing.rates(product, capacity).into_iter().enumerate() {
            let seed = 100 * round.seed + 10 * index as u64;
            let (some, bytes) = meter
                .runs(rate, product.registers(), seed)
                .with_context(|| format!("{product:?} at {rate:.0} a second"))?;
            runs.extend(some);
            memory = memory.max(bytes);
        }
        let costs = Costs::of(&runs, memory / 1024.0)
            .context("the runs cannot separate the costs of INVITE and BYE")?;
        if pricing == Pricing::Part && costs.ratio().is_finite() {
            for (label, us) in [("us of an INVITE", costs.invite_us), ("us of a BYE", costs.bye_us)] {
                round.figures.once(&figure(product, label), || Ok(us))?;
            }
        }
        Ok(costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(registers: f64) -> Vec<CostRun> {
        let run = |at: u32| {
            let mixes =
                [[0.0; 3], [0.0, 0.0, 900.0], [800.0, 800.0, 0.0], [700.0, 0.0, 0.0], [0.0, 600.0, 0.0]];
            let mut numbers = mixes[at as usize % 5].map(|number| number * f64::from(at + 1));
            numbers[2] *= registers;
            let [invites, byes, registers] = numbers;
            let kept = f64::from(at) * 1_000.0;
            let used = 350e-6 * invites + 200e-6 * byes + 120e-6 * registers + 5e-6 * kept;
            CostRun { seconds: 4.0, numbers, kept, used: 0.02 + used }
        };
        let rest = CostRun { seconds: 4.0, numbers: [0.0; 3], kept: 0.0, used: 0.02 };
        [rest].into_iter().chain((0..10).map(run)).collect()
    }

    #[test]
    fn the_fit_returns_the_given_costs() {
        let costs = Costs::of(&runs(1.0), 1.0).expect("mixes that differ");
        let found = [costs.invite_us, costs.bye_us, costs.register_us, costs.kept_us];
        for (found, put) in found.into_iter().zip([350.0, 200.0, 120.0, 5.0]) {
            assert!((found - put).abs() < 1e-3, "{found} in place of {put}");
        }
        assert!((costs.idle - 0.005).abs() < 1e-6 && (costs.ratio() - 1.75).abs() < 1e-6);
        assert!(Costs { bye_us: -1.0, ..costs }.ratio().is_nan(), "no ratio to a cost below zero");
    }

    #[test]
    fn a_server_without_registrations_has_a_cost_of_calls() {
        let costs = Costs::of(&runs(0.0), 1.0).expect("mixes that differ");
        assert!(costs.register_us.is_nan() && (costs.invite_us - 350.0).abs() < 1e-3);
        let same = CostRun { seconds: 1.0, numbers: [5.0, 5.0, 0.0], kept: 0.0, used: 1.0 };
        let rest = CostRun { numbers: [0.0; 3], ..same };
        assert!(Costs::of(&[rest, same, same], 1.0).is_none(), "these runs cannot separate INVITE and BYE");
        assert!(Costs::of(&runs(1.0)[2..], 1.0).is_none(), "no run shows the idle server");
    }

    #[test]
    fn a_transaction_counts_as_kept_from_its_response() {
        let answered = [0.0, 10.0, 40.0];
        assert!((kept(&answered, 32.0, 20.0..42.0) - (12.0 + 22.0 + 2.0)).abs() < 1e-9);
        assert!(
            kept(&answered, 32.0, 100.0..105.0).abs() < 1e-9 && kept(&answered, 0.0, 0.0..50.0).abs() < 1e-9
        );
    }
}
