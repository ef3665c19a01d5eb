//! Identities that callers state: for users, only proved ones are forwarded.

use crate::common::*;
use crate::domain::{ALICE, BOB, Bed, call, register};
use testkit::value;

const IDENTITIES: [&str; 3] = ["P-Asserted-Identity", "P-Preferred-Identity", "Remote-Party-ID"];

/// A domain where bob can be called.
fn with_bob() -> Bed {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    let request = bed.with_credentials("bob", bob, &register("bob", bob, "sip:me@127.0.9.2:6000"));
    assert_eq!(bed.one(bob, &request.bytes()).status(), 200);
    bed
}

/// A request with header fields that only trusted elements may set.
fn pretending(request: Req) -> Req {
    IDENTITIES.iter().fold(request, |request, name| request.with(name, "<sip:+4930115@example.com>"))
}

/// RFC 3325 §5: a proxy removes the identity from requests of a node that it does not trust.
#[test]
fn a_user_asserts_no_identity() {
    let (mut bed, alice) = (with_bob(), addr(ALICE));
    let invite = bed.with_credentials("alice", alice, &call("c", "bob", alice));
    let sent = bed.receive(alice, &pretending(invite).bytes());
    let at_bob = sent.last().expect("bob is called");
    assert_eq!(at_bob.to, addr(BOB));
    for name in IDENTITIES {
        assert_eq!(value(&at_bob.bytes, name), None);
    }
    let fields = IDENTITIES.map(|name| (name, "<sip:+4930115@example.com>"));
    let ok = bed.one(addr(BOB), &answer_with(&at_bob.bytes, addr(PROXY), 200, addr(BOB), &fields));
    assert_eq!((ok.to, ok.status()), (alice, 200));
    for name in IDENTITIES {
        assert_eq!(value(&ok.bytes, name), None, "the callee asserts no identity either");
    }
}

/// The same for the callee of a member of a pool without transactions.
#[test]
fn a_callee_of_a_member_asserts_no_identity() {
    let (mut bed, member, callee) = (Bed::new(true, Reach::Source), addr("127.0.1.1:5060"), addr(BOB));
    bed.set_members(&[member], Service::Balance);
    bed.set(|setup| setup.settings.routes = Arc::default());
    let invite = Req { uri: format!("sip:bob@{callee}"), ..Req::new("INVITE", "c", member) };
    let at_callee = bed.one(member, &pretending(invite).bytes());
    assert_eq!((at_callee.to, value(&at_callee.bytes, IDENTITIES[0]).is_some()), (callee, true));
    let fields = IDENTITIES.map(|name| (name, "<sip:+4930115@example.com>"));
    let ok = bed.one(callee, &answer_with(&at_callee.bytes, addr(PROXY), 200, callee, &fields));
    assert_eq!((ok.to, ok.status()), (member, 200));
    for name in IDENTITIES {
        assert_eq!(value(&ok.bytes, name), None);
    }
}

/// Members and configured networks belong to the trust domain.
#[test]
fn a_trusted_element_asserts_an_identity() {
    let (mut bed, gateway) = (with_bob(), addr("127.0.1.1:5060"));
    bed.set_members(&[gateway], Service::Balance);
    let sent = bed.receive(gateway, &pretending(call("c", "bob", gateway)).bytes());
    let edge = addr("127.0.8.1:5060");
    let invite = bed.with_credentials("alice", edge, &call("d", "bob", edge));
    let through = bed.receive(edge, &pretending(invite).bytes());
    for sent in [sent, through] {
        let at_bob = sent.last().expect("bob is called");
        for name in IDENTITIES {
            assert_eq!(value(&at_bob.bytes, name).as_deref(), Some("<sip:+4930115@example.com>"));
        }
    }
}

/// Callees call back by From: an address or name of this proxy counts as the domain.
#[test]
fn an_address_or_name_of_ours_is_a_local_identity() {
    for (from, status) in [
        ("<sip:bob@127.0.0.1>", Some(403)),
        ("<sip:bob@127.0.0.1:5060>", Some(403)),
        ("<sip:bob@[::ffff:127.0.0.1]>", Some(403)),
        ("<sip:bob@Sip.Example.Net>", Some(403)),
        ("<sip:bob@sip.example.net:5070>", Some(403)),
        ("<sip:bob@example.net>", None),
        ("<sip:bob@example.com>", Some(403)),
        ("<sip:bob@example.com:5070>", Some(403)),
        ("<sip:bob@127.0.0.2>", None),
        ("<sip:alice@example.com>", None),
    ] {
        let (mut bed, alice) = (with_bob(), addr(ALICE));
        let names = vec![("sip.example.net".to_owned(), Some(5060))];
        let topology = node::AddressTable::new(vec![Port::udp(addr(PROXY))].into(), names);
        bed.set(|setup| setup.topology = Arc::new(topology));
        let request = Req { from: from.into(), ..call("c", "bob", alice) };
        let invite = bed.with_credentials("alice", alice, &request);
        let sent = bed.receive(alice, &invite.bytes());
        assert_eq!(sent.last().and_then(|sent| sent.message().status()), status, "{from}");
    }
}

/// RFC 3261 §22.3: credentials for this proxy are removed, from every field and occurrence.
#[test]
fn no_credentials_for_the_realm_go_on() {
    let (mut bed, alice) = (with_bob(), addr(ALICE));
    let invite = bed.with_credentials("alice", alice, &call("c", "bob", alice));
    let own = "Digest username=\"alice\", realm=\"example.com\", nonce=\"n\", uri=\"sip:x\", response=\"0\"";
    let foreign = own.replace("example.com", "elsewhere.example");
    let with_all = |request: Req| {
        let names = ["Authorization", "Proxy-Authorization", "proxy-authorization"];
        names.iter().fold(request, |request, name| request.with(name, own).with(name, &foreign))
    };
    let at_bob = |bed: &mut Bed, request: Req| {
        let sent = bed.receive(alice, &with_all(request).bytes()).pop().expect("the request is forwarded");
        let text = string(&sent.bytes);
        assert_eq!(sent.to, addr(BOB), "{text}");
        assert_eq!(text.matches("realm=\"example.com\"").count(), 0, "{text}");
        assert_eq!(text.matches("realm=\"elsewhere.example\"").count(), 3, "{text}");
        sent
    };
    let sent = at_bob(&mut bed, invite);
    // RFC 3261 §13.2.2.4: the ACK carries the credentials of its INVITE, and phones put them into later requests.
    let dialog = Dialog::answered(&mut bed, &sent);
    for method in ["ACK", "BYE"] {
        at_bob(&mut bed, dialog.by_caller(method, 2));
    }
}
