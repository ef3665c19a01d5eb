//! Requests for users of the home domain, on their way to a contact: contacts with host names, and without a
//! transaction.
mod common;

#[path = "common/home.rs"]
mod domain;

use base::{Rate, Transport};
use common::text::{Req, answer};
use common::{KEY, LIFETIME, Sent, addr};
use domain::{ALICE, BOB, Bed, call, register};
use location::Reach;
use node::{HopName, Resolved, ShardEvent, ShardInput, TokenKey, Tokens};
use route::{Forward, RateSettings, Refusal, SourceLimit};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

fn name() -> HopName {
    HopName { transport: Transport::Udp, by_dns: true, host: "phone.example".to_owned(), port: None }
}

/// The answer where the look-up failed.
fn failed() -> Resolved {
    let (transport, fresh_for) = (Transport::Udp, Duration::from_secs(1));
    Resolved { transport, addresses: Vec::new(), partial: true, fresh_for }
}

fn resolved(bed: &mut Bed, name: &HopName, addresses: &[SocketAddr]) -> Vec<Sent> {
    let addresses = addresses.iter().map(|&address| (address, 1.0)).collect();
    let (transport, fresh_for) = (Transport::Udp, Duration::from_secs(30));
    let answer = Resolved { transport, addresses, partial: false, fresh_for };
    bed.input(ShardInput::Name { name, answer: &answer })
}

/// Bob is at a host name, and one new request a minute is taken of each source.
fn bed(authenticates: bool) -> Bed {
    let mut bed = Bed::new(authenticates, Reach::Contact);
    let request = register("bob", addr(BOB), "sip:bob@phone.example");
    let request = if authenticates { bed.with_credentials("bob", addr(BOB), &request) } else { request };
    assert_eq!(bed.one(addr(BOB), &request.bytes()).status(), 200);
    let address = Some(SourceLimit { v4: 32, v6: 64, rate: Rate { per_second: 0, burst: 1 } });
    bed.set(|setup| {
        setup.settings.rates =
            RateSettings { address, refusal: Refusal::Unavailable, ..RateSettings::default() };
    });
    bed
}

fn invites(sent: &[Sent]) -> Vec<&Sent> {
    sent.iter().filter(|sent| sent.message().method() == Some(wire::Method::Invite)).collect()
}

/// It is charged once, and its credentials are no replay when the address is known.
#[test]
fn a_call_waits_for_the_address_of_its_contact() {
    for authenticates in [false, true] {
        let mut bed = bed(authenticates);
        let invite = call("c", "bob", addr(ALICE));
        let invite = if authenticates { bed.with_credentials("alice", addr(ALICE), &invite) } else { invite };
        assert_eq!(bed.receive(addr(ALICE), &invite.bytes()), []);
        assert_eq!(bed.receive(addr(ALICE), &invite.bytes()), [], "a copy adds nothing");
        assert_eq!(bed.shard.home_report().expect("a home domain").waiting, 1);
        let sent = resolved(&mut bed, &name(), &[addr("127.0.4.1:5060")]);
        let sent = invites(&sent);
        assert_eq!(sent.iter().map(|sent| sent.to).collect::<Vec<_>>(), [addr("127.0.4.1:5060")]);
        let back = bed.one(sent[0].to, &answer(&sent[0].bytes, addr(common::proxy::PROXY), 180, sent[0].to));
        assert_eq!((back.to, back.status()), (addr(ALICE), 180));
    }
}

#[test]
fn a_call_whose_contact_has_no_address_gets_480() {
    let not_there = |bed: &mut Bed, sent: Vec<Sent>| {
        assert_eq!(
            sent.iter().map(|sent| (sent.to, sent.status())).collect::<Vec<_>>(),
            [(addr(ALICE), 480)]
        );
        assert_eq!(bed.shard.home_report().expect("a home domain").waiting, 0);
    };
    let invite = call("c", "bob", addr(ALICE)).bytes();
    let mut bed = bed(false);
    bed.receive(addr(ALICE), &invite);
    assert_eq!(resolved(&mut bed, &HopName { host: "other.example".to_owned(), ..name() }, &[]), []);
    let sent = resolved(&mut bed, &name(), &[]);
    not_there(&mut bed, sent);
    // The look-up fails.
    let mut bed = self::bed(false);
    bed.receive(addr(ALICE), &invite);
    let failed = failed();
    let sent = bed.input(ShardInput::Name { name: &name(), answer: &failed });
    not_there(&mut bed, sent);
    // Nobody answers.
    let mut bed = self::bed(false);
    bed.receive(addr(ALICE), &invite);
    assert_eq!(bed.wait(Duration::from_millis(4_900)), []);
    let sent = bed.wait(Duration::from_millis(200));
    not_there(&mut bed, sent);
    // The caller hangs up.
    let mut bed = self::bed(false);
    bed.receive(addr(ALICE), &invite);
    let cancel = call("c", "bob", addr(ALICE)).same_branch("CANCEL", None).bytes();
    assert_eq!(bed.one(addr(ALICE), &cancel).status(), 200);
    let sent = resolved(&mut bed, &name(), &[addr("127.0.4.1:5060")]);
    assert_eq!(sent.iter().map(Sent::status).collect::<Vec<_>>(), [487]);
}

