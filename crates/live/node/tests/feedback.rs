//! Overload control between neighbours (RFC 7339, RFC 7415) on bytes: parameters in Via, their receivers, and their
//! effect.

use crate::common::*;
use node::{NeighbourReport, OverloadControl, ShardIdentity};
use overload::hop::{ClientLimit, ReceiverLaw};
use overload::{FeedbackLaw, LocalLaw, MessageClass, OverloadSettings, Scope};
use route::Network;
use wire::{OverloadAlgorithm, OverloadFeedback, OverloadParams};

const SERVICES: [Service; 4] = [Service::Balance, Service::BalanceTransactions, Service::HOPS, STATELESS];

/// A neighbour before this proxy.
fn upstream() -> SocketAddr {
    addr("127.0.5.1:5060")
}

/// A shard that exchanges feedback with the neighbours before and behind.
fn bed(service: Service, law: ReceiverLaw, hops: &[&str]) -> ProxyBed {
    let hops: Vec<_> = hops.iter().map(|hop| (*hop, 0)).collect();
    let mut bed = ProxyBed::new(&[PROXY], &hops).with_mode(service);
    let networks = ["127.0.5.0/24", "127.0.1.0/24"].map(|text| text.parse::<Network>().expect("a network"));
    bed.set(|setup| {
        let before = OverloadControl::default().laws;
        let feedback = FeedbackLaw::Hop(law);
        let local = LocalLaw::None;
        let laws = OverloadSettings { local, feedback, scope: Scope::AllRequests, ..before };
        setup.settings.overload = OverloadControl { laws, neighbours: networks.into() };
    });
    bed
}

fn invite(call: &str, from: SocketAddr, params: &str) -> Req {
    let request = Req::new("INVITE", call, from);
    let via = format!("{}{params}", request.via);
    request.via(&via)
}

fn params(sent: &Sent) -> OverloadParams {
    let message = sent.message();
    OverloadParams::of(message.top_via(), message.bytes())
}

/// Returns the response of a next hop with these parameters in this proxy's Via.
fn response_with_feedback(at_hop: &Sent, status: u16, feedback: &str) -> Vec<u8> {
    let bytes = answer(&at_hop.bytes, addr(PROXY), status, at_hop.to);
    let text = String::from_utf8(bytes).expect("text");
    text.replacen(";oc;oc-algo=\"rate,loss\"", feedback, 1).into_bytes()
}

/// A next hop is believed once it has answered the offer in eight responses in a row.
fn answer_offer(bed: &mut ProxyBed, at_hop: &Sent) {
    for at in 1..=8 {
        let feedback = format!(";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=0.{at}");
        bed.receive(0, at_hop.to, &response_with_feedback(at_hop, 180, &feedback));
    }
}

fn send_feedback(bed: &mut ProxyBed, at_hop: &Sent, feedback: &str) {
    answer_offer(bed, at_hop);
    bed.receive(0, at_hop.to, &response_with_feedback(at_hop, 200, feedback));
}

/// 100 ms of full load, with a request of the neighbour, in which every request waits.
fn busy_period(bed: &mut ProxyBed, number: u64, params: &str) {
    for _ in 0..8 {
        let waited = Duration::from_millis(60);
        bed.input(ShardInput::Waited { waited, queue: 1, class: MessageClass::NewInvite });
    }
    bed.receive(0, upstream(), &invite(&format!("busy{number}"), upstream(), params).bytes());
    bed.wait(Duration::from_millis(100));
    bed.input(ShardInput::Busy(Duration::from_millis(100 * (number + 1))));
}

fn neighbour(bed: &ProxyBed, at: SocketAddr) -> NeighbourReport {
    let reports = bed.shard.neighbour_reports(bed.now);
    *reports.iter().find(|report| report.address == at).expect("the neighbour is known")
}

fn text(sent: &Sent) -> String {
    String::from_utf8_lossy(&sent.bytes).into_owned()
}

const OFFER: &str = ";oc;oc-algo=\"loss,rate\"";

