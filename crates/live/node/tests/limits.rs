//! Pools whose members have limits: requests that are refused when all are at their limit, and those that never are.

use crate::common::*;
use balance::NodeRefusal;
use overload::member::MemberLaw;
use route::Network;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The services that count calls, the only ones that know a member's unanswered calls.
const SERVICES: [Service; 3] = [
    Service::Balance,
    Service::BalanceTransactions,
    Service::Proxy { spread: Spread::Counted, record_route: true },
];

/// Each law with one service, and each service with the default law.
fn laws() -> impl Iterator<Item = (Service, MemberLaw)> {
    let others = SERVICES[1..].iter().map(|service| (*service, MemberLaw::Gradient));
    MemberLaw::ALL.into_iter().map(|law| (SERVICES[0], law)).chain(others)
}

/// A member that answers one INVITE after the other.
#[derive(Default)]
struct Member {
    /// Milliseconds of work for each.
    service: u64,
    /// When all its work will be done.
    free: u64,
    /// INVITEs, and when they will be answered.
    queue: VecDeque<(u64, Sent)>,
    /// Call-IDs of the INVITEs received.
    seen: BTreeSet<String>,
    /// Whether its messages are lost.
    is_lost: bool,
}

/// State of a call at its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// No response so far, or 180.
    Open,
    Answered,
    Refused,
}

/// A shard, its members, and callers that arrive at a constant rate.
struct Crowd {
    bed: ProxyBed,
    members: BTreeMap<SocketAddr, Member>,
    calls: BTreeMap<String, Outcome>,
    /// The Retry-After values of refusals.
    retry_after: BTreeSet<Option<u64>>,
    millis: u64,
}

fn call_id(sent: &Sent) -> String {
    String::from_utf8_lossy(sent.message().call_id()).into_owned()
}

fn set_law(bed: &mut ProxyBed, law: Option<MemberLaw>) {
    let mut pools = bed.setup.pools.to_vec();
    pools[0].member_law = law;
    bed.set_pools(pools);
}

fn set_max_rate(bed: &mut ProxyBed, rate: u32) {
    let mut nodes = bed.setup.nodes.to_vec();
    for node in &mut nodes {
        node.max_rate = rate;
    }
    bed.set(|setup| setup.nodes = nodes.into());
}

impl Crowd {
    /// Members that take 10 ms for a call.
    fn new(service: Service, hops: &[&str], law: Option<MemberLaw>) -> Self {
        let named: Vec<_> = hops.iter().map(|hop| (*hop, 0)).collect();
        let mut bed = ProxyBed::new(&[PROXY], &named).with_mode(service);
        set_law(&mut bed, law);
        bed.set(|setup| setup.settings.limits.transactions = 100_000);
        let member = |hop: &&str| (addr(hop), Member { service: 10, ..Member::default() });
        let members = hops.iter().map(member).collect();
        let millis = 1_000;
        Self { bed, members, calls: BTreeMap::new(), retry_after: BTreeSet::new(), millis }
    }

    /// Delivers the messages that the shard has sent.
    fn arrive(&mut self, sent: Vec<Sent>) {
        for sent in sent {
            if let Some(member) = self.members.get_mut(&sent.to) {
                if sent.bytes.starts_with(b"INVITE ") && member.seen.insert(call_id(&sent)) {
                    member.free = member.free.max(self.millis) + member.service;
                    member.queue.push_back((member.free, sent));
                }
            } else if sent.status() >= 180 {
                let call = call_id(&sent);
                if sent.status() >= 300 {
                    let invite = Req::new("INVITE", &call, client());
                    let ack = invite.same_branch("ACK", testkit::tag(&sent.bytes, "To").as_deref());
                    let passed_on = self.bed.receive(0, client(), &ack.bytes());
                    let is_refusal = sent.status() == 503;
                    assert!(
                        !is_refusal || passed_on.is_empty(),
                        "the ACK to a refusal ends here: {passed_on:?}"
                    );
                }
                let outcome = self.calls.get_mut(&call).expect("the call is known");
                if sent.status() == 503 {
                    assert_eq!(*outcome, Outcome::Open, "{call} was admitted before");
                    *outcome = Outcome::Refused;
                    let header = sent.message().header("Retry-After").map(<[u8]>::to_vec);
                    let seconds = header.map(|value| String::from_utf8(value).expect("text"));
                    self.retry_after.insert(seconds.map(|value| value.parse().expect("seconds")));
                } else {
                    assert_ne!(*outcome, Outcome::Refused, "{call} was refused before: {sent:?}");
                    *outcome = Outcome::Answered;
                }
            }
        }
    }

