//! Figures 2 and 3: mean response time of INVITE and of BYE against offered load.

use super::batches::Batches;
use super::cluster::{self, SERVERS};
use super::minutes::Minutes;
use super::orders::{self, COMPARED};
use super::pauses;
use super::runs::{HIGH, PAUSING, Runs, SETTINGS, STEADY, Setting, is};
use crate::figures::FigureRun;
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement, StatementVerdict, Style};
use sim::stats::Interval;

/// Highest load that is "low to moderate": three quarters of the capacity.
pub(super) const MODERATE: f64 = 1_800.0;
/// Policies that the paper praises, and the policies that it compares them with.
pub(super) const PRAISED: [&str; 3] = ["tjsq", "tlwl-1.75", "tlwl-2"];
pub(super) const OTHERS: [&str; 5] = ["round-robin", "hash", "fnv-hash", "cjsq", "rwma"];
/// Relative half width above which an interval counts as too wide.
const PRECISION: f64 = 0.1;

/// One of the two methods whose transactions form a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Invite,
    Bye,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Invite => "INVITE",
            Self::Bye => "BYE",
        }
    }
}

/// Range of loads of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loads {
    /// "Low to moderate".
    Moderate,
    /// "High".
    High,
}

/// Response times of one method.
pub(super) struct View<'a> {
    pub(super) runs: &'a Runs,
    pub(super) method: Method,
}

