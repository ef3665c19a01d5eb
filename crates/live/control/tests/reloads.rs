//! Sites of several pools of all kinds as bytes, with reloads that reorder, add, remove and change pools. Calls that
//! ring, talk or wait continue as they started, and reach their members.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::{member, settings};
use balance::{Load, PolicyKind, PoolId, TableCounts};
use base::{Flow, Instant, Outbox, Peer, Transport};
use control::{Control, ControlInput, ControlSettings, Egress, MemberSettings, PoolSettings};
use core::ops::{Deref, DerefMut};
use elastic::estimate::EstimatorSettings;
use elastic::queue::QueueSettings;
use node::{CapacitySource, Port, QueueSetup, Routes, ShardInput, ShardSettings, node_id};
use proptest::prelude::*;
use route::{
    Conditions, Failover, FailoverCause, Field, Fork, Part, Pattern, Pools, Rule, Service, Spread, Table,
    Target, TargetPool, UriPlace,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testbed::Sent;
use testkit::{TestRequest as Req, TestResponse as Resp, record_routes, tag};

const US: &str = "127.0.0.1:5060";
const CLIENT: &str = "127.0.9.1:6000";
const RING_TIME: Duration = Duration::from_secs(20);

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Kind of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Balanced,
    WithTransactions,
    Ring,
    Hunt,
    Hash,
    Proxy,
    Distributed,
}

const KINDS: [Kind; 7] = [
    Kind::Balanced,
    Kind::WithTransactions,
    Kind::Ring,
    Kind::Hunt,
    Kind::Hash,
    Kind::Proxy,
    Kind::Distributed,
];

impl Kind {
    fn service(self) -> Service {
        let (ring_time, record_route) = (RING_TIME, true);
        match self {
            Self::Balanced => Service::Balance,
            Self::WithTransactions => Service::BalanceTransactions,
            Self::Ring => Service::Proxy { spread: Spread::Parallel { ring_time }, record_route },
            Self::Hunt => Service::Proxy { spread: Spread::Sequential { ring_time }, record_route },
            Self::Hash => Service::Relay { record_route: true },
            Self::Proxy => Service::HOPS,
            Self::Distributed => Service::Distribute { record_route: true },
        }
    }

    fn policy(self) -> PolicyKind {
        if self.service().has_hops() { PolicyKind::Hash } else { PolicyKind::RoundRobin }
    }
}

/// A pool of a file: its name, which is also the user whose calls it gets, its kind and its members.
#[derive(Clone, Debug)]
struct PoolOf {
    name: &'static str,
    kind: Kind,
    members: Vec<&'static str>,
    queue: Option<QueueSetup>,
}

fn pool(name: &'static str, kind: Kind, members: &[&'static str]) -> PoolOf {
    PoolOf { name, kind, members: members.to_vec(), queue: None }
}

/// Returns a file with these pools in this order. Each pool has a route for users with its name, which continues to the
/// pool given by `after`.
fn file(pools: &[PoolOf], after: &[(&str, &str)]) -> ControlSettings {
    let place = |name: &str| pools.iter().position(|pool| pool.name == name).map(|place| place as u16);
    let rule = |pool: &PoolOf| {
        let user = Field::Uri(UriPlace::RequestUri, Part::User);
        let texts = vec![(user, vec![Pattern::Prefix(pool.name.as_bytes().to_vec())])];
        let next = after.iter().filter(|(of, _)| *of == pool.name).map(|(_, next)| *next);
        let places = [pool.name].into_iter().chain(next).filter_map(place);
        let choices = (1..).zip(places).map(|(priority, pool)| TargetPool { pool, priority, weight: 1.0 });
        let failover =
            Failover::on(&[FailoverCause::NoneAlive, FailoverCause::Full, FailoverCause::Unavailable]);
        Rule {
            name: pool.name.to_owned(),
            conditions: Conditions { texts, ..Conditions::default() },
            target: Target::Pools(Pools { choices: choices.collect(), failover }),
            ..Rule::default()
        }
    };
    let usual = settings(&[]);
    let setting = |pool: &PoolOf| PoolSettings {
        name: pool.name.to_owned(),
        service: pool.kind.service(),
        policy: pool.kind.policy(),
        queue: pool.queue.clone().map(Arc::new),
        ..usual.pools[0].clone()
    };
    let members = (0..)
        .map(PoolId)
        .zip(pools)
        .flat_map(|(pool, of)| of.members.iter().map(move |text| MemberSettings { pool, ..member(text) }));
    let table = Table::new(pools.iter().map(rule).collect(), &[addr(US)]);
    let routes = Arc::new(Routes { table, access: Vec::new() });
    ControlSettings {
        members: members.collect(),
        pools: pools.iter().map(setting).collect(),
        shards: ShardSettings { routes, ..usual.shards },
        ..usual
    }
}

