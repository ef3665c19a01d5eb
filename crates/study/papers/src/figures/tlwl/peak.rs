//! Figures 4 and 5: peak throughput of every policy, and of one policy against the number of servers.

use super::cluster::{
    self, Case, Half, MESSAGES, Outcome, POLICIES, SERVER_CAPACITY, SERVERS, Servers, Workload,
};
use super::orders::NO_CALL_ENDS;
use super::response::{OTHERS, capital};
use super::runs::{self, Runs, Setting};
use crate::figures::{FigureOptions, FigureRun};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement, Style};
use core::time::Duration;

/// Share of requests that may fail at the peak: "more than 99.99% of all requests" are handled (section IV).
const FAILED_MAX: f64 = 1e-4;

/// Ratio of the best policy to the others: "up to 24 percent".
const GAIN: f64 = 1.24;
/// Number of equal parts of the capacity in a search near it.
const FINE: u32 = 200;
/// Part of the capacity that counts as near: higher peaks do not differ "significantly".
const NEAR: f64 = 0.95;

/// Search for the peak of one cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// The cluster; the search varies its load.
    case: Case,
    /// Capacity of all servers together, in calls/s.
    ideal: f64,
    /// Step of the tried loads, as a part of the ideal.
    step: f64,
    /// Highest step known to be handled, and lowest known not to be handled.
    known: (u32, u32),
}

/// Number of equal parts of the capacity. It is divisible by three, so that two thirds is a step.
fn steps(options: &FigureOptions) -> u32 {
    options.scale(48, 24, 6)
}

impl Search {
    /// Returns a search in the default workload, over the default window.
    pub(super) fn new(options: &FigureOptions, policy: &'static str, servers: Servers, count: u16) -> Self {
        let case = Case { count, window: runs::window(options, 0.0), ..Case::of(options, policy, servers) };
        let steps = steps(options);
        let ideal = f64::from(count) * servers.capacity();
        Self { case, ideal, step: 1.0 / f64::from(steps), known: (0, steps + 1) }
    }

    pub(super) fn without_holding(mut self) -> Self {
        self.case.workload = Workload::WITHOUT_HOLDING;
        self
    }

    /// Sets the length of a run.
    pub(super) fn over(mut self, window: Duration) -> Self {
        self.case.window = window;
        self
    }

    /// Halves one server of two.
    pub(super) fn halved(mut self, half: Half) -> Self {
        self.case.half = half;
        self.ideal *= 0.75;
        self
    }

    /// Searches between nine tenths of the ideal and the ideal, over a long time, with servers that pay for a
    /// retransmission as for the first copy. Near the capacity queues grow slowly, and a request that waits for T1
    /// arrives twice.
    fn near_the_capacity(mut self, options: &FigureOptions) -> Self {
        let (warm_up, window) = options.scale((120, 180), (40, 60), (1, 2));
        self.case.window = Duration::from_secs(window);
        let workload = options.scale(Workload::SHORT, Workload::SHORT, Workload::of(options));
        self.case.workload = Workload { warm_up: Some(Duration::from_secs(warm_up)), ..workload };
        self.case.repeat = 1.0;
        let steps = options.scale(FINE, FINE / 4, FINE / 10);
        self.step = 1.0 / f64::from(steps);
        self.known = (steps * 9 / 10 - 1, steps + 1);
        self
    }

    /// Adds a balancer with a limited capacity in calls per second.
    fn behind(mut self, balancer: f64) -> Self {
        self.case.balancer = Some(balancer);
        self
    }

    /// Excludes loads above this load in calls/s, which is known to be too high.
    pub(super) fn below(mut self, load: f64) -> Self {
        let step = (load / self.ideal / self.step - 1e-9).ceil() as u32;
        self.known.1 = self.known.1.min(step + 1);
        self
    }

    /// Narrows the search by runs of the same cluster, `(load, handled)` in order of the load.
    fn learn(mut self, runs: impl Iterator<Item = (f64, bool)>) -> Self {
        for (load, handled) in runs {
            let steps = load / self.ideal / self.step;
            if !handled {
                self.known.1 = self.known.1.min(steps.ceil() as u32);
                break;
            }
            self.known.0 = steps as u32;
        }
        self
    }

    /// Load of a step, in calls/s.
    fn load(&self, step: u32) -> f64 {
        self.ideal * self.step * f64::from(step)
    }

