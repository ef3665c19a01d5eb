//! Bytes that the registrar sends to an address of another host: at most twice the bytes received, retransmissions
//! included.

use crate::common::*;
use crate::domain::{ALICE, BOB, Bed, PASSWORD, authorized, register};

const VICTIM: &str = "127.0.7.7";

fn bytes_at(victim: &str, sent: &[Sent]) -> usize {
    sent.iter().filter(|sent| sent.to.ip() == addr(victim).ip()).map(|sent| sent.bytes.len()).sum()
}

/// Registers as many contacts as possible for bob, all of which a 200 contains.
fn with_contacts(bed: &mut Bed, from: SocketAddr) {
    let contacts = (0..10).map(|n| format!("<sip:{n}-{}@{from}>", "long".repeat(60))).collect::<Vec<_>>();
    let request = register("bob", from, "").with("Contact", &contacts.join(","));
    let request = bed.with_credentials("bob", from, &request);
    assert_eq!(bed.one(from, &request.bytes()).status(), 200);
}

/// The same request with another branch, and with the victim as target of responses.
fn to_victim(request: &Req, branch: &str) -> Req {
    request.clone().via(&format!("SIP/2.0/UDP {BOB};maddr={VICTIM};branch=z9hG4bK-{branch}"))
}

fn query(from: SocketAddr) -> Req {
    Req { cseq: 20, ..register("bob", from, "") }.via(&format!("SIP/2.0/UDP {from};branch=z9hG4bK-query"))
}

/// A user that names another host in `maddr` gets only a short response to a short request. Copies of it from any
/// source get no more each, for as long as they are answered.
#[test]
fn long_responses_to_another_host_are_not_sent() {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    with_contacts(&mut bed, bob);
    let challenged = bed.one(bob, &query(bob).bytes());
    let request = to_victim(&authorized(&challenged, ("bob", PASSWORD), &query(bob)), "victim").bytes();
    let (mut sent, mut asked) = (bed.receive(bob, &request), request.len());
    for second in 0..40 {
        bed.now += Duration::from_secs(1);
        let from = [BOB, ALICE, "127.0.9.7:6000"][second % 3];
        sent.extend(bed.receive(addr(from), &request));
        asked += request.len();
    }
    let got = bytes_at("127.0.7.7:5060", &sent);
    assert!(got <= 2 * asked, "{got} bytes for {asked}");
}

/// A nonce proves the address that it was sent to. A nonce sent to an address of `maddr` does not prove a forged
/// source.
#[test]
fn a_nonce_sent_elsewhere_proves_no_source() {
    let (mut bed, bob, victim) = (Bed::new(true, Reach::Source), addr(BOB), addr("127.0.7.7:6000"));
    with_contacts(&mut bed, bob);
    // The source is forged, and the challenge goes to the attacker's address.
    let forged = query(victim);
    let asked = forged.clone().via(&format!("SIP/2.0/UDP {victim};maddr=127.0.9.2;branch=z9hG4bK-f"));
    let challenged = bed.one(victim, &asked.bytes());
    assert_eq!(challenged.to.ip(), bob.ip());
    let request = authorized(&challenged, ("bob", PASSWORD), &forged).bytes();
    let sent = bed.receive(victim, &request);
    let got = bytes_at("127.0.7.7:6000", &sent);
    assert!(got <= 2 * request.len(), "{got} bytes for {}", request.len());
}

/// A client at the address that got the nonce gets all contacts, again too if the response was lost. No other sender
/// can have them sent there.
#[test]
fn a_user_gets_all_contacts_at_the_address_of_the_nonce() {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    with_contacts(&mut bed, bob);
    let challenged = bed.one(bob, &query(bob).bytes());
    let request = authorized(&challenged, ("bob", PASSWORD), &query(bob)).bytes();
    let all = bed.one(bob, &request);
    assert_eq!(all.status(), 200);
    assert!(all.bytes.len() > 2 * request.len(), "{} bytes for {}", all.bytes.len(), request.len());
    assert_eq!(all.message().headers("Contact").count(), 10);
    assert_eq!(bed.one(bob, &request), all);
    let elsewhere = bed.one(addr(ALICE), &request);
    assert_eq!((elsewhere.to, elsewhere.status()), (addr(ALICE), 401));
}

/// Without authentication every source may be forged, so a 200 is limited like a challenge.
#[test]
fn an_unauthenticated_sender_causes_no_long_response() {
    let (open, closed) = (Bed::open(), Bed::new(true, Reach::Source));
    for (mut bed, expected) in [(open, 200), (closed, 401)] {
        let bob = addr(BOB);
        if expected == 200 {
            for n in 0..10 {
                let contact = format!("sip:{n}-{}@{bob}", "long".repeat(60));
                let via = format!("SIP/2.0/UDP {bob};branch=z9hG4bK-{n}");
                let request = Req { cseq: n + 1, ..register("bob", bob, &contact) }.via(&via);
                assert_eq!(bed.one(bob, &request.bytes()).status(), 200);
            }
        }
        for request in [query(bob), to_victim(&query(bob), "v")] {
            let request = request.bytes();
            let sent = bed.receive(bob, &request);
            assert_eq!(sent[0].status(), expected);
            assert!(
                sent[0].bytes.len() <= 2 * request.len(),
                "{} for {}",
                sent[0].bytes.len(),
                request.len()
            );
        }
    }
}
