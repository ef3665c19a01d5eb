//! The home domain on bytes: users register, authenticate, and are called.

use crate::common::*;
use crate::domain::{ALICE, BOB, Bed, authorized, call, register};
use node::{LogIns, LookUps, RegistrarCounters, RegistrarReport, WrongPassword};
use testkit::{header, value};

/// The same request with its own Call-ID and branch.
fn named(request: &Req, name: &str) -> Req {
    let (sent_by, _) = request.via.split_once(';').expect("a branch");
    Req { call_id: name.to_owned(), ..request.clone() }.via(&format!("{sent_by};branch=z9hG4bK-{name}"))
}

/// A proxy forwards REGISTERs without Path, so calls go back to it, and it may know no way on. This is reported once,
/// and `explain` gives advice about a call that has come back.
#[test]
fn a_proxy_that_adds_no_path_is_reported() {
    let (alice, edge, hidden) = (addr(ALICE), addr("127.0.5.1:5060"), "sip:me@10.1.1.2:6000");
    let through = |user: &str, contact: &str| {
        let via =
            format!("SIP/2.0/UDP {edge};branch=z9hG4bK-{user},SIP/2.0/UDP 10.1.1.2:6000;branch=z9hG4bK-1");
        register(user, edge, contact).via(&via)
    };
    let reported = |reach, from, request: &Req| {
        let mut bed = Bed::new(false, reach);
        assert_eq!(bed.one(from, &request.bytes()).status(), 200);
        bed.pathless
    };
    let path = through("bob", hidden).with("Path", "<sip:127.0.5.1;lr>").with("Supported", "path");
    assert_eq!(reported(Reach::Source, edge, &path), []);
    assert_eq!(reported(Reach::Contact, edge, &through("bob", hidden)), []);
    assert_eq!(
        reported(Reach::Source, edge, &through("bob", "sip:bob@127.0.5.1:5070")),
        [],
        "a contact of the proxy itself"
    );
    assert_eq!(
        reported(Reach::Source, alice, &register("alice", alice, hidden)),
        [],
        "a REGISTER without a proxy"
    );
    let mut bed = Bed::open();
    for user in ["bob", "carol"] {
        assert_eq!(bed.one(edge, &through(user, hidden).bytes()).status(), 200);
    }
    assert_eq!(bed.pathless, [edge]);

    let conditions = Conditions { sources: vec!["127.0.9.0/24".parse().unwrap()], ..Conditions::default() };
    let rule = Rule { conditions, target: Target::Location, ..Rule::default() };
    set_rules(&mut bed, [rule]);
    let sent = bed.receive(alice, &call("c", "bob", alice).bytes());
    let at_edge = sent.last().expect("the call goes to the proxy");
    assert_eq!(at_edge.to, edge);
    let mut explained = |bytes: &[u8]| bed.explain(edge, bytes).map(|_| ()).unwrap_err();
    let via = format!("Via: SIP/2.0/UDP {edge};branch=z9hG4bK-back\r\nVia:");
    let back = String::from_utf8_lossy(&at_edge.bytes).replacen("Via:", &via, 1);
    let answer = explained(back.as_bytes());
    assert!(
        answer.starts_with("refused: 404 No Route: no [[route]] matches it; it went out from here before"),
        "{answer}"
    );
    assert!(answer.contains("reach = \"contact\""), "{answer}");
    let answer = explained(&call("d", "bob", edge).bytes());
    assert_eq!(answer, "refused: 404 No Route: no [[route]] matches it\n: source: it is 127.0.5.1");
}

/// No rule matches a REGISTER for this registrar, so none determines its response under load.
#[test]
fn a_register_is_refused_for_overload_even_if_rules_drop() {
    let mut bed = Bed::open();
    let bob = addr(BOB);
    let silent = Rule { conditions: users("3"), target: Target::Silence, ..Rule::default() };
    set_rules(&mut bed, [silent]);
    waited(&mut bed, Duration::from_mins(1));
    let refused = bed.one(bob, &register("bob", bob, &format!("sip:me@{bob}")).bytes());
    assert_eq!(refused.status(), 503);
}

