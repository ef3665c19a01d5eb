//! Each way of pairing on SIP text: its measurements, and messages that must not mislead it.

use super::*;
use base::Transport;
use proptest::prelude::*;
use std::net::SocketAddr;
use testkit::{TestRequest, TestResponse};

const CALLER: &str = "10.0.0.2:5060";
const SERVER: &str = "10.0.0.1:5060";
const CALLEE: &str = "10.0.0.3:5060";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn invite(call_id: &str) -> TestRequest {
    TestRequest::new("INVITE", call_id, address(CALLER))
}

/// The same request as a proxy forwards it, with this branch. The proxy adds parameters to the Via of its client.
fn passed_on(request: &TestRequest, branch: &str) -> TestRequest {
    let via = request.via.replace(";rport", ";rport=5060;received=10.0.0.2");
    request.clone().via(&format!("SIP/2.0/UDP {SERVER};branch=z9hG4bK{branch},{via}"))
}

struct Bed {
    pairs: Pairs,
    servers: Servers,
    counts: Counts,
    now: Instant,
    latencies: Vec<u64>,
}

impl Bed {
    fn new(pairing: &str) -> Self {
        let pairing: Pairing = pairing.parse().expect("a way of pairing");
        let pairs = Pairs::new(pairing.clone(), pairing.timeout(), 1000, [1, 2]);
        let servers = Servers::new(vec![address(SERVER)]);
        Self {
            pairs,
            servers,
            counts: Counts::default(),
            now: Instant::from_millis(5),
            latencies: Vec::new(),
        }
    }

    /// A message passes `ms` after the one before.
    fn pass(&mut self, ms: u64, from: &str, to: &str, bytes: &[u8]) -> &mut Self {
        self.now += Duration::from_millis(ms);
        let [from, to] = [from, to].map(address);
        let captured = Captured { at: self.now, from, to, transport: Transport::Udp, bytes };
        let message = wire::scan(bytes).expect("a message");
        let (wanted, before) =
            (self.pairs.wants(&captured, &self.servers), (self.counts, self.latencies.len()));
        let latencies = &mut self.latencies;
        self.pairs.message(&captured, &message, &self.servers, &mut self.counts, |latency| {
            latencies.push(latency.as_millis() as u64);
        });
        let did_nothing = before == (self.counts, self.latencies.len());
        assert!(
            wanted || did_nothing,
            "the filter would have skipped the message: {:?}",
            String::from_utf8_lossy(bytes)
        );
        self
    }

    fn comes(&mut self, ms: u64, request: &TestRequest) -> &mut Self {
        self.pass(ms, CALLER, SERVER, &request.bytes())
    }

    fn leaves(&mut self, ms: u64, request: &TestRequest) -> &mut Self {
        self.pass(ms, SERVER, CALLEE, &request.bytes())
    }

    fn answers(&mut self, ms: u64, status: u16, request: &TestRequest) -> &mut Self {
        let response = TestResponse::new(status, address(SERVER)).bytes(&request.bytes());
        self.pass(ms, SERVER, CALLER, &response)
    }

    /// Counts of requests, refused, unanswered, repeated and unmatched ones.
    fn counted(&self) -> [u64; 5] {
        let Counts { requests, refused, unanswered, repeated, unmatched, .. } = self.counts;
        [requests, refused, unanswered, repeated, unmatched]
    }
}

#[test]
fn pairings_are_shown_as_they_are_parsed() {
    for text in ["invite", "provisional", "final", "final:OPTIONS", "header:X-Call-ID", "time"] {
        assert_eq!(text.parse::<Pairing>().map(|pairing| pairing.to_string()).as_deref(), Ok(text));
    }
    for wrong in ["", "Invite", "final:", "final:ACK", "header", "header:", "header:a b", "time:1"] {
        assert!(wrong.parse::<Pairing>().is_err(), "{wrong}");
    }
}

#[test]
fn a_proxys_invite_is_paired_by_the_via_below_its_own() {
    let mut bed = Bed::new("invite");
    let one = invite("one");
    bed.comes(0, &one).answers(1, 100, &one).leaves(2, &passed_on(&one, "a")).answers(9, 200, &one);
    assert_eq!((bed.latencies, bed.counts.requests, bed.pairs.waiting()), (vec![3], 1, 0));
}