/// Comparison of the praised policies with the others at one load.
struct Standing {
    load: f64,
    /// Slowest praised policy, in ms.
    praised: (&'static str, f64),
    /// The other policies.
    others: [(&'static str, f64); OTHERS.len()],
}

impl Standing {
    /// Response time of the fastest other policy, in ms.
    fn best(&self) -> f64 {
        self.others.iter().map(|other| other.1).fold(f64::INFINITY, f64::min)
    }

    fn text(&self) -> String {
        let times = |(policy, ms): &(&str, f64)| format!("{policy} {:.1}", ms / self.praised.1);
        let others: Vec<String> = self.others.iter().map(times).collect();
        format!(
            "At {:.0} calls/s {} takes {:.2} ms; times that: {}.",
            self.load,
            self.praised.0,
            self.praised.1,
            others.join(", ")
        )
    }
}

impl View<'_> {
    pub(super) fn interval(&self, setting: Setting, policy: &str, load: f64) -> Interval {
        self.runs.at(setting, policy, load).response[self.method as usize].interval()
    }

    pub(super) fn ms(&self, setting: Setting, policy: &str, load: f64) -> f64 {
        self.interval(setting, policy, load).mean
    }

    pub(super) fn batches(&self, setting: Setting, policy: &str, load: f64) -> &Batches {
        &self.runs.at(setting, policy, load).response[self.method as usize]
    }

    /// Interval of the difference between one policy's response time and `times` times another's in ms, batch by batch.
    pub(super) fn above(
        &self,
        setting: Setting,
        slow: &str,
        (fast, times): (&str, f64),
        load: f64,
    ) -> Interval {
        self.batches(setting, slow, load).above(self.batches(setting, fast, load), times)
    }

    fn plot(&self, setting: Setting) -> Plot {
        let y = Axis::log(format!("mean response time of {} (ms)", self.method.name()));
        let mut plot = Plot::new(capital(&setting.name()), Axis::linear("offered load (calls/s)"), y);
        for (at, policy) in cluster::POLICIES.into_iter().enumerate() {
            let points = self.runs.all(setting, policy);
            let mut points = points
                .map(|(load, outcome)| (load, outcome.response[self.method as usize].interval()))
                .peekable();
            if points.peek().is_some() {
                plot.series(PlotSeries::intervals(policy, Style::Line, points).colour(at));
            }
        }
        plot.mark("capacity", f64::from(SERVERS) * setting.servers.capacity());
        plot
    }

    fn standing(&self, setting: Setting, load: f64) -> Standing {
        let ms = |policy| (policy, self.ms(setting, policy, load));
        let praised = PRAISED.map(ms).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        Standing { load, praised: praised.expect("there is more than one policy"), others: OTHERS.map(ms) }
    }

    /// Claims that the praised policies are `times` times faster than every other at all these loads. Out of reach if
    /// the others are so fast that even a policy without any wait would not be that much faster.
    pub(super) fn faster(
        &self,
        setting: Setting,
        of: Loads,
        times: f64,
        source: &str,
        statement: &str,
    ) -> Statement {
        let loads = self.runs.loads(setting).into_iter();
        let loads = loads.filter(|load| if of == Loads::High { is(*load, HIGH) } else { *load <= MODERATE });
        let standings: Vec<Standing> = loads.map(|load| self.standing(setting, load)).collect();
        let text: Vec<String> = standings.iter().map(Standing::text).collect();
        let service = cluster::service_ms()[self.method as usize];
        let bound = standings.iter().map(|standing| standing.best() / service).fold(f64::INFINITY, f64::min);
        if setting.servers == STEADY.servers && bound < times {
            let why = format!(
                "Servers that only queue leave too little to gain: the work of {} takes {service:.2} ms, so no policy can \
                 be more than {bound:.1} times as fast as the best of the others.",
                if self.method == Method::Invite { "an INVITE" } else { "a BYE" }
            );
            return Statement::out_of_reach(source, statement, text.join(" "), why);
        }
        let others =
            |at: &Standing| OTHERS.map(|other| self.above(setting, other, (at.praised.0, times), at.load));
        let all = standings.iter().flat_map(others).map(StatementVerdict::above_zero);
        Statement::check(
            source,
            statement,
            text.join(" "),
            all.fold(StatementVerdict::Holds, StatementVerdict::and),
        )
    }

    /// Describes the response times of some policies at one load.
    pub(super) fn listed(&self, setting: Setting, policies: &[&str], load: f64) -> String {
        let one = |policy: &&str| {
            let Interval { mean, half_width } = self.interval(setting, policy, load);
            format!("{policy} {mean:.2} ± {half_width:.2} ms")
        };
        let list: Vec<String> = policies.iter().map(one).collect();
        format!("At {load:.0} calls/s: {}.", list.join(", "))
    }

    /// Names the curves whose intervals are too wide, in a sentence.
    fn width(&self) -> String {
        let wide = |setting: Setting| {
            let all = self.runs.iter().filter(|(case, _)| case.servers == setting.servers);
            let all: Vec<bool> = all
                .map(|(_, outcome)| outcome.response[self.method as usize].interval().too_wide(PRECISION))
                .collect();
            format!(
                "{} of {} points of {}",
                all.iter().filter(|wide| **wide).count(),
                all.len(),
                setting.servers.name()
            )
        };
        format!(
            "Bars are 95 % intervals from the means of 5 s in one run. {} and {} have a half width of more than {:.0} \
             % of the mean: few pauses decide it, and a run that collapses does not settle. Policies are compared by \
             the difference in each 5 s, in which all met the same calls and pauses; that interval, here of 99 %, is \
             much narrower than those of the means. One takes longer, or so many times as long, when it has no zero in \
             it; the statement is open while it has. Policies that lie close are compared at {} calls/s: one \
             difference must be sure, and none the other way round.",
            wide(STEADY),
            wide(PAUSING),
            100.0 * PRECISION,
            COMPARED.map(|load| format!("{load:.0}")).join(" and ")
        )
    }
}

/// Assigns claims to the plot of a setting.
fn about(setting: Setting, claims: Vec<Statement>) -> impl Iterator<Item = Statement> {
    claims.into_iter().map(move |claim| {
        let measured = format!("{}: {}", capital(setting.servers.name()), claim.measured);
        Statement { measured, plot: setting.plot(), ..claim }
    })
}

/// Capitalizes the first letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

pub(in crate::figures) fn invite(work: &FigureRun<'_>) -> Figure {
    let runs = Runs::of(work);
    let view = View { runs, method: Method::Invite };
    let mut figure = work.figure(SETTINGS.map(|setting| view.plot(setting)).into());
    let minutes = Minutes::of(work);
    for setting in [STEADY, PAUSING] {
        figure.claims.extend(about(setting, orders::magnitudes(&view, setting)));
        figure.claims.extend(about(setting, orders::orders(&view, setting)));
        figure.claims.extend(about(setting, vec![minutes.misjudged(setting)]));
    }
    for setting in [SETTINGS[2], SETTINGS[3]] {
        figure.claims.extend(about(setting, orders::unheld(&view, setting)));
    }
    let pauses = pauses::vary(work);
    let first = figure.plots.len();
    let claims = pauses.claims.into_iter().map(|claim| {
        let plot = first + claim.plot;
        claim.about(plot)
    });
    figure.claims.extend(claims);
    figure.plots.extend(pauses.plots);
    figure.assumptions = cluster::assumptions(work);
    figure.notes = notes(&view);
    figure.notes.extend(pauses.notes);
    figure.notes.push(minutes.note(&view));
    figure
}

pub(in crate::figures) fn bye(work: &FigureRun<'_>) -> Figure {
    let runs = Runs::of(work);
    let view = View { runs, method: Method::Bye };
    let invites = View { runs, method: Method::Invite };
    let mut figure = work.figure(SETTINGS.map(|setting| view.plot(setting)).into());
    for setting in [STEADY, PAUSING] {
        figure.claims.extend(about(setting, orders::byes(&view, &invites, setting)));
    }
    figure.assumptions = cluster::assumptions(work);
    figure.notes = notes(&view);
    figure
}

fn notes(view: &View<'_>) -> Vec<String> {
    vec![
        "Servers that only queue cannot show the paper's orders of magnitude: a policy can at best save the wait, and \
         below the capacity that is a few services long. Servers that pause can: calls that are sent to a server that \
         stands still wait for all of its pause and for all that came before them, and a policy that counts what is \
         unanswered sees it at once."
            .into(),
        "A mean is over the requests that were answered; near and beyond collapse, where requests fail, it \
         understates.".into(),
        view.width(),
    ]
}