#[test]
fn a_registered_user_is_called() {
    let mut bed = Bed::open();
    let (alice, bob) = (addr(ALICE), addr(BOB));
    let ok = bed.one(bob, &register("bob", bob, &format!("sip:me@{bob}")).bytes());
    assert_eq!((ok.status(), ok.to), (200, bob));
    assert_eq!(value(&ok.bytes, "Contact").as_deref(), Some("<sip:me@127.0.9.2:6000>;expires=3600"));
    let sent = bed.receive(alice, &call("c", "bob", alice).bytes());
    assert_eq!(
        sent.iter().map(|sent| (sent.to, sent.message().status())).collect::<Vec<_>>(),
        [(alice, Some(100)), (bob, None)]
    );
    let at_bob = &sent[1];
    assert_eq!(at_bob.message().uri(), Some(&b"sip:me@127.0.9.2:6000"[..]));
    let ok = bed.one(bob, &answer(&at_bob.bytes, addr(PROXY), 200, bob));
    assert_eq!((ok.to, ok.status()), (alice, 200));
    let dialog = Dialog::of(at_bob, &ok);
    assert_eq!(bed.one(alice, &dialog.by_caller("ACK", 1).bytes()).to, bob);
    assert_eq!(bed.one(bob, &dialog.by_callee("BYE", 2).bytes()).to, alice);
    let gone = bed.one(alice, &call("d", "carol", alice).bytes());
    assert_eq!(gone.status(), 480);
}

/// A member that is a gateway need not authenticate; it has no password.
#[test]
fn a_member_calls_a_user() {
    let (mut bed, bob, gateway) = (Bed::new(true, Reach::Source), addr(BOB), addr("127.0.1.1:5060"));
    let request = bed.with_credentials("bob", bob, &register("bob", bob, "sip:me@127.0.9.2:6000"));
    assert_eq!(bed.one(bob, &request.bytes()).status(), 200);
    bed.set_members(&[gateway], Service::Balance);
    let sent = bed.receive(gateway, &call("c", "bob", gateway).bytes());
    assert_eq!(sent.last().map(|sent| sent.to), Some(bob), "{sent:#?}");
}

/// Behind a NAT, a client is reached at its source address, whatever its Contact says.
#[test]
fn a_contact_is_reached_at_the_source_of_its_register() {
    let (mut bed, bob) = (Bed::open(), addr(BOB));
    assert_eq!(bed.register("bob", bob, "sip:me@192.168.1.7:5060"), 200);
    let sent = bed.receive(addr(ALICE), &call("c", "bob", addr(ALICE)).bytes());
    assert_eq!((sent[1].to, sent[1].message().uri()), (bob, Some(&b"sip:me@192.168.1.7:5060"[..])));
    let mut bed = Bed::new(false, Reach::Contact);
    assert_eq!(bed.register("bob", bob, "sip:me@127.0.9.7:5070"), 200);
    let sent = bed.receive(addr(ALICE), &call("c", "bob", addr(ALICE)).bytes());
    assert_eq!(sent[1].to, addr("127.0.9.7:5070"));
}

#[test]
fn a_path_becomes_the_route() {
    let (mut bed, edge) = (Bed::open(), addr(BOB));
    let path = "<sip:127.0.9.2:5080;lr>,<sip:inner.example;lr>";
    let request = register("bob", edge, "sip:me@192.168.1.7").with("Path", path).with("Supported", "path");
    assert_eq!(bed.one(edge, &request.bytes()).status(), 200);
    let sent = bed.receive(addr(ALICE), &call("c", "bob", addr(ALICE)).bytes());
    assert_eq!(sent[1].to, addr("127.0.9.2:5080"));
    assert_eq!(value(&sent[1].bytes, "Route").as_deref(), Some(path));
    assert_eq!(sent[1].message().uri(), Some(&b"sip:me@192.168.1.7"[..]));
}

