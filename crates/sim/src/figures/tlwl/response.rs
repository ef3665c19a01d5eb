//! Figures 2 and 3: mean response time of INVITE and of BYE against offered load.

use super::cluster::{self, Case, Half, Outcome, POLICIES, SERVERS, Servers};
use crate::figures::{Entry, Options, Progress};
use crate::report::{Axis, Claim, Figure, Plot, Series, Style};
use crate::stats::{Interval, sweep};
use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;

pub(in crate::figures) const INVITE: Entry = Entry {
    name: "tlwl-2",
    title: "Mean response time of INVITE against load, 8 servers, every policy",
    source: "TLWL paper, figure 2; TLWL digest, section VI a",
    run: invite,
};

pub(in crate::figures) const BYE: Entry = Entry {
    name: "tlwl-3",
    title: "Mean response time of BYE against load, 8 servers, every policy",
    source: "TLWL paper, figure 3",
    run: bye,
};

/// Loads up to here are "low to moderate": three quarters of the capacity.
const MODERATE: f64 = 1_800.0;
/// The load at which policies are compared under "high load", 92 % of the capacity of steady servers.
pub(super) const HIGH: f64 = 2_200.0;
/// Policies that the paper praises, and those that it compares them with.
const PRAISED: [&str; 3] = ["tjsq", "tlwl-1.75", "tlwl-2"];
const OTHERS: [&str; 5] = ["round-robin", "hash", "fnv-hash", "cjsq", "rwma"];
/// Relative half width above which an interval is called too wide.
const PRECISION: f64 = 0.1;

/// A method of the two whose transactions make a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Invite,
    Bye,
}

/// Servers, and whether calls last: what a plot is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    pub(super) servers: Servers,
    pub(super) held: bool,
}

/// In the order of the plots.
pub(super) const SETTINGS: [Setting; 4] = [
    Setting { servers: Servers::Steady, held: true },
    Setting { servers: Servers::Pausing, held: true },
    Setting { servers: Servers::Steady, held: false },
    Setting { servers: Servers::Pausing, held: false },
];

impl Setting {
    pub(super) fn name(self) -> String {
        let calls = if self.held { "with holding times" } else { "without holding times" };
        format!("{}, {calls}", self.servers.name())
    }

    /// Its plot.
    fn plot(self) -> usize {
        SETTINGS.iter().position(|setting| *setting == self).expect("all settings are there")
    }
}

/// The runs that figures 2 and 3 and the occupancies look at.
pub(super) struct Runs(Vec<(Case, Outcome)>);

/// Runs, by the options that decide them: seed, and whether they are short.
type Made = Vec<((u64, bool), Rc<Runs>)>;

thread_local! {
    /// The figures are made on one thread, one after the other; the first of those that look at these runs makes them.
    static MADE: RefCell<Made> = const { RefCell::new(Vec::new()) };
}

/// Whether two loads are the same.
fn is(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq()
}

fn loads(options: &Options, held: bool) -> &'static [f64] {
    match (options.quick, held) {
        (true, _) => &[1_200.0, 2_200.0],
        (false, true) => &[600.0, 1_200.0, 1_800.0, 2_200.0],
        (false, false) => &[600.0, 1_200.0, 1_800.0, 2_000.0, 2_200.0, 2_300.0],
    }
}

fn cases(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    for Setting { servers, held } in SETTINGS {
        for &load in loads(options, held) {
            let (full, quick) = if held { (60, 25) } else { (40, 20) };
            cases.extend(POLICIES.map(|policy| Case {
                policy,
                servers,
                count: SERVERS,
                load,
                holding: if held { cluster::holding(options) } else { Duration::ZERO },
                half: Half::None,
                window: Duration::from_secs(options.pick(full, quick)),
            }));
        }
    }
    cases
}