struct Everywhere;

impl Egress for Everywhere {
    fn toward(&self, peer: Peer) -> Option<Flow> {
        Some(Flow::udp(0, peer.address))
    }
}

fn method(sent: &Sent) -> Option<String> {
    let text = String::from_utf8_lossy(&sent.bytes);
    let word = text.split(' ').next().unwrap_or_default();
    (!word.starts_with("SIP/")).then(|| word.to_owned())
}

fn status(sent: &Sent) -> Option<u16> {
    testkit::status(&sent.bytes)
}

fn requests(sent: &[Sent], of: &str) -> Vec<Sent> {
    sent.iter().filter(|sent| method(sent).as_deref() == Some(of)).cloned().collect()
}

fn to(sent: &[Sent]) -> BTreeSet<SocketAddr> {
    sent.iter().map(|sent| sent.to).collect()
}

/// A process with one thread.
struct World {
    control: Control<Everywhere>,
    bed: testbed::Bed,
}

impl Deref for World {
    type Target = testbed::Bed;

    fn deref(&self) -> &Self::Target {
        &self.bed
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bed
    }
}

impl World {
    fn new(file: ControlSettings) -> Self {
        let (now, mut out) = (Instant::from_millis(1_000), Outbox::default());
        let ports = vec![Port::udp(addr(US))].into();
        let local = [Some(addr("127.0.0.1:7000")), None];
        let control = Control::new(now, file, ports, Everywhere, ([9; 16], local), &mut out);
        let bed = testbed::Bed::new(control.setup().as_ref().clone());
        Self { control, bed }
    }

    fn reload(&mut self, file: ControlSettings) -> Vec<Sent> {
        let input = ControlInput::Settings { settings: Box::new(file), is_other_resolver: false };
        self.control.handle(self.bed.now, input, &mut Outbox::default());
        let setup = self.control.setup().as_ref().clone();
        self.bed.set(|now| *now = setup)
    }

    fn receive(&mut self, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.bed.receive(0, from, bytes)
    }

    fn by_client(&mut self, request: &Req) -> Vec<Sent> {
        self.receive(addr(CLIENT), &request.bytes())
    }

    /// Answers a request from its recipient.
    fn answer(&mut self, request: &Sent, status: u16) -> Vec<Sent> {
        self.receive(request.to, &Resp::new(status, request.to).bytes_from(&request.bytes, addr(US)))
    }

    /// Checks that no state of any call is left.
    fn assert_forgets(&mut self) {
        self.wait(Duration::from_hours(10));
        for slot in 0..self.shard.balancer().nodes().len() {
            let load = self.shard.balancer().load(balance::Slot(slot as u16)).own;
            assert_eq!(load, Load::default(), "slot {slot}");
        }
        assert_eq!(self.shard.balancer().counts(), TableCounts::default());
        assert_eq!(self.shard.open_transactions(), 0);
    }

    /// Starts a call to a pool, which rings at all its members or at the chosen one.
    fn ring(&mut self, name: &str, call_id: &str) -> Ringing {
        let invite =
            Req { uri: format!("sip:{name}@pool.example"), ..Req::new("INVITE", call_id, addr(CLIENT)) };
        let invites = requests(&self.by_client(&invite), "INVITE");
        assert!(!invites.is_empty(), "{call_id}");
        for invite in &invites {
            let back = self.answer(invite, 180);
            assert_eq!(to(&back), [addr(CLIENT)].into(), "{back:?}");
        }
        Ringing { invite, invites }
    }