    /// Whether the cluster handles a load for the whole window.
    fn handles(&self, step: u32, seed: u64) -> bool {
        let case = Case { load: self.load(step), ..self.case };
        if case.window >= LONG.max(2 * case.warm_up()) {
            // A shorter run with the same start shows early when far too many requests are lost for the whole window.
            // Collapsed runs take the longest, because they are full of retransmissions. This does not pay if the
            // warm-up is most of both runs.
            let requests = 2.0 * case.load * case.window.as_secs_f64();
            let begun = Case { window: case.window / 4, ..case }.run(seed);
            if begun.lost as f64 > FAILED_MAX * requests {
                return false;
            }
        }
        handled(&case.run(seed))
    }

    /// Returns the highest load of the grid, in calls/s, handled together with all lower ones; 0 if none.
    pub(super) fn run(&self, seed: u64) -> f64 {
        self.load(highest(self.known, |step| self.handles(step, seed)))
    }
}

/// Returns the highest handled step, given the highest step known to be handled and the lowest known not to be.
fn highest((least, mut bad): (u32, u32), handles: impl Fn(u32) -> bool) -> u32 {
    // Peaks are usually high: search down from the top in growing strides, then by bisection.
    let mut good = bad - 1;
    let mut stride = 1;
    while good > least && !handles(good) {
        (good, bad) = (good.saturating_sub(stride).max(least), good);
        stride *= 2;
    }
    while bad - good > 1 {
        let step = u32::midpoint(good, bad);
        if handles(step) { good = step } else { bad = step }
    }
    good
}

/// Minimum window for a shorter trial run.
const LONG: Duration = Duration::from_secs(50);

/// Whether enough requests succeeded for the load to count as sustained.
fn handled(outcome: &Outcome) -> bool {
    outcome.failed() < FAILED_MAX
}

/// Runs all searches.
pub(super) fn search(work: &FigureRun<'_>, searches: &[Search]) -> Vec<f64> {
    work.each("peaks", searches, Search::run)
}

/// Describes how peaks are found.
pub(super) fn method(options: &FigureOptions, window: Duration) -> String {
    format!(
        "A peak is looked for among {} equal steps up to the capacity of all servers together, the highest load tried; \
         it is as exact as a step, {:.1} % of that. A run of {} s after the warm-up decides (the paper's lasts 180 s); \
         all policies meet the same arrivals and pauses. The shorter it is, the fewer servers happen to pause while \
         others still catch up, and the higher is the peak. A request fails when it gets no 2xx; INVITEs that pile up \
         over the run count as failed too, but for a second's worth of them.",
        steps(options),
        100.0 / f64::from(steps(options)),
        window.as_secs()
    )
}

/// Policies whose peaks are also searched without holding times.
const WITHOUT: [&str; 3] = ["cjsq", "tjsq", "tlwl-1.75"];

