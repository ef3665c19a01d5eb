//! Local, hop-by-hop and end-to-end overload control.

use super::FigureRun;
use super::sweeps::{Curve, RISE_ASSUMED, Variant, curves, goodputs, holding_assumed, late, note};
use super::topology::{core, domains};
use crate::report::{Figure, Statement, StatementVerdict};
use config::scenario::{Scenario, ScenarioFeedback, ScenarioLocal};

const LOADS: [f64; 7] = [160.0, 240.0, 280.0, 400.0, 600.0, 1000.0, 2000.0];
/// Loads above the network's capacity.
const ABOVE: [f64; 4] = [400.0, 600.0, 1000.0, 2000.0];
/// Loads of the comparison on topology 3.
const SHORT: [f64; 2] = [400.0, 800.0];
/// Capacity of an edge server in that comparison, in calls per second.
const EDGE_CAPACITY: f64 = 480.0;
/// Relative difference up to which two mechanisms count as equal.
const ALIKE: f64 = 0.1;

fn told(mut scenario: Scenario, feedback: ScenarioFeedback) -> Scenario {
    for group in &mut scenario.groups {
        group.overload.local = ScenarioLocal::Occupancy;
        group.overload.feedback = feedback;
        // Without feedback as in figure 11: stateless rejection without a look-up.
        group.overload.look_up = feedback != ScenarioFeedback::None;
    }
    scenario
}

const VARIANTS: [Variant; 3] = [
    Variant { name: "local", network: |seconds| told(domains(seconds), ScenarioFeedback::None) },
    Variant { name: "hop-by-hop", network: |seconds| told(domains(seconds), ScenarioFeedback::HopByHop) },
    Variant { name: "end-to-end", network: |seconds| told(domains(seconds), ScenarioFeedback::EndToEnd) },
];

/// Both distributed mechanisms, with an overloaded server one hop from the edge.
const ONE_HOP: [Variant; 2] = [
    Variant {
        name: "hop-by-hop, topology 3",
        network: |seconds| told(one_hop(seconds), ScenarioFeedback::HopByHop),
    },
    Variant {
        name: "end-to-end, topology 3",
        network: |seconds| told(one_hop(seconds), ScenarioFeedback::EndToEnd),
    },
];

/// Topology 3 with edge servers that are never overloaded. Edge servers with the paper's capacity, 160 calls/s, carry
/// no more than the core, and a call leaves through another edge server, two hops from the ingress.
fn one_hop(seconds: u64) -> Scenario {
    let mut scenario = core(seconds);
    scenario.groups[0].capacities.fill(EDGE_CAPACITY);
    scenario
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let long = curves(work, &VARIANTS, &LOADS);
    let short = curves(work, &ONE_HOP, &SHORT);
    let plot = goodputs("Goodput by mechanism, topology 4", &long);
    let mut figure = work.figure(vec![plot]);
    figure.tables = vec![late(&long)];
    figure.claims = claims(&long, &short);
    figure.assumptions = vec![
        "Two domains, each with M = 4 edge servers and 2 core servers; all calls go from one to the other, half each \
         way."
            .into(),
        "In the comparison on topology 3 an edge server carries 480 calls/s, as in section V-C, \"to ensure that only core \
         servers are overloaded\"."
            .into(),
        "The ACK to a rejection is a message like any other, 1 ms.".into(),
        "A server that is told upstream what to send rejects nothing itself, unless calls enter the network at \
         it.".into(),
        holding_assumed(work),
        RISE_ASSUMED.into(),
    ];
    figure.notes = vec![note(work, &[long, short].concat())];
    figure
}

fn claims(long: &[Curve], short: &[Curve]) -> Vec<Statement> {
    let [local, hop, end] = long else { unreachable!("there are three mechanisms") };
    let [hop_short, end_short] = short else { unreachable!("two are compared") };
    let (hop_peak, end_peak) = (hop.peak(), end.peak());
    claims! {
        "section VII-B", "Hop-by-hop significantly outperforms local control.",
            ["Hop-by-hop: {}. Local: {} calls/s.", hop.goodputs(&ABOVE), local.goodputs(&ABOVE)],
            [600.0, 1000.0, 2000.0].iter().all(|&load| hop.goodput(load) > 1.2 * local.goodput(load));
        "section VII-B", "Hop-by-hop still loses some goodput as the load becomes very high.",
            ["At most {:.0} calls/s; {:.0} at 2000 offered.", hop_peak.0, hop.goodput(2000.0)],
            hop.goodput(2000.0) < 0.95 * hop_peak.0;
        "section VII-B", "End-to-end maintains a high goodput throughout.",
            ["At most {:.0} calls/s; {} calls/s.", end_peak.0, end.goodputs(&ABOVE)],
            ABOVE
                .map(|load| end.is_above(load, 0.9 * end_peak.0))
                .into_iter()
                .fold(StatementVerdict::Holds, StatementVerdict::and);
        "section VII-B", "End-to-end has no advantage where the overloaded server is one hop from the ingress, as in \
         topology 3.",
            ["Hop-by-hop: {}. End-to-end: {} calls/s.", hop_short.goodputs(&SHORT), end_short.goodputs(&SHORT)],
            // Neither better nor worse: end-to-end feedback has no more information than the same value.
            SHORT.iter().all(|&load| (end_short.goodput(load) / hop_short.goodput(load) - 1.0).abs() < ALIKE);
    }
}
