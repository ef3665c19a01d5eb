//! Proxies of the model that share out the state of calls: which proxy keeps it, its cost, and the survival of calls.

use base::Instant;
use config::scenario::{Costs, FaultKind, Group, HostFault, LinkFaults, Scenario, Stream};
use distribute::{DistributionSettings, ShareLaw};
use load::{RandomTime, RateStep};
use sim::model::{NetworkState, ProxyModel, RunResults, StateKeeping, run_sharing};
use std::collections::BTreeSet;
use std::time::Duration;

/// The paper's server at a twentieth of its speed, calls a second without and with state (SERvartuka, section 2.2).
const STATELESS: f64 = 5700.0 / 20.0;
const STATEFUL: f64 = 4700.0 / 20.0;
/// Capacity of one to four servers in series, from the linear program (docs/plan.md).
const OPTIMUM: [f64; 4] = [235.0, 257.596, 266.126, 270.606];
/// Messages of a call that a proxy reads: INVITE, 180, 200, ACK, BYE, 200.
const MESSAGES: f64 = 6.0;
/// Transactions of INVITE and BYE, one on either side.
const TRANSACTIONS: f64 = 4.0;
/// End of the load, and end of the run: 64*T1 at each host for lost messages, and the time of the last calls.
const LOAD_ENDS: u64 = 40;
const RUN_ENDS: u64 = 200;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn second(second: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(second)
}

/// A server takes 1/5700 s for a call, and 1/4700 s with state, all as prices of operations.
fn costs() -> Costs {
    let state = (1.0 / STATEFUL - 1.0 / STATELESS) / TRANSACTIONS;
    let message = 1.0 / STATELESS / MESSAGES;
    Costs {
        base_capacity: STATEFUL,
        message: Duration::ZERO,
        timer: seconds(message / 2.0),
        reject_ack: Duration::ZERO,
        operations: vec![("scan", seconds(message)), ("create_transaction", seconds(state))],
        ..Costs::default()
    }
}

/// Returns equal servers, and streams of calls along these paths. Their total rate rises for half of the time.
fn network(servers: usize, paths: &[&[usize]], rate: f64) -> Scenario {
    let rate = rate / paths.len() as f64;
    let step = |at, rate, ramp| RateStep { at: Duration::from_secs(at), rate, ramp };
    let stream = |path: &[usize]| Stream {
        load: vec![step(0, 0.5 * rate, true), step(LOAD_ENDS / 2, rate, false), step(LOAD_ENDS, 0.0, false)],
        holding: RandomTime::Exponential(Duration::from_secs(2)),
        ..Stream::of_paper(&format!("{path:?}"), path.to_vec(), rate)
    };
    let groups = (0..servers).map(|index| Group::proxies(&format!("server {index}"), 1, STATEFUL)).collect();
    let streams = paths.iter().map(|path| stream(path)).collect();
    let mut scenario = Scenario::new(groups, streams, Duration::from_secs(RUN_ENDS));
    (scenario.run.bin, scenario.costs) = (Duration::from_secs(1), costs());
    scenario
}

fn all(servers: usize, keeping: StateKeeping) -> NetworkState {
    NetworkState { groups: vec![keeping; servers], model: ProxyModel::OfPaper { trying: false } }
}

fn distributed(law: ShareLaw) -> StateKeeping {
    StateKeeping::Distributed(DistributionSettings { law, delta_c: 10.0, ..DistributionSettings::default() })
}

/// Returns the calls whose state was kept by any server, and how many times a call was kept again.
fn kept(results: &RunResults) -> (BTreeSet<u32>, usize) {
    let all: Vec<u32> = results.hosts.iter().flat_map(|host| host.kept.iter().copied()).collect();
    let once: BTreeSet<u32> = all.iter().copied().collect();
    let more = all.len() - once.len();
    (once, more)
}

fn sum(results: &RunResults, of: impl Fn(&sim::model::StreamResults) -> u64) -> u64 {
    results.streams.iter().map(of).sum()
}

/// Returns the number of calls whose state no proxy has announced to keep.
fn unmarked(stream: &sim::model::StreamResults) -> u64 {
    stream.unmarked.sums().map(|(_, calls)| calls).sum::<f64>() as u64
}

fn link(from: Option<usize>, to: Option<usize>) -> LinkFaults {
    LinkFaults {
        from,
        to,
        until: Duration::from_secs(RUN_ENDS),
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(5),
        loss: 0.05,
        duplication: 0.03,
        reordering: 0.03,
        ..LinkFaults::default()
    }
}