    /// Advances time by `millis`, with a call each `gap`.
    fn run(&mut self, millis: u64, gap: u64) {
        for _ in 0..millis {
            self.millis += 1;
            let late = self.bed.wait(Duration::from_millis(1));
            self.arrive(late);
            let now = self.millis;
            let mut answers = Vec::new();
            for member in self.members.values_mut() {
                while let Some((_, invite)) = member.queue.pop_front_if(|(due, _)| *due <= now) {
                    if !member.is_lost {
                        answers.push(invite);
                    }
                }
            }
            for invite in answers {
                for status in [180, 486] {
                    let bytes = answer(&invite.bytes, addr(PROXY), status, invite.to);
                    let sent = self.bed.receive(0, invite.to, &bytes);
                    self.arrive(sent);
                }
            }
            if now.is_multiple_of(gap) {
                self.call(&format!("call-{now}"));
            }
        }
    }

    fn call(&mut self, call: &str) -> Req {
        let invite = Req::new("INVITE", call, client());
        self.calls.insert(call.to_owned(), Outcome::Open);
        let sent = self.bed.receive(0, client(), &invite.bytes());
        self.arrive(sent);
        invite
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.calls.values().filter(|found| **found == outcome).count()
    }

    fn refused(&self) -> BTreeSet<String> {
        let refused = self.calls.iter().filter(|(_, outcome)| **outcome == Outcome::Refused);
        refused.map(|(call, _)| call.clone()).collect()
    }

    fn seen(&self) -> BTreeSet<String> {
        self.members.values().flat_map(|member| member.seen.iter().cloned()).collect()
    }

    /// Lets the members be measured, then a crowd arrives until calls are refused.
    fn until_full(&mut self) {
        self.run(15_000, 40);
        assert_eq!(self.count(Outcome::Refused), 0, "nothing is refused below the limit");
        for _ in 0..100 {
            self.run(20, 2);
            if self.count(Outcome::Refused) > 0 {
                return;
            }
        }
        panic!("no call was refused");
    }
}

#[test]
fn if_all_members_are_at_their_limit_new_calls_get_503() {
    for (service, law) in laws() {
        let mut crowd = Crowd::new(service, &HOPS, Some(law));
        crowd.until_full();
        crowd.run(10_000, 2);
        let (refused, seen) = (crowd.refused(), crowd.seen());
        assert_eq!(
            refused.intersection(&seen).next(),
            None,
            "{service:?} {law}: a refused call reached a member"
        );
        // Two members of 100 calls per second each, and 500 per second arrive.
        let share = refused.len() as f64 / 5_000.0;
        assert!((0.5..0.75).contains(&share), "{service:?} {law}: {share}");
        let spread = (1..=5).map(Some).collect();
        assert_eq!(crowd.retry_after, spread, "{service:?} {law}: Retry-After values are spread");
        let counts = &crowd.bed.shard.counters().at_limit;
        assert_eq!(counts.get(&(PoolId(0), "limit")), Some(&(refused.len() as u64)));
        crowd.run(5_000, u64::MAX);
        assert_eq!(crowd.count(Outcome::Open), 0, "{service:?} {law}: every admitted call is answered");
    }
}

#[test]
fn refused_callers_get_different_retry_after() {
    let mut crowd = Crowd::new(Service::Balance, &HOPS[..1], None);
    set_max_rate(&mut crowd.bed, 10);
    crowd.run(5_000, 10);
    assert_eq!(crowd.retry_after, (1..=5).map(Some).collect());
    assert!(crowd.refused().is_disjoint(&crowd.seen()));
    // Ten per second, and those of half a second at once.
    assert!((54..=55).contains(&crowd.seen().len()), "{}", crowd.seen().len());
    let refused = crowd.refused().len() as u64;
    assert_eq!(crowd.bed.shard.counters().at_limit.get(&(PoolId(0), "max_rate")), Some(&refused));
}

#[test]
fn calls_without_room_go_to_the_next_member_or_pool() {
    for service in SERVICES {
        let mut crowd = Crowd::new(service, &HOPS, Some(MemberLaw::Gradient));
        crowd.members.get_mut(&addr(HOPS[0])).expect("a member").service = 200;
        crowd.run(15_000, 40);
        // 25 calls per second, half of them for a member that takes five: the other one takes the rest.
        let before = crowd.refused().len();
        crowd.run(20_000, 40);
        assert_eq!(crowd.refused().len(), before, "{service:?}");
        let first = crowd.members[&addr(HOPS[0])].seen.len();
        assert!(first < 200, "{service:?}: {first} of 875");
    }
}

#[test]
fn explain_shows_members_at_their_limit() {
    let mut crowd = Crowd::new(Service::Balance, &HOPS[..1], Some(MemberLaw::Gradient));
    crowd.until_full();
    crowd.run(1_000, 2);
    let invite = Req::new("INVITE", "explained", client());
    let explained = crowd.bed.explain(client(), &invite.bytes()).expect("the call is for the pool");
    assert_eq!(explained.decision, balance::NodeDecision::AtLimit(NodeRefusal::Limit));
    let verdict = &explained.verdicts[0];
    assert_eq!(verdict.refusal, Some(NodeRefusal::Limit));
    let room = verdict.room.expect("the member has a limit");
    assert!(room.limit.is_some_and(|limit| limit <= room.open), "{room:?}");
}