/// RFC 3261 §16.6: contacts of the same preference ring at once, those of a lower one after their time.
#[test]
fn contacts_of_one_preference_ring_together() {
    let (mut bed, alice) = (Bed::open(), addr(ALICE));
    let phones = ["127.0.9.2:6000", "127.0.9.3:6000", "127.0.9.4:6000"];
    for (cseq, (at, q)) in (1..).zip(phones.iter().zip(["0.9", "0.9", "0.5"])) {
        let at = addr(at);
        let request =
            Req { cseq, ..register("bob", at, "") }.with("Contact", &format!("<sip:me@{at}>;q={q}"));
        let request = request.via(&format!("SIP/2.0/UDP {at};branch=z9hG4bK-{cseq}"));
        assert_eq!(bed.one(at, &request.bytes()).status(), 200);
    }
    let sent = bed.receive(alice, &call("c", "bob", alice).bytes());
    let mut rung: Vec<_> = sent[1..].iter().map(|sent| sent.to).collect();
    rung.sort();
    assert_eq!(rung, [addr(phones[0]), addr(phones[1])]);
    for invite in &sent[1..] {
        assert_eq!(
            invite.message().uri(),
            Some(format!("sip:me@{}", invite.to).as_bytes()),
            "each contact has its own URI"
        );
        let ringing = answered(&mut bed, invite, 180);
        assert_eq!(ringing.to, alice);
    }
    let later = bed.wait(Duration::from_secs(21));
    let cancelled = later.iter().filter(|sent| sent.bytes.starts_with(b"CANCEL ")).map(|sent| sent.to);
    assert!(
        cancelled.clone().any(|to| to == addr(phones[0]))
            && cancelled.clone().any(|to| to == addr(phones[1]))
    );
    let third = later.iter().find(|sent| sent.to == addr(phones[2])).expect("the third contact rings");
    let ok = answered(&mut bed, third, 200);
    assert_eq!((ok.to, ok.status()), (alice, 200));
}

/// The response to a REGISTER is lost. Its retransmission has the same CSeq, and must not fail for it.
#[test]
fn a_retransmission_gets_the_same_response() {
    let (mut bed, bob) = (Bed::open(), addr(BOB));
    let request = register("bob", bob, "sip:me@127.0.9.2:6000").bytes();
    let first = bed.one(bob, &request);
    assert_eq!((first.status(), bed.one(bob, &request)), (200, first));
    bed.now += Duration::from_secs(40);
    assert_eq!(bed.one(bob, &request).status(), 500, "the CSeq is out of order");
}

#[test]
fn copies_are_absorbed_and_a_cancel_counts_during_a_store_query() {
    let (mut bed, alice, bob) = (Bed::open(), addr(ALICE), addr(BOB));
    assert_eq!(bed.register("bob", bob, "sip:me@127.0.9.2:6000"), 200);
    let invite = call("c", "bob", alice);
    assert_eq!(bed.arrive(alice, &invite.bytes()), []);
    assert_eq!((bed.arrive(alice, &invite.bytes()), bed.asked.len()), (Vec::new(), 1));
    let cancelled = bed.arrive(alice, &invite.same_branch("CANCEL", None).bytes());
    assert_eq!(cancelled.iter().map(Sent::status).collect::<Vec<_>>(), [200]);
    let ended = bed.answer();
    assert_eq!(ended.iter().map(|sent| (sent.to, sent.status())).collect::<Vec<_>>(), [(alice, 487)]);
    let tag = testkit::tag(&ended[0].bytes, "To");
    assert_eq!(bed.receive(alice, &invite.same_branch("ACK", tag.as_deref()).bytes()), []);
    assert_eq!(bed.one(alice, &invite.bytes()).status(), 487, "a late copy creates no call");
}

#[test]
fn users_authenticate() {
    let (mut bed, alice, bob) = (Bed::new(true, Reach::Source), addr(ALICE), addr(BOB));
    let request = bed.with_credentials("bob", bob, &register("bob", bob, "sip:me@127.0.9.2:6000"));
    let ok = bed.one(bob, &request.bytes());
    assert_eq!(ok.status(), 200);
    assert_eq!(bed.one(bob, &request.bytes()), ok, "a retransmission is no replay");
    let invite = bed.with_credentials("alice", alice, &call("c", "bob", alice));
    let sent = bed.receive(alice, &invite.bytes());
    assert_eq!((sent[0].status(), sent[1].to), (100, bob));
    assert_eq!(value(&sent[1].bytes, "Proxy-Authorization"), None, "credentials for this proxy are removed");
    assert_eq!(
        bed.receive(alice, &invite.bytes())[0].status(),
        100,
        "a retransmission belongs to its transaction"
    );
    // The same credentials in another request.
    let replay = named(&invite, "e");
    let refused = bed.one(alice, &replay.bytes());
    assert_eq!(refused.status(), 407);
    let challenges = header(&refused.bytes, "Proxy-Authenticate");
    assert!(!challenges.is_empty() && challenges.iter().all(|value| value.contains("stale=true")));
}

