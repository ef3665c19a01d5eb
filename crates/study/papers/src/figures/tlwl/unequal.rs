//! Two servers, one of which loses half of its processor to another task.

use super::cluster::{self, Half, POLICIES, Servers};
use super::peak::{Search, method, search};
use super::response::capital;
use crate::figures::{FigureOptions, FigureRun};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement};
use core::time::Duration;

/// Knowledge of the balancer, and whether calls have a holding time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Knowing {
    /// Capacities unknown, calls with holding times.
    Unknown,
    /// Capacities unknown, calls without holding times.
    Unheld,
    /// Capacities known, calls with holding times.
    Known,
}

const KNOWING: [Knowing; 3] = [Knowing::Unknown, Knowing::Unheld, Knowing::Known];
/// Policies that do not use the load: the paper's "prior art".
const PRIOR: [&str; 3] = ["round-robin", "hash", "fnv-hash"];
/// The paper's own policies.
const NEW: [&str; 4] = ["cjsq", "tjsq", "tlwl-1.75", "tlwl-2"];
/// Policies that are also shown without holding times and with known capacities.
const SOME: [&str; 4] = ["hash", "cjsq", "tjsq", "tlwl-1.75"];
/// Part of the ideal that counts as near.
const NEAR: f64 = 0.9;
/// Ratio of the paper's policies to the others: "over 60%".
const GAIN: f64 = 1.6;

impl Knowing {
    fn policies(self) -> &'static [&'static str] {
        if self == Self::Unknown { &POLICIES } else { &SOME }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Unknown => "capacities unknown",
            Self::Unheld => "unknown, no holding times",
            Self::Known => "capacities known",
        }
    }

    fn search(self, options: &FigureOptions, policy: &'static str, servers: Servers) -> Search {
        let half = if self == Self::Known { Half::Known } else { Half::Unknown };
        let search = Search::new(options, policy, servers, 2).halved(half).over(window(options));
        let search = if self == Self::Unheld { search.without_holding() } else { search };
        // With an even split the slow server gets half of the calls.
        let even = half == Half::Unknown && PRIOR.contains(&policy);
        if even { search.below(servers.capacity()) } else { search }
    }
}

/// Peaks with one kind of servers, by knowledge and policy.
struct Peaks {
    servers: Servers,
    found: Vec<Vec<f64>>,
}

/// Capacity of one and a half servers.
fn ideal(servers: Servers) -> f64 {
    1.5 * servers.capacity()
}

impl Peaks {
    /// Peak of a policy; NaN if it was not searched.
    fn of(&self, knowing: Knowing, policy: &str) -> f64 {
        let at = knowing.policies().iter().position(|of| *of == policy);
        at.map_or(f64::NAN, |at| self.found[knowing as usize][at])
    }

    fn plot(&self) -> Plot {
        let bars = KNOWING
            .map(|knowing| PlotSeries::bars(knowing.name(), POLICIES.map(|policy| self.of(knowing, policy))));
        let (x, y) = (Axis::names("policy", POLICIES), Axis::linear("peak throughput (calls/s)"));
        let mut plot = Plot::of(capital(self.servers.name()), x, y, bars);
        plot.level("ideal", ideal(self.servers));
        plot
    }

    fn listed(&self, knowing: Knowing, policies: &[&str]) -> String {
        let one = |policy: &&str| format!("{policy} {:.0}", self.of(knowing, policy));
        let list: Vec<String> = policies.iter().map(one).collect();
        format!(
            "{}, {}: {} calls/s of {:.0}.",
            capital(self.servers.name()),
            knowing.name(),
            list.join(", "),
            ideal(self.servers)
        )
    }

    fn is_near(&self, knowing: Knowing, policy: &str) -> bool {
        self.of(knowing, policy) >= NEAR * ideal(self.servers)
    }

    /// Claims about balancers that do not know the capacities.
    fn unknown(&self) -> Vec<Statement> {
        let adapts = |policy: &&str| self.is_near(Knowing::Unknown, policy);
        claims! {
            "section V-B; digest, section VI d", "TLWL is near the optimal 450 calls/s when one server has half the \
             speed.",
                ["{} The check requires 90 %.", self.listed(Knowing::Unknown, &["tlwl-1.75", "tlwl-2"])],
                self.is_near(Knowing::Unknown, "tlwl-1.75");
            => self.gain();
            "section III", "CJSQ, TJSQ and TLWL adapt to capacities that the balancer does not know.",
                ["{} The check requires 90 % of each.", self.listed(Knowing::Unknown, &NEW)],
                NEW.iter().all(adapts),
                differs_by("CJSQ alone does not: calls that are held hardly tell how fast a server is, so that both \
                 have as many and get as many. The paper says the same of it in section V-B; without holding times \
                 it adapts here too.");
        }
    }

