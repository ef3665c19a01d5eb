//! Two servers of which one loses half its processor to another task.

use super::cluster::{self, Half, POLICIES, Servers};
use super::peak::{Search, method, search};
use super::response::capital;
use crate::figures::{Entry, Options, Progress};
use crate::report::{Axis, Claim, Figure, Plot, Series, Style};

pub(in crate::figures) const UNEQUAL: Entry = Entry {
    name: "tlwl-unequal",
    title: "Peak throughput of two servers, one of which loses half its CPU",
    source: "TLWL paper, sections III and V; TLWL digest, section VI d and figure 6",
    run: unequal,
};

const HALVES: [Half; 2] = [Half::Unknown, Half::Known];
/// Policies that know nothing of load: the paper's "prior art".
const PRIOR: [&str; 3] = ["round-robin", "hash", "fnv-hash"];
/// The paper's own.
const NEW: [&str; 4] = ["cjsq", "tjsq", "tlwl-1.75", "tlwl-2"];

/// Peaks with one kind of servers: by what is known, then by policy.
struct Peaks {
    servers: Servers,
    found: Vec<f64>,
}

/// One and a half servers.
fn ideal(servers: Servers) -> f64 {
    1.5 * servers.capacity()
}

impl Peaks {
    fn of(&self, half: Half, policy: &str) -> f64 {
        let known = usize::from(half == Half::Known);
        let at = POLICIES.iter().position(|of| *of == policy).expect("all policies are run");
        self.found[known * POLICIES.len() + at]
    }

    fn plot(&self) -> Plot {
        let mut plot = Plot::new(
            capital(self.servers.name()),
            Axis::names("policy", POLICIES),
            Axis::linear("peak throughput (calls/s)"),
        );
        for (half, name) in HALVES.into_iter().zip(["capacities unknown", "capacities known to the balancer"])
        {
            let bars = (0..).zip(POLICIES).map(|(at, policy)| (f64::from(at), self.of(half, policy)));
            plot.series(Series::new(name, Style::Line, bars));
        }
        plot.level("ideal", ideal(self.servers));
        plot
    }

    fn listed(&self, half: Half, policies: &[&str]) -> String {
        let one = |policy: &&str| format!("{policy} {:.0}", self.of(half, policy));
        let list: Vec<String> = policies.iter().map(one).collect();
        format!(
            "{}: {} calls/s of {:.0}.",
            capital(self.servers.name()),
            list.join(", "),
            ideal(self.servers)
        )
    }

    fn claims(&self) -> [Claim; 4] {
        let tlwl = self.of(Half::Unknown, "tlwl-1.75");
        let prior = PRIOR.map(|policy| self.of(Half::Unknown, policy)).into_iter().fold(0.0, f64::max);
        let near = |half, policy: &&str| self.of(half, policy) >= 0.9 * ideal(self.servers);
        [
            Claim::check(
                "section V-B; digest, section VI d",
                "TLWL is near the optimal 450 calls/s when the servers differ by half.",
                format!(
                    "Capacities unknown. {} The check asks for 90 %.",
                    self.listed(Half::Unknown, &["tlwl-1.75", "tlwl-2"])
                ),
                near(Half::Unknown, &"tlwl-1.75"),
            ),
            Claim::check(
                "sections III and V-B",
                "That is over 60 % more than the prior algorithms reach.",
                format!(
                    "Capacities unknown. {} tlwl-1.75 is {:.0} % above the best of the others. An even split leaves the slow server \
                     with half of the calls, so that it reaches two thirds of the ideal at best: 50 % is the most that there is to gain \
                     over one that comes that far.",
                    self.listed(Half::Unknown, &PRIOR),
                    100.0 * (tlwl / prior - 1.0)
                ),
                tlwl > 1.6 * prior,
            ),
            Claim::check(
                "section III",
                "Where the balancer does not know the capacities, the new algorithms adapt on their own (CJSQ, TJSQ, TLWL).",
                format!("{} The check asks for 90 % of each.", self.listed(Half::Unknown, &NEW)),
                NEW.iter().all(|policy| near(Half::Unknown, policy)),
            ),
            Claim::check(
                "section III",
                "Dividing the estimated work by the capacity serves CJSQ, TJSQ and TLWL.",
                format!(
                    "Capacities known. {} The check asks for 90 % of each, and for no less than with capacities unknown.",
                    self.listed(Half::Known, &NEW)
                ),
                NEW.iter().all(|policy| {
                    near(Half::Known, policy)
                        && self.of(Half::Known, policy) >= self.of(Half::Unknown, policy)
                }),
            ),
        ]
    }
}

fn unequal(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    let mut searches = Vec::new();
    for servers in Servers::BOTH {
        for half in HALVES {
            searches.extend(POLICIES.map(|policy| {
                let mut search = Search::new(options, policy, servers, 2);
                search.case.half = half;
                Search { ideal: ideal(servers), ..search }
            }));
        }
    }
    let found = search(options, &searches, progress);
    let kinds = Servers::BOTH.into_iter().zip(found.chunks(HALVES.len() * POLICIES.len()));
    let kinds: Vec<Peaks> = kinds.map(|(servers, found)| Peaks { servers, found: found.to_vec() }).collect();
    let mut figure = options.figure(&UNEQUAL, kinds.iter().map(Peaks::plot).collect());
    for (at, peaks) in kinds.iter().enumerate() {
        figure.claims.extend(peaks.claims().map(|claim| claim.about(at)));
    }
    figure.assumptions = cluster::assumptions(cluster::TENTH);
    figure.assumptions.push(
        "The second server works at half its speed from the start, evenly. Known capacities are 300 and 150 calls/s, to every policy: \
         round-robin and the hashes then split in that ratio."
            .into(),
    );
    figure.notes = vec![
        method(options),
        "CJSQ evens out how many calls are in progress. With holding times these hardly depend on a server's speed, so both servers get \
         calls at the same rate as long as the balancer does not know better."
            .into(),
    ];
    figure
}