/// Two processes of a server make copies, and the copy of a final response comes before that of its INVITE.
#[test]
fn copies_in_another_order_are_no_refusals() {
    let (one, two) = (invite("one"), invite("two"));
    let mut bed = Bed::new("invite");
    bed.pairs.expect_copies();
    bed.comes(0, &one).answers(2, 200, &one).leaves(1, &passed_on(&one, "a"));
    assert_eq!((bed.counted(), &bed.latencies[..], bed.pairs.waiting()), ([1, 0, 0, 0, 0], &[3][..], 0));
    // A refusal is counted a little later.
    bed.comes(0, &two).answers(2, 407, &two).answers(50, 407, &two);
    assert_eq!((bed.counted()[1], bed.pairs.waiting()), (0, 1));
    bed.pairs.expire(bed.now + Duration::from_millis(50), &mut bed.counts);
    assert_eq!((bed.counted(), bed.latencies.len(), bed.pairs.waiting()), ([2, 1, 0, 0, 0], 1, 0));
    // The order of packets is exact.
    let mut bed = Bed::new("invite");
    bed.comes(0, &one).answers(2, 200, &one).leaves(1, &passed_on(&one, "a"));
    assert_eq!((bed.counted(), bed.latencies.len()), ([1, 1, 0, 1, 0], 0));
}

#[test]
fn doubts_are_bounded() {
    let mut bed = Bed::new("invite");
    bed.pairs.expect_copies();
    bed.pairs.table = Table::new(Duration::from_secs(32), 100_000);
    for number in 0..IN_DOUBT_MAX + 10 {
        let request = invite(&number.to_string());
        bed.comes(0, &request).answers(0, 407, &request);
    }
    assert!(bed.pairs.in_doubt.len() <= IN_DOUBT_MAX + 1 && bed.counts.refused >= 9, "{:?}", bed.counts);
}

#[test]
fn retransmissions_and_forks_count_once() {
    let mut bed = Bed::new("invite");
    let one = invite("one");
    bed.comes(0, &one).comes(500, &one);
    bed.leaves(2, &passed_on(&one, "a")).leaves(1, &passed_on(&one, "b")).leaves(500, &passed_on(&one, "a"));
    bed.comes(0, &one);
    assert_eq!((bed.counted(), bed.latencies), ([1, 0, 0, 4, 0], vec![502]));
}

#[test]
fn a_spiral_is_two_requests() {
    let mut bed = Bed::new("invite");
    let first = invite("one");
    let second = passed_on(&first, "a")
        .via(&format!("SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKother,{}", passed_on(&first, "a").via));
    bed.comes(0, &first).leaves(3, &passed_on(&first, "a"));
    bed.pass(10, "10.0.0.9:5060", SERVER, &second.bytes());
    let out = second.clone().via(&format!("SIP/2.0/UDP {SERVER};branch=z9hG4bKc,{}", second.via));
    bed.leaves(5, &out);
    assert_eq!((bed.counted(), bed.latencies), ([2, 0, 0, 0, 0], vec![3, 5]));
    // The same if the server sends to itself.
    let mut bed = Bed::new("invite");
    let out = passed_on(&first, "a");
    let again = out.clone().via(&format!("SIP/2.0/UDP {SERVER};branch=z9hG4bKd,{}", out.via));
    bed.comes(0, &first).pass(2, SERVER, SERVER, &out.bytes()).leaves(4, &again);
    assert_eq!((bed.counted(), bed.latencies), ([2, 0, 0, 0, 0], vec![2, 4]));
}

#[test]
fn a_re_invite_is_paired_with_itself() {
    let mut bed = Bed::new("invite");
    let first = invite("one");
    let again = TestRequest {
        cseq: 2,
        to_tag: Some("bob".to_owned()),
        via: first.via.replace("-1;", "-2;"),
        ..invite("one")
    };
    bed.comes(0, &first).leaves(1, &passed_on(&first, "a"));
    bed.comes(100, &again).leaves(2, &passed_on(&again, "b"));
    // A request of the callee is not paired with one of the caller.
    let other = TestRequest { cseq: 1, ..TestRequest::new("INVITE", "one", address(CALLEE)) };
    bed.pass(50, CALLEE, SERVER, &other.bytes()).pass(4, SERVER, CALLER, &passed_on(&other, "c").bytes());
    assert_eq!((bed.counted(), bed.latencies), ([3, 0, 0, 0, 0], vec![1, 2, 4]));
}