    fn accept(&mut self, ringing: &Ringing) -> Talking {
        let at = ringing.invites.last().expect("a member rings").clone();
        let back = self.answer(&at, 200);
        let ok = back.iter().find(|sent| status(sent) == Some(200)).expect("the 200").clone();
        assert_eq!(ok.to, addr(CLIENT));
        let call = Talking { invite: at, ok: ok.bytes, cseq: 1 };
        let ack = Req::in_dialog("ACK", &call.ok, 1, addr(CLIENT));
        let at_member = self.by_client(&ack);
        assert_eq!(
            at_member.iter().map(|sent| sent.to).collect::<Vec<_>>(),
            [call.invite.to],
            "{at_member:?}"
        );
        call
    }

    /// Sends a request within a call from one side, and its answer.
    fn ask(&mut self, call: &mut Talking, method: &str, by_caller: bool) {
        call.cseq += 1;
        let (from, other) =
            if by_caller { (addr(CLIENT), call.invite.to) } else { (call.invite.to, addr(CLIENT)) };
        let request = if by_caller { call.by_caller(method) } else { call.by_callee(method) };
        let sent = self.receive(from, &request.bytes());
        let passed = requests(&sent, method);
        assert_eq!(
            passed.iter().map(|sent| sent.to).collect::<Vec<_>>(),
            [other],
            "{sent:?}\n{}",
            request.text()
        );
        let back = self.answer(&passed[0], 200);
        assert_eq!(back.iter().map(|sent| (sent.to, status(sent))).collect::<Vec<_>>(), [(from, Some(200))]);
    }
}

struct Ringing {
    invite: Req,
    invites: Vec<Sent>,
}

struct Talking {
    /// INVITE as received by the callee.
    invite: Sent,
    ok: Vec<u8>,
    cseq: u32,
}

impl Talking {
    fn by_caller(&self, method: &str) -> Req {
        Req::in_dialog(method, &self.ok, self.cseq, addr(CLIENT))
    }

    fn by_callee(&self, method: &str) -> Req {
        let call_id = testkit::value(&self.ok, "Call-ID").expect("one");
        let at = self.invite.to;
        Req {
            uri: format!("sip:{CLIENT}"),
            via: format!("SIP/2.0/UDP {at};branch=z9hG4bK-{call_id}-{}-callee;rport", self.cseq),
            from_tag: tag(&self.ok, "To").unwrap_or_default(),
            to_tag: tag(&self.ok, "From"),
            cseq: self.cseq,
            routes: record_routes(&self.invite.bytes),
            ..Req::new(method, &call_id, at)
        }
    }
}

const CORE: [&str; 2] = ["127.0.1.1:5060", "127.0.1.2:5060"];
const OTHER: [&str; 2] = ["127.0.2.1:5060", "127.0.2.2:5060"];

/// A pool of one kind has another kind after the reload, which may also insert a pool of a third kind before it.
#[test]
fn calls_continue_as_they_began() {
    for before in KINDS {
        for after in KINDS {
            for first in KINDS {
                let mut world =
                    World::new(file(&[pool("core", before, &CORE), pool("other", first, &OTHER)], &[]));
                let kinds = format!("{before:?} {after:?} {first:?}");
                let ringing =
                    [0, 1, 2].map(|call| world.ring("core", &format!("{kinds}-{call}").replace(' ', "-")));
                let mut calls = [3, 4].map(|call| {
                    let ringing = world.ring("core", &format!("{kinds}-{call}").replace(' ', "-"));
                    world.accept(&ringing)
                });
                world.reload(file(&[pool("other", first, &OTHER), pool("core", after, &CORE)], &[]));
                for call in &mut calls {
                    world.ask(call, "INFO", true);
                    world.ask(call, "INFO", false);
                }
                world.ask(&mut calls[0], "BYE", true);
                world.ask(&mut calls[1], "BYE", false);
                let [cancelled, accepted, failed] = &ringing;
                let copies = requests(&world.by_client(&cancelled.invite), "INVITE");
                assert!(copies.is_empty() || copies == cancelled.invites, "{kinds}: {copies:?}");
                let cancels =
                    requests(&world.by_client(&cancelled.invite.same_branch("CANCEL", None)), "CANCEL");
                let ways =
                    |sent: &[Sent]| sent.iter().map(|sent| (sent.to, sent.branch())).collect::<BTreeSet<_>>();
                assert_eq!(ways(&cancels), ways(&cancelled.invites), "{kinds}");
                for (request, status) in cancels
                    .iter()
                    .map(|cancel| (cancel, 200))
                    .chain(cancelled.invites.iter().map(|invite| (invite, 487)))
                    .chain(failed.invites.iter().map(|invite| (invite, 486)))
                {
                    world.answer(request, status);
                }
                let mut call = world.accept(accepted);
                world.ask(&mut call, "BYE", true);
                world.assert_forgets();
            }
        }
    }
}

