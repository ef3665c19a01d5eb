//! Local overload control: goodput and setup delay of four cases, and of further variants from the paper's text.

use super::sweeps::{Curve, RISE_ASSUMED, Variant, curves, holding_assumed, note};
use super::topology::core;
use super::{FigureOptions, FigureRun};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement, StatementVerdict};
use config::scenario::{Scenario, ScenarioLocal, ServiceTimes};
use overload::RejectAt;

const LOADS: [f64; 9] = [200.0, 260.0, 280.0, 300.0, 340.0, 400.0, 600.0, 1000.0, 3000.0];
/// Highest load, ten times the network's capacity.
const FAR: f64 = 3000.0;
/// Capacity of the network: each of two core servers receives 7 messages per call, including the next server's 100.
const CARRIED: f64 = 2.0 * 1000.0 / 7.0;
/// Loads above capacity where even bang-bang control has time for rejections.
const ABOVE: [f64; 4] = [300.0, 340.0, 400.0, 600.0];
/// Loads at which the variants of the text are compared.
const TEXT: [f64; 2] = [340.0, 600.0];

pub(super) fn controlled(seconds: u64, local: ScenarioLocal, change: fn(&mut Scenario)) -> Scenario {
    let mut scenario = core(seconds);
    for group in &mut scenario.groups {
        group.overload.local = local;
        // Section VI-A: stateless rejection "avoids that state needs to be looked up".
        group.overload.look_up = false;
    }
    change(&mut scenario);
    scenario
}

pub(super) const CASES: [Variant; 4] = [
    Variant { name: "case 1: none", network: core },
    Variant {
        name: "case 2: bang-bang",
        network: |seconds| controlled(seconds, ScenarioLocal::BangBang, |_| ()),
    },
    Variant {
        name: "case 3: bang-bang, alternate server",
        network: |seconds| {
            controlled(seconds, ScenarioLocal::BangBang, |scenario| {
                scenario.groups.iter_mut().for_each(|group| group.overload.retry = true);
            })
        },
    },
    Variant {
        name: "case 4: occupancy",
        network: |seconds| controlled(seconds, ScenarioLocal::Occupancy, |_| ()),
    },
];

/// Variants of case 4 that make a difference, or none, according to sections IV-A and VI-A.
const BESIDE: [Variant; 7] = [
    Variant {
        name: "early, stateless, looked up",
        network: |seconds| {
            controlled(seconds, ScenarioLocal::Occupancy, |scenario| {
                scenario.groups.iter_mut().for_each(|group| group.overload.look_up = true);
            })
        },
    },
    Variant {
        name: "early, stateful",
        network: |seconds| controlled(seconds, ScenarioLocal::Occupancy, stateful),
    },
    Variant {
        name: "early, stateful, 1 ms",
        network: |seconds| {
            controlled(seconds, ScenarioLocal::Occupancy, |scenario| {
                stateful(scenario);
                scenario.costs.reject_stateful = scenario.costs.message;
            })
        },
    },
    Variant {
        name: "late, stateless",
        network: |seconds| controlled(seconds, ScenarioLocal::Occupancy, late),
    },
    Variant {
        name: "late, stateful",
        network: |seconds| {
            controlled(seconds, ScenarioLocal::Occupancy, |scenario| {
                late(scenario);
                stateful(scenario);
            })
        },
    },
    Variant {
        name: "occupancy, exponential service",
        network: |seconds| controlled(seconds, ScenarioLocal::Occupancy, exponential),
    },
    Variant {
        name: "none, exponential service",
        network: |seconds| controlled(seconds, ScenarioLocal::None, exponential),
    },
];

/// Rejects with a transaction, at the paper's price of an early rejection.
fn stateful(scenario: &mut Scenario) {
    scenario.costs.reject_stateful = scenario.costs.reject;
    for group in &mut scenario.groups {
        (group.overload.stateful, group.overload.look_up) = (true, true);
    }
}

fn late(scenario: &mut Scenario) {
    scenario.groups.iter_mut().for_each(|group| group.overload.reject = RejectAt::Service);
}

fn exponential(scenario: &mut Scenario) {
    scenario.costs.service = ServiceTimes::Exponential;
}

/// Returns the four cases, which both figures show.
fn cases<'a>(work: &FigureRun<'a>) -> &'a [Curve] {
    work.shared.local_control.get_or_init(|| curves(work, &CASES, &LOADS))
}