/// A shard whose one member has no room, by `law` or `max_rate`. There is an answered call, a ringing one, one just
/// sent, and one whose caller was challenged.
struct Full {
    bed: ProxyBed,
    dialog: Dialog,
    ringing: Req,
    sent: Req,
    challenged: Req,
    hop: SocketAddr,
}

fn full(service: Service, law: Option<MemberLaw>) -> Full {
    let mut crowd = Crowd::new(service, &HOPS[..1], law);
    if law.is_none() {
        set_max_rate(&mut crowd.bed, 8);
    }
    let dialog = crowd.bed.call("dialog");
    let ringing = Req::new("INVITE", "ringing", client());
    let at_hop = crowd.bed.invite(&ringing);
    let hop = at_hop.to;
    crowd.bed.receive(0, hop, &answer(&at_hop.bytes, addr(PROXY), 180, hop));
    let challenged = Req::new("INVITE", "challenged", client());
    let asked = crowd.bed.invite(&challenged);
    respond(&mut crowd.bed, &asked, 407);
    crowd.bed.receive(0, client(), &challenged.same_branch("ACK", Some("bob")).bytes());
    if law.is_some() {
        crowd.until_full();
    }
    let mut sent = None;
    for number in 0..10_000 {
        let before = crowd.members[&hop].seen.len();
        let invite = crowd.call(&format!("more-{number}"));
        let is_sent = crowd.members[&hop].seen.len() > before;
        if is_sent {
            sent = Some(invite);
        } else if let Some(sent) = sent.take() {
            return Full { bed: crowd.bed, dialog, ringing, sent, challenged, hop };
        }
        crowd.run(1, u64::MAX);
    }
    panic!("the member still has room");
}

#[test]
fn requests_of_admitted_calls_are_never_refused() {
    for service in SERVICES {
        for law in [Some(MemberLaw::Gradient), None] {
            let Full { mut bed, dialog, ringing, sent, challenged, hop } = full(service, law);
            let credentials = Req { cseq: 2, ..challenged.clone() }
                .via(&via("again"))
                .with("Proxy-Authorization", "Digest username=\"alice\"");
            let count = |bed: &ProxyBed| bed.shard.counters().at_limit.values().sum::<u64>();
            let before = count(&bed);
            for (case, request) in [
                ("an ACK", dialog.by_caller("ACK", 1)),
                ("a re-INVITE", dialog.by_caller("INVITE", 2)),
                ("an INFO", dialog.by_caller("INFO", 3)),
                ("a copy of an INVITE that rings", ringing.clone()),
                ("a copy of an unanswered INVITE", sent.clone()),
                ("an INVITE with credentials", credentials),
                ("a BYE", dialog.by_caller("BYE", 4)),
                ("a CANCEL", ringing.same_branch("CANCEL", None)),
            ] {
                let sent = bed.receive(0, client(), &request.bytes());
                let is_refused = sent.iter().any(|sent| sent.to == client() && sent.status() >= 300);
                assert!(!is_refused, "{service:?} {law:?}: {case}: {sent:?}");
                // A transaction absorbs the copies.
                let is_copy = case.starts_with("a copy") && service != Service::Balance;
                let arrives = sent.iter().any(|sent| sent.to == hop);
                assert_eq!(arrives, !is_copy, "{service:?} {law:?}: {case}");
            }
            assert_eq!(count(&bed), before, "{service:?} {law:?}");
            let new = Req::new("INVITE", "new", client());
            let last = bed.receive(0, client(), &new.bytes());
            assert_eq!(
                last.last().map(Sent::status),
                Some(503),
                "{service:?} {law:?}: the member has no room during the test"
            );
            let sos = Req { uri: "urn:service:sos".to_owned(), ..Req::new("INVITE", "sos", client()) };
            let sent = bed.receive(0, client(), &sos.bytes());
            assert!(sent.iter().any(|sent| sent.to == hop), "{service:?} {law:?}: an emergency call passes");
            let first = |call| Req::new("INVITE", call, client()).with("Resource-Priority", "ets.0");
            let sent = bed.receive(0, client(), &first("stranger").bytes());
            assert!(
                !sent.iter().any(|sent| sent.to == hop),
                "{service:?} {law:?}: any sender may claim an emergency"
            );
            bed.set(|setup| setup.settings.overload.neighbours = [Network::host(client().ip())].into());
            let sent = bed.receive(0, client(), &first("neighbour").bytes());
            assert!(
                sent.iter().any(|sent| sent.to == hop),
                "{service:?} {law:?}: the claim of a neighbour counts"
            );
        }
    }
}