/// Peaks with one kind of servers.
struct Peaks {
    servers: Servers,
    /// Peak of each policy.
    held: Vec<f64>,
    /// Peak of each policy in [`WITHOUT`].
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
        let bars = [
            PlotSeries::bars("with holding times", POLICIES.map(|policy| self.of(policy))),
            PlotSeries::bars("without", POLICIES.map(|policy| self.unheld(policy).unwrap_or(f64::NAN))),
        ];
        let mut plot = Plot::of(title, x, Axis::linear("peak throughput (calls/s)"), bars);
        plot.level("capacity", self.ideal());
        plot
    }

    fn listed(&self, policies: &[&str]) -> String {
        let one = |policy: &&str| format!("{policy} {:.0}", self.of(policy));
        let list: Vec<String> = policies.iter().map(one).collect();
        format!("{}: {} calls/s.", capital(self.servers.name()), list.join(", "))
    }

    /// Claims about all policies.
    fn throughput(&self) -> Vec<Statement> {
        let tlwl = self.of("tlwl-1.75");
        claims! {
            "section V-B", "TLWL scales linearly: 8 servers carry 8 times what one does (2439 calls/s in the paper).",
                ["{} The servers can carry {:.0}.", self.listed(&["tlwl-1.75", "tlwl-2"]), self.ideal()],
                tlwl >= 0.95 * self.ideal();
            => self.highest();
            => self.gain();
            "section VII", "TJSQ has nearly the same level of performance.",
                ["{}", self.listed(&["tjsq", "tlwl-1.75"])],
                (self.of("tjsq") - tlwl).abs() <= 1.01 * self.step;
            "section V-B", "By response times the balancer does not find the least loaded server.",
                ["{}", self.listed(&["rwma", "tlwl-1.75"])],
                self.of("rwma") < tlwl,
                differs_by("The server with the lowest average gets too many calls for a while and answers late \
                 (tlwl-2). No call fails where repeated requests are absorbed.");
        }
    }

    /// Claims that TLWL is above all policies that the paper does not praise, by at least a step, the accuracy of a
    /// peak.
    fn highest(&self) -> Statement {
        let (source, statement) = ("section V-B", "TLWL has the highest peak throughput.");
        let others = OTHERS.iter().map(|policy| self.of(policy)).fold(0.0, f64::max);
        let measured = self.listed(&POLICIES);
        if others > self.ideal() - 0.99 * self.step {
            let why = "Others also reach the capacity of the servers.";
            return Statement::out_of_reach(source, statement, measured, why);
        }
        Statement::check(source, statement, measured, self.of("tlwl-1.75") > others + 0.99 * self.step)
    }

    /// Lowest peak of some policies.
    fn least(&self, policies: &[&str]) -> f64 {
        policies.iter().map(|policy| self.of(policy)).fold(f64::MAX, f64::min)
    }

    fn gain(&self) -> Statement {
        let (source, statement) = (
            "abstract; section VII",
            "TLWL's throughput is up to 24 or 25 % above that of the other algorithms.",
        );
        let gain = |policy: &&str| {
            format!("{:.0} % above {policy}", 100.0 * (self.of("tlwl-1.75") / self.of(policy) - 1.0))
        };
        let least = self.least(&OTHERS);
        let measured = format!(
            "{}: {} (the check requires {:.0} % above one).",
            capital(self.servers.name()),
            OTHERS.iter().map(gain).collect::<Vec<_>>().join(", "),
            100.0 * (GAIN - 1.0)
        );
        if self.ideal() < GAIN * least {
            return Statement::out_of_reach(source, statement, measured, self.all_near(&OTHERS));
        }
        Statement::check(source, statement, measured, self.of("tlwl-1.75") >= GAIN * least)
    }

    fn worst(&self) -> Statement {
        let (source, statement) = (
            "section V-B",
            "With pause times CJSQ is significantly worse than the others, even than a static allocation such as \
             Hash.",
        );
        let fixed = ["round-robin", "hash", "fnv-hash"];
        let measured = self.listed(&["cjsq", "hash", "fnv-hash", "round-robin"]);
        if self.least(&fixed).min(self.of("cjsq")) >= NEAR * self.ideal() {
            return Statement::out_of_reach(
                source,
                statement,
                measured,
                self.all_near(&["cjsq", "hash", "fnv-hash", "round-robin"]),
            );
        }
        Statement::check(source, statement, measured, self.of("cjsq") < self.least(&fixed))
            .differs_by(NO_CALL_ENDS)
    }

    /// Explains why peaks cannot differ by much.
    fn all_near(&self, policies: &[&str]) -> String {
        format!(
            "Any policy with even shares in the long run fills these servers: all reach at least {:.1} % of the \
             capacity, which leaves room for {:.0} %.",
            100.0 * self.least(policies) / self.ideal(),
            100.0 * (self.ideal() / self.least(policies) - 1.0)
        )
    }

    /// Claims about holding times.
    fn holding(&self) -> Vec<Statement> {
        let tlwl = self.of("tlwl-1.75");
        let unheld = |policy| self.unheld(policy).unwrap_or(f64::NAN);
        claims! {
            => self.worst();
            "section V-B", "Without pause times, CJSQ is comparable to TJSQ.",
                ["{} without holding times: cjsq {:.0}, tjsq {:.0} calls/s.", capital(self.servers.name()),
                 unheld("cjsq"), unheld("tjsq")],
                (unheld("cjsq") - unheld("tjsq")).abs() <= 1.01 * self.step;
            => Statement::out_of_reach(
                "section IV",
                "Peak throughput is not affected much by pause times.",
                format!(
                    "{}, tlwl-1.75: {tlwl:.0} with, {:.0} without holding times.",
                    capital(self.servers.name()),
                    unheld("tlwl-1.75")
                ),
                "In the model a held call costs nothing, by assumption.",
            );
        }
    }
}