#[test]
fn a_user_cannot_act_for_another_user() {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    let request = bed.with_credentials("bob", bob, &register("alice", bob, "sip:me@127.0.9.2:6000"));
    assert_eq!(bed.one(bob, &request.bytes()).status(), 403, "a registration for alice");
    let request = bed.with_credentials("bob", bob, &call("c", "bob", bob));
    assert_eq!(bed.one(bob, &request.bytes()).status(), 403, "a call from alice");
    let request = register("bob", bob, "sip:me@127.0.9.2:6000");
    let request = named(&request, "other");
    let challenged = bed.one(bob, &request.bytes());
    let wrong = authorized(&challenged, ("bob", "guess"), &request);
    assert_eq!(bed.one(bob, &wrong.bytes()).status(), 401);
    assert_eq!(bed.store.bindings(), 0);
}

/// Requests within dialogs need no password, so their dialog must be a known one.
#[test]
fn an_invented_dialog_does_not_replace_the_password() {
    let (mut bed, bob, hop) = (Bed::new(true, Reach::Source), addr(BOB), addr("127.0.1.1:5060"));
    bed.set_members(&[hop], Service::Balance);
    bed.set(|setup| setup.settings.forwards_orphans = true);
    let request = Req { to_tag: Some("x".to_owned()), ..call("c", "bob", bob) };
    assert_eq!(bed.one(bob, &request.bytes()).status(), 481);
    let request = Req { uri: "sip:+49@elsewhere.example".to_owned(), ..request };
    let sent = bed.receive(bob, &request.bytes());
    assert_eq!(sent.iter().map(Sent::status).collect::<Vec<_>>(), [481]);
    // With a Route to the hop, or to this proxy with an invented token.
    for routes in
        [vec![format!("<sip:{hop};lr>")], vec![format!("<sip:{PROXY};lr;sbp=x>"), format!("<sip:{hop};lr>")]]
    {
        for method in ["INVITE", "MESSAGE", "BYE"] {
            let request = Req { method: method.to_owned(), routes: routes.clone(), ..request.clone() };
            let sent = bed.receive(bob, &request.bytes());
            assert_eq!(sent.iter().map(|sent| sent.to).collect::<Vec<_>>(), [bob], "{method} {routes:?}");
            assert_eq!(sent[0].status(), 481, "{method} {routes:?}");
        }
    }
}

/// Stock clients without Record-Route: a call in the session table is known without a token, and ends. An invented To
/// tag with its Call-ID does not replace the password.
#[test]
fn a_call_in_the_session_table_is_known() {
    for service in [Service::Balance, Service::BalanceTransactions] {
        let (mut bed, alice, member) = (Bed::new(true, Reach::Source), addr(ALICE), addr("127.0.1.1:5060"));
        bed.set_members(&[member], service);
        set_rules(&mut bed, [to_pool(0, Conditions::default())]);
        let load = |bed: &Bed| bed.shard.balancer().load(Slot(0)).own.calls;
        let invite = call("c", "carol", alice);
        let at_member = bed.receive(alice, &invite.bytes()).pop().expect("the call is forwarded");
        let within = |method: &str, cseq, tag: &str| Req {
            cseq,
            to_tag: Some(tag.to_owned()),
            ..invite
                .clone()
                .same_branch(method, None)
                .via(&format!("SIP/2.0/UDP {alice};branch=z9hG4bK-{method}"))
        };
        let reaches = |bed: &mut Bed, request: &Req| bed.receive(alice, &request.bytes()).pop().unwrap();
        assert_eq!(reaches(&mut bed, &within("PRACK", 2, "bob")).to, member, "{service:?}");
        bed.receive(member, &answer(&at_member.bytes, addr(PROXY), 200, member));
        for (method, cseq, tag, is_known) in [
            ("ACK", 1, "bob", true),
            ("INVITE", 3, "x", false),
            ("MESSAGE", 4, "x", false),
            ("INFO", 5, "bob", true),
            ("BYE", 6, "bob", true),
        ] {
            let sent = reaches(&mut bed, &within(method, cseq, tag));
            let status = sent.message().status();
            assert_eq!(
                (sent.to == member, status),
                (is_known, (!is_known).then_some(481)),
                "{service:?} {method}"
            );
            if method == "BYE" {
                assert_eq!(load(&bed), 1);
                bed.receive(member, &answer(&sent.bytes, addr(PROXY), 200, member));
            }
        }
        assert_eq!(load(&bed), 0, "{service:?}");
        // The 200 was lost.
        assert_ne!(reaches(&mut bed, &within("BYE", 6, "bob")).message().status(), Some(481), "{service:?}");
    }
}

