//! Plans in which all messages go over TCP: connections are cut in pieces, reset, half open and stuck under calls.

use base::Transport;
use swarm::{Honest, draw, run_with};

/// Of the first plans over TCP, so many: a few seconds.
const PLANS: usize = 8;

#[test]
fn plans_over_tcp_break_no_rule() {
    let over_tcp = (0..).map(draw).filter(|plan| plan.transport == Transport::Tcp);
    for plan in over_tcp.take(PLANS) {
        let seed = plan.seed;
        let verdict = run_with(plan, Honest);
        let outcome = verdict.outcome.map(|summary| summary.counts.calls);
        assert!(outcome.as_ref().is_ok_and(|calls| *calls > 0), "seed {seed}: {outcome:?}");
    }
}
