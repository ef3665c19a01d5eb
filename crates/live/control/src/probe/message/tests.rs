//! Tests of probes as bytes: the schedule, and which messages count as an answer.

use super::*;
use crate::probe::{ProbeOutcome, ProbeResult, ProbeSchedule, ProbeSettings};
use balance::{Cluster, ClusterMember, HealthSettings, NodeId, PoolId, Slot};
use base::{Instant, Transport};
use core::time::Duration;
use node::Port;
use std::collections::BTreeSet;

/// Schedule and messages as in the control plane.
struct Prober {
    settings: ProbeSettings,
    schedule: ProbeSchedule<Flow>,
    messages: ProbeMessages,
    ports: Ports,
}

impl Prober {
    fn set_settings(&mut self, settings: ProbeSettings) {
        self.settings = settings;
    }

    fn set_targets(&mut self, now: Instant, targets: &[(Slot, SocketAddr)]) {
        let flow = |&(slot, address): &(Slot, SocketAddr)| (slot, Flow::udp(0, address), self.settings);
        self.schedule.set_targets(now, &targets.iter().map(flow).collect::<Vec<_>>());
    }

    fn hurry(&mut self, now: Instant, slot: Slot) {
        self.schedule.hurry(now, slot);
    }

    fn clear(&mut self, slot: Slot) {
        self.schedule.clear(slot);
    }

    fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }

    fn tick(&mut self, now: Instant, out: &mut Outbox<ProbeOutcome>) {
        let mut outcomes = Vec::new();
        self.schedule.tick(
            now,
            |probe| self.messages.write(&probe, &self.ports, out),
            |outcome| outcomes.push(outcome),
        );
        for outcome in outcomes {
            out.event(outcome);
        }
    }

    /// Returns the address of the probed node if another host has answered for it.
    fn receive(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox<ProbeOutcome>,
    ) -> Option<SocketAddr> {
        self.receive_over(Peer::new(Transport::Udp, from), bytes, out).map(|peer| peer.address)
    }

    fn receive_over(&mut self, from: Peer, bytes: &[u8], out: &mut Outbox<ProbeOutcome>) -> Option<Peer> {
        let answer = ProbeMessages::read(bytes)?;
        let mut elsewhere = None;
        let is_it = self.messages.answered_by(answer, from, &mut elsewhere);
        let outcome = self.schedule.answered(answer.status, answer.pause, is_it);
        if let Some(outcome) = outcome {
            out.event(outcome);
        }
        elsewhere
    }

    fn unreachable(
        &mut self,
        now: Instant,
        address: SocketAddr,
        quoted: &[u8],
        out: &mut Outbox<ProbeOutcome>,
    ) {
        let by = Peer::new(Transport::Udp, address);
        match self.schedule.unreachable(self.messages.quoted_by(by, quoted)) {
            Some(outcome) => out.event(outcome),
            None => self.schedule.suspect(now, |flow| flow.peer == address),
        }
    }
}