#[test]
fn a_call_has_the_measured_cost_of_the_paper() {
    for (keeping, carries) in [(StateKeeping::Never, STATELESS), (StateKeeping::Share(1.0), STATEFUL)] {
        let mut scenario = network(1, &[&[0]], 150.0);
        scenario.streams[0].load = vec![RateStep { at: Duration::ZERO, rate: 150.0, ramp: false }];
        let results = run_sharing(&scenario, &all(1, keeping), 1);
        let (offered, _) = results.rates(second(20), second(RUN_ENDS));
        let used = &results.hosts[0].utilisation[20..];
        let used = used.iter().map(|bin| bin.1).sum::<f64>() / used.len() as f64;
        assert!((used * carries / offered - 1.0).abs() < 0.01, "{keeping:?}: {used} at {offered} calls/s");
    }
}

#[test]
fn state_is_kept_exactly_once_where_messages_are_lost_doubled_and_overtaken() {
    let ways: [(usize, &[&[usize]]); 3] =
        [(3, &[&[0, 1, 2]]), (3, &[&[0, 1, 2], &[2, 1, 0]]), (3, &[&[0, 1], &[0, 2]])];
    for law in [ShareLaw::Paper, ShareLaw::Level] {
        for (servers, paths) in ways {
            let mut scenario = network(servers, paths, 0.9 * STATEFUL);
            let groups = || (0..servers).map(Some).chain([None]);
            scenario.links = groups()
                .flat_map(|from| groups().map(move |to| (from, to)))
                .filter(|(from, to)| from < to)
                .map(|(from, to)| link(from, to))
                .collect();
            let state = NetworkState {
                model: ProxyModel::OfPaper { trying: true },
                ..all(servers, distributed(law))
            };
            let results = run_sharing(&scenario, &state, 7);
            let (calls, more) = kept(&results);
            let rang = sum(&results, |stream| stream.answer_delay.count());
            let sharing = results.hosts.iter().filter(|host| host.kept.len() > calls.len() / 10).count();
            assert!(sharing > 1, "{law:?} {paths:?}: no proxy shares out state");
            assert_eq!(more, 0, "{law:?} {paths:?}: state at two servers");
            assert_eq!(sum(&results, unmarked), 0, "{law:?} {paths:?}: state at none");
            assert!(
                rang > 5_000 && calls.len() as u64 >= rang,
                "{law:?} {paths:?}: {rang} of {}",
                calls.len()
            );
        }
    }
}

#[test]
fn nothing_is_lost_at_nine_tenths_of_the_optimum_and_nothing_is_left() {
    let ways: [(&[&[usize]], f64); 4] = [
        (&[&[0, 1]], OPTIMUM[1]),
        (&[&[0, 1, 2]], OPTIMUM[2]),
        (&[&[0, 1, 2, 3]], OPTIMUM[3]),
        (&[&[0, 1, 2], &[2, 1, 0]], OPTIMUM[2]),
    ];
    for (paths, optimum) in ways {
        let servers = paths[0].len();
        let scenario = network(servers, paths, 0.9 * optimum);
        let results = run_sharing(&scenario, &all(servers, distributed(ShareLaw::Level)), 3);
        let (calls, completed) = (sum(&results, |it| it.calls), sum(&results, |it| it.outcomes.completed));
        assert_eq!(completed, calls, "{paths:?}");
        assert_eq!((results.calls_left, results.transactions_left), (0, 0), "{paths:?}");
    }
}

#[test]
fn calls_settle_after_a_proxy_restarts() {
    for at in 0..3 {
        let mut scenario = network(3, &[&[0, 1, 2]], 0.85 * OPTIMUM[2]);
        let (when, down) = (Duration::from_secs(LOAD_ENDS / 2), Duration::from_millis(200));
        scenario.faults = vec![HostFault { group: at, host: 0, at: when, kind: FaultKind::Restart(down) }];
        let results = run_sharing(&scenario, &all(3, distributed(ShareLaw::Level)), 5);
        let last = |series: &sim::stats::Series| series.rate(second(LOAD_ENDS - 8), second(LOAD_ENDS));
        let stream = &results.streams[0];
        let (offered, answered) = (last(&stream.offered), last(&stream.answered[0]));
        assert!(answered > 0.99 * offered, "server {at}: {answered} of {offered} calls/s");
        assert_eq!(unmarked(stream), 0, "server {at}");
        assert_eq!((results.calls_left, results.transactions_left), (0, 0), "server {at}");
    }
}

/// Returns the share of calls whose state one proxy keeps by its utilisation at a steady load, and its utilisation.
fn kept_at(rate: f64) -> (f64, f64) {
    let mut scenario = network(1, &[&[0]], rate);
    scenario.streams[0].load = vec![RateStep { at: Duration::ZERO, rate, ramp: false }];
    let results = run_sharing(&scenario, &all(1, StateKeeping::ByUtilisation), 1);
    let stream = &results.streams[0];
    let without = stream.unmarked.rate(second(20), second(RUN_ENDS));
    let used = &results.hosts[0].utilisation[20..];
    let used = used.iter().map(|bin| bin.1).sum::<f64>() / used.len() as f64;
    (1.0 - without / stream.offered.rate(second(20), second(RUN_ENDS)), used)
}