/// After `kill -9` a process has no state, and its file has another pool first. Only the token leads to the member.
#[test]
fn a_call_known_only_by_its_token_reaches_its_member() {
    for (kind, first) in KINDS.into_iter().flat_map(|kind| KINDS.map(|first| (kind, first))) {
        let pools = [pool("other", first, &OTHER), pool("core", kind, &CORE)];
        let mut world = World::new(file(&pools, &[]));
        let ringing = [0, 1, 2].map(|call| world.ring("core", &format!("{kind:?}-{first:?}-{call}")));
        let mut calls = ringing.map(|ringing| world.accept(&ringing));
        let mut world = World::new(file(&pools, &[]));
        for call in &mut calls {
            world.ask(call, "INFO", true);
            world.ask(call, "INFO", false);
            world.ask(call, "BYE", true);
        }
        world.assert_forgets();
    }
}

/// The ACK to a failure reaches the failed callee once, by the branch of the INVITE (RFC 3261 §17.1.1.3), whatever a
/// reload has changed.
#[test]
fn the_ack_to_a_failure_goes_as_its_invite_went() {
    for before in KINDS.into_iter().filter(|kind| kind.service().fork().0 == Fork::None) {
        for after in KINDS {
            let mut world =
                World::new(file(&[pool("core", before, &CORE), pool("other", after, &OTHER)], &[]));
            let ringing = world.ring("core", "call");
            world.reload(file(&[pool("other", after, &OTHER), pool("core", after, &CORE)], &[]));
            let mut sent = world.answer(&ringing.invites[0], 486);
            sent.extend(world.by_client(&ringing.invite.same_branch("ACK", Some("bob"))));
            let acks = requests(&sent, "ACK");
            let ways: Vec<_> = acks.iter().map(|ack| (ack.to, ack.branch())).collect();
            let invite = &ringing.invites[0];
            assert_eq!(ways, [(invite.to, invite.branch())], "{before:?} {after:?}");
        }
    }
}

/// A hunt group continues with its own next member, and then with the pool that its route named, whatever their numbers
/// in the new file.
#[test]
fn a_hunt_group_continues_in_its_pool() {
    let (core, other) = (pool("core", Kind::Hunt, &CORE), pool("other", Kind::Hunt, &OTHER));
    let spare = pool("spare", Kind::Hunt, &["127.0.3.1:5060"]);
    let mut world = World::new(file(&[core.clone(), spare.clone()], &[("core", "spare")]));
    let first = world.ring("core", "call").invites.remove(0);
    world.reload(file(&[other.clone(), core, spare.clone()], &[]));
    let second = requests(&world.wait(RING_TIME + Duration::from_millis(100)), "INVITE").remove(0);
    assert_eq!(to(&[first.clone(), second.clone()]), CORE.map(addr).into());
    // The pool is removed. The ringing member continues to ring, and then the next pool is tried.
    world.reload(file(&[other.clone(), spare], &[]));
    world.answer(&second, 180);
    let third = requests(&world.wait(RING_TIME + Duration::from_millis(100)), "INVITE").remove(0);
    assert_eq!(third.to, addr("127.0.3.1:5060"));
    // No pool of the route is left, so no other member rings.
    world.reload(file(&[other], &[]));
    world.answer(&third, 180);
    assert_eq!(requests(&world.wait(Duration::from_mins(10)), "INVITE"), []);
}