/// Each name is waited for once.
#[test]
fn a_contact_without_an_address_does_not_stand_for_the_others() {
    let mut bed = bed(false);
    bed.set(|setup| setup.settings.rates = RateSettings::default());
    let other = HopName { host: "desk.example".to_owned(), ..name() };
    let request = Req { cseq: 9, ..register("bob", addr("127.0.8.77:5060"), "sip:bob@desk.example") };
    assert_eq!(bed.one(addr("127.0.8.77:5060"), &request.bytes()).status(), 200);
    assert_eq!(bed.receive(addr(ALICE), &call("c", "bob", addr(ALICE)).bytes()), []);
    let mut failed = failed();
    assert_eq!(
        bed.input(ShardInput::Name { name: &name(), answer: &failed }),
        [],
        "it waits for the other one"
    );
    failed.addresses = vec![(addr("127.0.4.2:5060"), 1.0)];
    let sent = bed.input(ShardInput::Name { name: &other, answer: &failed });
    assert_eq!(invites(&sent).iter().map(|sent| sent.to).collect::<Vec<_>>(), [addr("127.0.4.2:5060")]);
}

#[test]
fn a_name_is_asked_for_once() {
    let mut bed = bed(false);
    let invite = call("c", "bob", addr(ALICE)).bytes();
    let mut asked = 0;
    for _ in 0..2 {
        bed.arrive(addr(ALICE), &invite);
        for question in core::mem::take(&mut bed.asked) {
            let date = base::UnixTime::from_secs(domain::EPOCH);
            let node::StoreQuery::Location(ask) = question.about else { panic!("nobody authenticates") };
            let reply = ask.put_to(&mut bed.store, date);
            let answer = Box::new(node::StoreAnswer::Location(reply, date));
            bed.inner.input(ShardInput::Answer { number: question.number, answer });
        }
        let is_it = |event: &&ShardEvent| matches!(event, ShardEvent::LookUp(_));
        asked += bed.inner.events.iter().filter(is_it).count();
        bed.inner.events.clear();
    }
    assert_eq!(asked, 1);
}

fn stateless() -> Bed {
    let mut bed = Bed::open();
    bed.set(|setup| {
        let home = setup.settings.home.as_ref().expect("a home domain");
        setup.settings.home =
            Some(Arc::new(node::HomeSettings { forward: Forward::Stateless, ..(**home).clone() }));
    });
    bed
}

/// RFC 3261 §16.11: Bob registers elsewhere, and the key of new tokens changes, between the copies of an INVITE. All
/// of them, its CANCEL and the ACK to its failure go to the contact that has the first copy, with its branch.
#[test]
fn what_belongs_to_a_request_goes_to_the_contact_of_its_first_copy() {
    for rekeys in [false, true] {
        let mut bed = stateless();
        let (first, second) = (addr(BOB), addr("127.0.9.3:6000"));
        assert_eq!(bed.register("bob", first, "sip:bob@127.0.9.2:6000"), 200);
        let invite = call("c", "bob", addr(ALICE));
        let at_first = bed.one(addr(ALICE), &invite.bytes());
        assert_eq!(at_first.to, first);
        let away = Req { cseq: 2, ..register("bob", first, "sip:bob@127.0.9.2:6000") }.with("Expires", "0");
        let away = away.via("SIP/2.0/UDP 127.0.9.2:6000;branch=z9hG4bK-2");
        assert_eq!(bed.one(first, &away.bytes()).status(), 200);
        let again = Req { cseq: 3, ..register("bob", second, "sip:bob@127.0.9.3:6000") };
        let again = again.via("SIP/2.0/UDP 127.0.9.3:6000;branch=z9hG4bK-3");
        assert_eq!(bed.one(second, &again.bytes()).status(), 200);
        if rekeys {
            bed.set(|setup| {
                setup.settings.tokens = Arc::new(Tokens::new(TokenKey([8; 16]), &[KEY], LIFETIME));
            });
        }
        bed.wait(Duration::from_millis(500));
        for request in
            [invite.clone(), invite.same_branch("CANCEL", None), invite.same_branch("ACK", Some("bob"))]
        {
            let sent = bed.one(addr(ALICE), &request.bytes());
            assert_eq!((sent.to, sent.branch()), (first, at_first.branch()), "{}", request.method);
            assert_eq!(sent.message().uri(), at_first.message().uri());
        }
        let next = bed.one(addr(ALICE), &call("d", "bob", addr(ALICE)).bytes());
        assert_eq!(next.to, second, "a new call");
    }
}
