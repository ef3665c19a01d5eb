//! Limits to password guessing, as seen by attackers and by users.

use crate::common::*;
use crate::domain::{ALICE, BOB, Bed, authorized, call, register};

/// A different address for each attacker.
fn bot(number: usize) -> SocketAddr {
    addr(&format!("127.0.10.{}:5060", number % 250 + 1))
}

/// Returns the final status of a REGISTER with this password.
fn log_in(bed: &mut Bed, (user, password): (&str, &str), from: SocketAddr, request: &Req) -> u16 {
    let challenged = bed.one(from, &request.bytes());
    bed.one(from, &authorized(&challenged, (user, password), request).bytes()).status()
}

/// A REGISTER of this user that is no retransmission of another.
fn fresh(user: &str, from: SocketAddr, number: usize) -> Req {
    let request = register(user, from, &format!("sip:me@{from}"));
    let via = format!("SIP/2.0/UDP {from};branch=z9hG4bK-{user}-{number}");
    Req { call_id: format!("{user}-{number}"), ..request }.via(&via)
}

/// Many attackers guess the password of a user, each a few times, until guesses are no longer checked.
fn attack(bed: &mut Bed, user: &str) {
    let mut last = 0;
    for number in 0..40 {
        let from = bot(number);
        last = log_in(bed, (user, "guess"), from, &fresh(user, from, number));
    }
    assert_eq!(last, 403, "the name is under attack");
}

/// Threads share their users' calls by Call-ID, so each must know the results of all.
#[test]
fn a_known_client_is_known_to_all_shards() {
    let shards = [(); 2].map(|()| Bed::new(true, Reach::Source));
    let ([mut one, mut other], alice) = (shards, addr(ALICE));
    assert_eq!(log_in(&mut one, ("alice", "open sesame"), alice, &fresh("alice", alice, 1)), 200);
    attack(&mut one, "alice");
    attack(&mut one, "bob");
    assert!(!one.judged.is_empty());
    for judgement in one.judged.drain(..) {
        other.input(ShardInput::Judgement(&judgement));
    }
    let request = Req { call_id: "elsewhere".into(), ..call("c", "bob", alice) };
    let invite = other.with_credentials("alice", alice, &request);
    assert_eq!(
        other.one(alice, &invite.bytes()).status(),
        480,
        "bob is not at this address, and alice has no attempt left"
    );
    let bob = addr(BOB);
    assert_eq!(
        log_in(&mut other, ("bob", "open sesame"), bob, &fresh("bob", bob, 1)),
        403,
        "guesses of known users count, too"
    );
}

/// A restart forgets which users were known at which place. The store still has their bindings.
#[test]
fn a_live_binding_shows_a_known_client() {
    let (mut bed, alice) = (Bed::new(true, Reach::Source), addr(ALICE));
    for (number, contact) in ["sip:me@127.0.9.1:6000", "sip:me@192.168.1.7:5060"].iter().enumerate() {
        let request = fresh("alice", alice, number);
        let request = Req { contact: (*contact).into(), ..request };
        assert_eq!(log_in(&mut bed, ("alice", "open sesame"), alice, &request), 200);
        let mut anew = Bed::new(true, Reach::Source);
        anew.store = bed.store.clone();
        attack(&mut anew, "alice");
        let elsewhere = addr("127.0.11.1:6000");
        let status = log_in(&mut anew, ("alice", "open sesame"), elsewhere, &fresh("alice", elsewhere, 8));
        assert_eq!(status, 403, "from a new address she has the limit of unknown clients");
        assert_eq!(
            log_in(&mut anew, ("alice", "open sesame"), alice, &fresh("alice", alice, 9)),
            200,
            "{contact}"
        );
        let request = call("d", "bob", alice);
        let invite = anew.with_credentials("alice", alice, &request);
        assert_eq!(anew.one(alice, &invite.bytes()).status(), 480, "alice is known from then on");
        // An attacker at her address has the limit of a known place.
        let guess = |number| log_in(&mut anew, ("alice", "guess"), alice, &fresh("alice", alice, number));
        let guesses: Vec<_> = (100..140).map(guess).collect();
        assert_eq!(guesses.iter().filter(|&&status| status == 401).count(), 20, "{guesses:?}");
    }
}

#[test]
fn an_expired_binding_shows_nothing() {
    let (mut bed, alice) = (Bed::new(true, Reach::Source), addr(ALICE));
    assert_eq!(log_in(&mut bed, ("alice", "open sesame"), alice, &fresh("alice", alice, 1)), 200);
    let mut anew = Bed::new(true, Reach::Source);
    (anew.store, anew.now) = (bed.store.clone(), bed.now + Duration::from_hours(2));
    attack(&mut anew, "alice");
    assert_eq!(log_in(&mut anew, ("alice", "open sesame"), alice, &fresh("alice", alice, 2)), 403);
    // A look-up costs the store work, so useless ones are few.
    let mut asked = 0;
    for number in 0..400 {
        let request = fresh("alice", alice, 1_000 + number);
        let challenged = anew.one(alice, &request.bytes());
        let again = authorized(&challenged, ("alice", "guess"), &request);
        anew.arrive(alice, &again.bytes());
        asked += anew.asked.len();
        anew.answer();
    }
    assert!((50..=100).contains(&asked), "{asked}");
}