impl Runs {
    /// Makes them, or takes those that another figure made.
    pub(super) fn of(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Rc<Self> {
        let key = (options.seed, options.quick);
        let made =
            MADE.with_borrow(|made| made.iter().find(|(of, _)| *of == key).map(|(_, runs)| Rc::clone(runs)));
        if let Some(runs) = made {
            return runs;
        }
        let cases = cases(options);
        let of = cases.len();
        let done = |done| progress(Progress { done, of, what: "response times" });
        let outcomes = sweep::replicate(&cases, 1, options.seed, options.threads, Case::run, done);
        let runs = Rc::new(Self(cases.into_iter().zip(outcomes.into_iter().flatten()).collect()));
        MADE.with_borrow_mut(|made| made.push((key, Rc::clone(&runs))));
        runs
    }

    fn all(&self, setting: Setting, policy: &str) -> impl Iterator<Item = (f64, &Outcome)> {
        self.0
            .iter()
            .filter(move |(case, _)| {
                case.policy == policy
                    && case.servers == setting.servers
                    && case.holding.is_zero() != setting.held
            })
            .map(|(case, outcome)| (case.load, outcome))
    }

    pub(super) fn at(&self, setting: Setting, policy: &str, load: f64) -> &Outcome {
        let mut all = self.all(setting, policy);
        let found = all.find(|(of, _)| is(*of, load));
        found.expect("every policy is run at every load").1
    }

    /// Loads of a setting.
    fn loads(&self, setting: Setting) -> Vec<f64> {
        self.all(setting, POLICIES[0]).map(|(load, _)| load).collect()
    }
}

/// The response times of one method.
struct View<'a> {
    runs: &'a Runs,
    method: Method,
}