pub(in crate::figures) fn peaks(work: &FigureRun<'_>) -> Figure {
    let runs = Runs::of(work);
    let mut searches = Vec::new();
    for servers in Servers::BOTH {
        // Loads that were tried for the response times need no further run.
        let setting = Setting { servers, held: true };
        let shown = |policy| runs.all(setting, policy).map(|(load, outcome)| (load, handled(outcome)));
        let search = |policy| Search::new(work, policy, servers, SERVERS).learn(shown(policy));
        searches.extend(POLICIES.map(search));
        searches.extend(WITHOUT.map(|policy| Search::new(work, policy, servers, SERVERS).without_holding()));
    }
    let found = search(work, &searches);
    let kinds = Servers::BOTH.iter().zip(found.chunks(POLICIES.len() + WITHOUT.len()));
    let kinds: Vec<Peaks> = kinds
        .map(|(&servers, peaks)| Peaks {
            servers,
            held: peaks[..POLICIES.len()].to_vec(),
            unheld: peaks[POLICIES.len()..].to_vec(),
            step: f64::from(SERVERS) * servers.capacity() / f64::from(steps(work)),
        })
        .collect();
    let mut figure = work.figure(kinds.iter().map(Peaks::plot).collect());
    for (at, peaks) in kinds.iter().enumerate() {
        let claims = peaks.throughput().into_iter().chain(peaks.holding());
        figure.claims.extend(claims.map(|claim| claim.about(at)));
    }
    figure.claims.push(near_the_capacity(work));
    figure.assumptions = cluster::assumptions(work);
    figure.notes = vec![
        method(work, runs::window(work, 0.0)),
        "Steady servers behind any policy that splits calls evenly in the long run carry what they can: a policy shows \
         in how long requests wait, not in how many get through. Where servers pause, a policy that goes on sending to \
         a server that stands still piles up requests there; those that wait for longer than their callers do, or find \
         its buffer full, decide the peak."
            .into(),
    ];
    figure
}

/// Capacity of the paper's balancer in calls per second (section V-B), and numbers of servers that carry less and more.
const BALANCER: f64 = 5_400.0;
const BEHIND: [u16; 2] = [16, 20];

/// Statement about a cluster whose balancer has the paper's speed.
fn balancer(work: &FigureRun<'_>) -> Statement {
    // Long enough for a backlog of less than a step to show.
    let window = Duration::from_secs(work.scale(180, 60, 2));
    let of = |count| {
        let search = Search::new(work, "tlwl-1.75", Servers::Steady, count);
        search.without_holding().over(window).behind(BALANCER)
    };
    let peaks = search(work, &BEHIND.map(of));
    let [few, many] = BEHIND.map(|count| f64::from(count) * SERVER_CAPACITY);
    Statement::check(
        "section V-B; digest, section I",
        "The balancer can support up to about 5400 calls/s before it becomes overloaded, about 17 servers of 300.",
        format!(
            "With a balancer for {BALANCER:.0} calls/s of {MESSAGES} messages, {} servers carry {:.0} calls/s of \
             {few:.0} and {} servers {:.0} of {many:.0}. The check requires 95 % of the {} servers, and 90 to 100 % \
             of the balancer.",
            BEHIND[0], peaks[0], BEHIND[1], peaks[1], BEHIND[0]
        ),
        peaks[0] >= 0.95 * few && (0.9 * BALANCER..=BALANCER).contains(&peaks[1]),
    )
}

/// Statement about the highest peak when steady servers are almost full and retransmissions keep slow servers busy.
fn near_the_capacity(work: &FigureRun<'_>) -> Statement {
    let of = |policy| Search::new(work, policy, Servers::Steady, SERVERS).near_the_capacity(work);
    let first = of("tlwl-1.75");
    let best = search(work, &[first])[0];
    // Higher loads are not tried for the others, because runs far beyond the capacity take the longest.
    let others = OTHERS.map(|policy| of(policy).below(best));
    let peaks = search(work, &others);
    let one = |(policy, peak): (&&str, &f64)| {
        format!("{policy} {}{peak:.0}", if *peak < best { "" } else { "at least " })
    };
    let listed: Vec<String> = OTHERS.iter().zip(&peaks).map(one).collect();
    let most = peaks.iter().copied().fold(0.0, f64::max);
    Statement::check(
        "section V-B",
        "Near the capacity TLWL has the highest peak throughput, with servers that process repeated requests in \
         full.",
        format!(
            "Steady servers: tlwl-1.75 {best:.0}, {} calls/s of {:.0}, in steps of {:.0}. Calls last 6 s on average; \
             {} s count after {} s of warm-up.",
            listed.join(", "),
            first.ideal,
            first.load(1),
            first.case.window.as_secs(),
            first.case.warm_up().as_secs()
        ),
        best > most + 0.99 * first.load(1),
    )
    .differs_by(
        "Calls do not differ in work, so round-robin and CJSQ fill the servers as evenly as TLWL in the long run. The \
         other policies leave a server behind now and then.",
    )
}

