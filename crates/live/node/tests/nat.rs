//! Registered telephones behind a NAT over UDP: requests within a dialog go to the source of their registration,
//! whichever side began it. No other client is reached at its source.

use crate::common::*;
use crate::domain::{ALICE, BOB, Bed, call, register};
use dialog::CallSettings;

const MEMBER: &str = "127.0.1.1:5060";
const MODES: [Forward; 3] = [Forward::Stateless, Forward::Transaction, Forward::Dialog];

/// A side of a call: the source of its messages, its tag, its Contact and its route set.
struct Side {
    at: SocketAddr,
    tag: &'static str,
    contact: String,
    routes: Vec<String>,
}

fn side(at: &str, tag: &'static str, contact: &str) -> Side {
    Side { at: addr(at), tag, contact: format!("sip:me@{contact}"), routes: Vec::new() }
}

fn alice() -> Side {
    side(ALICE, "alice", "192.168.1.8:5060")
}

fn bob() -> Side {
    side(BOB, "bob", "192.168.1.7:5060")
}

/// With alice and bob as registered users, whose calls are forwarded in this mode; calls to others go to a member.
fn bed(forward: Forward, registers: &[(&str, &Side)]) -> Bed {
    let mut bed = Bed::open();
    bed.set_members(&[addr(MEMBER)], Service::Balance);
    bed.set_forward(forward);
    bed.set(|setup| {
        let located = Rule { target: Target::Location, ..Rule::default() };
        setup.settings.routes = testbed::routes(vec![to_pool(0, users("pbx")), located], setup);
        let calls = CallSettings { longest: Some(Duration::from_mins(10)), ..CallSettings::default() };
        setup.settings.dialogs = Some(Arc::new(DialogSettings { calls, ..DialogSettings::default() }));
    });
    for (user, side) in registers {
        assert_eq!(bed.one(side.at, &register(user, side.at, &side.contact).bytes()).status(), 200);
    }
    bed
}

/// The INVITE of `from` to this user reaches `to` and is answered.
fn begin(bed: &mut Bed, user: &str, from: &mut Side, to: &mut Side) {
    let invite = Req { contact: from.contact.clone(), ..call("c", user, from.at) };
    let at_callee = bed.receive(from.at, &invite.bytes()).pop().expect("the INVITE is forwarded");
    assert_eq!(at_callee.to, to.at);
    let ok = bed.receive(to.at, &answer(&at_callee.bytes, to)).pop().expect("the 200 is forwarded");
    assert_eq!((ok.to, ok.status()), (from.at, 200));
    to.routes = record_routes(&at_callee.bytes);
    from.routes = record_routes(&ok.bytes).into_iter().rev().collect();
}

fn answer(request: &[u8], by: &Side) -> Vec<u8> {
    Resp { contact: by.contact.clone(), ..Resp::new(200, by.at) }.bytes_from(request, addr(PROXY))
}

/// Sends a request within the dialog, which is answered. Returns the address that it reaches.
fn send(bed: &mut Bed, method: &str, cseq: u32, from: &Side, to: &Side) -> SocketAddr {
    let request = Req {
        uri: to.contact.clone(),
        via: format!("SIP/2.0/UDP {};branch=z9hG4bK-{}-{method}-{cseq};rport", from.at, from.tag),
        from_tag: from.tag.to_owned(),
        to_tag: Some(to.tag.to_owned()),
        cseq,
        routes: from.routes.clone(),
        contact: from.contact.clone(),
        ..Req::new(method, "c", from.at)
    };
    let mut sent = bed.receive(from.at, &request.bytes());
    sent.retain(|sent| sent.message().status() != Some(100));
    let arrived = sent.pop().expect("the request is forwarded");
    if arrived.message().status().is_none() && method != "ACK" {
        bed.receive(arrived.to, &answer(&arrived.bytes, to));
    }
    arrived.to
}