fn timeout(slot: Slot) -> ProbeOutcome {
    ProbeOutcome { slot, result: ProbeResult::Timeout, pause: None }
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn prober() -> (Prober, Outbox<ProbeOutcome>) {
    let settings = ProbeSettings {
        periodic: true,
        interval: Duration::from_secs(2),
        timeout: Duration::from_millis(1_800),
        t1: Duration::from_millis(500),
    };
    let messages = ProbeMessages::new([7; 16], [Some("127.0.0.1:9".parse().unwrap()), None]);
    let mut prober = Prober { settings, schedule: ProbeSchedule::default(), messages, ports: ports() };
    prober.set_targets(Instant::ZERO, &[(Slot(0), member())]);
    (prober, Outbox::default())
}

/// UDP and TCP, each at its own address.
fn ports() -> Ports {
    let tcp = "192.0.2.1:5070".parse().unwrap();
    let udp = "192.0.2.1:5060".parse().unwrap();
    vec![Port::udp(udp), Port::new(Transport::Tcp, tcp, tcp)].into()
}

/// Returns the only member of [`prober`].
fn member() -> SocketAddr {
    "127.0.0.1:5080".parse().unwrap()
}

fn answer(probe: &[u8], status: u16) -> Vec<u8> {
    answer_with(probe, status, &[])
}

fn answer_with(probe: &[u8], status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let request = wire::scan(probe).unwrap();
    assert!(request.fault().is_none(), "{:?}", request.fault());
    let mut answer = Vec::new();
    wire::write_response(&request, "127.0.0.1:9".parse().unwrap(), status, "x", "t", headers, &mut answer);
    answer
}

#[test]
fn any_final_answer_but_503_is_alive() {
    for (status, alive) in [(200, true), (404, true), (405, true), (503, false)] {
        let (mut prober, mut out) = prober();
        prober.tick(at(0), &mut out);
        let probe = out.message(&out.transmits()[0]).to_vec();
        prober.receive(member(), &answer(&probe, 100), &mut out);
        assert!(out.events().is_empty(), "a provisional answer is no result");
        prober.receive(member(), &answer(&probe, status), &mut out);
        let [outcome] = *out.events() else { panic!("{:?}", out.events()) };
        assert_eq!((outcome.slot, outcome.result), (Slot(0), ProbeResult::Status(status)));
        let mut cluster =
            Cluster::new(HealthSettings { fall: 1, slow_start: Duration::ZERO, ..HealthSettings::default() });
        cluster.set_members(
            at(0),
            &[ClusterMember {
                id: NodeId(0),
                capacity: 1.0,
                max_calls: 0,
                max_rate: 0,
                pool: PoolId::default(),
            }],
        );
        outcome.apply(at(0), &mut cluster);
        assert_eq!(cluster.nodes()[0].is_up(), alive);
        prober.receive(member(), &answer(&probe, status), &mut out);
        assert_eq!(out.events().len(), 1, "a repeated answer counts once");
    }
}

#[test]
fn a_503_requests_a_pause() {
    let pause = |seconds, asked| Some(Pause { length: Duration::from_secs(seconds), asked });
    let cases = [
        (503, None, pause(2, false)),
        (503, Some("30"), pause(30, true)),
        (503, Some("86400"), pause(86_400, true)),
        (486, Some("30"), None),
    ];
    for (status, retry_after, wanted) in cases {
        let (mut prober, mut out) = prober();
        prober.tick(at(0), &mut out);
        let probe = out.message(&out.transmits()[0]).to_vec();
        let headers: Vec<_> = retry_after.map(|seconds| ("Retry-After", seconds)).into_iter().collect();
        prober.receive(member(), &answer_with(&probe, status, &headers), &mut out);
        assert_eq!(out.events()[0].pause, wanted, "{status} {retry_after:?}");
    }
}

#[test]
fn an_unanswered_probe_is_retried_then_fails_and_the_next_is_on_time() {
    let (mut prober, mut out) = prober();
    let mut sent = Vec::new();
    while prober.deadline().unwrap() <= at(2_000) {
        let now = prober.deadline().unwrap();
        let before = out.transmits().len();
        prober.tick(now, &mut out);
        sent.extend((before..out.transmits().len()).map(|_| now));
    }
    assert_eq!(sent, [at(0), at(500), at(1_500), at(2_000)]);
    assert_eq!(out.events(), [timeout(Slot(0))]);
}

#[test]
fn without_an_interval_a_suspected_node_is_probed_until_it_answers() {
    let (mut prober, mut out) = prober();
    prober.set_settings(ProbeSettings { periodic: false, ..prober.settings });
    let address = "127.0.0.1:5081".parse().unwrap();
    prober.set_targets(at(0), &[(Slot(1), address)]);
    prober.tick(at(60_000), &mut out);
    assert!(out.transmits().is_empty());
    prober.hurry(at(60_000), Slot(1));
    prober.tick(at(60_000), &mut out);
    let probe = out.message(&out.transmits()[0]).to_vec();
    prober.unreachable(at(60_000), address, &probe, &mut out);
    prober.tick(at(62_000), &mut out);
    assert_eq!(out.transmits().len(), 2, "probed again after the interval");
    prober.tick(at(64_000), &mut out);
    assert_eq!(out.events().last(), Some(&timeout(Slot(1))));
    prober.tick(at(64_000), &mut out);
    assert_eq!(out.transmits().len(), 3, "an unanswered probe is repeated");
    let probe = out.message(&out.transmits()[2]).to_vec();
    prober.receive(address, &answer(&probe, 405), &mut out);
    prober.tick(at(90_000), &mut out);
    assert_eq!(out.transmits().len(), 3, "no further probe after an answer");
}

#[test]
fn another_sign_of_life_ends_the_suspicion() {
    let (mut prober, mut out) = prober();
    prober.set_settings(ProbeSettings { periodic: false, ..prober.settings });
    prober.set_targets(at(0), &[(Slot(1), "127.0.0.1:5081".parse().unwrap())]);
    prober.hurry(at(0), Slot(1));
    prober.tick(at(0), &mut out);
    prober.clear(Slot(1));
    prober.tick(at(60_000), &mut out);
    assert_eq!((out.transmits().len(), out.events().len()), (1, 0));
}

#[test]
fn the_interval_can_be_turned_on() {
    let (mut prober, mut out) = prober();
    let targets = [(Slot(1), "127.0.0.1:5081".parse().unwrap())];
    let periodic = prober.settings;
    prober.set_settings(ProbeSettings { periodic: false, ..periodic });
    prober.set_targets(at(0), &targets);
    prober.set_settings(periodic);
    prober.set_targets(at(5_000), &targets);
    prober.tick(at(7_000), &mut out);
    assert_eq!(out.transmits().len(), 1);
}

#[test]
fn suspicion_keeps_a_minimum_gap_between_probes() {
    let (mut prober, mut out) = prober();
    let mut asked = Vec::new();
    for millis in 0..250 {
        prober.hurry(at(millis), Slot(0));
        let before = out.transmits().len();
        prober.tick(at(millis), &mut out);
        if let Some(sent) = out.transmits().get(before) {
            asked.push(millis);
            let probe = out.message(sent).to_vec();
            prober.receive(member(), &answer(&probe, 200), &mut out);
        }
    }
    assert_eq!(asked, [0, 100, 200]);
}

#[test]
fn an_open_probe_is_sent_again_on_suspicion() {
    let (mut prober, mut out) = prober();
    prober.tick(at(0), &mut out);
    prober.hurry(at(50), Slot(0));
    assert_eq!(prober.deadline(), Some(at(100)));
    prober.tick(at(100), &mut out);
    let sent: Vec<_> = out.transmits().iter().map(|sent| out.message(sent)).collect();
    assert!(sent.len() == 2 && sent[0] == sent[1], "the same transaction");
}

#[test]
fn an_icmp_error_that_quotes_the_probe_fails_it_at_once() {
    let (mut prober, mut out) = prober();
    prober.tick(at(0), &mut out);
    let probe = out.message(&out.transmits()[0]).to_vec();
    prober.unreachable(at(0), "127.0.0.1:5081".parse().unwrap(), &probe, &mut out);
    assert!(out.events().is_empty(), "an error about another address is ignored");
    // RFC 792 quotes eight bytes of UDP, RFC 1812 §4.3.2.3 as many as fit 576: the branch is among them.
    prober.unreachable(at(0), member(), &probe[..200.min(probe.len())], &mut out);
    assert_eq!(out.events()[0].result, ProbeResult::Unreachable);
}

#[test]
fn an_icmp_error_that_does_not_quote_the_probe_triggers_a_probe() {
    let (mut prober, mut out) = prober();
    prober.tick(at(0), &mut out);
    let probe = out.message(&out.transmits()[0]).to_vec();
    prober.receive(member(), &answer(&probe, 200), &mut out);
    prober.tick(at(2_000), &mut out);
    let second = out.message(&out.transmits()[1]).to_vec();
    let asked = |out: &Outbox<ProbeOutcome>| out.transmits().len();
    for forged in [&b""[..], &probe, b"OPTIONS sip:127.0.0.1:5080 SIP/2.0\r\n"] {
        prober.unreachable(at(2_000), member(), forged, &mut out);
    }
    assert_eq!((out.events().len(), asked(&out)), (1, 2), "the first probe has ended, the second is open");
    prober.receive(member(), &answer(&second, 200), &mut out);
    prober.unreachable(at(2_500), member(), b"", &mut out);
    prober.tick(at(2_500), &mut out);
    assert_eq!(
        (out.events().len(), asked(&out)),
        (2, 3),
        "it is probed, and counts as alive until the probe fails"
    );
}

#[test]
fn each_probe_of_each_member_has_an_id_of_its_own() {
    let (mut prober, mut out) = prober();
    let targets: Vec<_> =
        (0..4).map(|n| (Slot(n), SocketAddr::new([127, 0, 0, 1].into(), 5080 + n))).collect();
    prober.set_targets(at(0), &targets);
    for round in 0..8 {
        prober.tick(at(round * 2_000), &mut out);
    }
    let ids = |name| {
        let value = |t| wire::scan(out.message(t)).unwrap().header(name).unwrap().to_vec();
        out.transmits().iter().map(value).collect::<BTreeSet<_>>()
    };
    let probes: BTreeSet<_> =
        out.transmits().iter().map(|t| (t.flow.peer, out.message(t).to_vec())).collect();
    assert!(probes.len() > 10, "{}", probes.len());
    for name in ["Call-ID", "Via", "From"] {
        assert_eq!(ids(name).len(), probes.len(), "{name}");
    }
}

#[test]
fn an_answer_counts_only_from_the_probed_member() {
    let (mut prober, mut out) = prober();
    prober.tick(at(0), &mut out);
    let probe = out.message(&out.transmits()[0]).to_vec();
    let elsewhere = "127.0.0.2:5080".parse().unwrap();
    for status in [200, 503] {
        assert_eq!(prober.receive(elsewhere, &answer(&probe, status), &mut out), Some(member()));
    }
    assert!(out.events().is_empty());
    let other_port = "127.0.0.1:40000".parse().unwrap();
    assert_eq!(prober.receive(other_port, &answer(&probe, 200), &mut out), None);
    assert_eq!(out.events().len(), 1, "an answer counts from any port of its host");
}

/// The answer returns on the connection of the probe, whose Via names the listener of its transport.
#[test]
fn a_probe_over_tcp_names_the_tcp_listener_and_needs_an_answer_over_tcp() {
    let (mut prober, mut out) = prober();
    let way = Flow { transport: Transport::Tcp, listener: 1, peer: member(), connection: None };
    prober.schedule.set_targets(at(0), &[(Slot(0), way, prober.settings)]);
    prober.tick(at(0), &mut out);
    let sent = &out.transmits()[0];
    assert_eq!(sent.flow, way);
    let probe = out.message(sent).to_vec();
    let request = wire::scan(&probe).unwrap();
    let via = request.top_via();
    assert_eq!((via.transport, via.sent_by_port()), (Some(Transport::Tcp), 5070));
    assert!(probe.starts_with(b"OPTIONS sip:127.0.0.1:5080;transport=tcp SIP/2.0\r\n"));
    let from = |transport| Peer::new(transport, member());
    assert_eq!(
        prober.receive_over(from(Transport::Udp), &answer(&probe, 200), &mut out),
        Some(from(Transport::Tcp)),
        "an answer over UDP is from another server"
    );
    assert!(out.events().is_empty());
    prober.receive_over(from(Transport::Tcp), &answer(&probe, 200), &mut out);
    assert_eq!(out.events().len(), 1);
}

/// Neither a probe nor the difference of two reveals the probes of other members or of another process.
#[test]
fn one_known_probe_does_not_reveal_another() {
    let probe = |slot, cseq| Probe { slot: Slot(slot), address: Flow::udp(0, member()), cseq };
    let marks = |secret| [probe(0, 1), probe(0, 2), probe(1, 1)].map(|probe| Marks([secret, 0]).of(&probe));
    let all: BTreeSet<_> = [1, 2].into_iter().flat_map(marks).collect();
    assert_eq!(all.len(), 6);
    let differences = |secret| {
        let [first, rest @ ..] = marks(secret);
        rest.map(|mark| mark ^ first)
    };
    let all: BTreeSet<_> = [1, 2].into_iter().flat_map(differences).collect();
    assert_eq!(all.len(), 4);
}