fn assumptions(options: &FigureOptions) -> Vec<String> {
    vec![
        "M = 4 edge servers, so that edge and core carry about as many calls: each call passes two edge servers and \
         one core server."
            .into(),
        "The loads at which the paper measured stand in its plot only; here up to 3000 calls/s.".into(),
        "Every server controls itself. The ACK to a rejection is a message like any other, 1 ms, of which the paper \
         says nothing."
            .into(),
        "The paper has one price for a rejection, 0.16666 ms for an early one. Here it is that of every rejection, \
         early or late, with a transaction or without, unless said otherwise."
            .into(),
        holding_assumed(options),
        RISE_ASSUMED.into(),
    ]
}

fn plot(title: &str, y: Axis, curves: &[Curve], line: fn(&Curve) -> PlotSeries) -> Plot {
    let x = Axis::linear("offered load (calls/s)").from_to(0.0, 1_000.0);
    Plot::of(title, x, y, curves.iter().map(line))
}

pub(in crate::figures) fn goodput(work: &FigureRun<'_>) -> Figure {
    let curves = cases(work);
    let beside = super::sweeps::curves(work, &BESIDE, &TEXT);
    let mut figure =
        work.figure(vec![plot("Goodput", Axis::linear("goodput (calls/s)"), curves, Curve::goodput_line)]);
    figure.tables = vec![super::sweeps::late(curves)];
    figure.claims = goodput_claims(curves);
    figure.claims.extend(range_claims(curves));
    figure.claims.extend(text_claims(curves, &beside));
    figure.assumptions = assumptions(work);
    figure.notes = vec![
        note(work, &[curves, &beside].concat()),
        format!(
            "The table goes on to {FAR} calls/s. A core server takes in 7 messages a call, so the network carries \
             {CARRIED:.0}."
        ),
    ];
    figure
}

fn goodput_claims(curves: &[Curve]) -> Vec<Statement> {
    let [none, bang, retry, occupancy] = curves else { unreachable!("there are four cases") };
    let (bang_peak, occupancy_peak) = (bang.peak(), occupancy.peak());
    let mean =
        |curve: &Curve| ABOVE.iter().map(|&load| curve.goodput(load)).sum::<f64>() / ABOVE.len() as f64;
    let deviation = deviation(occupancy, &[340.0, 400.0, 600.0, 1000.0]);
    let source = "section VI-C";
    claims! {
        source, "Case 1: the goodput increases up to the capacity, then collapses to zero at about 300 calls/s.",
            ["{} calls/s.", none.goodputs(&[200.0, 260.0, 280.0, 300.0, 340.0, 400.0, 600.0])],
            none.peak().0 > 0.85 * CARRIED
                && none.goodput(300.0) < 0.5 * none.peak().0
                && none.goodput(340.0) < 0.1 * CARRIED
                && none.goodput(600.0) < 0.01 * CARRIED;
        source, "Case 2: the goodput comes close to the capacity, then drops suddenly.",
            ["At most {:.0}, at {:.0} offered; {} calls/s.", bang_peak.0, bang_peak.1, bang.goodputs(&ABOVE)],
            bang_peak.0 > 0.85 * CARRIED && bang.goodput(340.0) < 0.6 * bang_peak.0;
        source, "Case 3: retrying at an alternate server decreases the goodput during overload.",
            ["Case 3: {} calls/s. Case 2: {}. Mean over these loads: {:.0} and {:.0}.", retry.goodputs(&ABOVE),
             bang.goodputs(&ABOVE), mean(retry), mean(bang)],
            mean(retry) < mean(bang);
        source, "Case 4: the goodput degrades approximately linearly as the load increases.",
            ["{} calls/s; at most {deviation:.0} from a straight line between 340 and 1000.",
             occupancy.goodputs(&[340.0, 400.0, 600.0, 1000.0, FAR])],
            deviation < 0.1 * occupancy_peak.0 && occupancy.goodput(1000.0) < occupancy.goodput(340.0);
        source, "Case 4 does not fully reach the capacity, because it reduces requests above a utilisation of 0.9.",
            ["At most {:.0} calls/s; case 1 reaches {:.0}.", occupancy_peak.0, none.peak().0],
            occupancy_peak.0 < none.peak().0 && occupancy_peak.0 > 0.8 * none.peak().0;
    }
}

