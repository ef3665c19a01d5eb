//! The paper's statements about the response times: ratios, and orders of the policies.

use super::cluster::{self, POLICIES};
use super::response::{Loads, MODERATE, View};
use super::runs::{HIGH, Setting};
use crate::report::{Statement, StatementVerdict};
use core::ops::Range;
use sim::stats::Interval;

/// Cause: CJSQ is not worse than a hash if servers pause.
pub(super) const NO_CALL_ENDS: &str = "A paused server ends no calls. So CJSQ sees more calls there and sends none, \
 while a hash keeps sending. The paper does not mention pauses of servers.";
/// Cause: rare pauses are not enough at low loads.
const PAUSES: &str = "The result depends on the length of pauses, which the paper does not give. Pauses of 0.5 s add \
 too little at these loads; 1 s makes every other policy more than ten times slower at 1200 calls/s.";
/// Cause: the queues of a paused server do not grow further.
const ABSORBED: &str = "The result depends on how a server treats retransmitted requests, which the paper does not \
 say. A server that absorbs them catches up after a pause; a server that processes them in full falls further \
 behind.";
/// Cause: a BYE can take longer.
const ITS_SERVER: &str = "A BYE must go to the server of its call, however long the queue there. An INVITE goes to \
 the shortest queue.";

/// Claims about the paper's orders of magnitude.
pub(super) fn magnitudes(view: &View<'_>, setting: Setting) -> Vec<Statement> {
    let faster = |loads, times, source, statement| view.faster(setting, loads, times, source, statement);
    claims! {
        => faster(Loads::Moderate, 10.0, "section I", "At low to moderate loads TLWL and TJSQ answer an INVITE an \
         order of magnitude faster than all others.").differs_by(PAUSES);
        => faster(Loads::Moderate, 5.0, "digest, section VII", "At light to moderate loads TLWL-1.75, TLWL-2 and TJSQ \
         answer an INVITE at least five times as fast as the others.").differs_by(PAUSES);
        => faster(Loads::High, 100.0, "section I; digest, section VII", "At high loads the improvement grows to two \
         orders of magnitude.").differs_by(ABSORBED);
    }
}

/// Loads at which close policies are compared: near the capacity differences are largest, below it most certain.
pub(super) const COMPARED: [f64; 2] = [MODERATE, HIGH];

/// Holds if one of these differences is certainly above zero, and none certainly below.
pub(super) fn surely(above: [Interval; 2]) -> StatementVerdict {
    let verdicts = above.map(StatementVerdict::above_zero);
    let sure = [StatementVerdict::Fails, StatementVerdict::Holds]
        .into_iter()
        .find(|verdict| verdicts.contains(verdict));
    sure.unwrap_or(StatementVerdict::Open)
}

/// Whether one policy takes longer than another, certainly at one of these loads and at none certainly less. Also
/// returns the differences as text.
fn later(view: &View<'_>, setting: Setting, slow: &str, fast: &str) -> (StatementVerdict, String) {
    let above = COMPARED.map(|load| view.above(setting, slow, (fast, 1.0), load));
    let verdict = surely(above);
    let text = above.map(|Interval { mean, half_width }| format!("{mean:.3} ± {half_width:.3} ms"));
    (verdict, format!("{slow} - {fast} = {}", text.join(" and ")))
}

/// Whether two policies take the same time, within this range of their ratio.
fn alike(view: &View<'_>, setting: Setting, one: &str, other: &str, within: Range<f64>) -> StatementVerdict {
    let Interval { mean, half_width } = view.above(setting, one, (other, 1.0), HIGH);
    let base = view.ms(setting, other, HIGH);
    let below = Interval { mean: (within.end - 1.0) * base - mean, half_width };
    let above = Interval { mean: mean - (within.start - 1.0) * base, half_width };
    StatementVerdict::above_zero(below).and(StatementVerdict::above_zero(above))
}

