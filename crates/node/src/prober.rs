use crate::Rest;
use crate::rounds::{Ask, Outcome, ProbeSettings, Rounds, Step};
use balance::Slot;
use base::{Instant, Outbox};
use std::io::Write as _;
use std::net::SocketAddr;
use wire::build::RequestBuilder;

/// Asks every node with OPTIONS whether it is alive (RFC 3261 §11).
///
/// - Setting up: [`new`](Self::new), [`set_targets`](Self::set_targets).
/// - Running: [`receive`](Self::receive), [`unreachable`](Self::unreachable), [`hurry`](Self::hurry),
///   [`clear`](Self::clear), [`tick`](Self::tick), [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Prober {
    rounds: Rounds<SocketAddr>,
    /// Unique to the process, so that answers to its predecessor's probes are not taken for answers to ours.
    id: u64,
    /// Our sockets for IPv4 and IPv6; probes leave by listener 0 and 1.
    local: [Option<SocketAddr>; 2],
}

impl Prober {
    /// A prober that sends from `local` (IPv4, IPv6).
    pub fn new(settings: ProbeSettings, id: u64, local: [Option<SocketAddr>; 2]) -> Self {
        Self { rounds: Rounds::new(settings), id, local }
    }

    /// Changes the times.
    pub fn set_settings(&mut self, settings: ProbeSettings) {
        self.rounds.set_settings(settings);
    }

    /// Sets who is asked. Those that are asked already go on; new ones are asked soon, spread over an interval.
    pub fn set_targets(&mut self, now: Instant, targets: &[(Slot, SocketAddr)]) {
        self.rounds.set_targets(now, targets);
    }

    /// Asks this node now, or a tenth of a second after the last time: the traffic says that something may be wrong.
    pub fn hurry(&mut self, now: Instant, slot: Slot) {
        self.rounds.hurry(now, slot);
    }

    /// The node has given another sign of life: it is under suspicion no more.
    pub fn clear(&mut self, slot: Slot) {
        self.rounds.clear(slot);
    }

    /// A datagram that came in on one of our sockets.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Outbox<Outcome>) {
        let Ok(message) = wire::scan(bytes) else { return };
        let Some(status) = message.status().filter(|&status| status >= 200) else { return };
        let id = self.id;
        let is_it = |ask: &Ask<SocketAddr>| message.call_id() == call_id(id, ask.slot, ask.cseq).as_bytes();
        if let Some(outcome) = self.rounds.answered(status, Rest::asked_by(&message), is_it) {
            out.event(outcome);
        }
    }

    /// The network reported (ICMP) that a probe to this address did not arrive.
    pub fn unreachable(&mut self, address: SocketAddr, out: &mut Outbox<Outcome>) {
        self.rounds.unreachable(address, |outcome| out.event(outcome));
    }

    /// Sends what is due and ends what has waited too long.
    pub fn tick(&mut self, now: Instant, out: &mut Outbox<Outcome>) {
        let (id, local) = (self.id, self.local);
        self.rounds.tick(now, |step| match step {
            Step::Send(ask) => send(id, local, &ask, out),
            Step::Note(outcome) => out.event(outcome),
        });
    }

    /// When [`tick`](Self::tick) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.rounds.deadline()
    }
}

/// A Call-ID of its own for each probe (RFC 3261 §8.1.1.4): some servers take the same one again for the old call.
fn call_id(id: u64, slot: Slot, cseq: u32) -> String {
    format!("probe-{id:016x}-{}-{cseq}", slot.0)
}