fn range_claims(curves: &[Curve]) -> Vec<Statement> {
    let [none, bang, _, occupancy] = curves else { unreachable!("there are four cases") };
    let worse = |a: &Curve, b: &Curve| ABOVE.iter().all(|&load| a.goodput(load) < b.goodput(load));
    let source = "section VI-C";
    claims! {
        source, "With an appropriate algorithm local control outperforms a system without control.",
            ["At 400 calls/s: none {:.0}, bang-bang {:.0}, occupancy {:.0}.", none.goodput(400.0),
             bang.goodput(400.0), occupancy.goodput(400.0)],
            worse(none, occupancy) && worse(bang, occupancy);
        source, "No algorithm's goodput drops to zero at once when the load reaches the rejection capacity.",
            ["At 1000 calls/s: bang-bang {:.1}, occupancy {:.1}. At {FAR}: {:.1}, {:.1}.", bang.goodput(1000.0),
             occupancy.goodput(1000.0), bang.goodput(FAR), occupancy.goodput(FAR)],
            // Even one call per minute would not be zero.
            [bang, occupancy].iter().all(|curve| curve.goodput(1000.0) > 0.05 * CARRIED)
                && [bang, occupancy].iter().all(|curve| curve.goodput(FAR) > 0.0), differs_by(LEAST_F);
        source, "Local control extends the range, but does not prevent a collapse.",
            ["At 340 calls/s: none {:.0}, occupancy {:.0}. At {FAR}: bang-bang {:.1}, occupancy {:.1}.",
             none.goodput(340.0), occupancy.goodput(340.0), bang.goodput(FAR), occupancy.goodput(FAR)],
            none.goodput(340.0) < 0.1 * CARRIED
                && occupancy.goodput(340.0) > 0.5 * CARRIED
                && [bang, occupancy].iter().all(|curve| curve.goodput(FAR) < 0.1 * curve.peak().0);
    }
}

/// Largest distance of a goodput from its least-squares line over these loads.
fn deviation(curve: &Curve, loads: &[f64]) -> f64 {
    let count = loads.len() as f64;
    let (x, y) = (
        loads.iter().sum::<f64>() / count,
        loads.iter().map(|&load| curve.goodput(load)).sum::<f64>() / count,
    );
    let slope = loads.iter().map(|&load| (load - x) * (curve.goodput(load) - y)).sum::<f64>()
        / loads.iter().map(|load| (load - x).powi(2)).sum::<f64>();
    loads.iter().map(|&load| (curve.goodput(load) - y - slope * (load - x)).abs()).fold(0.0, f64::max)
}

/// Relative difference of goodputs that is not a qualitative difference.
const ALIKE: f64 = 0.2;
/// Cause: a stateless rejection is no better here.
const ONE_PRICE: &str = "Both rejections have the one cost that the paper gives. At this cost a transaction saves by \
 absorbing retransmissions as much as its timers take. At the cost of any message the difference is large.";

fn text_claims(cases: &[Curve], beside: &[Curve]) -> Vec<Statement> {
    let [none, _, _, best] = cases else { unreachable!("there are four cases") };
    let [looked_up, stateful, dear, late, late_stateful, exponential, none_exponential] = beside else {
        unreachable!("there are seven beside them")
    };
    let near = |a: &Curve, b: &Curve| {
        TEXT.iter().all(|&load| (a.goodput(load) - b.goodput(load)).abs() < ALIKE * b.goodput(load))
    };
    let collapsed = |curve: &Curve| TEXT.iter().all(|&load| curve.goodput(load) < 0.1 * CARRIED);
    let gain = TEXT
        .map(|load| best.is_above_curve(stateful, load))
        .into_iter()
        .fold(StatementVerdict::Holds, StatementVerdict::and);
    claims! {
        "section VI-A", "Stateful and stateless rejection show no qualitative difference.",
            ["Stateless: {}. Stateful: {}. Stateless with look-up of repeated INVITEs: {}.", best.goodputs(&TEXT),
             stateful.goodputs(&TEXT), looked_up.goodputs(&TEXT)],
            near(stateful, best) && near(looked_up, best);
        "section VI-A", "Stateless rejection is marginally better than stateful.",
            ["Stateless: {}. Stateful: {}. Stateful at 1 ms, the cost of any message: {}.", best.goodputs(&TEXT),
             stateful.goodputs(&TEXT), dear.goodputs(&TEXT)],
            gain, differs_by(ONE_PRICE);
        "section VI-A", "Early and stateless rejection together perform best.",
            ["Early, stateless: {}. Late, stateless: {}. Late, stateful: {}.", best.goodputs(&TEXT),
             late.goodputs(&TEXT), late_stateful.goodputs(&TEXT)],
            // Differences within 2 % are ties.
            [stateful, late, late_stateful]
                .iter()
                .all(|other| TEXT.iter().all(|&load| other.goodput(load) <= 1.02 * best.goodput(load)));
        "section IV-A", "Exponential service times show no qualitative difference.",
            ["Occupancy: {} instead of {}. None: {} instead of {}.", exponential.goodputs(&TEXT),
             best.goodputs(&TEXT), none_exponential.goodputs(&TEXT), none.goodputs(&TEXT)],
            near(exponential, best) && collapsed(none) && collapsed(none_exponential);
    }
}