#[test]
fn requests_within_a_dialog_follow_the_registrations_of_both_sides() {
    for forward in MODES {
        let (mut alice, mut bob) = (alice(), bob());
        let mut bed = bed(forward, &[("alice", &alice), ("bob", &bob)]);
        // A next hop has the address that bob has behind his NAT.
        bed.set_members(&[addr("192.168.1.7:5060")], Service::HOPS);
        begin(&mut bed, "bob", &mut alice, &mut bob);
        for (method, cseq) in [("ACK", 1), ("INFO", 2), ("INVITE", 3), ("ACK", 3)] {
            assert_eq!(send(&mut bed, method, cseq, &alice, &bob), bob.at, "{forward:?} {method}");
            assert_eq!(send(&mut bed, method, cseq, &bob, &alice), alice.at, "{forward:?} {method}");
        }
        // Each side moves to another port behind its NAT.
        bob.contact = "sip:me@192.168.1.7:5070".to_owned();
        assert_eq!(send(&mut bed, "UPDATE", 4, &bob, &alice), alice.at, "{forward:?}");
        alice.contact = "sip:me@192.168.1.8:5070".to_owned();
        assert_eq!(send(&mut bed, "INVITE", 5, &alice, &bob), bob.at, "{forward:?}");
        bob.contact = "sip:me@192.168.1.7:5080".to_owned();
        assert_eq!(
            send(&mut bed, "INVITE", 6, &bob, &alice),
            alice.at,
            "{forward:?}: the 200 names the new target"
        );
        assert_eq!(send(&mut bed, "BYE", 7, &alice, &bob), bob.at, "{forward:?}");
        assert_eq!(send(&mut bed, "BYE", 7, &bob, &alice), alice.at, "{forward:?}");
    }
}

/// A client that has not registered from its source address is reached at its Contact.
#[test]
fn a_source_alone_is_no_registration() {
    for forward in MODES {
        let (registered, contact) = (alice(), addr("192.168.1.8:5060"));
        for (at, registers) in
            [(ALICE, &[("bob", &bob())][..]), ("127.0.9.7:6000", &[("alice", &registered), ("bob", &bob())])]
        {
            let (mut caller, mut bob) = (Side { at: addr(at), ..alice() }, bob());
            let mut bed = bed(forward, registers);
            begin(&mut bed, "bob", &mut caller, &mut bob);
            assert_eq!(send(&mut bed, "BYE", 2, &bob, &caller), contact, "{forward:?} {at}");
        }
        // Another client than the registered one answers; or bob has registered through a trusted proxy, which answers.
        for (registers, answers) in [(BOB, "127.0.9.8:6000"), ("127.0.8.1:5060", "127.0.8.1:5060")] {
            let (mut alice, mut bob) = (alice(), Side { at: addr(registers), ..bob() });
            let mut bed = bed(forward, &[("bob", &bob)]);
            bob.at = addr(answers);
            let invite = Req { contact: alice.contact.clone(), ..call("c", "bob", alice.at) };
            let at_bob = bed.receive(alice.at, &invite.bytes()).pop().expect("the INVITE is forwarded");
            let ok = bed.receive(bob.at, &answer(&at_bob.bytes, &bob)).pop().expect("the 200 is forwarded");
            alice.routes = record_routes(&ok.bytes).into_iter().rev().collect();
            assert_eq!(send(&mut bed, "ACK", 1, &alice, &bob), addr("192.168.1.7:5060"), "{forward:?}");
        }
    }
}

#[test]
fn a_bye_of_a_member_reaches_the_registered_source() {
    for service in [Service::Balance, Service::HOPS] {
        for (user, expected) in [("alice", ALICE), ("carol", "192.168.1.8:5060")] {
            let (mut alice, mut pbx) = (alice(), side(MEMBER, "bob", MEMBER));
            let mut bed = bed(Forward::Transaction, &[(user, &alice)]);
            bed.set_members(&[addr(MEMBER)], service);
            begin(&mut bed, "pbx", &mut alice, &mut pbx);
            assert_eq!(send(&mut bed, "BYE", 2, &pbx, &alice), addr(expected), "{service:?}");
        }
    }
}

/// A call that has lasted too long ends with a BYE of this proxy to both sides.
#[test]
fn a_bye_of_this_proxy_reaches_both_sides() {
    let (mut alice, mut bob) = (alice(), bob());
    let mut bed = bed(Forward::Dialog, &[("alice", &alice), ("bob", &bob)]);
    begin(&mut bed, "bob", &mut alice, &mut bob);
    let sent = bed.wait(Duration::from_secs(601));
    let mut ended: Vec<_> =
        sent.iter().filter(|sent| sent.bytes.starts_with(b"BYE")).map(|sent| sent.to).collect();
    ended.sort();
    ended.dedup();
    assert_eq!(ended, [alice.at, bob.at]);
}

/// A call goes on without an answer of the store, like one of a caller that has not registered.
#[test]
fn a_silent_store_delays_a_call_for_a_limited_time() {
    let mut bed = bed(Forward::Transaction, &[]);
    let invite = Req { contact: alice().contact, ..call("c", "pbx", addr(ALICE)) };
    assert_eq!(bed.arrive(addr(ALICE), &invite.bytes()), []);
    assert_eq!(bed.arrive(addr(ALICE), &invite.bytes()), [], "a copy");
    let sent = bed.wait(Duration::from_secs(5));
    assert_eq!(sent.iter().map(|sent| sent.to).collect::<Vec<_>>(), [addr(MEMBER)]);
}