fn send(id: u64, local: [Option<SocketAddr>; 2], ask: &Ask<SocketAddr>, out: &mut Outbox<Outcome>) {
    let family = usize::from(ask.address.is_ipv6());
    let Some(local) = local[family] else { return };
    out.send(family as u16, ask.address, |buffer| {
        let mut uri = Vec::new();
        write!(uri, "sip:{}", ask.address).expect("a Vec takes every byte");
        RequestBuilder::new(buffer, "OPTIONS", &uri)
            // One branch a probe: what is sent again is the same transaction.
            .header_fmt(
                "Via",
                format_args!("SIP/2.0/UDP {local};rport;branch=z9hG4bKp{id:x}-{}-{}", ask.slot.0, ask.cseq),
            )
            .header("Max-Forwards", "70")
            .header_fmt("From", format_args!("<sip:probe@{local}>;tag={id:x}"))
            .header_fmt("To", format_args!("<sip:{}>", ask.address))
            .header("Call-ID", call_id(id, ask.slot, ask.cseq))
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
        let mut prober = Prober::new(settings, 7, [Some("127.0.0.1:9".parse().unwrap()), None]);
        prober.set_targets(Instant::ZERO, &[(Slot(0), "127.0.0.1:5080".parse().unwrap())]);
        (prober, Outbox::default())
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
            let probe = out.datagram(&out.transmits()[0]).to_vec();
            prober.receive(&answer(&probe, 100), &mut out);
            assert!(out.events().is_empty(), "a provisional answer says nothing");
            prober.receive(&answer(&probe, status), &mut out);
            let [outcome] = *out.events() else { panic!("{:?}", out.events()) };
            assert_eq!((outcome.slot, outcome.reason), (Slot(0), Reason::Status(status)));
            let mut cluster = Cluster::new(HealthSettings { fall: 1, rise: 1, slow_start: Duration::ZERO });
            cluster.set_members(at(0), &[Member { id: NodeId(0), capacity: 1.0, max_calls: 0 }]);
            outcome.apply(at(0), &mut cluster, true);
            assert_eq!(cluster.nodes()[0].reachable, alive);
            prober.receive(&answer(&probe, status), &mut out);
            assert_eq!(out.events().len(), 1, "a repeated answer counts once");
        }
    }

    #[test]
    fn a_503_asks_for_a_rest() {
        let rest = |seconds, asked| Some(Rest { length: Duration::from_secs(seconds), asked });
        let cases = [
            (503, None, rest(2, false)),
            (503, Some("30"), rest(30, true)),
            (503, Some("86400"), rest(600, true)),
            (486, Some("30"), None),
        ];
        for (status, retry_after, wanted) in cases {
            let (mut prober, mut out) = prober();
            prober.tick(at(0), &mut out);
            let probe = out.datagram(&out.transmits()[0]).to_vec();
            let headers: Vec<_> = retry_after.map(|seconds| ("Retry-After", seconds)).into_iter().collect();
            prober.receive(&answer_with(&probe, status, &headers), &mut out);
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
        prober.unreachable(address, &mut out);
        prober.tick(at(62_000), &mut out);
        assert_eq!(out.transmits().len(), 2, "asked again after the interval");
        prober.tick(at(64_000), &mut out);
        assert_eq!(out.events().last(), Some(&Outcome::failure(Slot(1), Reason::Timeout)));
        prober.tick(at(64_000), &mut out);
        assert_eq!(out.transmits().len(), 3, "silence is no answer");
        let probe = out.datagram(&out.transmits()[2]).to_vec();
        prober.receive(&answer(&probe, 405), &mut out);
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
                let probe = out.datagram(sent).to_vec();
                prober.receive(&answer(&probe, 200), &mut out);
            }
        }
        assert_eq!(asked, [0, 100, 200]);
    }

    #[test]
    fn an_icmp_error_fails_at_once() {
        let (mut prober, mut out) = prober();
        prober.tick(at(0), &mut out);
        prober.unreachable("127.0.0.1:5081".parse().unwrap(), &mut out);
        assert!(out.events().is_empty());
        prober.unreachable("127.0.0.1:5080".parse().unwrap(), &mut out);
        assert_eq!(out.events()[0].reason, Reason::Unreachable);
    }
}