pub(in crate::figures) fn delay(work: &FigureRun<'_>) -> Figure {
    let curves = cases(work);
    let mut figure = work.figure(vec![plot(
        "Mean setup delay",
        Axis::log("from INVITE to ACK (ms)"),
        curves,
        Curve::delay_line,
    )]);
    figure.tables = vec![super::sweeps::late(curves)];
    figure.claims = delay_claims(curves);
    figure.assumptions = assumptions(work);
    figure.notes = vec![
        note(work, curves),
        "The delay is that of calls which were established, from the caller's INVITE to the ACK at the callee; a call \
         that is answered after its caller gave up, at 10 s, is none. Same runs as figure 11."
            .into(),
    ];
    figure
}

/// Cause: the delay of bang-bang control continues to grow.
const NOT_LEVEL: &str = "The buffer bounds the number of waiting messages, not their delay. Timers and rejections go \
 first, and dropped messages return after 0.5, 1, 2 and 4 s. The delay levels off near the caller's patience of 10 \
 s.";

fn delay_claims(curves: &[Curve]) -> Vec<Statement> {
    let [none, bang, retry, occupancy] = curves else { unreachable!("there are four cases") };
    let over: Vec<f64> = ABOVE[1..].to_vec();
    let low = [200.0, 280.0, 340.0, 400.0];
    let source = "section VI-C";
    claims! {
        source, "Case 1 has a delay only up to about 300 calls/s, because no calls succeed beyond.",
            ["Delay {} ms; goodput {} calls/s.", none.delays(&[200.0, 260.0, 280.0, 300.0]),
             none.goodputs(&[340.0, 400.0, 600.0])],
            [400.0, 600.0, 1000.0].iter().all(|&load| none.goodput(load) < 10.0);
        source, "Case 2: the delay increases near the capacity, but levels off due to finite buffering.",
            ["{} ms.", bang.delays(&[200.0, 260.0, 280.0, 300.0, 340.0, 400.0, 600.0, 1000.0])],
            // Level: beyond the capacity, three times the load does not double the delay.
            bang.delay(340.0) > 5.0 * bang.delay(200.0)
                && [400.0, 600.0, 1000.0].iter().all(|&load| bang.delay(load) < 2.0 * bang.delay(340.0)),
            differs_by(NOT_LEVEL);
        source, "Case 3: retrying at an alternate server increases the delay during overload.",
            ["Case 3: {} ms. Case 2: {} ms.", retry.delays(&over), bang.delays(&over)],
            over.iter().all(|&load| retry.delay(load) > bang.delay(load));
        source, "Case 4 keeps a low delay while the load is below the rejection rate.",
            ["{} ms.", occupancy.delays(&low)],
            low.iter().all(|&load| occupancy.delay(load) < 200.0);
        => far_claim(occupancy);
    }
}

/// Cause: few calls succeed when rejections occupy the servers.
const LEAST_F: &str = "If the load rises slowly, f reaches its minimum before rejections and their ACKs fill a server \
 at about 3000 calls/s. Then hardly a call is left. If the load starts at once, with f at 1, messages are dropped \
 from 1000 calls/s on.";

/// Statement about case 4 when rejections occupy the servers.
fn far_claim(occupancy: &Curve) -> Statement {
    let source = "section VI-C";
    let statement = "Case 4: beyond the rejection capacity requests are dropped and the delay increases \
     significantly.";
    let measured = format!(
        "Delay {} ms; goodput {} calls/s.",
        occupancy.delays(&[400.0, 600.0, 1000.0, FAR]),
        occupancy.goodputs(&[1000.0, FAR])
    );
    let grows = [1000.0, FAR].iter().any(|&load| occupancy.delay(load) > 5.0 * occupancy.delay(340.0));
    Statement::check(source, statement, measured, grows).differs_by(LEAST_F)
}
