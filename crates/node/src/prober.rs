use crate::Rest;
use balance::Slot;
use base::{Instant, Outbox};
use core::time::Duration;
use std::io::Write as _;
use std::net::SocketAddr;
use wire::build::RequestBuilder;

/// When nodes are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeSettings {
    /// Whether nodes are asked at the interval. If not, only on suspicion ([`Prober::hurry`]), and then until they answer
    /// or are [cleared](Prober::clear).
    pub periodic: bool,
    /// Time between two probes of a node.
    pub interval: Duration,
    /// A probe without an answer for this long has failed.
    pub timeout: Duration,
    /// An unanswered probe is sent again after this, doubling (T1, RFC 3261 §17.1.2.2): one lost datagram is no death.
    pub t1: Duration,
}

/// What came of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The node.
    pub slot: Slot,
    /// Any final answer but 503 means that it is alive.
    pub alive: bool,
    /// What decided that: a status, or one of the words `timeout` and `unreachable`.
    pub reason: Reason,
    /// It answered 503: it gets no new calls for so long, as if a call had been answered with it.
    pub rest: Option<Rest>,
}

/// What decided a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A final response with this status.
    Status(u16),
    /// Nothing came.
    Timeout,
    /// The network said that nobody listens there.
    Unreachable,
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

#[derive(Debug)]
struct Probe {
    fails: Instant,
    again: Instant,
    wait: Duration,
}

#[derive(Debug)]
struct Target {
    slot: Slot,
    address: SocketAddr,
    next: Instant,
    /// When the last probe was sent.
    asked: Option<Instant>,
    cseq: u32,
    open: Option<Probe>,
}

impl Target {
    /// The suspicion is cleared.
    fn rest(&mut self, periodic: bool) {
        if !periodic {
            self.next = NEVER;
        }
    }
}

/// Shortest time between two probes of a node, whatever the suspicion: whoever forges ICMP errors must not make us send
/// a probe for each. As short as the shortest interval that the configuration may set.
const HURRY_GAP: Duration = Duration::from_millis(100);
/// For nodes that are asked on suspicion only.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Asks every node with OPTIONS whether it is alive (RFC 3261 §11).
///
/// - Setting up: [`new`](Self::new), [`set_targets`](Self::set_targets).
/// - Running: [`receive`](Self::receive), [`unreachable`](Self::unreachable), [`hurry`](Self::hurry),
///   [`clear`](Self::clear), [`tick`](Self::tick), [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Prober {
    settings: ProbeSettings,
    /// Unique to the process, so that answers to its predecessor's probes are not taken for answers to ours.
    id: u64,
    /// Our sockets for IPv4 and IPv6; probes leave by listener 0 and 1.
    local: [Option<SocketAddr>; 2],
    targets: Vec<Target>,
}

impl Prober {
    /// A prober that sends from `local` (IPv4, IPv6).
    pub fn new(settings: ProbeSettings, id: u64, local: [Option<SocketAddr>; 2]) -> Self {
        Self { settings, id, local, targets: Vec::new() }
    }

    /// Changes the times.
    pub fn set_settings(&mut self, settings: ProbeSettings) {
        self.settings = settings;
    }

    /// Sets who is asked. Those that are asked already go on; new ones are asked soon, spread over an interval.
    pub fn set_targets(&mut self, now: Instant, targets: &[(Slot, SocketAddr)]) {
        let count = targets.len() as u32;
        let mut before = core::mem::take(&mut self.targets);
        self.targets = (0..)
            .zip(targets)
            .map(|(index, &(slot, address))| {
                let first = now + self.settings.interval * index / count.max(1);
                let same = |target: &Target| (target.slot, target.address) == (slot, address);
                if let Some(at) = before.iter().position(same) {
                    let mut target = before.swap_remove(at);
                    if self.settings.periodic {
                        // It may have been asked on suspicion only until now.
                        target.next = target.next.min(first + self.settings.interval);
                    }
                    return target;
                }
                let next = if self.settings.periodic { first } else { NEVER };
                Target { slot, address, next, asked: None, cseq: 0, open: None }
            })
            .collect();
    }

    /// Asks this node now, or a tenth of a second after the last time: the traffic says that something may be wrong.
    pub fn hurry(&mut self, now: Instant, slot: Slot) {
        if let Some(target) =
            self.targets.iter_mut().find(|target| target.slot == slot && target.open.is_none())
        {
            let earliest = target.asked.map_or(now, |asked| asked + HURRY_GAP);
            target.next = target.next.min(earliest.max(now));
        }
    }

