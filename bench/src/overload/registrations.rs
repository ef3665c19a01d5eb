//! Telephones that all register after an outage, beside calls, at a registrar limited to a fraction of a processor.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Result;

use super::parts::Start;
use super::{CALLERS, OverloadBench, QUOTA};
use crate::callers::DOMAIN;
use crate::generator::{Level, LoadGenerator, OfferedLoad};
use crate::log::CallLog;
use crate::rig::{Rig, address, pool};
use crate::study::{Alternative, Bound, Cell, Measure, Question, Samples, Study, Values};

/// The registrar's number.
const REGISTRAR: u8 = 93;
/// Number of telephones in multiples of the registrar's calls a second, and the seconds between which they register.
/// The registrar takes about twice as many registrations as calls.
const TELEPHONES: f64 = 40.0;
const BURST: [f64; 2] = [4.0, 5.0];
/// Other calls as a fraction of the capacity, and their length in seconds.
const CALLS: (f64, f64) = (0.3, 60.0);
const WAYS: [(&str, &str); 2] = [("none", "local = \"none\""), ("delay", "local = \"delay\"")];

fn start(keys: &'static str) -> Start {
    Box::new(move |rig: &mut Rig, answerers: &[SocketAddr], _| {
        let tables = format!(
            "{}\n[registrar]\ndomains = [\"{DOMAIN}\"]\n\n[[route]]\nhost = \"{DOMAIN}\"\nlocation = true\n\n\
             [[route]]\npool = \"servers\"\n\n[overload]\n{keys}\n",
            pool(answerers, "forward = \"stateless\"")
        );
        let command = rig.sarabande(address(REGISTRAR), "threads = 1", &tables)?;
        rig.start(QUOTA, "sarabande", &command)?;
        Ok(vec![address(REGISTRAR)])
    })
}

/// Number of registered telephones, time from their first attempt, and the calls beside.
pub(super) struct Registrations {
    telephones: f64,
    registered: f64,
    refused: f64,
    half_s: f64,
    nearly_all_s: f64,
    /// Most registrations within a second.
    most_a_second: f64,
    /// Fraction of the calls that were set up in time.
    calls_in_time: f64,
}

impl Registrations {
    fn of(log: &CallLog) -> Self {
        let telephones = log.of(true);
        let mut delays: Vec<u64> =
            telephones.calls.iter().filter_map(|telephone| telephone.set_up_ns).collect();
        delays.sort_unstable();
        let all = telephones.calls.len();
        // Percentiles count all telephones: one that has not registered at the end counts as never.
        let after = |percent: usize| {
            let at = (all * percent).div_ceil(100).saturating_sub(1);
            delays.get(at).map_or(f64::INFINITY, |delay| *delay as f64 / 1e9)
        };
        let times =
            telephones.calls.iter().filter_map(|it| Some((it.due_ns + it.set_up_ns?) / 1_000_000_000));
        let seconds = times.fold(BTreeMap::<u64, u32>::new(), |mut seconds, second| {
            *seconds.entry(second).or_default() += 1;
            seconds
        });
        let calls = log.of(false).window(0.0..CALLS.1);
        Self {
            telephones: all as f64,
            registered: delays.len() as f64,
            refused: telephones.refused() as f64,
            half_s: after(50),
            nearly_all_s: after(99),
            most_a_second: seconds.values().copied().max().unwrap_or_default().into(),
            calls_in_time: calls.goodput / calls.offered,
        }
    }
}

impl OverloadBench {
    /// With overload control and without.
    pub(super) fn registrations(&self) -> Study<'_, Registrations> {
        let alternative = |(name, keys): (&'static str, &'static str)| {
            Alternative::new(name, move |round| -> Result<Samples<Registrations>> {
                let capacity = self.capacity("the registrar", 1, &start(WAYS[0].1), round)?;
                let mut generator = LoadGenerator::new(CALLERS, 1)?;
                let (_rig, targets) = self.start(&start(keys), &mut generator, capacity)?;
                let scale = if self.quick { 0.1 } else { 1.0 };
                let telephones = (scale * TELEPHONES * capacity) as usize;
                let [from, to] = BURST.map(|at| scale * at);
                let due: Vec<f64> = (0..telephones)
                    .map(|number| from + (to - from) * number as f64 / telephones as f64)
                    .collect();
                generator.seed = Some(round.seed);
                let (load, seconds) = CALLS;
                let calls =
                    OfferedLoad::Open(vec![Level { rate: load * capacity, seconds: scale * seconds }]);
                Ok(vec![(0.0, Registrations::of(&generator.play_with(&targets, calls, &due)?))])
            })
        };
        let name = "an outage";
        let in_time = |alternative: &str| Values::new(name, alternative, None, "calls_in_time");
        let measure = |column, digits, of| Measure { column, digits: Some(digits), of };
        Study {
            cells: vec![Cell::new(name, WAYS.map(alternative).into())],
            measures: vec![
                measure("telephones", 0, |it: &Registrations| it.telephones),
                measure("registered", 0, |it| it.registered),
                measure("refused_at_first", 0, |it| it.refused),
                measure("half_after_s", 1, |it| it.half_s),
                measure("99_percent_after_s", 1, |it| it.nearly_all_s),
                measure("most_a_second", 0, |it| it.most_a_second),
                measure("calls_in_time", 3, |it| it.calls_in_time),
            ],
            questions: vec![Question {
                statement: "More of the calls beside are set up in time with overload control.".to_owned(),
                source: "us",
                left: in_time("delay"),
                right: Some(in_time("none")),
                bound: Bound::Above(1.0),
            }],
            ..Study::new(
                "registrations",
                "Telephones that register after an outage, beside calls",
                "Forty times as many telephones as calls that the registrar takes a second, within a second.",
            )
        }
    }
}