#[test]
fn the_rule_of_cortes_keeps_state_below_three_quarters_of_utilisation_alone() {
    // Utilisation with state, at these parts of the proxy's capacity with state.
    let ((low, _), (medium, used)) = (kept_at(0.5 * STATEFUL), kept_at(0.68 * STATEFUL));
    assert!(low > 0.999 && medium > 0.9, "{low} {medium}");
    assert!((used - 0.68).abs() < 0.02, "{used}");
    // Above three quarters, even without state.
    let (high, used) = kept_at(0.85 * STATELESS);
    assert!(high < 0.02, "{high}");
    assert!((used - 0.85).abs() < 0.02, "{used}");
}

#[test]
fn without_marks_state_gets_lost_where_servers_have_no_order_and_with_marks_it_does_not() {
    let without = |paths: &[&[usize]], keeping| {
        let results = run_sharing(&network(3, paths, 0.93 * OPTIMUM[2]), &all(3, keeping), 3);
        sum(&results, unmarked) as f64 / sum(&results, |stream| stream.calls) as f64
    };
    let settings =
        DistributionSettings { law: ShareLaw::Paper, delta_c: 10.0, ..DistributionSettings::default() };
    let (unmarked, marked) = (StateKeeping::Unmarked(settings), StateKeeping::Distributed(settings));
    let (chain, edges): (&[&[usize]], &[&[usize]]) = (&[&[0, 1, 2]], &[&[0, 1, 2], &[2, 1, 0]]);
    let (ordered, disordered) = (without(chain, unmarked), without(edges, unmarked));
    assert!(ordered < 0.05 && disordered > 2.0 * ordered, "{ordered} {disordered}");
    assert!(without(edges, marked) < 1e-9);
}

#[test]
fn requests_that_agents_send_again_are_counted() {
    let mut scenario = network(1, &[&[0]], 100.0);
    let resent = |scenario: &Scenario| {
        let results = run_sharing(scenario, &all(1, StateKeeping::Never), 1);
        results.streams[0].resends.rate(second(20), second(LOAD_ENDS))
    };
    assert!(resent(&scenario) < 1e-9);
    scenario.links = vec![link(None, Some(0))];
    assert!(resent(&scenario) > 1.0);
}

/// Returns the configuration of a proxy that follows a plan, from its node in the output of `sarabande plan --json`.
fn configured(node: &serde_json::Value) -> DistributionSettings {
    let file = format!(
        "[listen]\nudp = [\"10.0.0.9:5060\"]\n[proxy]\nnext = [\"10.0.0.1\"]\nforward = \"distributed\"\n\
         [distribution]\nneighbours = [\"10.0.0.0/28\"]\nlaw = \"fixed\"\nkeep = {}\n",
        node["keep"]
    );
    let config = config::parse(&file, "planned.toml").unwrap_or_else(|errors| panic!("{errors}"));
    config.distribution.expect("it has the table").settings
}

/// Chains that are configured only with the shares of a plan keep the planned number of calls at each proxy.
#[test]
fn a_chain_with_the_shares_of_a_plan_keeps_the_planned_calls() {
    for length in [2, 3] {
        let nodes =
            (0..length).map(|index| plan::PlanNode::new(format!("server-{index}"), STATELESS, STATEFUL));
        let path: Vec<usize> = (0..length).collect();
        let topology =
            plan::Topology::of_paths(nodes.collect(), &[(path.clone(), 1.0)], plan::Routing::Fixed);
        let plan = plan::solve(&topology.expect("a chain")).expect("a plan");
        let plan_json = serde_json::to_value(&plan).expect("a plan is JSON");
        let plan_json = plan_json["nodes"].as_array().expect("nodes");
        let groups = plan_json.iter().map(|node| StateKeeping::Distributed(configured(node))).collect();
        let state = NetworkState { groups, model: ProxyModel::OfPaper { trying: false } };
        let results = run_sharing(&network(length, &[&path], 0.9 * OPTIMUM[length - 1]), &state, 11);
        let (calls, more) = kept(&results);
        assert!(calls.len() > 5_000 && more == 0, "{} calls, {more} kept twice", calls.len());
        for (host, node) in results.hosts.iter().zip(&plan.nodes) {
            let (calls, part) = (calls.len() as f64, node.kept / node.calls);
            let off = (host.kept.len() as f64 - part * calls) / (calls * part * (1.0 - part)).sqrt();
            assert!(off.abs() < 4.0, "{}: {} of {calls}, planned {part}", node.name, host.kept.len());
        }
    }
}
