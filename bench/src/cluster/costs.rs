//! What an INVITE, a BYE and a REGISTER cost a server: processor time, the kernel's included, by least squares over
//! runs with unlike mixes.
//!
//! A round has, at two loads: nothing; registrations; calls that end at once; calls that begin and none that ends; and
//! calls that end and none that begins. Of each of these `used = idle * seconds + sum of cost * number + cost of keeping *
//! transaction seconds`. An ACK is part of its INVITE. A server keeps a BYE or REGISTER that it has answered (32 s long by
//! timer J, RFC 3261 §17.2.2), which costs some work all that time. The idle use of a server is measured first, while it
//! keeps nothing.

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

/// Loads, in parts of what it carries with a processor for some seconds. Higher loads are too much for longer: work for
/// transactions that are kept is added while they accumulate.
const LOADS: [f64; 2] = [0.15, 0.3];
/// The most calls a second.
const RATE_MAX: f64 = 2_000.0;
/// Likewise with a part of a processor, in parts of that part of what it carries with a whole one: a call costs more where
/// there are few of them.
const PART_LOADS: [f64; 2] = [0.08, 0.16];
/// Seconds in which it is found out what a server carries, and of the silence after a run in which late work is done.
const CAPACITY_S: f64 = 4.0;
const SILENCE: f64 = 0.3;
/// Seconds in which a server at rest is looked at.
const REST: f64 = 20.0;
/// The cost of an INVITE in BYEs, as the papers measured it. A ratio within a fifth of it counts as the same.
const RATIO: f64 = 1.75;
const NEAR: f64 = 0.2;

/// The processor of a server while its transactions are priced: a whole one, or the part that a server of a cluster
/// has. The load is in both cases near what it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pricing {
    Whole,
    Part,
}

impl Pricing {
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "a whole processor",
            Self::Part => "a part of one",
        }
    }

    fn quota(self, product: Product) -> f64 {
        if self == Self::Part { product.quota() } else { 1.0 }
    }

    /// Calls a second, of a server that carries so many with a processor.
    fn rates(self, product: Product, capacity: f64) -> [f64; 2] {
        match self {
            Self::Whole => LOADS.map(|load| load * capacity.min(RATE_MAX / LOADS[1])),
            Self::Part => PART_LOADS.map(|load| load * product.quota() * capacity),
        }
    }

    /// Seconds of a run.
    fn seconds(self) -> f64 {
        if self == Self::Whole { 4.0 } else { 8.0 }
    }
}

/// One run, or half of one.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CostRun {
    /// How long.
    seconds: f64,
    /// INVITE transactions, BYE transactions, REGISTER transactions.
    numbers: [f64; 3],
    /// Seconds that transactions were kept after their answer (timer J), added up.
    kept: f64,
    /// Processor time, in seconds.
    used: f64,
}

/// Costs of a server, from the runs of one round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Costs {
    /// Processors while it has nothing to do and keeps nothing.
    idle: f64,
    /// Microseconds of an INVITE, its ACK included, and of a BYE.
    invite_us: f64,
    bye_us: f64,
    /// Of a REGISTER; no number where it answers none.
    register_us: f64,
    /// Microseconds a second of each BYE or REGISTER that is kept after its answer; nothing where none is.
    kept_us: f64,
    /// Memory of a call while it lasts, KiB, of the server's first process: a least value where memory that was free
    /// before is used again, and none is seen of what other processes have.
    call_kib: f64,
}

impl Costs {
    /// From the runs. `None`: they do not tell the kinds apart, or there is none of a server at rest.
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

    /// INVITE by BYE, as a policy weighs it; no number where a BYE seems to cost nothing.
    fn ratio(&self) -> f64 {
        if self.bye_us > 0.0 { self.invite_us / self.bye_us } else { f64::NAN }
    }
}

/// What the server has used since the start of a run.
#[derive(Clone, Copy)]
struct Look {
    at: f64,
    used: f64,
    resident: f64,
}

/// What is measured with.
struct Meter {
    generator: LoadGenerator,
    servers: Servers,
    /// Its start, and when since then a BYE or REGISTER was answered, in seconds.
    since: Instant,
    answered: Vec<f64>,
    /// How long that is kept, in seconds.
    keeps: f64,
    /// Of a run, and of the server at rest.
    seconds: f64,
    rest: f64,
}

/// Calls and registrations that were played.
struct Played {
    log: CallLog,
    /// Of the start, in seconds.
    from: f64,
    /// In the middle, if it was to be looked then, and at the end.
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

    /// Waits until nothing is kept any more of what it has answered before, and looks at it then.
    fn at_rest(&mut self) -> Result<CostRun> {
        thread::sleep(Duration::from_secs_f64(self.keeps + SILENCE));
        let (at, before) = (Instant::now(), self.servers.used()?);
        thread::sleep(Duration::from_secs_f64(self.rest));
        let used = self.servers.used()? - before;
        Ok(CostRun { seconds: at.elapsed().as_secs_f64(), numbers: [0.0; 3], kept: 0.0, used })
    }

    /// A run of this length that begins so many seconds after the start, and in which so much was used.
    fn run(&self, from: f64, seconds: f64, numbers: [f64; 3], used: f64) -> CostRun {
        CostRun { seconds, numbers, kept: kept(&self.answered, self.keeps, from..from + seconds), used }
    }