    /// The node has given another sign of life: it is under suspicion no more.
    pub fn clear(&mut self, slot: Slot) {
        let periodic = self.settings.periodic;
        if let Some(target) = self.targets.iter_mut().find(|target| target.slot == slot && !periodic) {
            target.open = None;
            target.rest(periodic);
        }
    }

    /// A datagram that came in on one of our sockets.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Outbox<Outcome>) {
        let Ok(message) = wire::scan(bytes) else { return };
        let Some(status) = message.status().filter(|&status| status >= 200) else { return };
        let id = self.id;
        let asked = self
            .targets
            .iter_mut()
            .find(|target| message.call_id() == call_id(id, target.slot, target.cseq).as_bytes());
        if let Some(target) = asked
            && target.open.take().is_some()
        {
            target.rest(self.settings.periodic);
            let (rest, reason) = (Rest::asked_by(&message), Reason::Status(status));
            out.event(Outcome { slot: target.slot, alive: rest.is_none(), reason, rest });
        }
    }

    /// The network reported (ICMP) that a probe to this address did not arrive.
    pub fn unreachable(&mut self, address: SocketAddr, out: &mut Outbox<Outcome>) {
        for target in self.targets.iter_mut().filter(|target| target.address == address) {
            if target.open.take().is_some() {
                out.event(failure(target.slot, Reason::Unreachable));
            }
        }
    }

    /// Sends what is due and ends what has waited too long.
    pub fn tick(&mut self, now: Instant, out: &mut Outbox<Outcome>) {
        for target in &mut self.targets {
            let Some(probe) = &mut target.open else {
                if target.next <= now {
                    target.next = now + self.settings.interval;
                    target.asked = Some(now);
                    target.cseq += 1;
                    let (fails, wait) = (now + self.settings.timeout, self.settings.t1);
                    target.open = Some(Probe { fails, again: now + wait, wait });
                    send(self.id, self.local, target, out);
                }
                continue;
            };
            if probe.fails <= now {
                target.open = None;
                out.event(failure(target.slot, Reason::Timeout));
            } else if probe.again <= now {
                probe.wait *= 2;
                probe.again = now + probe.wait;
                send(self.id, self.local, target, out);
            }
        }
    }

    /// When [`tick`](Self::tick) is due.
    pub fn deadline(&self) -> Option<Instant> {
        let due = |target: &Target| match &target.open {
            Some(probe) => probe.fails.min(probe.again),
            None => target.next,
        };
        self.targets.iter().map(due).min()
    }
}

/// No answer.
fn failure(slot: Slot, reason: Reason) -> Outcome {
    Outcome { slot, alive: false, reason, rest: None }
}

/// A Call-ID of its own for each probe (RFC 3261 §8.1.1.4): some servers take the same one again for the old call.
fn call_id(id: u64, slot: Slot, cseq: u32) -> String {
    format!("probe-{id:016x}-{}-{cseq}", slot.0)
}

fn send(id: u64, local: [Option<SocketAddr>; 2], target: &Target, out: &mut Outbox<Outcome>) {
    let family = usize::from(target.address.is_ipv6());
    let Some(local) = local[family] else { return };
    out.send(family as u16, target.address, |buffer| {
        let mut uri = Vec::new();
        write!(uri, "sip:{}", target.address).expect("a Vec takes every byte");
        RequestBuilder::new(buffer, "OPTIONS", &uri)
            // One branch a probe: what is sent again is the same transaction.
            .header_fmt(
                "Via",
                format_args!(
                    "SIP/2.0/UDP {local};rport;branch=z9hG4bKp{id:x}-{}-{}",
                    target.slot.0, target.cseq
                ),
            )
            .header("Max-Forwards", "70")
            .header_fmt("From", format_args!("<sip:probe@{local}>;tag={id:x}"))
            .header_fmt("To", format_args!("<sip:{}>", target.address))
            .header("Call-ID", call_id(id, target.slot, target.cseq))
            .header_fmt("CSeq", format_args!("{} OPTIONS", target.cseq))
            .header_fmt("Contact", format_args!("<sip:{local}>"))
            .header("Accept", "application/sdp")
            .finish(b"");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let [Outcome { slot, alive: seen, reason, .. }] = *out.events() else {
                panic!("{:?}", out.events())
            };
            assert_eq!((slot, seen, reason), (Slot(0), alive, Reason::Status(status)));
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
        assert_eq!(out.events(), [failure(Slot(0), Reason::Timeout)]);
    }

    #[test]
    fn without_an_interval_a_node_is_asked_on_suspicion_until_it_answers() {
        let (mut prober, mut out) = prober();
        prober.set_settings(ProbeSettings { periodic: false, ..prober.settings });
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
        assert_eq!(out.events().last(), Some(&failure(Slot(1), Reason::Timeout)));
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
