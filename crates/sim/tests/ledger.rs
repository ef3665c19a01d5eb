//! The ledger: a host of the model counts, for a call, exactly the operations that the server counts on its datagrams.

use balance::policy::RoundRobin;
use balance::{Balancer, Cluster, HealthSettings, Member};
use base::{Instant, Ledger, Operation, Outbox};
use config::scenario::{Costs, Group, Role, Run, Scenario, Spread, Step, Stream, Timers};
use node::{
    Event, Input, Key, Listener, NodeAddress, Orphans, ProxySettings, ProxyShard, Settings, Shard, Tokens,
    Topology, node_id,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const CLIENT: &str = "127.0.9.1:6000";
const SERVER: &str = "127.0.1.1:5060";

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The server's code on datagrams.
trait Element {
    fn handle(&mut self, now: Instant, input: Input<'_>, out: &mut Outbox<Event>);
    fn deadline(&self) -> Option<Instant>;
    fn ledger(&self) -> Ledger;
}

macro_rules! element {
    ($shard:ty) => {
        impl Element for $shard {
            fn handle(&mut self, now: Instant, input: Input<'_>, out: &mut Outbox<Event>) {
                self.handle(now, input, out);
            }
            fn deadline(&self) -> Option<Instant> {
                self.deadline()
            }
            fn ledger(&self) -> Ledger {
                self.ledger().to_owned()
            }
        }
    };
}

element!(Shard);
element!(ProxyShard);

const SETTINGS: Settings = Settings { orphans: Orphans::Reject, epoch_unix: 1_800_000_000, stopping: false };

fn topology() -> Topology {
    Topology::new(vec![Listener::new(addr("127.0.0.1:5060"))], Vec::new())
}

fn tokens() -> Tokens {
    Tokens::new(Key([7; 16]), &[], Duration::from_hours(1))
}

fn balancer() -> Shard {
    let (address, listener) = (addr(SERVER), 0);
    let mut cluster = Cluster::new(HealthSettings { fall: 1, rise: 1, slow_start: Duration::ZERO });
    cluster.set_members(Instant::ZERO, &[Member { id: node_id(address), capacity: 1.0, max_calls: 0 }]);
    let mut topology = topology();
    topology.push_node(NodeAddress { address, listener });
    let mut balancer = Balancer::new(balance::Settings::default(), Box::new(RoundRobin::new(0)));
    balancer.set_nodes(cluster.nodes());
    Shard::new(balancer, Arc::new(topology), tokens(), SETTINGS)
}

fn proxy() -> ProxyShard {
    let limits = ProxySettings { core: proxy::Settings::default(), max_transactions: 1_000 };
    let mut shard = ProxyShard::new(Arc::new(topology()), tokens(), SETTINGS, limits, ([9; 16], 1));
    shard.set_hops(&[NodeAddress { address: addr(SERVER), listener: 0 }]);
    shard
}

/// Passes messages of one call by the hand of both parties.
struct Bed<E> {
    element: E,
    now: Instant,
}

impl<E: Element> Bed<E> {
    /// What goes on; a 100 of the element's own is left out.
    fn pass(&mut self, from: &str, bytes: &[u8]) -> Vec<u8> {
        let mut out = Outbox::default();
        self.element.handle(self.now, Input::Datagram { listener: 0, from: addr(from), bytes }, &mut out);
        let last = out.transmits().last().expect("something goes on");
        assert_ne!(last.to, addr(from));
        out.datagram(last).to_vec()
    }

    /// A request through to the server, and its responses back.
    fn transaction(&mut self, request: &[u8], statuses: &[u16]) -> Vec<u8> {
        let forwarded = self.pass(CLIENT, request);
        let scanned = wire::scan(&forwarded).expect("a request");
        for &status in statuses {
            let mut response = Vec::new();
            let from = addr("127.0.0.1:5060");
            wire::write_response(&scanned, from, status, "Fine", "callee", &[], &mut response);
            self.pass(SERVER, &response);
        }
        forwarded
    }

    /// Until nothing is left to be done.
    fn settle(&mut self) {
        while let Some(due) = self.element.deadline().filter(|due| *due < Instant::from_millis(400_000)) {
            self.now = due;
            self.element.handle(due, Input::Timer, &mut Outbox::default());
        }
    }
}

fn request(method: &str, cseq: u32, route: Option<&[u8]>) -> Vec<u8> {
    let (tag, route) = match route {
        Some(route) => (";tag=callee", format!("Route: {}\r\n", String::from_utf8_lossy(route))),
        None => ("", String::new()),
    };
    format!(
        "{method} sip:bob@127.0.0.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP {CLIENT};branch=z9hG4bK{method}{cseq}\r\n\
         {route}Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=caller\r\nTo: <sip:b@example.com>{tag}\r\n\
         Call-ID: 1@example.com\r\nCSeq: {cseq} {method}\r\nContact: <sip:a@{CLIENT}>\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// What the server counts for one call: INVITE, 180, 200, ACK, BYE, 200.
fn counted_live(element: impl Element) -> Ledger {
    let mut bed = Bed { element, now: Instant::from_millis(1_000) };
    let forwarded = bed.transaction(&request("INVITE", 1, None), &[180, 200]);
    let invite = wire::scan(&forwarded).expect("a request");
    let route = invite.header("Record-Route").expect("record-routed").to_vec();
    bed.transaction(&request("ACK", 1, Some(&route)), &[]);
    bed.now += Duration::from_secs(1);
    bed.transaction(&request("BYE", 2, Some(&route)), &[200]);
    bed.settle();
    bed.element.ledger()
}

/// What the model counts for `CALLS` calls.
fn counted_in_the_model(groups: Vec<Group>) -> Ledger {
    let path = (0..groups.len()).collect();
    let mut stream = Stream::of_paper("calls", path, 1.0);
    stream.holding = Spread::Fixed(Duration::from_secs(1));
    stream.load.push(Step { at: Duration::from_secs(100), rate: 0.0, ramp: false });
    let scenario = Scenario {
        title: "ledger".to_owned(),
        run: Run { duration: Duration::from_secs(500), warm_up: Duration::ZERO, ..Run::default() },
        costs: Costs { operations: vec![("scan", Duration::from_nanos(1))], ..Costs::default() },
        timers: Timers::default(),
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
fn a_balancer_of_the_model_does_what_the_server_does() {
    let group = |name: &str, role| Group { role, ..Group::proxies(name, 1, 1e6) };
    let policy = Role::Balancer { policy: config::Policy::RoundRobin };
    let model = counted_in_the_model(vec![group("balancer", policy), group("server", Role::Server)]);
    assert_eq!(shown(&model), shown(&counted_live(balancer())));
    assert_eq!(model[Operation::Forward], 6);
}

#[test]
fn a_proxy_of_the_model_does_what_the_server_does() {
    let model = counted_in_the_model(vec![Group::proxies("proxy", 1, 1e6)]);
    assert_eq!(shown(&model), shown(&counted_live(proxy())));
    assert_eq!(model[Operation::CreateTransaction], 4);
}

/// Each price has an operation, and the other way round.
#[test]
fn every_operation_can_be_priced() {
    let all = std::fs::read_to_string("../config/tests/scenarios/right/complete.toml").expect("a file");
    let priced = all.split("[costs.operations]").nth(1).expect("the table is there");
    for operation in Operation::ALL {
        assert!(priced.contains(&format!("\n{} = ", operation.name())), "{operation:?}");
    }
}