#[test]
fn feedback_is_offered_only_to_next_hops_that_are_neighbours() {
    for service in SERVICES {
        let mut bed = bed(service, ReceiverLaw::Rate, &HOPS[..1]);
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        assert!(text(&at_hop).contains(";oc;oc-algo=\"rate,loss\"\r\n"), "{service:?}");
        assert_eq!(text(&at_hop).matches(";oc;").count(), 1, "{service:?}");
        let mut without = ProxyBed::plain().with_mode(service);
        let at_hop = without.invite(&Req::new("INVITE", "call", client()));
        assert!(!text(&at_hop).contains(";oc"), "{service:?}");
        let mut strange = self::bed(service, ReceiverLaw::Rate, &["127.0.7.1:5060"]);
        let at_hop = strange.invite(&Req::new("INVITE", "call", client()));
        assert!(!text(&at_hop).contains(";oc"), "{service:?}: the next hop is no neighbour");
    }
}

#[test]
fn every_response_to_a_neighbour_carries_feedback() {
    for service in SERVICES {
        let mut bed = bed(service, ReceiverLaw::Rate, &HOPS[..1]);
        let request = invite("call", upstream(), OFFER);
        let sent = bed.receive(0, upstream(), &request.bytes());
        let at_hop =
            sent.iter().find(|sent| sent.to == addr(HOPS[0])).expect("the request is forwarded").clone();
        let back = respond(&mut bed, &at_hop, 180);
        let trying = sent.iter().filter(|sent| sent.to == upstream());
        for response in trying.chain(&back) {
            let feedback = params(response).feedback().expect("the response carries feedback");
            assert_eq!(
                (feedback.algorithm, feedback.value, feedback.validity),
                (OverloadAlgorithm::Rate, 0, 0)
            );
            assert_eq!(text(response).matches(";oc=").count(), 1, "{service:?}: the offer is replaced");
        }
        (0..20).for_each(|number| busy_period(&mut bed, number, OFFER));
        let back = respond(&mut bed, &at_hop, 200);
        let feedback = params(&back[0]).feedback().expect("the response carries feedback");
        assert!((5..=15).contains(&feedback.value), "{service:?}: ten a second are served: {feedback:?}");
        assert_eq!((feedback.algorithm, feedback.validity), (OverloadAlgorithm::Rate, 2_000));
        // A response of this proxy, since 0 hops are left.
        let mut last = invite("last", upstream(), OFFER);
        last.max_forwards = Some(0);
        let refusal = bed.one(upstream(), &last.bytes());
        assert_eq!(refusal.status(), 483);
        assert_eq!(params(&refusal).feedback(), Some(feedback), "the same value has the same number");
        assert!(neighbour(&bed, upstream()).received >= 21);
    }
}

#[test]
fn feedback_goes_only_to_neighbours_that_offer() {
    for service in SERVICES {
        let mut bed = bed(service, ReceiverLaw::Rate, &HOPS[..1]);
        for (from, offer) in [(client(), OFFER), (upstream(), "")] {
            let request = invite(&format!("{from}{}", offer.len()), from, offer);
            let sent = bed.receive(0, from, &request.bytes());
            let at_hop =
                sent.iter().find(|sent| sent.to == addr(HOPS[0])).expect("the request is forwarded").clone();
            // Parameters that an element behind has written into the Via of the previous element are not passed on.
            let bytes = String::from_utf8(answer(&at_hop.bytes, addr(PROXY), 180, at_hop.to)).expect("text");
            let forged =
                bytes.replacen(offer, ";oc=100;oc-validity=9000;oc-seq=1.1", usize::from(!offer.is_empty()));
            let back = bed.receive(0, at_hop.to, forged.as_bytes());
            for response in sent.iter().filter(|sent| sent.to == from).chain(&back) {
                assert_eq!(params(response).feedback(), None, "{service:?}: {}", text(response));
            }
        }
    }
}

#[test]
fn a_neighbour_that_supports_only_fractions_gets_one() {
    let mut bed = bed(STATELESS, ReceiverLaw::Rate, &HOPS[..1]);
    let offer = ";oc;oc-algo=\"loss\"";
    let sent = bed.receive(0, upstream(), &invite("call", upstream(), offer).bytes());
    let at_hop = sent.iter().find(|sent| sent.to == addr(HOPS[0])).expect("the request is forwarded").clone();
    let back = respond(&mut bed, &at_hop, 200);
    let feedback = params(&back[0]).feedback().expect("the response carries feedback");
    assert_eq!((feedback.algorithm, feedback.value), (OverloadAlgorithm::Loss, 0));
}