/// A sender with a forged source must not get a long response by a short request with the same branch.
#[test]
fn a_shorter_request_is_no_retransmission() {
    let (mut bed, bob) = (Bed::open(), addr(BOB));
    let request = register("bob", bob, "sip:me@127.0.9.2:6000");
    let long = request.clone().with("User-Agent", &"x".repeat(2_000));
    assert_eq!(bed.one(bob, &long.bytes()).status(), 200);
    assert_eq!(bed.receive(bob, &request.bytes()), []);
    assert_eq!(bed.one(bob, &long.bytes()).status(), 200);
}

/// A guess that is retransmitted, since its response was lost, counts once.
#[test]
fn a_repeated_guess_counts_once() {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    let request = register("bob", bob, "sip:me@127.0.9.2:6000");
    let challenged = bed.one(bob, &request.bytes());
    let wrong = authorized(&challenged, ("bob", "guess"), &request).bytes();
    for _ in 0..30 {
        assert_eq!(bed.one(bob, &wrong).status(), 401);
    }
    let request = named(&request, "other");
    let request = bed.with_credentials("bob", bob, &request);
    assert_eq!(bed.one(bob, &request.bytes()).status(), 200, "the user is not banned");
}

#[test]
fn without_the_users_database_refusals_are_temporary() {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    let request = bed.with_credentials("bob", bob, &register("bob", bob, "sip:me@127.0.9.2:6000"));
    bed.users_are_up = false;
    let refused = bed.one(bob, &request.bytes());
    assert_eq!((refused.status(), value(&refused.bytes, "Retry-After").as_deref()), (503, Some("10")));
}

/// A sender with a forged source must not flood that address: RFC 4732 §2.1.1.3.
#[test]
fn a_challenge_is_at_most_twice_as_long_as_its_request() {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    let request = Req { body: "", lines: Vec::new(), ..register("b", bob, "sip:b@127.0.9.2") };
    for padding in [0, 200, 400, 800] {
        let via = format!("SIP/2.0/UDP {bob};branch=z9hG4bK-{padding}");
        let request = request.clone().via(&via).with("User-Agent", &"x".repeat(padding)).bytes();
        let challenged = bed.one(bob, &request);
        assert!(
            challenged.bytes.len() <= 2 * request.len(),
            "{padding}: {} to {}",
            challenged.bytes.len(),
            request.len()
        );
        assert!(challenged.bytes.windows(13).any(|part| part == b"algorithm=MD5"), "{padding}");
    }
}

/// Each request counts once, by its result, even if it was retransmitted.
#[test]
fn requests_are_counted_by_result() {
    let (mut bed, alice, bob) = (Bed::new(true, Reach::Source), addr(ALICE), addr(BOB));
    let counters = |bed: &Bed| bed.shard.registrar_report().expect("a home domain").counters;
    let request = register("bob", bob, "sip:me@127.0.9.2:6000");
    let added = bed.with_credentials("bob", bob, &request).bytes();
    assert_eq!([bed.one(bob, &added).status(), bed.one(bob, &added).status()], [200; 2]);
    let fetched = bed.with_credentials("bob", bob, &Req { contact: String::new(), ..named(&request, "f") });
    assert_eq!(bed.one(bob, &fetched.bytes()).status(), 200);
    let challenged = bed.one(bob, &named(&request, "w").bytes());
    let wrong = authorized(&challenged, ("bob", "guess"), &named(&request, "w"));
    assert_eq!(bed.one(bob, &wrong.bytes()).status(), 401);
    let other = bed.with_credentials("bob", bob, &named(&register("alice", bob, "sip:me@127.0.9.2"), "o"));
    assert_eq!(bed.one(bob, &other.bytes()).status(), 403);
    let invite = bed.with_credentials("alice", alice, &call("c", "bob", alice));
    assert_eq!(bed.receive(alice, &invite.bytes()).len(), 2);
    let removed = bed.with_credentials("bob", bob, &named(&request, "r").with("Expires", "0"));
    assert_eq!(bed.one(bob, &removed.bytes()).status(), 200);
    let invite = bed.with_credentials("alice", alice, &call("d", "bob", alice));
    assert_eq!(bed.one(alice, &invite.bytes()).status(), 480);
    bed.users_are_up = false;
    let silent = bed.with_credentials("bob", bob, &named(&request, "s"));
    assert_eq!(bed.one(bob, &silent.bytes()).status(), 503);
    let log_ins = LogIns { challenged: 8, accepted: 6, refused: 1, failed: 1, ..LogIns::default() };
    let look_ups = LookUps { found: 1, not_found: 1, failed: 0 };
    let refused = [(403, 1)].into();
    let expected = RegistrarCounters { granted: 1, removed: 1, fetched: 1, refused, log_ins, look_ups };
    assert_eq!(counters(&bed), expected);
    assert_eq!(bed.wrong, [WrongPassword { user: "bob".into(), from: bob }]);
}