/// How the praised policies stand against the others at one load.
struct Standing {
    load: f64,
    /// Slowest of the praised, in ms.
    praised: (&'static str, f64),
    /// Fastest and slowest of the others.
    best: (&'static str, f64),
    worst: (&'static str, f64),
}

impl Standing {
    /// By how much the praised are faster than any other.
    fn factor(&self) -> f64 {
        self.best.1 / self.praised.1
    }

    fn text(&self) -> String {
        let Self { load, praised, best, worst } = self;
        format!(
            "At {load:.0} calls/s {} takes {:.2} ms, {} {:.2} ms ({:.1} times), {} {:.2} ms ({:.1} times).",
            praised.0,
            praised.1,
            best.0,
            best.1,
            self.factor(),
            worst.0,
            worst.1,
            worst.1 / praised.1
        )
    }
}

impl View<'_> {
    fn interval(&self, setting: Setting, policy: &str, load: f64) -> Interval {
        self.runs.at(setting, policy, load).response[self.method as usize]
    }

    fn ms(&self, setting: Setting, policy: &str, load: f64) -> f64 {
        self.interval(setting, policy, load).mean
    }

    fn plot(&self, setting: Setting) -> Plot {
        let name = if self.method == Method::Invite { "INVITE" } else { "BYE" };
        let y = Axis::log(format!("mean response time of {name} (ms)"));
        let mut plot = Plot::new(capital(&setting.name()), Axis::linear("offered load (calls/s)"), y);
        for policy in POLICIES {
            let points = self
                .runs
                .all(setting, policy)
                .map(|(load, outcome)| (load, outcome.response[self.method as usize]));
            plot.series(Series::intervals(policy, Style::Line, points));
        }
        plot.mark("capacity", f64::from(SERVERS) * setting.servers.capacity());
        plot
    }

    fn standing(&self, setting: Setting, load: f64) -> Standing {
        let by = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
        let praised = PRAISED.map(|policy| (policy, self.ms(setting, policy, load))).into_iter().max_by(by);
        let others = OTHERS.map(|policy| (policy, self.ms(setting, policy, load)));
        let (best, worst) = (others.into_iter().min_by(by), others.into_iter().max_by(by));
        let some = "there is more than one policy";
        Standing { load, praised: praised.expect(some), best: best.expect(some), worst: worst.expect(some) }
    }

    /// Whether the praised are so many times faster than every other at all these loads.
    fn faster(&self, setting: Setting, low: bool, times: f64, source: &str, statement: &str) -> Claim {
        let loads = self.runs.loads(setting).into_iter();
        let loads = loads.filter(|load| if low { *load <= MODERATE } else { is(*load, HIGH) });
        let standings: Vec<Standing> = loads.map(|load| self.standing(setting, load)).collect();
        let text: Vec<String> = standings.iter().map(Standing::text).collect();
        let holds = standings.iter().all(|standing| standing.factor() >= times);
        claim(setting, source, statement, &text.join(" "), holds)
    }

    /// The measured numbers of some policies at one load.
    fn listed(&self, setting: Setting, policies: &[&str], load: f64) -> String {
        let one = |policy: &&str| {
            let Interval { mean, half_width } = self.interval(setting, policy, load);
            format!("{policy} {mean:.2} ± {half_width:.2} ms")
        };
        let list: Vec<String> = policies.iter().map(one).collect();
        format!("At {load:.0} calls/s: {}.", list.join(", "))
    }

    /// Curves whose intervals are too wide, in a sentence.
    fn width(&self) -> String {
        let all = self.runs.0.iter();
        let wide = all.filter(|(_, outcome)| outcome.response[self.method as usize].too_wide(PRECISION));
        format!(
            "Bars are 95 % intervals from the means of 5 s in one run. Of {} points, {} have a half width of more than {:.0} % of the \
             mean: too wide to tell close policies apart. Nearly all of them are of pausing servers, whose few pauses decide the mean, \
             or of runs that collapse.",
            self.runs.0.len(),
            wide.count(),
            100.0 * PRECISION
        )
    }
}

fn claim(setting: Setting, source: &str, statement: &str, measured: &str, holds: bool) -> Claim {
    let measured = format!("{}: {measured}", capital(setting.servers.name()));
    Claim::check(source, statement, measured, holds).about(setting.plot())
}

/// With a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

const STEADY: Setting = SETTINGS[0];
const PAUSING: Setting = SETTINGS[1];

fn invite(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    let runs = Runs::of(options, progress);
    let view = View { runs: &runs, method: Method::Invite };
    let mut figure = options.figure(&INVITE, SETTINGS.map(|setting| view.plot(setting)).into());
    for setting in [STEADY, PAUSING] {
        figure.claims.extend(magnitudes(&view, setting));
        figure.claims.extend(orders(&view, setting));
    }
    for setting in [SETTINGS[2], SETTINGS[3]] {
        let ratio = view.ms(setting, "cjsq", HIGH) / view.ms(setting, "tjsq", HIGH);
        figure.claims.push(claim(
            setting,
            "section V-B",
            "Without pause times, CJSQ is very good, comparable to TJSQ.",
            &view.listed(setting, &["cjsq", "tjsq", "hash"], HIGH),
            (0.8..1.25).contains(&ratio),
        ));
    }
    figure.assumptions = cluster::assumptions(cluster::holding(options));
    figure.notes = notes(&view);
    figure
}

/// The paper's orders of magnitude.
fn magnitudes(view: &View<'_>, setting: Setting) -> [Claim; 3] {
    [
        view.faster(
            setting,
            true,
            10.0,
            "section I",
            "For low to moderate workloads, TLWL and TJSQ answer an INVITE in a time an order of magnitude below that of any other \
             approach.",
        ),
        view.faster(
            setting,
            true,
            5.0,
            "digest, section VII",
            "Under light to moderate loads, TLWL-1.75, TLWL-2 and TJSQ answer an INVITE at least five times as fast as the others.",
        ),
        view.faster(
            setting,
            false,
            100.0,
            "section I; digest, section VII",
            "Under high loads the improvement grows to two orders of magnitude.",
        ),
    ]
}

/// Who is better than whom.
fn orders(view: &View<'_>, setting: Setting) -> [Claim; 5] {
    let ms = |policy| view.ms(setting, policy, HIGH);
    let [tlwl, tlwl_2] = ["tlwl-1.75", "tlwl-2"].map(|policy| view.interval(setting, policy, HIGH));
    let (tjsq, cjsq) = (ms("tjsq"), ms("cjsq"));
    let sure = tlwl_2.mean - tlwl.mean > tlwl.half_width;
    [
        claim(
            setting,
            "section V-A",
            "Three groups: TLWL is best, TJSQ moderate, CJSQ worst.",
            &view.listed(setting, &["tlwl-1.75", "tjsq", "cjsq"], HIGH),
            tlwl.mean < tjsq && tjsq < cjsq,
        ),
        claim(
            setting,
            "digest, section IV A",
            "TJSQ is almost as good as TLWL-1.75.",
            &format!("It takes {:.2} times as long (limit of the check: 1.25).", tjsq / tlwl.mean),
            tjsq < 1.25 * tlwl.mean,
        ),
        claim(
            setting,
            "digest, section IV A",
            "1.75 is the best ratio of weights, better than 2.",
            &format!(
                "{} The check asks for a difference of more than a half width.",
                view.listed(setting, &["tlwl-1.75", "tlwl-2"], HIGH)
            ),
            sure,
        ),
        claim(
            setting,
            "section V-B",
            "With pause times, CJSQ's misjudgements end up worse than a static allocation such as Hash.",
            &view.listed(setting, &["cjsq", "hash"], HIGH),
            cjsq > ms("hash"),
        ),
        claim(
            setting,
            "section V-B",
            "Response times are not the most reliable measure of load: the server with the lowest average gets too many calls before the \
             balancer sees it.",
            &view.listed(setting, &["rwma", "tlwl-1.75"], HIGH),
            ms("rwma") > 2.0 * tlwl.mean,
        ),
    ]
}

fn bye(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    let runs = Runs::of(options, progress);
    let view = View { runs: &runs, method: Method::Bye };
    let invites = View { runs: &runs, method: Method::Invite };
    let mut figure = options.figure(&BYE, SETTINGS.map(|setting| view.plot(setting)).into());
    for setting in [STEADY, PAUSING] {
        let shorter = |policy: &&str| view.ms(setting, policy, HIGH) < invites.ms(setting, policy, HIGH);
        let longer: Vec<&str> = POLICIES.into_iter().filter(|policy| !shorter(policy)).collect();
        let but = if longer.is_empty() {
            "no exception".to_owned()
        } else {
            format!("not so {}", longer.join(", "))
        };
        let hash = |view: &View<'_>| view.ms(setting, "hash", HIGH) / view.ms(setting, "tlwl-1.75", HIGH);
        figure.claims.extend([
            claim(
                setting,
                "section V-A",
                "BYE takes fewer resources than INVITE, hence lower average response times.",
                &format!("{but} at {HIGH:.0} calls/s."),
                longer.is_empty(),
            ),
            view.faster(setting, false, 1.0, "section V-A", "TLWL and TJSQ have the lowest response times."),
            claim(
                setting,
                "section V-A",
                "The differences are smaller than for INVITE, since a BYE must go to the server of its call.",
                &format!(
                    "At {HIGH:.0} calls/s hash takes {:.1} times as long as tlwl-1.75 for a BYE, {:.1} times for an INVITE.",
                    hash(&view),
                    hash(&invites)
                ),
                hash(&view) < hash(&invites),
            ),
        ]);
    }
    figure.assumptions = cluster::assumptions(cluster::holding(options));
    figure.notes = notes(&view);
    figure
}

fn notes(view: &View<'_>) -> Vec<String> {
    vec![
        "Servers that only queue cannot show the paper's orders of magnitude: a policy can at best save the wait, and below the capacity \
         that is a few services long. Servers that pause can: calls that are sent to a server that stands still wait for all of its \
         pause and for all that came before them, and a policy that counts what is unanswered sees it at once."
            .into(),
        "A mean is over the requests that were answered; near and beyond collapse, where requests fail, it understates.".into(),
        view.width(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;
    use core::num::NonZero;

    /// Response times and failures of every policy at one load, on two kinds of servers.
    #[test]
    fn a_change_of_behaviour_shows_in_this_table() {
        let mut cases = Vec::new();
        for (servers, holding) in [
            (Servers::Steady, Duration::ZERO),
            (Servers::Pausing, Duration::ZERO),
            (Servers::Steady, Duration::from_secs(2)),
        ] {
            cases.extend(POLICIES.map(|policy| Case {
                policy,
                servers,
                count: 2,
                load: 500.0,
                holding,
                half: Half::None,
                window: Duration::from_secs(5),
            }));
        }
        let outcomes = sweep::sweep(cases.len(), NonZero::new(2).unwrap(), |at| cases[at].run(1), |_| {});
        let mut table = String::new();
        for (case, outcome) in cases.iter().zip(&outcomes) {
            let [invite, bye] = outcome.response.map(|interval| interval.mean);
            let Outcome { failed, requests, occupancy, .. } = outcome;
            let most = occupancy.last().map_or(0, |(met, _)| *met);
            writeln!(
                table,
                "{:16} hold {} s  {:12} INVITE {invite:9.3} ms  BYE {bye:9.3} ms  failed {failed} of {requests}  occupancy at most {most}",
                case.servers.name(),
                case.holding.as_secs(),
                case.policy
            )
            .unwrap();
        }
        insta::assert_snapshot!(table);
    }
}