#[test]
fn requests_answered_or_started_by_the_server_have_no_latency() {
    let mut bed = Bed::new("invite");
    let (challenged, silent) = (invite("one"), invite("two"));
    bed.comes(0, &challenged).answers(1, 407, &challenged).answers(1, 407, &challenged);
    bed.leaves(0, &invite("three"));
    bed.leaves(0, &passed_on(&invite("four"), "x"));
    bed.comes(0, &silent);
    let end = bed.now + Pairing::Invite.timeout();
    bed.pairs.expire(end, &mut bed.counts);
    assert_eq!((bed.counted(), bed.latencies), ([2, 1, 1, 0, 2], vec![]));
}

#[test]
fn other_methods_and_other_hosts_do_not_matter_to_invites() {
    let mut bed = Bed::new("invite");
    for method in ["BYE", "ACK", "CANCEL", "OPTIONS"] {
        let request = TestRequest::new(method, "one", address(CALLER));
        bed.comes(0, &request).leaves(1, &passed_on(&request, "a")).answers(1, 200, &request);
    }
    bed.pass(0, CALLER, CALLEE, &invite("two").bytes());
    assert_eq!((bed.counts, bed.latencies), (Counts::default(), vec![]));
}

#[test]
fn the_first_response_of_any_status_counts() {
    let mut bed = Bed::new("provisional");
    let (one, two) = (invite("one"), invite("two"));
    bed.comes(0, &one).comes(1, &one).answers(1, 100, &one).answers(5, 180, &one).answers(5, 200, &one);
    bed.comes(0, &two).answers(7, 404, &two);
    assert_eq!((bed.counted(), bed.latencies), ([2, 0, 0, 3, 0], vec![2, 7]));
}

#[test]
fn final_answers_to_requests_of_all_methods_or_one() {
    let play = |pairing: &str| {
        let mut bed = Bed::new(pairing);
        let request = |method| TestRequest::new(method, "one", address(CALLER));
        bed.comes(0, &request("INVITE")).answers(1, 100, &request("INVITE"));
        // The same branch, another transaction.
        bed.comes(1, &request("CANCEL")).answers(1, 200, &request("CANCEL"));
        bed.answers(1, 487, &request("INVITE")).comes(0, &request("ACK"));
        bed.comes(0, &request("OPTIONS")).answers(7, 200, &request("OPTIONS"));
        (bed.latencies, bed.counts.requests)
    };
    assert_eq!(play("final"), (vec![1, 4, 7], 3));
    assert_eq!(play("final:OPTIONS"), (vec![7], 1));
}

/// The call of a B2BUA to the callee: it shares only this field with the caller's.
fn own_call(call_id: &str, value: &str) -> TestRequest {
    TestRequest { cseq: 77, ..TestRequest::new("INVITE", call_id, address(SERVER)) }.with("X-Id", value)
}

#[test]
fn a_b2bua_is_paired_by_a_header_field() {
    let mut bed = Bed::new("header:x-id");
    bed.comes(0, &invite("a").with("X-Id", "one")).comes(1, &invite("b").with("X-ID", " two "));
    bed.comes(0, &invite("c"));
    bed.leaves(2, &own_call("x", "two")).leaves(3, &own_call("y", "one")).leaves(3, &own_call("y", "one"));
    bed.comes(0, &TestRequest { to_tag: Some("t".to_owned()), ..invite("a").with("X-Id", "one") });
    bed.leaves(1, &own_call("z", "three"));
    assert_eq!((bed.counted(), bed.latencies), ([2, 0, 0, 1, 1], vec![2, 6]));
    assert_eq!(bed.counts.without_key, 1);
}