    /// All runs at this rate, and the memory of a call, in bytes.
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
            ensure!(ended == log.calls.len(), "{ended} of {} calls came to their end", log.calls.len());
            Ok(ended as f64)
        };
        let played = self.play(times_ns(seed + 1), 0.0, &[], None)?;
        let calls = both(&played.log)?;
        runs.push(whole(self, &played, [calls, calls, 0.0]));
        let before = played.looks[0];
        // All of them last until the first of them ends, after the last has begun.
        let holds = length + 2.0 * SILENCE;
        let played = self.play(times_ns(seed + 2), holds, &[], Some(length + SILENCE))?;
        let calls = both(&played.log)?;
        let [middle, end] = played.looks[..] else { unreachable!("two looks were asked for") };
        runs.push(self.run(played.from, middle.at, [calls, 0.0, 0.0], middle.used));
        let (from, seconds) = (played.from + middle.at, end.at - middle.at);
        runs.push(self.run(from, seconds, [0.0, calls, 0.0], end.used - middle.used));
        Ok((runs, (middle.resident - before.resident).max(0.0) / calls))
    }
}

/// How long transactions that were answered then and are kept so long are kept within this time, added up.
fn kept(answered: &[f64], keeps: f64, within: Range<f64>) -> f64 {
    let part = |at: &f64| ((at + keeps).min(within.end) - at.max(within.start)).max(0.0);
    answered.iter().map(part).sum()
}

/// When its BYE was answered, or its REGISTER, since the start of the run.
fn answered_ns(call: &CallRecord) -> Option<u64> {
    if call.is_registration {
        return call.set_up_ns.map(|taken| call.due_ns + taken);
    }
    Some(call.hung_up_ns? + call.ended_ns?)
}

impl ClusterBench {
    /// The study of what transactions cost these servers.
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
            ..Study::new("costs", "What transactions cost", "Processor time, the kernel's included.")
        }
    }

    /// One round. The simulator gets the prices of a part of a processor, as they are known first.
    fn priced(&self, product: Product, pricing: Pricing, round: &mut Round<'_>) -> Result<Costs> {
        let mut generator = LoadGenerator::new(CALLERS, 0)?;
        let servers = Servers::start(self, product, vec![1.0], &mut generator)?;
        let closed = OfferedLoad::Closed { calls: 30, seconds: CAPACITY_S };
        let capacity = generator.play(&[server(0)], closed)?.window(1.0..CAPACITY_S).set_up;
        ensure!(capacity > 10.0, "{product:?} carries {capacity} calls/s, which is nothing to measure");
        let (since, answered) = (Instant::now(), Vec::new());
        // Quick runs assume a shorter time for kept transactions, which makes their prices wrong and nothing else.
        let (keeps, seconds, rest) =
            if self.quick { (1.0, 1.0, 1.0) } else { (product.keeps(), pricing.seconds(), REST) };
        let mut meter = Meter { generator, servers, since, answered, keeps, seconds, rest };
        let (mut runs, mut memory) = (vec![meter.at_rest()?], 0.0_f64);
        // Not before it is at rest: with a small part of a processor it would be busy for long with what was before.
        meter.servers.limit(pricing.quota(product))?;
        for (index, rate) in pricing.rates(product, capacity).into_iter().enumerate() {
            let seed = 100 * round.seed + 10 * index as u64;
            let (some, bytes) = meter
                .runs(rate, product.registers(), seed)
                .with_context(|| format!("{product:?} at {rate:.0} a second"))?;
            runs.extend(some);
            memory = memory.max(bytes);
        }
        let costs = Costs::of(&runs, memory / 1024.0).context("the runs do not tell INVITE and BYE apart")?;
        if pricing == Pricing::Part && costs.ratio().is_finite() {
            for (what, us) in [("us of an INVITE", costs.invite_us), ("us of a BYE", costs.bye_us)] {
                round.figures.once(&figure(product, what), || Ok(us))?;
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
    fn costs_that_were_put_in_come_out() {
        let costs = Costs::of(&runs(1.0), 1.0).expect("mixes that differ");
        let found = [costs.invite_us, costs.bye_us, costs.register_us, costs.kept_us];
        for (found, put) in found.into_iter().zip([350.0, 200.0, 120.0, 5.0]) {
            assert!((found - put).abs() < 1e-3, "{found} in place of {put}");
        }
        assert!((costs.idle - 0.005).abs() < 1e-6 && (costs.ratio() - 1.75).abs() < 1e-6);
        assert!(Costs { bye_us: -1.0, ..costs }.ratio().is_nan(), "there is no ratio to nothing");
    }

    #[test]
    fn a_server_without_registrations_has_a_cost_of_calls() {
        let costs = Costs::of(&runs(0.0), 1.0).expect("mixes that differ");
        assert!(costs.register_us.is_nan() && (costs.invite_us - 350.0).abs() < 1e-3);
        let same = CostRun { seconds: 1.0, numbers: [5.0, 5.0, 0.0], kept: 0.0, used: 1.0 };
        let rest = CostRun { numbers: [0.0; 3], ..same };
        assert!(Costs::of(&[rest, same, same], 1.0).is_none(), "these do not tell INVITE from BYE");
        assert!(Costs::of(&runs(1.0)[2..], 1.0).is_none(), "in none of these nothing was kept");
    }

    #[test]
    fn what_is_kept_counts_from_its_answer() {
        let answered = [0.0, 10.0, 40.0];
        assert!((kept(&answered, 32.0, 20.0..42.0) - (12.0 + 22.0 + 2.0)).abs() < 1e-9);
        assert!(
            kept(&answered, 32.0, 100.0..105.0).abs() < 1e-9 && kept(&answered, 0.0, 0.0..50.0).abs() < 1e-9
        );
    }
}
