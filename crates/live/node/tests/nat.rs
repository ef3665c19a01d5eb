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

/// A caller that has not registered is behind a NAT if its Contact is private and not its source, and its Via shows that
/// it receives at its source.
#[test]
fn a_caller_behind_a_nat_needs_no_registration() {
    let caller = "127.0.9.7:6000";
    for (service, forward) in [Service::Balance, Service::HOPS].into_iter().zip(MODES) {
        for (via, contact, is_behind) in [
            ("192.168.1.8:5060;rport", "192.168.1.8:5060", true),
            ("100.64.1.8:5060;rport", "100.127.1.8:5060", true),
            ("192.168.1.8:5060;x", "192.168.1.8:5060", false),
            ("127.0.9.7:5060;rport", "192.168.1.8:5060", false),
            ("phone.example;rport", "192.168.1.8:5060", false),
            ("192.168.1.8:5060;rport", "192.0.2.8:5060", false),
            ("192.168.1.9;rport, SIP/2.0/UDP 192.168.1.8", "192.168.1.8:5060", false),
        ] {
            let (caller, mut pbx) = (side(caller, "alice", contact), side(MEMBER, "bob", MEMBER));
            let mut bed = bed(forward, &[]);
            bed.set_members(&[addr(MEMBER)], service);
            let via = format!("SIP/2.0/UDP {}", via.replacen(';', ";branch=z9hG4bK-invite;", 1));
            let invite = Req { contact: caller.contact.clone(), ..call("c", "pbx", caller.at) }.via(&via);
            let at_pbx = bed.receive(caller.at, &invite.bytes()).pop().expect("the INVITE is forwarded");
            bed.receive(pbx.at, &answer(&at_pbx.bytes, &pbx));
            pbx.routes = record_routes(&at_pbx.bytes);
            let reached = send(&mut bed, "BYE", 2, &pbx, &caller);
            assert_eq!(reached == caller.at, is_behind, "{forward:?} {via} {contact}");
            // The Route leads to the caller only in this call.
            let stranger = addr("127.0.9.9:5060");
            let request = Req {
                uri: caller.contact.clone(),
                to_tag: Some(caller.tag.to_owned()),
                routes: pbx.routes,
                ..Req::new("BYE", "another", stranger)
            };
            let sent = bed.receive(stranger, &request.bytes());
            assert!(sent.iter().all(|sent| sent.to != caller.at), "{forward:?} {via}: {sent:?}");
        }
    }
}

/// A contact behind a NAT gets OPTIONS at its source for as long as it is registered. It gets no more if it does not
/// answer, until it registers again.
#[test]
fn contacts_behind_a_nat_get_keep_alives() {
    let interval = Duration::from_secs(25);
    let mut bed = Bed::open();
    bed.set(|setup| setup.settings.keep_alive = interval);
    let alice = alice();
    let register = |user, at, contact: &str, expires: &str, cseq| {
        // Another Call-ID each time: the contact is still the same.
        Req { cseq, call_id: format!("{user}-{cseq}"), ..register(user, at, contact) }
            .via(&format!("SIP/2.0/UDP {at};branch=z9hG4bK-{user}-{cseq}"))
            .with("Expires", expires)
            .bytes()
    };
    assert_eq!(bed.one(alice.at, &register("alice", alice.at, &alice.contact, "120", 1)).status(), 200);
    // A telephone without NAT gets none.
    assert_eq!(
        bed.one(addr(BOB), &register("bob", addr(BOB), &format!("sip:bob@{BOB}"), "3600", 1)).status(),
        200
    );
    let mut call_ids = Vec::new();
    for _ in 0..4 {
        let sent = bed.wait(interval);
        let [options] = &sent[..] else { panic!("one OPTIONS: {sent:?}") };
        assert_eq!((options.to, options.listener), (alice.at, 0));
        assert!(options.bytes.starts_with(b"OPTIONS sip:me@192.168.1.8:5060 SIP/2.0\r\n"), "{options:?}");
        let drops = bed.drops("no_way_back");
        assert_eq!(bed.receive(alice.at, &answer(&options.bytes, &alice)), []);
        assert_eq!(bed.drops("no_way_back"), drops, "the answer is expected");
        call_ids.push(testkit::value(&options.bytes, "Call-ID"));
    }
    call_ids.dedup();
    assert_eq!(call_ids.len(), 4, "each has a Call-ID of its own");
    assert_eq!(bed.wait(interval * 3), [], "the registration has expired");
    // An answer of another sender, or to another keep-alive, does not count.
    assert_eq!(bed.one(alice.at, &register("alice", alice.at, &alice.contact, "3600", 2)).status(), 200);
    let mut sent = Vec::new();
    for _ in 0..10 {
        let options = bed.wait(interval);
        for options in &options {
            bed.receive(addr(BOB), &answer(&options.bytes, &alice));
        }
        sent.extend(options);
        if let Some(first) = sent.first() {
            bed.receive(alice.at, &answer(&first.bytes, &alice));
        }
    }
    assert_eq!(sent.len(), 6, "the first was answered, five more were not");
    assert_eq!(bed.one(alice.at, &register("alice", alice.at, &alice.contact, "3600", 3)).status(), 200);
    assert_eq!(bed.wait(interval).len(), 1, "it has registered again");
    assert_eq!(bed.one(alice.at, &register("alice", alice.at, &alice.contact, "0", 4)).status(), 200);
    assert_eq!(bed.wait(interval * 2), [], "it has left");
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