    fn gain(&self) -> Statement {
        let tlwl = self.of(Knowing::Unknown, "tlwl-1.75");
        let prior = PRIOR.map(|policy| self.of(Knowing::Unknown, policy)).into_iter().fold(0.0, f64::max);
        let (source, statement) =
            ("sections III and V-B", "TLWL carries over 60 % more than the prior algorithms.");
        let measured = format!(
            "{} tlwl-1.75 is {:.0} % above the best of them.",
            self.listed(Knowing::Unknown, &PRIOR),
            100.0 * (tlwl / prior - 1.0)
        );
        let most = ideal(self.servers) / prior;
        if most < GAIN {
            let why = format!(
                "An even split can reach two thirds of the ideal and comes so close that even the ideal is only {:.0} \
                 % more.",
                100.0 * (most - 1.0)
            );
            return Statement::out_of_reach(source, statement, measured, why);
        }
        Statement::check(source, statement, measured, tlwl > GAIN * prior)
    }

    /// Claims about holding times and about known capacities.
    fn known(&self) -> Vec<Statement> {
        let unheld = |policy: &&str| self.is_near(Knowing::Unheld, policy);
        let no_less = |policy: &&str| {
            self.is_near(Knowing::Known, policy)
                && self.of(Knowing::Known, policy) >= self.of(Knowing::Unknown, policy)
        };
        claims! {
            "section V-B", "CJSQ is as good as TJSQ without holding times, and worse with them.",
                ["{} {} The check requires 90 % of both without, and less of CJSQ with.",
                 self.listed(Knowing::Unheld, &["cjsq", "tjsq", "hash"]),
                 self.listed(Knowing::Unknown, &["cjsq", "tjsq", "hash"])],
                ["cjsq", "tjsq"].iter().all(unheld)
                    && self.of(Knowing::Unknown, "cjsq") < self.of(Knowing::Unheld, "cjsq"),
                differs_by("A server that absorbs repeated requests falls behind without collapse. CJSQ counts its \
                 waiting calls and sends fewer, before callers give up.");
            "section III", "CJSQ, TJSQ and TLWL work if the estimated work is divided by the capacity.",
                ["{} The check requires 90 % of each, and no less than with capacities unknown.",
                 self.listed(Knowing::Known, &SOME[1..])],
                SOME[1..].iter().all(no_less),
                differs_by("CJSQ alone falls short: among hundreds of calls in progress it hardly sees the few that \
                 wait for a server that stands still.");
        }
    }
}

/// Length of a run. Two servers are cheaper to simulate than eight, and pause less often.
fn window(options: &FigureOptions) -> Duration {
    Duration::from_secs(options.scale(60, 30, 3))
}

pub(in crate::figures) fn unequal(work: &FigureRun<'_>) -> Figure {
    let mut searches = Vec::new();
    for servers in Servers::BOTH {
        for knowing in KNOWING {
            searches.extend(knowing.policies().iter().map(|policy| knowing.search(work, policy, servers)));
        }
    }
    let mut found = search(work, &searches).into_iter();
    let kinds = Servers::BOTH.map(|servers| Peaks {
        servers,
        found: KNOWING.map(|knowing| found.by_ref().take(knowing.policies().len()).collect()).into(),
    });
    let mut figure = work.figure(kinds.iter().map(Peaks::plot).collect());
    for (at, peaks) in kinds.iter().enumerate() {
        let claims = peaks.unknown().into_iter().chain(peaks.known());
        figure.claims.extend(claims.map(|claim| claim.about(at)));
    }
    figure.assumptions = cluster::assumptions(work);
    figure.assumptions.push(
        "The second server works at half its speed from the start, evenly. Known capacities are 300 and 150 calls/s, \
         to every policy: round-robin and the hashes then split in that ratio."
            .into(),
    );
    figure.notes = vec![
        method(work, window(work)),
        "CJSQ evens out how many calls are in progress. With holding times these hardly depend on a server's speed until \
         calls wait there for about as long as they last, so that until then both servers get calls at the same rate."
            .into(),
    ];
    figure
}
