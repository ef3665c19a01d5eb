//! Requests for users of the home domain, on their way to a contact: contacts with host names, and without a
//! transaction.

use crate::common::*;
use crate::domain::{ALICE, BOB, Bed, call, register};

fn name() -> HopName {
    HopName { transport: Transport::Udp, by_dns: true, host: "phone.example".to_owned(), port: None }
}

/// The answer of a failed look-up.
fn failed() -> Resolved {
    let (transport, fresh_for) = (Transport::Udp, Duration::from_secs(1));
    Resolved { transport, addresses: Vec::new(), partial: true, fresh_for }
}

fn resolved(bed: &mut Bed, name: &HopName, addresses: &[SocketAddr]) -> Vec<Sent> {
    bed.input(ShardInput::Name { name, answer: &found(Transport::Udp, addresses) })
}

/// Bob is at a host name, and each source may send one new request per minute.
fn bed(authenticates: bool) -> Bed {
    let mut bed = Bed::new(authenticates, Reach::Contact);
    let request = register("bob", addr(BOB), "sip:bob@phone.example");
    let request = if authenticates { bed.with_credentials("bob", addr(BOB), &request) } else { request };
    assert_eq!(bed.one(addr(BOB), &request.bytes()).status(), 200);
    bed.set(|setup| setup.settings.rates = rate(0, 1));
    bed
}

/// A waiting call is charged once, and its credentials are no replay afterwards.
#[test]
fn a_call_waits_for_the_address_of_its_contact() {
    for authenticates in [false, true] {
        let mut bed = bed(authenticates);
        let invite = call("c", "bob", addr(ALICE));
        let invite = if authenticates { bed.with_credentials("alice", addr(ALICE), &invite) } else { invite };
        assert_eq!(bed.receive(addr(ALICE), &invite.bytes()), []);
        assert_eq!(bed.receive(addr(ALICE), &invite.bytes()), [], "a copy is absorbed");
        assert_eq!(bed.looked_up, [name()], "the name is looked up once");
        assert_eq!(bed.shard.registrar_report().expect("there is a registrar").waiting, 1);
        let sent = resolved(&mut bed, &name(), &[addr("127.0.4.1:5060")]);
        let sent = requests(&sent, Method::Invite);
        assert_eq!(sent.iter().map(|sent| sent.to).collect::<Vec<_>>(), [addr("127.0.4.1:5060")]);
        let back = answered(&mut bed, &sent[0], 180);
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
        assert_eq!(bed.shard.registrar_report().expect("there is a registrar").waiting, 0);
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
    // No answer comes.
    let mut bed = self::bed(false);
    bed.receive(addr(ALICE), &invite);
    assert_eq!(bed.wait(Duration::from_millis(4_900)), []);
    let sent = bed.wait(Duration::from_millis(200));
    not_there(&mut bed, sent);
    // The caller cancels.
    let mut bed = self::bed(false);
    bed.receive(addr(ALICE), &invite);
    let cancel = call("c", "bob", addr(ALICE)).same_branch("CANCEL", None).bytes();
    assert_eq!(bed.one(addr(ALICE), &cancel).status(), 200);
    let sent = resolved(&mut bed, &name(), &[addr("127.0.4.1:5060")]);
    assert_eq!(sent.iter().map(Sent::status).collect::<Vec<_>>(), [487]);
}

/// Each name is waited for once.
#[test]
fn a_contact_without_an_address_does_not_block_the_others() {
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
        "the call waits for the other name"
    );
    failed.addresses = vec![(addr("127.0.4.2:5060"), 1.0)];
    let sent = bed.input(ShardInput::Name { name: &other, answer: &failed });
    assert_eq!(
        requests(&sent, Method::Invite).iter().map(|sent| sent.to).collect::<Vec<_>>(),
        [addr("127.0.4.2:5060")]
    );
}

fn stateless() -> Bed {
    let mut bed = Bed::open();
    bed.set_forward(Forward::Stateless);
    bed
}

/// RFC 3261 §16.11: between the copies of an INVITE, Bob registers elsewhere and the key of new tokens changes. All
/// copies, the CANCEL and the ACK to a failure go to the contact of the first copy, with its branch.
#[test]
fn copies_go_to_the_contact_of_the_first_copy() {
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
            change_key(&mut bed);
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