/// Failover tries members of the request's own pools, and none if these are gone.
#[test]
fn failover_continues_in_its_pools() {
    for kind in [Kind::WithTransactions, Kind::Proxy] {
        let (core, other) = (pool("core", kind, &CORE), pool("other", kind, &OTHER));
        let spare = pool("spare", kind, &["127.0.3.1:5060"]);
        let before = file(&[core.clone(), spare.clone()], &[("core", "spare")]);
        let invite = |call: &str| Req {
            uri: "sip:core@pool.example".to_owned(),
            ..Req::new("INVITE", call, addr(CLIENT))
        };
        // Another pool has the place of the first.
        let mut world = World::new(before.clone());
        let mut at = requests(&world.by_client(&invite("call")), "INVITE").remove(0);
        world.reload(file(&[other.clone(), core.clone(), spare.clone()], &[]));
        let mut tried = vec![at.to];
        for _ in 0..2 {
            at = requests(&world.answer(&at, 503), "INVITE").remove(0);
            tried.push(at.to);
        }
        assert_eq!(tried[2], addr("127.0.3.1:5060"), "{kind:?}");
        assert_eq!(BTreeSet::from_iter(tried[..2].to_vec()), CORE.map(addr).into());
        // The first pool is gone, and the spare one is left.
        let mut world = World::new(before.clone());
        let at = requests(&world.by_client(&invite("call")), "INVITE").remove(0);
        world.reload(file(&[other.clone(), spare.clone()], &[]));
        assert_eq!(to(&requests(&world.answer(&at, 503), "INVITE")), [addr("127.0.3.1:5060")].into());
        // All pools are gone.
        let mut world = World::new(before.clone());
        let at = requests(&world.by_client(&invite("call")), "INVITE").remove(0);
        world.reload(file(std::slice::from_ref(&other), &[]));
        let sent = world.answer(&at, 503);
        assert_eq!(requests(&sent, "INVITE"), [], "{kind:?}");
        assert!(
            sent.iter()
                .any(|sent| sent.to == addr(CLIENT) && status(sent).is_some_and(|status| status >= 500))
        );
        // A pool with the same name but other members is another pool, such as the pool of the next unnamed route.
        let mut world = World::new(before);
        let at = requests(&world.by_client(&invite("call")), "INVITE").remove(0);
        world.reload(file(&[PoolOf { members: OTHER.to_vec(), ..core }], &[]));
        assert_eq!(requests(&world.answer(&at, 503), "INVITE"), [], "{kind:?}");
    }
}

/// Returns a pool with a queue, in which each member takes one call a second.
fn queued(name: &'static str, members: &[&'static str], source: CapacitySource) -> PoolOf {
    let capacity = EstimatorSettings { maximum: 1.0, minimum: 1.0, ..EstimatorSettings::default() };
    let settings = QueueSettings { bound: Duration::from_secs(10), ..QueueSettings::default() };
    PoolOf { queue: Some(QueueSetup { settings, source, capacity }), ..pool(name, Kind::Balanced, members) }
}

/// Waiting calls go to members of their pool, even if another pool with a queue has taken its place.
#[test]
fn waiting_calls_go_to_their_pool() {
    let (core, other) =
        (queued("core", &CORE[..1], CapacitySource::Fixed), queued("other", &OTHER, CapacitySource::Fixed));
    let mut world = World::new(file(std::slice::from_ref(&core), &[]));
    let mut reached = Vec::new();
    for call in 0..6 {
        let invite = Req {
            uri: "sip:core@pool.example".to_owned(),
            ..Req::new("INVITE", &format!("call-{call}"), addr(CLIENT))
        };
        reached.extend(requests(&world.by_client(&invite), "INVITE"));
    }
    assert!((1..6).contains(&reached.len()), "{reached:?}");
    reached.extend(requests(&world.reload(file(&[other, core], &[])), "INVITE"));
    reached.extend(requests(&world.wait(Duration::from_secs(8)), "INVITE"));
    assert_eq!(reached.len(), 6);
    assert_eq!(to(&reached), [addr(CORE[0])].into());
}

