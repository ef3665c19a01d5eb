//! Contention behind the servers: a shared database, or the database of one server, becomes slow.

use super::super::FigureRun;
use super::ways::{self, CAPACITY, Compared, LOAD, SERVERS, Times, Way, lost, set_up};
use super::{assumptions, micros};
use crate::report::{Figure, Statement, StatementVerdict};
use core::time::Duration;
use sim::cloud::{CloudPlan, Database, Resource};
use sim::engine::TimeSpread;

/// Look-ups per second of a database.
const RATE: f64 = 1_500.0;
/// Cause: the queue loses more calls than TLWL in front of an overloaded database.
const WHY_MORE: &str = "With TLWL a thousand calls wait in the database for 2.7 s until the neighbours are gone; the \
 queue refuses calls after 250 ms.";
/// Target latency of the estimators.
const GOAL: Duration = Duration::from_millis(5);

/// Whether all servers share a database, and the part of the first database that its neighbours take.
const CLUSTERS: [(&str, bool, f64); 3] =
    [("one, slow", true, 0.6), ("one, overloaded", true, 0.75), ("own, one overloaded", false, 0.95)];
/// Indexes in [`CLUSTERS`].
const SLOW: usize = 0;
const FULL: usize = 1;
const OWN: usize = 2;

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let times = Times::new(work);
    let clusters = CLUSTERS.map(|(name, is_shared, share)| {
        let neighbours = times.neighbours(Resource::Processor, share);
        let database = Database { is_shared, rate: RATE, spread: TimeSpread::Exponential, neighbours };
        (name, CloudPlan { database: Some(database), ..times.cluster() })
    });
    let compared = Compared::run(work, times, &clusters, GOAL);
    let mut figure = work.figure([SLOW, FULL, OWN].map(|cluster| compared.plots(cluster)).concat());
    figure.tables = vec![compared.table("database")];
    figure.claims = claims(&compared);
    figure.assumptions = [assumptions(), ways::assumptions()].concat();
    figure.assumptions.push(format!(
        "A database looks up {RATE:.0} calls/s one after another, at exponential times, each new call once, before its server \
         sends it on; a server goes on with other messages meanwhile. Neighbours of the database take 60 % of it (slow: it still \
         carries all {LOAD:.0} calls/s), 75 % (overloaded: it does not), or 95 % of that of one server. Estimators aim at {} ms.",
        GOAL.as_millis()
    ));
    figure
}

fn p95(second: &sim::cloud::CloudSecond) -> f64 {
    micros(second.p95)
}

fn claims(compared: &Compared) -> Vec<Statement> {
    let ratio = |cluster, way, value: fn(&sim::cloud::CloudSecond) -> f64| {
        compared
            .of(cluster, way, |run| compared.within(run, true, value) / compared.within(run, false, value))
    };
    let slower = ratio(SLOW, Way::Tlwl, p95);
    let carried = |second: &sim::cloud::CloudSecond| second.goodput as f64;
    let (less, kept) = (ratio(SLOW, Way::Paper, carried), ratio(SLOW, Way::Tlwl, carried));
    let normal = |way| compared.of(FULL, way, |run| compared.within(run, true, p95) / 1e3);
    let (paper, tlwl) = (normal(Way::Paper), normal(Way::Tlwl));
    let goal = GOAL.as_secs_f64() * 1e3;
    let monitored = compared.of(SLOW, Way::Paper, lost);
    let half = compared.beside_tlwl(FULL, Way::Queue, |run| set_up(run, 95.0));
    claims! {
        "section IV-A", "A suddenly slow database also affects the latency of the servers.",
            ["{slower:.1} times the latency, at the same load."],
            StatementVerdict::above(slower, 2.0);
        "section IV-A", "A slow database decreases the load of the servers, although they have free capacity.",
            ["If the database is slow and carries all calls, a server gets {less:.2} of its previous calls with the \
             paper's monitors, {kept:.2} by TLWL; it asked for at most {CAPACITY:.0}/s and got {:.0}.",
             LOAD / SERVERS as f64],
            StatementVerdict::below(less, 0.9).and(StatementVerdict::above(kept, 0.9)), about(1);
        "section IV-A", "The decrease leads to fewer queries, relieves the database and returns latency to normal.",
            ["If the database is overloaded, the mean p95 is {paper:.1} ms with the paper's monitors, {tlwl:.0} by \
             TLWL; the goal is {goal:.0}."],
            StatementVerdict::below(paper, goal).and(StatementVerdict::above(tlwl, goal)), about(2),
            differs_by("A reduction comes only every 10 s, and the backlog in the database must be processed \
             first.");
        "ours", "If the database is slow but carries all calls, estimates lose no calls.",
            ["{monitored:.1} % lost with the paper's monitors, {:.1} % by TLWL.",
             compared.of(SLOW, Way::Tlwl, lost)],
            StatementVerdict::below(monitored, 0.1), about(1),
            differs_by("The estimator asks for less whatever the cause of the latency, and no other server has free \
             capacity.");
        => compared.no_worse(SLOW, "If the database is slow and carries all calls, the queue is no worse than \
         TLWL.");
        => compared.no_worse(FULL, "If the shared database is overloaded, the queue is no worse than \
         TLWL.").about(2).differs_by(WHY_MORE);
        "ours", "If the shared database is overloaded, the queue halves the set-up time of 95 % of the carried \
         calls.",
            ["{half:.2} times that of TLWL."],
            StatementVerdict::below(half, 0.5), about(2);
        => compared.no_worse(OWN, "If one server's own database is overloaded, the queue is no worse than \
         TLWL.").about(4);
    }
}