/// A request as forwarded by a proxy in front of clients.
fn behind(edge: SocketAddr, client: &str, request: &Req, number: usize) -> Req {
    let via =
        format!("SIP/2.0/UDP {edge};branch=z9hG4bK-e{number},SIP/2.0/UDP {client};branch=z9hG4bK-c{number}");
    request.clone().via(&via)
}

/// An attacker behind a trusted proxy does not affect other clients, since the proxy's Via distinguishes them.
#[test]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    for edge in ["127.0.8.1:5060", "127.0.7.1:5060"] {
        let (mut bed, is_trusted) = (Bed::new(true, Reach::Source), edge.starts_with("127.0.8"));
        let edge = addr(edge);
        let mut log_in = |user: &str, password, client: &str, number| {
            let request = behind(edge, client, &fresh(user, edge, number), number);
            log_in(&mut bed, (user, password), edge, &request)
        };
        let guesses =
            (0..200).map(|number| log_in(&format!("user-{number}"), "guess", "10.1.1.1:6000", number));
        assert_eq!(guesses.filter(|&status| status == 403).count(), 150, "the limit of any source");
        // Behind a NAT, with and without the mapped port.
        for (number, client) in (300..).zip([
            "10.1.1.2:6000",
            "192.168.1.9;received=10.1.1.3",
            "phone.invalid:5062;received=10.1.1.4;rport=7",
        ]) {
            let status = log_in("alice", "open sesame", client, number);
            assert_eq!(status, if is_trusted { 200 } else { 403 }, "{client}");
        }
        let wrong = bed.wrong.first().map(|wrong| wrong.from);
        assert_eq!(
            wrong,
            Some(if is_trusted { addr("10.1.1.1:6000") } else { edge }),
            "the log names the client"
        );
    }
}

/// A user has registered through a trusted proxy, and a restart has forgotten her place. An attacker through the same
/// proxy has the attempts of a stranger, and does not lock her out.
#[test]
fn guesses_through_the_proxy_of_a_user_are_limited() {
    let edge = addr("127.0.8.1:5060");
    let through = |bed: &mut Bed, password, client: &str, contact: &str, number| {
        let request = Req { contact: contact.to_owned(), ..fresh("alice", edge, number) };
        log_in(bed, ("alice", password), edge, &behind(edge, client, &request, number))
    };
    // Her contact is the address that the proxy sees, or one behind a NAT.
    let (open, hidden) = ("sip:me@10.1.1.2:6000", "sip:me@192.168.1.9:6000");
    for contact in [open, hidden] {
        let mut bed = Bed::new(true, Reach::Source);
        let client = "10.1.1.2:6000";
        assert_eq!(through(&mut bed, "open sesame", client, contact, 1), 200);
        let mut anew = Bed::new(true, Reach::Source);
        (anew.store, anew.now) = (bed.store.clone(), bed.now + Duration::from_mins(5));
        attack(&mut anew, "alice");
        let guesses: Vec<_> =
            (100..150).map(|number| through(&mut anew, "guess", "10.1.1.9:6000", contact, number)).collect();
        assert_eq!(guesses.iter().filter(|&&status| status == 401).count(), 10, "{guesses:?}");
        if contact == open {
            // Many attackers do not either, if her binding distinguishes her from them.
            for number in 200..250 {
                through(&mut anew, "guess", &format!("10.1.2.{number}:6000"), contact, number);
            }
        }
        assert_eq!(through(&mut anew, "open sesame", client, contact, 300), 200, "{contact}");
    }
}

/// A host changes its IPv6 address within a network of 64 bits: its user is still at home there.
#[test]
fn a_binding_from_an_ipv6_address_shows_its_host() {
    let edge = addr("127.0.8.1:5060");
    let through = |bed: &mut Bed, password, client: &str, number| {
        let contact = "sip:me@[2001:db8::1]:6000".to_owned();
        let request = Req { contact, ..fresh("alice", edge, number) };
        log_in(bed, ("alice", password), edge, &behind(edge, client, &request, number))
    };
    let mut bed = Bed::new(true, Reach::Source);
    assert_eq!(through(&mut bed, "open sesame", "[2001:db8::1]:6000", 1), 200);
    for (client, status) in [("[2001:db8::2:9]:6000", 200), ("[2001:db8:0:1::1]:6000", 403)] {
        let mut anew = Bed::new(true, Reach::Source);
        (anew.store, anew.now) = (bed.store.clone(), bed.now + Duration::from_mins(5));
        attack(&mut anew, "alice");
        for number in 200..250 {
            through(&mut anew, "guess", &format!("10.1.2.{number}:6000"), number);
        }
        assert_eq!(through(&mut anew, "open sesame", client, 300), status, "{client}");
    }
}

/// If the proxy does not tell clients apart, each user has a limit, and the proxy has none.
#[test]
fn clients_hidden_by_a_trusted_proxy_are_not_one_source() {
    let (mut bed, edge) = (Bed::new(true, Reach::Source), addr("127.0.8.1:5060"));
    for number in 0..200 {
        let user = format!("user-{number}");
        assert_eq!(log_in(&mut bed, (&user, "guess"), edge, &fresh(&user, edge, number)), 401);
    }
    assert_eq!(log_in(&mut bed, ("alice", "open sesame"), edge, &fresh("alice", edge, 1)), 200);
    let guess = |number| log_in(&mut bed, ("bob", "guess"), edge, &fresh("bob", edge, number));
    assert_eq!((0..40).map(guess).filter(|&status| status == 401).count(), 10);
}