/// A reused nonce is no wrong password, nor are unchecked credentials.
#[test]
fn replays_and_bans_are_distinguished_from_wrong_passwords() {
    let (mut bed, bob) = (Bed::new(true, Reach::Source), addr(BOB));
    let counts = |bed: &Bed| bed.shard.registrar_report().expect("a home domain").counters.log_ins;
    let request = register("bob", bob, "sip:me@127.0.9.2:6000");
    let right = bed.with_credentials("bob", bob, &request);
    assert_eq!(bed.one(bob, &right.bytes()).status(), 200);
    assert_eq!(bed.one(bob, &named(&right, "replay").bytes()).status(), 401);
    assert_eq!(counts(&bed), LogIns { challenged: 1, accepted: 1, stale: 1, ..LogIns::default() });
    let mut last = 0;
    for number in 0..60 {
        let request = named(&request, &format!("guess{number}"));
        let challenged = bed.one(bob, &request.bytes());
        last = bed.one(bob, &authorized(&challenged, ("bob", "guess"), &request).bytes()).status();
    }
    let log_ins = counts(&bed);
    assert_eq!((last, log_ins.stale, log_ins.accepted, log_ins.challenged), (403, 1, 1, 61));
    assert!(
        log_ins.refused > 0 && log_ins.banned > 0 && log_ins.refused + log_ins.banned == 60,
        "{log_ins:?}"
    );
    assert_eq!(bed.wrong.len() as u64, log_ins.refused, "each wrong password is reported");
}

#[test]
fn waiting_for_a_silent_store_is_limited() {
    let (mut bed, alice) = (Bed::open(), addr(ALICE));
    assert_eq!(bed.arrive(alice, &call("c", "bob", alice).bytes()), []);
    bed.arrive(alice, &register("alice", alice, "sip:me@127.0.9.1:6000").bytes());
    assert_eq!(bed.shard.registrar_report().map(|report| report.waiting), Some(2));
    assert_eq!(statuses(&bed.wait(Duration::from_secs(6))), [503, 503]);
    assert_eq!(bed.answer(), [], "late answers are ignored");
    assert_eq!(bed.shard.deadline(), None);
    let report = bed.shard.registrar_report().expect("a home domain");
    let refused = [(503, 1)].into();
    let look_ups = LookUps { failed: 1, ..LookUps::default() };
    assert_eq!(
        report,
        RegistrarReport {
            counters: RegistrarCounters { refused, look_ups, ..RegistrarCounters::default() },
            waiting: 0
        }
    );
}

/// An attacker must not fill the log with a long name.
#[test]
fn a_long_name_is_truncated_in_reports() {
    let (mut bed, bob, user) = (Bed::new(true, Reach::Source), addr(BOB), "x".repeat(200));
    let request = bed.with_credentials(&user, bob, &register("bob", bob, "sip:me@127.0.9.2:6000"));
    assert_eq!(bed.one(bob, &request.bytes()).status(), 401);
    assert_eq!(bed.wrong.iter().map(|wrong| wrong.user.len()).collect::<Vec<_>>(), [64]);
}
