//! Figures 4 and 5: peak throughput of every policy, and of one against the number of servers.

use super::cluster::{self, Case, Half, POLICIES, SERVER_CAPACITY, SERVERS, Servers};
use super::response::capital;
use crate::figures::{Entry, Options, Progress};
use crate::report::{Axis, Claim, Figure, Plot, Series, Style};
use crate::stats::sweep;
use core::time::Duration;

pub(in crate::figures) const PEAK: Entry = Entry {
    name: "tlwl-4",
    title: "Peak throughput of every policy with 8 servers",
    source: "TLWL paper, figure 4; TLWL digest, figure 5",
    run: peaks,
};

pub(in crate::figures) const SCALING: Entry = Entry {
    name: "tlwl-5",
    title: "Peak throughput against the number of servers",
    source: "TLWL paper, figure 5",
    run: scaling,
};

/// Requests that may fail at the peak: "more than 99.99% of all requests" are handled (section IV).
const FAILED_MAX: f64 = 1e-4;

/// Looks for the peak of one cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// Its load is what is looked for.
    pub(super) case: Case,
    /// What all servers together carry, in calls/s: the highest load tried.
    pub(super) ideal: f64,
    /// Loads tried, as equal parts of the ideal.
    pub(super) steps: u32,
}

impl Search {
    /// Over a tenth of a minute of holding, or none.
    pub(super) fn new(options: &Options, policy: &'static str, servers: Servers, count: u16) -> Self {
        let window = Duration::from_secs(options.pick(40, 20));
        let holding = cluster::TENTH;
        let case = Case { policy, servers, count, load: 0.0, holding, half: Half::None, window };
        let ideal = f64::from(count) * servers.capacity();
        Self { case, ideal, steps: options.pick(40, 20) }
    }

    pub(super) fn without_holding(mut self) -> Self {
        self.case.holding = Duration::ZERO;
        self
    }

    fn load(&self, step: u32) -> f64 {
        self.ideal * f64::from(step) / f64::from(self.steps)
    }

    /// The highest load of its grid, in calls/s, that the cluster handles, if it handles all below as well; 0 = none.
    pub(super) fn run(&self, seed: u64) -> f64 {
        let handles = |step| Case { load: self.load(step), ..self.case }.run(seed).failed() < FAILED_MAX;
        if handles(self.steps) {
            return self.ideal;
        }
        let (mut good, mut bad) = (0, self.steps);
        while bad - good > 1 {
            // Peaks lie high: three quarters of what is left is the better guess than a half.
            let step = good + (3 * (bad - good)).div_ceil(4).min(bad - good - 1);
            if handles(step) { good = step } else { bad = step }
        }
        self.load(good)
    }
}

