//! For each call, a host of the model counts exactly the operations that the server counts on its datagrams.

use balance::PolicyKind;
use base::{Instant, Ledger, Operation, Outbox};
use config::scenario::{BalancerSettings, Costs, Group, HostRole, RunSettings, Scenario, Stream};
use load::RandomTime;
use load::RateStep;
use node::{Shard, ShardInput};
use proxy::ProxyTimers;
use sarabande_bench::bed::{Bed, CLIENT, balancer, proxy, request};
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts of the server for one call: INVITE, 180, 200, ACK, BYE, 200, and all their timers.
fn counted_live(shard: Shard) -> anyhow::Result<Ledger> {
    let mut bed = Bed::new(shard);
    bed.now = Instant::from_millis(1_000);
    let server = bed.pass(CLIENT, &request(1, "INVITE", 1, None))?;
    bed.answer(server, 180)?;
    let route = bed.accept(server)?;
    bed.pass(CLIENT, &request(1, "ACK", 1, Some(&route)))?;
    bed.now += Duration::from_secs(1);
    let server = bed.pass(CLIENT, &request(1, "BYE", 2, Some(&route)))?;
    bed.answer(server, 200)?;
    while let Some(due) = bed.element.deadline() {
        bed.element.handle(due, ShardInput::Timer, &mut Outbox::default());
    }
    Ok(bed.element.ledger())
}

/// Counts of the model for a call, averaged over a hundred seconds of calls.
fn counted_in_the_model(groups: Vec<Group>) -> Ledger {
    let path = (0..groups.len()).collect();
    let mut stream = Stream::of_paper("calls", path, 1.0);
    stream.holding = RandomTime::Fixed(Duration::from_secs(1));
    stream.load.push(RateStep { at: Duration::from_secs(100), rate: 0.0, ramp: false });
    let scenario = Scenario {
        title: "ledger".to_owned(),
        run: RunSettings {
            duration: Duration::from_secs(500),
            warm_up: Duration::ZERO,
            ..RunSettings::default()
        },
        costs: Costs { operations: vec![("scan", Duration::from_nanos(1))], ..Costs::default() },
        timers: ProxyTimers::default(),
        groups,
        streams: vec![stream],
        links: Vec::new(),
        faults: Vec::new(),
    };
    let results = sim::model::run(&scenario, 1);
    assert_eq!((results.calls_left, results.transactions_left), (0, 0));
    let calls = results.streams[0].outcomes.completed;
    assert_eq!(calls, results.streams[0].calls);
    per_call(&results.hosts[0].operations, calls)
}

fn per_call(all: &Ledger, calls: u64) -> Ledger {
    let mut one = Ledger::default();
    for (operation, count) in all.iter() {
        assert_eq!(count % calls, 0, "{operation:?}: {count} in {calls} calls");
        (0..count / calls).for_each(|_| one.charge(operation));
    }
    one
}

fn shown(ledger: &Ledger) -> BTreeMap<&'static str, u64> {
    ledger.iter().filter(|(_, count)| *count > 0).map(|(op, count)| (op.name(), count)).collect()
}

#[test]
fn a_balancer_of_the_model_does_the_operations_of_the_server() -> anyhow::Result<()> {
    let group = |name: &str, role| Group { role, ..Group::proxies(name, 1, 1e6) };
    let policy = HostRole::Balancer(BalancerSettings {
        policy: PolicyKind::RoundRobin,
        probes: false,
        ..BalancerSettings::default()
    });
    let model = counted_in_the_model(vec![group("balancer", policy), group("server", HostRole::Server)]);
    assert_eq!(shown(&model), shown(&counted_live(balancer())?));
    assert_eq!(model[Operation::Forward], 6);
    Ok(())
}

#[test]
fn a_proxy_of_the_model_does_the_operations_of_the_server() -> anyhow::Result<()> {
    let model = counted_in_the_model(vec![Group::proxies("proxy", 1, 1e6)]);
    assert_eq!(shown(&model), shown(&counted_live(proxy())?));
    assert_eq!(model[Operation::CreateTransaction], 4);
    Ok(())
}

/// Each price has an operation, and each operation a price.
#[test]
fn every_operation_can_be_priced() {
    let all =
        std::fs::read_to_string("../crates/live/config/tests/scenarios/right/complete.toml").expect("a file");
    let priced = all.split("[costs.operations]").nth(1).expect("the table is there");
    for operation in Operation::ALL {
        assert!(priced.contains(&format!("\n{} = ", operation.name())), "{operation:?}");
    }
}
