use crate::Rest;
use crate::rounds::{Ask, Outcome, ProbeSettings, Rounds, Step};
use crate::token::keyed_hash;
use balance::{Effect, Slot};
use base::{Flow, Instant, Outbox};
use core::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use wire::build::RequestBuilder;

/// Asks every node with OPTIONS whether it is alive (RFC 3261 §11).
///
/// What decides about a node has to come from it. Each probe has a Call-ID and a branch that nobody can guess, another one
/// for each node and number; an answer counts from the node's own host only; and an ICMP error only with the probe in it.
///
/// - Setting up: [`new`](Self::new), [`set_targets`](Self::set_targets).
/// - Running: [`receive`](Self::receive), [`unreachable`](Self::unreachable), [`carry_out`](Self::carry_out),
///   [`hurry`](Self::hurry), [`clear`](Self::clear), [`tick`](Self::tick), [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Prober {
    rounds: Rounds<SocketAddr>,
    marks: Marks,
    /// Our sockets for IPv4 and IPv6; probes leave by listener 0 and 1.
    local: [Option<SocketAddr>; 2],
}

impl Prober {
    /// A prober that sends from `local` (IPv4, IPv6). The secret is of this process alone.
    pub fn new(settings: ProbeSettings, secret: [u8; 16], local: [Option<SocketAddr>; 2]) -> Self {
        let (first, second) = secret.split_at(8);
        let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("half of 16 bytes"));
        Self { rounds: Rounds::new(settings), marks: Marks([word(first), word(second)]), local }
    }

    /// Changes the times.
    pub fn set_settings(&mut self, settings: ProbeSettings) {
        self.rounds.set_settings(settings);
    }

    /// Sets who is asked. Those that are asked already go on; new ones are asked soon, spread over an interval.
    pub fn set_targets(&mut self, now: Instant, targets: &[(Slot, SocketAddr)]) {
        self.rounds.set_targets(now, targets);
    }

    /// Carries out what the cluster wants of probes.
    pub fn carry_out(&mut self, effect: Effect) {
        self.rounds.carry_out(effect);
    }

    /// Asks this node now, or a tenth of a second after the last time: the traffic says that something may be wrong. A
    /// probe that is under way is sent again then.
    pub fn hurry(&mut self, now: Instant, slot: Slot) {
        self.rounds.hurry(now, slot);
    }

    /// The node has given another sign of life: it is under suspicion no more.
    pub fn clear(&mut self, slot: Slot) {
        self.rounds.clear(slot);
    }

    /// A datagram that came in on one of our sockets. Returns the address of the node that was asked if another host has
    /// answered for it, which does not count.
    pub fn receive(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox<Outcome>,
    ) -> Option<SocketAddr> {
        let message = wire::scan(bytes).ok()?;
        let status = message.status().filter(|&status| status >= 200)?;
        // Anybody may send here: what cannot be an answer is not compared with every member's probe.
        let mark = mark_of(message.call_id())?;
        let (marks, mut elsewhere) = (self.marks, None);
        let is_it = |ask: &Ask<SocketAddr>| {
            let is_it = mark == marks.of(ask);
            let is_there = ask.address.ip() == from.ip();
            if is_it && !is_there {
                elsewhere = Some(ask.address);
            }
            is_it && is_there
        };
        if let Some(outcome) = self.rounds.answered(status, Rest::asked_by(&message), is_it) {
            out.event(outcome);
        }
        elsewhere
    }

    /// The network reported (ICMP) that a datagram to this address, which began with `quoted`, did not arrive. Whoever
    /// has not seen the probe cannot know its branch; without it this is a reason to ask again, no more.
    pub fn unreachable(
        &mut self,
        now: Instant,
        address: SocketAddr,
        quoted: &[u8],
        out: &mut Outbox<Outcome>,
    ) {
        let marks = self.marks;
        let is_it = |ask: &Ask<SocketAddr>| contains(quoted, branch(marks.of(ask)).as_bytes());
        if !self.rounds.unreachable(address, is_it, |outcome| out.event(outcome)) {
            self.rounds.suspect(now, address);
        }
    }

    /// Sends what is due and ends what has waited too long.
    pub fn tick(&mut self, now: Instant, out: &mut Outbox<Outcome>) {
        let (marks, local) = (self.marks, self.local);
        self.rounds.tick(now, |step| match step {
            Step::Send(ask) => send(marks.of(&ask), local, &ask, out),
            Step::Note(outcome) => out.event(outcome),
        });
    }

    /// When [`tick`](Self::tick) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.rounds.deadline()
    }
}

/// What tells the probes apart, and those of this process from its predecessor's.
#[derive(Clone, Copy)]
struct Marks([u64; 2]);

impl fmt::Debug for Marks {
    /// Never prints the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Marks(..)")
    }
}

impl Marks {
    fn of(self, ask: &Ask<SocketAddr>) -> u64 {
        let address = ask.address.to_string();
        keyed_hash(self.0, &[&ask.slot.0.to_be_bytes(), &ask.cseq.to_be_bytes(), address.as_bytes()])
    }
}

