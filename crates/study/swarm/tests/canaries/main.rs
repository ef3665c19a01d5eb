//! Tests that every rule of a run detects its violation: each has a canary, which breaks it on purpose.
//!
//! Canaries stand between the processes, the network and the checkers. The checkers see the messages and the state of a
//! broken process.

mod balancer;
mod calls;
mod canary;
mod forks;
mod home;
mod hop;
mod mixed;
mod overload;
mod proxy;
mod run;
mod scaled;
mod sharing;

use canary::Canary;
use sim::stats::sweep::{all_cores, sweep};
use std::collections::BTreeSet;

fn canaries() -> Vec<Canary> {
    [
        balancer::of_responses(),
        balancer::of_requests(),
        balancer::of_ways(),
        balancer::of_reported_state(),
        proxy::of_responses(),
        proxy::of_answers(),
        proxy::of_retransmissions(),
        proxy::of_generated_requests(),
        proxy::of_times(),
        proxy::of_requests(),
        proxy::of_reports(),
        sharing::of_copies(),
        sharing::of_state(),
        sharing::of_records(),
        sharing::of_authentication(),
        calls::all(),
        forks::all(),
        home::all(),
        hop::all(),
        mixed::all(),
        overload::all(),
        scaled::all(),
        run::all(),
    ]
    .concat()
}

#[test]
fn every_rule_has_a_canary() {
    let of_processes = swarm::ProcessRule::ALL.iter().map(|rule| rule.text());
    let rules: Vec<_> = of_processes.chain(swarm::RunRule::ALL.iter().map(|rule| rule.text())).collect();
    let named: BTreeSet<_> = rules.iter().copied().collect();
    assert_eq!(named.len(), rules.len(), "no two rules have one text");
    let broken: BTreeSet<_> = canaries().iter().map(|canary| canary.rule).collect();
    let without: Vec<_> = named.difference(&broken).collect();
    assert!(without.is_empty(), "no canary breaks {without:#?}");
}

#[test]
fn every_canary_is_noticed() {
    let canaries = canaries();
    // Violations in a process panic, and back traces of a hundred expected panics are of no use.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcomes = sweep(canaries.len(), all_cores(), |at| canaries[at].is_noticed(), |_| {});
    std::panic::set_hook(hook);
    let unnoticed: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}