/// Claims about the order of the policies.
pub(super) fn orders(view: &View<'_>, setting: Setting) -> Vec<Statement> {
    let ms = |policy| view.ms(setting, policy, HIGH);
    let tlwl = ms("tlwl-1.75");
    let (moderate, by) = later(view, setting, "tjsq", "tlwl-1.75");
    let (worst, by_more) = later(view, setting, "cjsq", "tjsq");
    let (heavier, by_weight) = later(view, setting, "tlwl-2", "tlwl-1.75");
    claims! {
        "section V-A", "TLWL is best, TJSQ moderate, CJSQ worst.",
            ["{} At {MODERATE:.0} and {HIGH:.0}: {by}; {by_more}.",
             view.listed(setting, &["tlwl-1.75", "tjsq", "cjsq"], HIGH)],
            moderate.and(worst);
        "digest, section IV A", "TJSQ is almost as good as TLWL-1.75.",
            ["{:.3} times its time (limits of the check: 0.8 and 1.25).", ms("tjsq") / tlwl],
            alike(view, setting, "tjsq", "tlwl-1.75", 0.8..1.25);
        "digest, section IV A", "1.75 is the best ratio of weights, better than 2.",
            ["{} At {MODERATE:.0} and {HIGH:.0}: {by_weight}.", view.listed(setting, &["tlwl-1.75", "tlwl-2"], HIGH)],
            heavier;
        "section V-B", "Response times are not the most reliable measure of load: the server with the lowest average \
         gets too many calls.",
            ["{}", view.listed(setting, &["rwma", "tlwl-1.75"], HIGH)],
            StatementVerdict::above_zero(view.above(setting, "rwma", ("tlwl-1.75", 2.0), HIGH));
    }
}

/// Claims about calls without holding times.
pub(super) fn unheld(view: &View<'_>, setting: Setting) -> Vec<Statement> {
    claims! {
        "section V-B", "Without pause times, CJSQ is very good, comparable to TJSQ.",
            ["{}", view.listed(setting, &["cjsq", "tjsq", "hash"], HIGH)],
            alike(view, setting, "cjsq", "tjsq", 0.8..1.25);
    }
}

/// Claims about BYE.
pub(super) fn byes(view: &View<'_>, invites: &View<'_>, setting: Setting) -> Vec<Statement> {
    let hash = |view: &View<'_>| view.ms(setting, "hash", HIGH) / view.ms(setting, "tlwl-1.75", HIGH);
    let lowest = "TLWL and TJSQ have the lowest response times.";
    claims! {
        => shorter(view, invites, setting);
        => view.faster(setting, Loads::High, 1.0, "section V-A", lowest);
        "section V-A", "The differences are smaller than for INVITE, since a BYE must go to the server of its call.",
            ["At {HIGH:.0} calls/s hash takes {:.1} times the time of tlwl-1.75 for a BYE, {:.1} times for an \
             INVITE.",
             hash(view), hash(invites)],
            hash(view) < hash(invites);
    }
}

/// Statement that a BYE takes less time than an INVITE at every load.
fn shorter(view: &View<'_>, invites: &View<'_>, setting: Setting) -> Statement {
    let loads = view.runs.loads(setting);
    let of = |load: f64, policy: &str| {
        let invite = invites.batches(setting, policy, load);
        StatementVerdict::above_zero(invite.above(view.batches(setting, policy, load), 1.0))
    };
    let text = |&load: &f64| {
        let not = |verdict: StatementVerdict| {
            let policies: Vec<&str> =
                POLICIES.into_iter().filter(|policy| of(load, policy) == verdict).collect();
            if policies.len() == POLICIES.len() { "all".to_owned() } else { policies.join(", ") }
        };
        let parts = [("not", not(StatementVerdict::Fails)), ("open for", not(StatementVerdict::Open))];
        let parts = parts.into_iter().filter(|part| !part.1.is_empty());
        let parts: Vec<String> = parts.map(|(word, policies)| format!("{word} {policies}")).collect();
        let but = if parts.is_empty() { "all".to_owned() } else { parts.join(" and ") };
        format!("at {load:.0} calls/s {but}")
    };
    let tlwl = |view: &View<'_>| view.ms(setting, "tlwl-1.75", HIGH);
    let measured = format!(
        "faster than INVITE {}. With tlwl-1.75 at {HIGH:.0} calls/s a BYE takes {:.2} ms and an INVITE {:.2}, \
         although the work of an INVITE is {:.2} ms more.",
        loads.iter().map(text).collect::<Vec<_>>().join("; "),
        tlwl(view),
        tlwl(invites),
        cluster::service_ms()[0] - cluster::service_ms()[1]
    );
    let all = loads.iter().flat_map(|&load| POLICIES.map(|policy| of(load, policy)));
    Statement::check(
        "section V-A",
        "BYE takes fewer resources than INVITE, hence lower average response times.",
        measured,
        all.fold(StatementVerdict::Holds, StatementVerdict::and),
    )
    .differs_by(ITS_SERVER)
}