#[test]
fn a_neighbours_limit_is_followed_until_it_expires() {
    for service in SERVICES {
        let mut bed = bed(service, ReceiverLaw::Rate, &HOPS[..1]);
        let at_hop = bed.invite(&Req::new("INVITE", "first", client()));
        send_feedback(&mut bed, &at_hop, ";oc=100;oc-algo=\"loss\";oc-validity=1000;oc-seq=5.1");
        assert_eq!(neighbour(&bed, at_hop.to).limit, Some(ClientLimit::Loss(0.0)));
        let refusal = bed.one(client(), &Req::new("INVITE", "second", client()).bytes());
        assert_eq!((refusal.to, refusal.status()), (client(), 503), "{service:?}");
        assert!(refusal.message().header("Retry-After").is_none());
        // The sequence number says which value is later.
        send_feedback(&mut bed, &at_hop, ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=5.0");
        assert_eq!(
            neighbour(&bed, at_hop.to).limit,
            Some(ClientLimit::Loss(0.0)),
            "{service:?}: an older sequence number is ignored"
        );
        bed.wait(Duration::from_millis(1_001));
        assert_eq!(neighbour(&bed, at_hop.to).limit, None);
        bed.invite(&Req::new("INVITE", "third", client()));
        send_feedback(&mut bed, &at_hop, ";oc=0;oc-algo=\"rate\";oc-validity=1000;oc-seq=5.2");
        assert_eq!(bed.one(client(), &Req::new("INVITE", "fourth", client()).bytes()).status(), 503);
        send_feedback(&mut bed, &at_hop, ";oc=0;oc-algo=\"rate\";oc-validity=0;oc-seq=5.3");
        bed.invite(&Req::new("INVITE", "fifth", client()));
        let report = neighbour(&bed, at_hop.to);
        assert_eq!((report.offered, report.refused, report.answers), (5, 2, true), "{service:?}");
        bed.shard.audit().expect("leases and tickets agree");
    }
}

#[test]
fn requests_that_finish_calls_ignore_the_limit() {
    for service in SERVICES {
        let mut bed = bed(service, ReceiverLaw::Rate, &HOPS[..1]);
        let ringing = Req::new("INVITE", "ringing", client());
        bed.invite(&ringing);
        let at_hop = bed.invite(&Req::new("INVITE", "call", client()));
        answer_offer(&mut bed, &at_hop);
        let ok =
            bed.one(at_hop.to, &response_with_feedback(&at_hop, 200, ";oc=100;oc-validity=60000;oc-seq=1.1"));
        let call = Dialog::of(&at_hop, &ok);
        for request in [
            ringing.clone(),
            call.by_caller("ACK", 1),
            call.by_caller("BYE", 2),
            ringing.same_branch("CANCEL", None),
        ] {
            let sent = bed.receive(0, client(), &request.bytes());
            let is_refused = sent.iter().any(|sent| sent.to == client() && sent.status() == 503);
            assert!(!is_refused, "{service:?}: {} {sent:#?}", request.method);
        }
        assert_eq!(neighbour(&bed, at_hop.to).refused, 0);
    }
}

#[test]
fn requests_refused_by_a_limit_go_to_another_member() {
    for service in SERVICES {
        let mut bed = bed(service, ReceiverLaw::Rate, &HOPS);
        let calls: Vec<_> = (0..20).map(|at| format!("a{at}")).collect();
        let first = bed.invite(&Req::new("INVITE", &calls[0], client()));
        send_feedback(&mut bed, &first, ";oc=100;oc-algo=\"loss\";oc-validity=60000;oc-seq=1.1");
        for call in &calls[1..] {
            let other = bed.invite(&Req::new("INVITE", call, client()));
            assert_ne!(other.to, first.to, "{service:?}");
            let again = Req::new("INVITE", call, client());
            if service == Service::Balance || service == STATELESS {
                assert_eq!(
                    bed.one(client(), &again.bytes()).to,
                    other.to,
                    "{service:?}: retransmissions follow"
                );
            }
        }
        let other = bed.invite(&Req::new("INVITE", "b", client()));
        send_feedback(&mut bed, &other, ";oc=100;oc-algo=\"loss\";oc-validity=60000;oc-seq=1.1");
        assert_eq!(bed.one(client(), &Req::new("INVITE", "c", client()).bytes()).status(), 503);
        bed.shard.audit().expect("leases and tickets agree");
    }
}

#[test]
fn a_queue_sends_nothing_to_a_member_at_its_limit() {
    let mut bed = bed(Service::BalanceTransactions, ReceiverLaw::Rate, &HOPS);
    bed.set_queues([Some(queue(100.0))]);
    let first = bed.invite(&Req::new("INVITE", "first", client()));
    send_feedback(&mut bed, &first, ";oc=100;oc-algo=\"loss\";oc-validity=60000;oc-seq=1.1");
    let mut other = None;
    for call in 0..20 {
        bed.wait(Duration::from_millis(50));
        let at_hop = bed.invite(&Req::new("INVITE", &format!("x{call}"), client()));
        assert_ne!(at_hop.to, first.to);
        respond(&mut bed, &at_hop, 486);
        other = Some(at_hop);
    }
    send_feedback(
        &mut bed,
        &other.expect("some calls"),
        ";oc=100;oc-algo=\"loss\";oc-validity=60000;oc-seq=1.1",
    );
    bed.wait(Duration::from_millis(50));
    let refusal = bed.receive(0, client(), &Req::new("INVITE", "z", client()).bytes());
    assert_eq!(refusal.last().map(Sent::status), Some(503));
    bed.shard.audit().expect("leases and tickets agree");
}

#[test]
fn feedback_counts_only_from_the_neighbour_itself() {
    let mut bed = bed(STATELESS, ReceiverLaw::Rate, &["127.0.7.1:5060", HOPS[0]]);
    let feedback = ";oc=100;oc-algo=\"loss\";oc-validity=60000;oc-seq=1.1";
    let (mut at_stranger, mut at_neighbour) = (None, None);
    for at in 0..40 {
        let at_hop = bed.invite(&Req::new("INVITE", &format!("x{at}"), client()));
        if at_hop.to == addr(HOPS[0]) { at_neighbour = Some(at_hop) } else { at_stranger = Some(at_hop) }
    }
    let (at_stranger, at_neighbour) = (at_stranger.expect("some"), at_neighbour.expect("some"));
    let bytes =
        String::from_utf8(answer(&at_stranger.bytes, addr(PROXY), 200, at_stranger.to)).expect("text");
    let branch_end = bytes.find("\r\nVia").or_else(|| bytes.find(",SIP")).expect("two Vias");
    let forged = format!("{}{feedback}{}", &bytes[..branch_end], &bytes[branch_end..]);
    bed.receive(0, at_stranger.to, forged.as_bytes());
    assert!(bed.shard.neighbour_reports(bed.now).iter().all(|report| report.limit.is_none()));
    // Without a valid branch even a neighbour is not believed.
    let stranger = response_with_feedback(&at_neighbour, 200, feedback);
    let forged = String::from_utf8(stranger).expect("text").replacen("branch=z9hG4bK", "branch=z9hG4bKz", 1);
    bed.receive(0, at_neighbour.to, forged.as_bytes());
    assert_eq!(neighbour(&bed, at_neighbour.to).limit, None);
    send_feedback(&mut bed, &at_neighbour, feedback);
    assert_eq!(neighbour(&bed, at_neighbour.to).limit, Some(ClientLimit::Loss(0.0)));
}

/// This proxy's Via passes through a neighbour without overload control. A callee behind it may write anything there.
#[test]
fn a_callee_cannot_forge_the_feedback_of_a_neighbour() {
    for service in SERVICES {
        let mut bed = bed(service, ReceiverLaw::Rate, &HOPS[..1]);
        for at in 0..20 {
            let at_hop = bed.invite(&Req::new("INVITE", &format!("x{at}"), client()));
            let feedback = format!(";oc=0;oc-algo=\"rate\";oc-validity=60000;oc-seq=1.{at}");
            for ringing in 0..4 {
                let status = 180 + ringing;
                bed.receive(0, at_hop.to, &response_with_feedback(&at_hop, status, &feedback));
            }
            // The neighbour's own responses to others leave the offer unchanged.
            let other = bed.invite(&Req::new("INVITE", &format!("y{at}"), client()));
            respond(&mut bed, &other, 100);
            assert_eq!(neighbour(&bed, at_hop.to).limit, None, "{service:?} {at}");
        }
    }
}

#[test]
fn a_neighbour_that_ignores_the_offer_is_reported_once() {
    let mut bed = bed(STATELESS, ReceiverLaw::RateAsLoss, &HOPS[..1]);
    for at in 0..250 {
        let at_hop = bed.invite(&Req::new("INVITE", &format!("x{at}"), client()));
        respond(&mut bed, &at_hop, 200);
    }
    let deaf = bed.events.iter().filter(|event| matches!(event, ShardEvent::NoFeedback(_))).count();
    assert_eq!((deaf, neighbour(&bed, addr(HOPS[0])).ignores_offer()), (1, true));
}

#[test]
fn a_silent_member_gets_one_request_at_a_time() {
    let mut bed = bed(Service::BalanceTransactions, ReceiverLaw::Rate, &HOPS[..1]);
    for at in 0..3 {
        bed.invite(&Req::new("INVITE", &format!("x{at}"), client()));
    }
    bed.wait(Duration::from_secs(40));
    assert!(neighbour(&bed, addr(HOPS[0])).is_silent, "RFC 7339 section 5.9");
}

#[test]
fn feedback_of_all_shards_adds_up_to_the_capacity() {
    let feedback = |shards| {
        let setup = bed(STATELESS, ReceiverLaw::Rate, &HOPS[..1]).setup.clone();
        let identity = ShardIdentity { shards, ..ShardIdentity::only([9; 16], 77) };
        let mut bed = ProxyBed { inner: testbed::Bed::with_identity(identity, setup), mode: STATELESS };
        (0..20).for_each(|number| busy_period(&mut bed, number, OFFER));
        let mut last = invite("last", upstream(), OFFER);
        last.max_forwards = Some(0);
        let refusal = bed.one(upstream(), &last.bytes());
        params(&refusal).feedback().map(|feedback: OverloadFeedback| feedback.value)
    };
    let (one, four) = (feedback(1).expect("feedback"), feedback(4).expect("feedback"));
    assert!(four.abs_diff(4 * one) <= 4, "{one} {four}");
}

/// The rate law measures the capacity by the requests that are served.
#[test]
fn the_ack_of_a_refusal_is_not_counted_as_work() {
    let feedback = |acknowledges: bool| {
        let mut bed = bed(STATELESS, ReceiverLaw::Rate, &HOPS[..1]);
        for number in 0..20 {
            busy_period(&mut bed, number, OFFER);
            for at in 0..10 {
                let mut none = invite(&format!("none{number}.{at}"), upstream(), OFFER);
                none.max_forwards = Some(0);
                let refusal = bed.one(upstream(), &none.bytes());
                let ack = none.same_branch("ACK", testkit::tag(&refusal.bytes, "To").as_deref());
                if acknowledges {
                    assert!(bed.receive(0, upstream(), &ack.bytes()).is_empty());
                }
            }
        }
        let mut last = invite("last", upstream(), OFFER);
        last.max_forwards = Some(0);
        params(&bed.one(upstream(), &last.bytes())).feedback().map(|feedback| feedback.value)
    };
    assert_eq!(feedback(true), feedback(false));
}

#[test]
fn a_shard_follows_its_part_of_a_rate() {
    let sent = |shards| {
        let setup = bed(STATELESS, ReceiverLaw::Rate, &HOPS[..1]).setup.clone();
        let identity = ShardIdentity { shards, ..ShardIdentity::only([9; 16], 77) };
        let mut bed = ProxyBed { inner: testbed::Bed::with_identity(identity, setup), mode: STATELESS };
        let at_hop = bed.invite(&Req::new("INVITE", "first", client()));
        send_feedback(&mut bed, &at_hop, ";oc=100;oc-algo=\"rate\";oc-validity=60000;oc-seq=1.1");
        assert_eq!(neighbour(&bed, at_hop.to).limit, Some(ClientLimit::Rate(100.0)), "the announced limit");
        let calls = (0..3_000).filter(|at| {
            bed.wait(Duration::from_millis(1));
            bed.one(client(), &Req::new("INVITE", &format!("x{at}"), client()).bytes()).to == at_hop.to
        });
        calls.count()
    };
    let (one, four) = (sent(1), sent(4));
    assert!((300..=310).contains(&one) && (75..=85).contains(&four), "{one} {four}");
}