/// A Call-ID of its own for each probe (RFC 3261 §8.1.1.4): some servers take the same one again for the old call.
fn call_id(mark: u64) -> String {
    format!("probe-{mark:016x}")
}

/// The mark in such a Call-ID.
fn mark_of(call_id: &[u8]) -> Option<u64> {
    let digits = call_id.strip_prefix(b"probe-")?;
    let is_mark = digits.len() == 16 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_mark.then(|| u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()).flatten()
}

/// One branch a probe: what is sent again is the same transaction.
fn branch(mark: u64) -> String {
    format!("z9hG4bKp{mark:016x}")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn send(mark: u64, local: [Option<SocketAddr>; 2], ask: &Ask<SocketAddr>, out: &mut Outbox<Outcome>) {
    let family = usize::from(ask.address.is_ipv6());
    let Some(local) = local[family] else { return };
    let way = Flow::udp(family as u16, ask.address);
    let via = way.transport.name();
    out.send(way, |buffer| {
        let mut uri = Vec::new();
        write!(uri, "sip:{}", ask.address).expect("a Vec takes every byte");
        RequestBuilder::new(buffer, "OPTIONS", &uri)
            .header_fmt("Via", format_args!("SIP/2.0/{via} {local};rport;branch={}", branch(mark)))
            .header("Max-Forwards", "70")
            .header_fmt("From", format_args!("<sip:probe@{local}>;tag={mark:x}"))
            .header_fmt("To", format_args!("<sip:{}>", ask.address))
            .header("Call-ID", call_id(mark))
            .header_fmt("CSeq", format_args!("{} OPTIONS", ask.cseq))
            .header_fmt("Contact", format_args!("<sip:{local}>"))
            .header("Accept", "application/sdp")
            .finish(b"");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Reason;
    use balance::{Cluster, HealthSettings, Member, NodeId};
    use core::time::Duration;
    use std::collections::BTreeSet;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn prober() -> (Prober, Outbox<Outcome>) {
        let settings = ProbeSettings {
            periodic: true,
            interval: Duration::from_secs(2),
            timeout: Duration::from_millis(1_800),
            t1: Duration::from_millis(500),
        };
        let mut prober = Prober::new(settings, [7; 16], [Some("127.0.0.1:9".parse().unwrap()), None]);
        prober.set_targets(Instant::ZERO, &[(Slot(0), member())]);
        (prober, Outbox::default())
    }

    /// The only member of [`prober`].
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
        wire::write_response(
            &request,
            "127.0.0.1:9".parse().unwrap(),
            status,
            "x",
            "t",
            headers,
            &mut answer,
        );
        answer
    }

    #[test]
    fn any_final_answer_but_503_is_alive() {
        for (status, alive) in [(200, true), (404, true), (405, true), (503, false)] {
            let (mut prober, mut out) = prober();
            prober.tick(at(0), &mut out);
            let probe = out.message(&out.transmits()[0]).to_vec();
            prober.receive(member(), &answer(&probe, 100), &mut out);
            assert!(out.events().is_empty(), "a provisional answer says nothing");
            prober.receive(member(), &answer(&probe, status), &mut out);
            let [outcome] = *out.events() else { panic!("{:?}", out.events()) };
            assert_eq!((outcome.slot, outcome.reason), (Slot(0), Reason::Status(status)));
            let mut cluster = Cluster::new(HealthSettings {
                fall: 1,
                slow_start: Duration::ZERO,
                ..HealthSettings::default()
            });
            cluster.set_members(at(0), &[Member { id: NodeId(0), capacity: 1.0, max_calls: 0 }]);
            outcome.apply(at(0), &mut cluster);
            assert_eq!(cluster.nodes()[0].is_up(), alive);
            prober.receive(member(), &answer(&probe, status), &mut out);
            assert_eq!(out.events().len(), 1, "a repeated answer counts once");
        }
    }

    #[test]
    fn a_503_asks_for_a_rest() {
        let rest = |seconds, asked| Some(Rest { length: Duration::from_secs(seconds), asked });
        let cases = [
            (503, None, rest(2, false)),
            (503, Some("30"), rest(30, true)),
            (503, Some("86400"), rest(86_400, true)),
            (486, Some("30"), None),
        ];
        for (status, retry_after, wanted) in cases {
            let (mut prober, mut out) = prober();
            prober.tick(at(0), &mut out);
            let probe = out.message(&out.transmits()[0]).to_vec();
            let headers: Vec<_> = retry_after.map(|seconds| ("Retry-After", seconds)).into_iter().collect();
            prober.receive(member(), &answer_with(&probe, status, &headers), &mut out);
            assert_eq!(out.events()[0].rest, wanted, "{status} {retry_after:?}");
        }
    }

    #[test]
    fn silence_is_retried_and_then_fails_and_the_next_probe_comes_on_time() {
        let (mut prober, mut out) = prober();
        let mut sent = Vec::new();
        while prober.deadline().unwrap() <= at(2_000) {
            let now = prober.deadline().unwrap();
            let before = out.transmits().len();
            prober.tick(now, &mut out);
            sent.extend((before..out.transmits().len()).map(|_| now));
        }
        assert_eq!(sent, [at(0), at(500), at(1_500), at(2_000)]);
        assert_eq!(out.events(), [Outcome::failure(Slot(0), Reason::Timeout)]);
    }

    #[test]
    fn without_an_interval_a_node_is_asked_on_suspicion_until_it_answers() {
        let (mut prober, mut out) = prober();
        prober.set_settings(ProbeSettings { periodic: false, ..*prober.rounds.settings() });
        let address = "127.0.0.1:5081".parse().unwrap();
        prober.set_targets(at(0), &[(Slot(1), address)]);
        prober.tick(at(60_000), &mut out);
        assert!(out.transmits().is_empty());
        prober.hurry(at(60_000), Slot(1));
        prober.tick(at(60_000), &mut out);
        let probe = out.message(&out.transmits()[0]).to_vec();
        prober.unreachable(at(60_000), address, &probe, &mut out);
        prober.tick(at(62_000), &mut out);
        assert_eq!(out.transmits().len(), 2, "asked again after the interval");
        prober.tick(at(64_000), &mut out);
        assert_eq!(out.events().last(), Some(&Outcome::failure(Slot(1), Reason::Timeout)));
        prober.tick(at(64_000), &mut out);
        assert_eq!(out.transmits().len(), 3, "silence is no answer");
        let probe = out.message(&out.transmits()[2]).to_vec();
        prober.receive(address, &answer(&probe, 405), &mut out);
        prober.tick(at(90_000), &mut out);
        assert_eq!(out.transmits().len(), 3, "and no more once it answered");
    }

    #[test]
    fn another_sign_of_life_ends_the_suspicion() {
        let (mut prober, mut out) = prober();
        prober.set_settings(ProbeSettings { periodic: false, ..*prober.rounds.settings() });
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
        let periodic = *prober.rounds.settings();
        prober.set_settings(ProbeSettings { periodic: false, ..periodic });
        prober.set_targets(at(0), &targets);
        prober.set_settings(periodic);
        prober.set_targets(at(5_000), &targets);
        prober.tick(at(7_000), &mut out);
        assert_eq!(out.transmits().len(), 1);
    }

    #[test]
    fn suspicion_does_not_ask_more_often_than_the_gap() {
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
    fn a_probe_under_way_is_sent_again_on_suspicion() {
        let (mut prober, mut out) = prober();
        prober.tick(at(0), &mut out);
        prober.hurry(at(50), Slot(0));
        assert_eq!(prober.deadline(), Some(at(100)));
        prober.tick(at(100), &mut out);
        let sent: Vec<_> = out.transmits().iter().map(|sent| out.message(sent)).collect();
        assert!(sent.len() == 2 && sent[0] == sent[1], "the same transaction");
    }

    #[test]
    fn an_icmp_error_with_the_probe_in_it_fails_at_once() {
        let (mut prober, mut out) = prober();
        prober.tick(at(0), &mut out);
        let probe = out.message(&out.transmits()[0]).to_vec();
        prober.unreachable(at(0), "127.0.0.1:5081".parse().unwrap(), &probe, &mut out);
        assert!(out.events().is_empty(), "another address");
        // RFC 792 has eight bytes of UDP quoted, RFC 1812 §4.3.2.3 as many as fit 576: the branch is among them.
        prober.unreachable(at(0), member(), &probe[..200.min(probe.len())], &mut out);
        assert_eq!(out.events()[0].reason, Reason::Unreachable);
    }

    #[test]
    fn an_icmp_error_without_the_probe_in_it_is_a_reason_to_ask_at_once() {
        let (mut prober, mut out) = prober();
        prober.tick(at(0), &mut out);
        let probe = out.message(&out.transmits()[0]).to_vec();
        prober.receive(member(), &answer(&probe, 200), &mut out);
        prober.tick(at(2_000), &mut out);
        let second = out.message(&out.transmits()[1]).to_vec();
        let asked = |out: &Outbox<Outcome>| out.transmits().len();
        for forged in [&b""[..], &probe, b"OPTIONS sip:127.0.0.1:5080 SIP/2.0\r\n"] {
            prober.unreachable(at(2_000), member(), forged, &mut out);
        }
        assert_eq!(
            (out.events().len(), asked(&out)),
            (1, 2),
            "the first probe is over, the second is waited for"
        );
        prober.receive(member(), &answer(&second, 200), &mut out);
        prober.unreachable(at(2_500), member(), b"", &mut out);
        prober.tick(at(2_500), &mut out);
        assert_eq!((out.events().len(), asked(&out)), (2, 3), "it is asked, and lives until that has failed");
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
    fn an_answer_counts_from_the_member_it_is_about_only() {
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
        assert_eq!(out.events().len(), 1, "from its host, whichever port it takes");
    }
}