pub(in crate::figures) fn scaling(work: &FigureRun<'_>) -> Figure {
    let counts: &[u16] = work.scale(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[1, 2, 4, 6, 8, 10], &[1, 2]);
    // One server pauses an eighth as often as eight servers, so a peak needs a longer run.
    let window = Duration::from_secs(work.scale(90, 40, 3));
    let of = |servers| {
        let search =
            move |count| Search::new(work, "tlwl-1.75", servers, count).without_holding().over(window);
        counts.iter().map(move |&count| search(count))
    };
    let searches: Vec<Search> = Servers::BOTH.into_iter().flat_map(of).collect();
    let found = search(work, &searches);
    let x = Axis::linear("servers").from_to(0.0, 10.5);
    let mut plot = Plot::new("TLWL-1.75", x, Axis::linear("peak throughput (calls/s)"));
    let mut claims = Vec::new();
    for (colour, (servers, peaks)) in Servers::BOTH.into_iter().zip(found.chunks(counts.len())).enumerate() {
        let points: Vec<(f64, f64)> =
            counts.iter().zip(peaks).map(|(&count, &peak)| (f64::from(count), peak)).collect();
        plot.series(PlotSeries::line(servers.name(), points.iter().copied()).colour(colour));
        let ideal = [(0.0, 0.0), (10.5, 10.5 * servers.capacity())];
        plot.series(
            PlotSeries::new(format!("capacity of {}", servers.name()), Style::Law, ideal).colour(colour),
        );
        let part = |(count, peak): &(f64, f64)| 100.0 * peak / (count * servers.capacity());
        let list: Vec<String> =
            points.iter().map(|at| format!("{:.0} servers {:.0} ({:.0} %)", at.0, at.1, part(at))).collect();
        claims.push(Statement::check(
            "section V-B, figure 5",
            "Peak throughput grows linearly up to 10 servers.",
            format!(
                "{}: {} calls/s and part of the capacity. The check requires 95 % of the ideal, up to {} times one \
                 server.",
                capital(servers.name()),
                list.join(", "),
                counts[counts.len() - 1]
            ),
            points.iter().all(|(count, peak)| *peak >= 0.95 * count * peaks[0]),
        ));
    }
    claims.push(balancer(work));
    let mut figure = work.figure(vec![plot]);
    figure.claims = claims;
    figure.assumptions = cluster::assumptions(work);
    figure
        .assumptions
        .push("Calls have no holding time; tlwl-4 shows the peak of TLWL with and without.".into());
    figure.notes = vec![
        method(work, window),
        "A pausing server on its own has nobody to take over, and after a pause it has to serve what its callers sent \
         again as well. So its peak lies lowest: there is no choice for a policy to make."
            .into(),
    ];
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Effort;
    use core::num::NonZero;
    use std::cell::Cell;

    const OPTIONS: FigureOptions =
        FigureOptions { seed: 1, effort: Effort::Full, threads: NonZero::<usize>::MIN };

    #[test]
    fn the_highest_step_is_found_wherever_it_lies() {
        for peak in 0..=48 {
            let tried = Cell::new(0);
            let handles = |step| {
                tried.set(tried.get() + 1);
                step <= peak
            };
            assert_eq!(highest((0, 49), handles), peak);
            assert!(tried.get() <= 11, "{} runs for {peak}", tried.get());
        }
    }

    #[test]
    fn what_is_known_is_not_tried_again() {
        let all = Search::new(&OPTIONS, "hash", Servers::Steady, 8);
        assert_eq!(all.known, (0, 49));
        // Steps of 50 calls/s.
        let runs = [(600.0, true), (1_825.0, true), (2_220.0, false), (2_300.0, true)];
        let search = all.learn(runs.into_iter());
        assert_eq!(search.known, (36, 45));
        assert_eq!(highest(search.known, |step| step < 40), 39);
        // An even split between unequal servers: at most two thirds of their capacity can be handled.
        let even = Search::new(&OPTIONS, "hash", Servers::Steady, 2).halved(Half::Unknown).below(300.0);
        assert_eq!(even.known, (0, 33));
        assert!((even.load(32) - 300.0).abs() < 1e-9);
    }
}