/// Runs all searches.
pub(super) fn search(options: &Options, searches: &[Search], progress: &dyn Fn(Progress<'_>)) -> Vec<f64> {
    let done = |done| progress(Progress { done, of: searches.len(), what: "peaks" });
    let peaks = sweep::replicate(searches, 1, options.seed, options.threads, Search::run, done);
    peaks.into_iter().flatten().collect()
}

/// A note on how peaks are found.
pub(super) fn method(options: &Options) -> String {
    format!(
        "A peak is looked for by halving among {} equal steps up to the capacity of all servers together, the highest load tried; it is \
         as exact as a step, {:.1} % of that. One run of {} s after the warm-up decides; all policies meet the same arrivals and pauses. \
         A request fails when it gets no 2xx; INVITEs that pile up \
         over the run count as failed too, but for a second's worth of them.",
        options.pick(40, 20),
        options.pick(2.5, 5.0),
        options.pick(40, 20)
    )
}

/// Policies that are also run without holding times.
const WITHOUT: [&str; 4] = ["hash", "cjsq", "tjsq", "tlwl-1.75"];

/// Peaks with one kind of servers.
struct Peaks {
    servers: Servers,
    /// One a policy.
    held: Vec<f64>,
    /// One for each of [`WITHOUT`].
    unheld: Vec<f64>,
    step: f64,
}

impl Peaks {
    fn of(&self, policy: &str) -> f64 {
        self.held[POLICIES.iter().position(|of| *of == policy).expect("all policies are run")]
    }

    fn unheld(&self, policy: &str) -> Option<f64> {
        WITHOUT.iter().position(|of| *of == policy).map(|at| self.unheld[at])
    }

    fn ideal(&self) -> f64 {
        f64::from(SERVERS) * self.servers.capacity()
    }

    fn plot(&self) -> Plot {
        let x = Axis::names("policy", POLICIES);
        let title = format!("{}, {SERVERS} of them", capital(self.servers.name()));
        let mut plot = Plot::new(title, x, Axis::linear("peak throughput (calls/s)"));
        let bars = |of: &dyn Fn(&str) -> f64| -> Vec<(f64, f64)> {
            (0..).zip(POLICIES).map(|(at, policy)| (f64::from(at), of(policy))).collect()
        };
        plot.series(Series::new("with holding times", Style::Line, bars(&|policy| self.of(policy))));
        let unheld = |policy: &str| self.unheld(policy).unwrap_or(f64::NAN);
        plot.series(Series::new("without", Style::Line, bars(&unheld)));
        plot.level("capacity", self.ideal());
        plot
    }

    fn listed(&self, policies: &[&str]) -> String {
        let one = |policy: &&str| format!("{policy} {:.0}", self.of(policy));
        let list: Vec<String> = policies.iter().map(one).collect();
        format!("{}: {} calls/s.", capital(self.servers.name()), list.join(", "))
    }

    /// What the paper says of all policies.
    fn throughput(&self) -> [Claim; 5] {
        let tlwl = self.of("tlwl-1.75");
        let most = |policies: &[&str]| policies.iter().map(|policy| self.of(policy)).fold(0.0, f64::max);
        let least =
            |policies: &[&str]| policies.iter().map(|policy| self.of(policy)).fold(f64::MAX, f64::min);
        let fixed = ["round-robin", "hash", "fnv-hash"];
        let gain = |peak: f64| 100.0 * (tlwl / peak - 1.0);
        [
            Claim::check(
                "section V-B",
                "TLWL scales linearly: 8 servers carry 8 times what one does (2439 calls/s in the paper).",
                format!(
                    "{} The servers can carry {:.0}.",
                    self.listed(&["tlwl-1.75", "tlwl-2"]),
                    self.ideal()
                ),
                tlwl >= 0.95 * self.ideal(),
            ),
            Claim::check(
                "section V-B",
                "TLWL has the highest peak throughput.",
                self.listed(&POLICIES),
                tlwl >= most(&POLICIES),
            ),
            Claim::check(
                "abstract; section VII",
                "TLWL's throughput is up to 24 or 25 % above that of the other algorithms.",
                format!(
                    "{}: {:.0} % above round-robin, {:.0} % above hash, {:.0} % above fnv-hash, {:.0} % above cjsq (the check asks for 20 % \
                     above one of them).",
                    capital(self.servers.name()),
                    gain(self.of("round-robin")),
                    gain(self.of("hash")),
                    gain(self.of("fnv-hash")),
                    gain(self.of("cjsq"))
                ),
                gain(least(&fixed).min(self.of("cjsq"))) >= 20.0,
            ),
            Claim::check(
                "section VII",
                "TJSQ has nearly the same level of performance.",
                self.listed(&["tjsq", "tlwl-1.75"]),
                self.of("tjsq") >= tlwl - 1.01 * self.step,
            ),
            Claim::check(
                "section V-B",
                "By response times the balancer does not find the least loaded server.",
                self.listed(&["rwma", "tlwl-1.75"]),
                self.of("rwma") < tlwl - self.step,
            ),
        ]
    }

    /// What it says of holding times.
    fn holding(&self) -> [Claim; 3] {
        let tlwl = self.of("tlwl-1.75");
        let fixed = ["round-robin", "hash", "fnv-hash"].map(|policy| self.of(policy));
        let unheld = |policy| self.unheld(policy).unwrap_or(f64::NAN);
        [
            Claim::check(
                "section V-B",
                "With pause times, CJSQ is significantly worse than the others, worse than a static allocation such as Hash.",
                self.listed(&["cjsq", "hash", "fnv-hash", "round-robin"]),
                self.of("cjsq") < fixed.into_iter().fold(f64::MAX, f64::min),
            ),
            Claim::check(
                "section V-B",
                "Without pause times, CJSQ is comparable to TJSQ.",
                format!(
                    "{} without holding times: cjsq {:.0}, tjsq {:.0}, hash {:.0} calls/s.",
                    capital(self.servers.name()),
                    unheld("cjsq"),
                    unheld("tjsq"),
                    unheld("hash")
                ),
                (unheld("cjsq") - unheld("tjsq")).abs() <= 1.01 * self.step,
            ),
            Claim::check(
                "section IV",
                "Peak throughput is not affected much by pause times.",
                format!(
                    "{}, tlwl-1.75: {tlwl:.0} with, {:.0} without holding times.",
                    capital(self.servers.name()),
                    unheld("tlwl-1.75")
                ),
                (unheld("tlwl-1.75") - tlwl).abs() <= 1.01 * self.step,
            ),
        ]
    }
}

fn peaks(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    let mut searches = Vec::new();
    for servers in Servers::BOTH {
        searches.extend(POLICIES.map(|policy| Search::new(options, policy, servers, SERVERS)));
        searches
            .extend(WITHOUT.map(|policy| Search::new(options, policy, servers, SERVERS).without_holding()));
    }
    let found = search(options, &searches, progress);
    let kinds = Servers::BOTH.iter().zip(found.chunks(POLICIES.len() + WITHOUT.len()));
    let kinds: Vec<Peaks> = kinds
        .map(|(&servers, peaks)| Peaks {
            servers,
            held: peaks[..POLICIES.len()].to_vec(),
            unheld: peaks[POLICIES.len()..].to_vec(),
            step: f64::from(SERVERS) * servers.capacity() / f64::from(options.pick(40, 20)),
        })
        .collect();
    let mut figure = options.figure(&PEAK, kinds.iter().map(Peaks::plot).collect());
    for (at, peaks) in kinds.iter().enumerate() {
        let claims = peaks.throughput().into_iter().chain(peaks.holding());
        figure.claims.extend(claims.map(|claim| claim.about(at)));
    }
    figure.assumptions = cluster::assumptions(cluster::TENTH);
    figure.notes = vec![
        method(options),
        "Steady servers behind any policy that splits calls evenly in the long run carry what they can: a policy shows in how long \
         requests wait, not in how many get through. Where servers pause, a policy that goes on sending to a server that stands still \
         piles up requests there until their callers send them again after 0.5 s, which costs the server as much as the first time; \
         then it may never catch up, and that decides the peak."
            .into(),
    ];
    figure
}

fn scaling(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    let counts: &[u16] = options.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[1, 2, 4, 7, 10]);
    let of = |servers| {
        counts.iter().map(move |&count| Search::new(options, "tlwl-1.75", servers, count).without_holding())
    };
    let searches: Vec<Search> = Servers::BOTH.into_iter().flat_map(of).collect();
    let found = search(options, &searches, progress);
    let x = Axis::linear("servers").from_to(0.0, 10.5);
    let mut plot = Plot::new("TLWL-1.75", x, Axis::linear("peak throughput (calls/s)"));
    let mut claims = Vec::new();
    for (colour, (servers, peaks)) in Servers::BOTH.into_iter().zip(found.chunks(counts.len())).enumerate() {
        let points: Vec<(f64, f64)> =
            counts.iter().zip(peaks).map(|(&count, &peak)| (f64::from(count), peak)).collect();
        plot.series(Series::new(servers.name(), Style::Line, points.iter().copied()).colour(colour));
        let ideal = [(0.0, 0.0), (10.5, 10.5 * servers.capacity())];
        plot.series(Series::new(format!("capacity of {}", servers.name()), Style::Law, ideal).colour(colour));
        let part = |(count, peak): &(f64, f64)| 100.0 * peak / (count * servers.capacity());
        let list: Vec<String> =
            points.iter().map(|at| format!("{:.0} servers {:.0} ({:.0} %)", at.0, at.1, part(at))).collect();
        claims.push(Claim::check(
            "section V-B, figure 5",
            "Peak throughput grows linearly up to 10 servers.",
            format!(
                "{}: {} calls/s and part of the capacity; the check asks for 95 % everywhere.",
                capital(servers.name()),
                list.join(", ")
            ),
            points.iter().all(|at| part(at) >= 95.0),
        ));
    }
    claims.push(Claim::out_of_reach(
        "section V-B; digest, section I",
        "The balancer itself becomes overloaded at 5400 to 5500 calls/s, with 17 to 20 servers.",
        format!("Up to {:.0} calls/s here.", 10.0 * SERVER_CAPACITY),
        "A balancer's work costs no time in these scenarios; the paper's figure is one of its machine and its OpenSER.",
    ));
    let mut figure = options.figure(&SCALING, vec![plot]);
    figure.claims = claims;
    figure.assumptions = cluster::assumptions(cluster::TENTH);
    figure
        .assumptions
        .push("Calls have no holding time; tlwl-4 shows the peak of TLWL with and without.".into());
    figure.notes = vec![
        method(options),
        "A pausing server on its own has nobody to take over, so its peak lies lowest: there is no choice for a policy to make.".into(),
    ];
    figure
}