#[test]
fn a_proxy_that_hides_vias_is_paired_by_call_id() {
    let mut bed = Bed::new("header:Call-ID");
    let out = TestRequest::new("INVITE", "one", address(SERVER));
    bed.comes(0, &invite("one")).leaves(2, &out);
    bed.comes(0, &invite("two")).answers(1, 486, &invite("two"));
    assert_eq!((bed.counted(), bed.latencies), ([2, 1, 0, 0, 0], vec![2]));
}

#[test]
fn pairing_by_time_is_first_come_first_served() {
    let mut bed = Bed::new("time");
    bed.comes(0, &invite("a")).comes(1, &invite("b")).comes(0, &invite("b")).comes(1, &invite("c"));
    // The second request is refused, so the third one is next.
    bed.leaves(1, &own_call("x", "")).answers(0, 403, &invite("b"));
    // A further branch, and a retransmission.
    bed.leaves(0, &own_call("x", "").via("SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKother"))
        .leaves(0, &own_call("x", ""));
    bed.leaves(2, &own_call("y", ""));
    bed.leaves(0, &own_call("z", ""));
    assert_eq!((bed.counted(), bed.latencies), ([3, 1, 0, 3, 1], vec![3, 3]));
}

#[test]
fn pairing_by_time_recovers_from_a_lost_request() {
    let mut bed = Bed::new("time");
    bed.comes(0, &invite("lost"));
    for number in 0..300 {
        bed.comes(8, &invite(&format!("in-{number}"))).leaves(2, &own_call(&format!("out-{number}"), ""));
        let now = bed.now;
        bed.pairs.expire(now, &mut bed.counts);
    }
    assert_eq!(bed.counted(), [301, 0, 1, 0, 0]);
    assert_eq!(bed.latencies[..90], [vec![10], vec![12; 89]].concat()[..]);
    assert_eq!(bed.latencies[250..], [2; 50], "the loss is found within two time-outs");
}

#[test]
fn requests_beyond_the_table_are_forgotten_and_counted() {
    let mut bed = Bed::new("invite");
    for number in 0..1005 {
        bed.comes(0, &invite(&number.to_string()));
    }
    assert_eq!((bed.counts.evicted, bed.pairs.waiting()), (5, 1000));
}

/// A call of the random test, with times in milliseconds.
#[derive(Clone, Debug)]
struct Call {
    comes: u64,
    repeats: Vec<u64>,
    /// Each branch, with the time at which it leaves after the arrival of the call.
    branches: Vec<u64>,
    /// Whether the first incoming message is not captured.
    missed: bool,
}

fn call() -> impl Strategy<Value = Call> {
    let times = |most| prop::collection::vec(1..200_u64, 0..most);
    (0..1_000_u64, times(3), times(4), prop::bool::weighted(0.1))
        .prop_map(|(comes, repeats, branches, missed)| Call { comes, repeats, branches, missed })
}

proptest! {
    /// Overlapping calls, with retransmissions, forks, and messages that were not captured.
    #[test]
    fn each_call_has_the_time_from_its_first_copy_in_to_its_first_out(calls in prop::collection::vec(call(), 0..40)) {
        let mut messages = Vec::new();
        let mut expected = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            let request = invite(&format!("call-{number}"));
            let copies = (!call.missed).then_some(0).into_iter().chain(call.repeats.iter().copied());
            let came: Vec<_> = copies.map(|after| call.comes + after).collect();
            messages.extend(came.iter().map(|at| (*at, 0, CALLER, SERVER, request.bytes())));
            let left = call.branches.iter().map(|after| call.comes + after);
            for (branch, at) in left.clone().enumerate() {
                let request = passed_on(&request, &format!("{number}-{branch}"));
                messages.push((at, 1, SERVER, CALLEE, request.bytes()));
            }
            let first = came.iter().min();
            // A branch before any captured copy is not paired.
            if let Some(first) = first && let Some(out) = left.filter(|at| at >= first).min() {
                expected.push(out - first);
            }
        }
        messages.sort();
        let mut bed = Bed::new("invite");
        let start = bed.now;
        for (at, _, from, to, bytes) in messages {
            bed.now = start + Duration::from_millis(at);
            bed.pass(0, from, to, &bytes);
        }
        expected.sort_unstable();
        bed.latencies.sort_unstable();
        prop_assert_eq!(bed.latencies, expected);
    }
}