/// Measured capacities of members are kept by member and pool, not by the place of the pool.
#[test]
fn measured_capacities_outlive_a_new_pool_in_front() {
    let mut core = queued("core", &CORE, CapacitySource::Responses);
    if let Some(queue) = &mut core.queue {
        queue.capacity = EstimatorSettings { maximum: 500.0, ..EstimatorSettings::default() };
    }
    let other = queued("other", &OTHER, CapacitySource::Fixed);
    let mut world = World::new(file(std::slice::from_ref(&core), &[]));
    let capacity = |world: &mut World| {
        world.wait(Duration::from_millis(10));
        let number = world.control.pool_number("core").expect("the pool exists");
        let report = world.shard.queue_reports()[number.index()].clone().expect("the pool has a queue");
        report.members.iter().map(|member| member.capacity).collect::<Vec<_>>()
    };
    let number = world.control.pool_number("core").expect("the pool exists");
    for member in CORE {
        let node = node_id(Peer::new(Transport::Udp, addr(member)));
        world.input(ShardInput::Learned { pool: number, node, capacity: 77.0 });
    }
    assert_eq!(capacity(&mut world), [77.0, 77.0]);
    world.reload(file(&[other.clone(), core.clone()], &[]));
    assert_eq!(capacity(&mut world), [77.0, 77.0]);
    world.reload(file(&[core, other], &[]));
    assert_eq!(capacity(&mut world), [77.0, 77.0]);
}

#[derive(Clone, Debug)]
enum Step {
    Call(usize),
    Ask(usize, bool),
    HangUp(usize, bool),
    /// Kinds of the pools, which of them exist, and by how many places their order is rotated.
    Reload([Kind; 3], [bool; 3], usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = || prop::sample::select(KINDS.to_vec());
    let kinds = || [kind(), kind(), kind()];
    let step = prop_oneof![
        3 => (0..3_usize).prop_map(Step::Call),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(call, by_caller)| Step::Ask(call, by_caller)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(call, by_caller)| Step::HangUp(call, by_caller)),
        1 => (kinds(), any::<[bool; 3]>(), 0..3_usize)
            .prop_map(|(kinds, there, turn)| Step::Reload(kinds, there, turn)),
    ];
    prop::collection::vec(step, 1..60)
}

const NAMES: [&str; 3] = ["core", "other", "third"];
const MEMBERS: [[&str; 2]; 3] = [CORE, OTHER, ["127.0.3.1:5060", "127.0.3.2:5060"]];

fn site(kinds: [Kind; 3], there: [bool; 3], turn: usize) -> ControlSettings {
    let mut pools: Vec<_> =
        (0..3).filter(|at| there[*at]).map(|at| pool(NAMES[at], kinds[at], &MEMBERS[at])).collect();
    let places = pools.len();
    pools.rotate_left(turn % places);
    file(&pools, &[])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever happens to the pools, requests of a dialog reach its two sides, and in the end no state is left.
    #[test]
    fn dialogs_reach_their_members(start in [0..7_usize, 0..7, 0..7], steps in steps()) {
        let mut there = [true; 3];
        let mut world = World::new(site(start.map(|kind| KINDS[kind]), there, 0));
        let mut calls: Vec<Talking> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Call(at) if there[at] => {
                    let ringing = world.ring(NAMES[at], &format!("call-{number}"));
                    calls.push(world.accept(&ringing));
                }
                Step::Ask(call, by_caller) if !calls.is_empty() => {
                    let call = call % calls.len();
                    world.ask(&mut calls[call], "INFO", by_caller);
                }
                Step::HangUp(call, by_caller) if !calls.is_empty() => {
                    let mut call = calls.swap_remove(call % calls.len());
                    world.ask(&mut call, "BYE", by_caller);
                }
                Step::Reload(kinds, are_there, turn) if are_there.contains(&true) => {
                    there = are_there;
                    world.reload(site(kinds, there, turn));
                }
                Step::Call(_) | Step::Ask(..) | Step::HangUp(..) | Step::Reload(..) => {}
            }
            world.now += Duration::from_millis(700);
        }
        for call in &mut calls {
            world.ask(call, "BYE", true);
        }
        world.assert_forgets();
    }
}
