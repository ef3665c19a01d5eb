//! UDP, TCP, and a mix of both without overload control.

use super::FigureRun;
use super::sweeps::{Curve, RISE_ASSUMED, Variant, curves, goodputs, holding_assumed, late, note};
use super::topology::core;
use crate::report::{Figure, Statement};
use base::Transport;
use config::scenario::{Scenario, TcpDiscard};

const LOADS: [f64; 8] = [120.0, 200.0, 260.0, 280.0, 320.0, 360.0, 440.0, 600.0];
/// Minimum increase of a goodput in calls per second to count as an increase: a hundredth of the network's capacity.
const STEP: f64 = 3.0;
/// Loads above the network's capacity.
const ABOVE: [f64; 4] = [320.0, 360.0, 440.0, 600.0];

fn network(seconds: u64, servers: Transport, agents: Transport) -> Scenario {
    let mut scenario = core(seconds);
    for group in &mut scenario.groups {
        group.transport = servers;
        group.discard = TcpDiscard::NewCalls;
    }
    scenario.streams[0].transport = agents;
    scenario
}

const VARIANTS: [Variant; 3] = [
    Variant { name: "UDP", network: |seconds| network(seconds, Transport::Udp, Transport::Udp) },
    Variant { name: "mixed", network: |seconds| network(seconds, Transport::Tcp, Transport::Udp) },
    Variant { name: "TCP", network: |seconds| network(seconds, Transport::Tcp, Transport::Tcp) },
];

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let curves = curves(work, &VARIANTS, &LOADS);
    let plot = goodputs("Goodput by transport", &curves);
    let mut figure = work.figure(vec![plot]);
    figure.tables = vec![late(&curves)];
    figure.claims = claims(&curves);
    figure.assumptions = vec![
        "M = 4 edge servers.".into(),
        "A server that is full goes on reading from its connections and of that drops new INVITEs only, as the paper's \
         does; all else waits beyond the limit. Of what comes by UDP it drops whatever meets a full buffer."
            .into(),
        holding_assumed(work),
        RISE_ASSUMED.into(),
    ];
    figure.notes = vec![note(work, &curves)];
    figure
}

fn claims(curves: &[Curve]) -> Vec<Statement> {
    let [udp, mixed, tcp] = curves else { unreachable!("there are three variants") };
    let mean =
        |curve: &Curve| ABOVE.iter().map(|&load| curve.goodput(load)).sum::<f64>() / ABOVE.len() as f64;
    let most = tcp.peak();
    claims! {
        "section V-D", "The goodput under overload is higher with TCP than with UDP.",
            ["TCP: {}. UDP: {}.", tcp.goodputs(&ABOVE), udp.goodputs(&ABOVE)],
            ABOVE.iter().all(|&load| tcp.goodput(load) > udp.goodput(load));
        "section V-D", "The goodput increases with the number of TCP links: UDP, mixed, TCP.",
            ["Mixed: {}. Mean over these loads: UDP {:.0}, mixed {:.0}, TCP {:.0} calls/s. The check requires {STEP} \
             calls/s more per step at each load.", mixed.goodputs(&ABOVE), mean(udp), mean(mixed),
             mean(tcp)],
            ABOVE.iter().all(|&load| {
                mixed.goodput(load) >= udp.goodput(load) + STEP
                    && tcp.goodput(load) >= mixed.goodput(load) + STEP
            });
        "section V-D", "Even with TCP the goodput drops significantly once the capacity is reached.",
            ["At most {:.0} calls/s, at {:.0} offered; {}.", most.0, most.1, tcp.goodputs(&ABOVE)],
            // At all loads above, not only far above.
            ABOVE.iter().all(|&load| tcp.goodput(load) < 0.6 * most.0);
    }
}
