//! RFC 3261 §10.3 and RFC 3327 §5.3, step by step.
use crate::common::{Bed, alice, at, read, settings, socket, string, text, values};
use location::{
    Aor, Authorization, PathRule, Purpose, Reach, Register, Registrar, RegistrarDecision, RegistrarResponse,
    Registration, RegistrationSettings, RegistrationStep,
};

const HOME: &str = "Contact: <sip:alice@192.0.2.1>";
const WORK: &str = "Contact: <sip:alice@192.0.2.2;transport=tcp>;q=0.5;+sip.instance=\"<urn:x>\"";

fn bed() -> Bed {
    Bed::new(settings())
}

fn status(answer: &RegistrarResponse) -> u16 {
    assert!((200..600).contains(&answer.status), "no 6xx");
    answer.status
}

#[test]
fn contacts_are_bound_and_all_are_listed() {
    // [10.3-18] [10.3-14] [10.3-2]
    let mut bed = bed();
    let answer = bed.register(0, "a", 1, &[HOME, "Record-Route: <sip:p;lr>"]);
    assert_eq!(status(&answer), 200);
    assert_eq!(values(&answer, "Contact"), ["<sip:alice@192.0.2.1>;expires=3600"]);
    assert_eq!(values(&answer, "Date"), ["Tue, 14 Nov 2023 22:13:20 GMT"]);
    assert_eq!(values(&answer, "Record-Route"), [""; 0]);
    let answer = bed.register(100, "b", 1, &[WORK, "Expires: 120"]);
    assert_eq!(
        values(&answer, "Contact"),
        [
            "<sip:alice@192.0.2.1>;expires=3500",
            "<sip:alice@192.0.2.2;transport=tcp>;q=0.500;expires=120;+sip.instance=\"<urn:x>\"",
        ]
    );
    assert_eq!(bed.uris(100), ["sip:alice@192.0.2.1", "sip:alice@192.0.2.2;transport=tcp"]);
    assert_eq!(bed.uris(220), ["sip:alice@192.0.2.1"], "the other binding has expired");
    // An equal URI in another spelling is the same binding.
    let answer = bed.register(300, "a", 2, &["m: \"A\" <sip:%61lice@192.0.2.1;x=y>;expires=60"]);
    assert_eq!(values(&answer, "Contact"), ["<sip:%61lice@192.0.2.1;x=y>;expires=60"]);
}

#[test]
fn a_query_changes_nothing() {
    // [10.3-10]
    let mut bed = bed();
    assert_eq!(values(&bed.register(0, "q", 1, &[]), "Contact"), [""; 0]);
    bed.register(0, "a", 1, &[HOME]);
    let before = bed.store.get(&alice()).cloned();
    let answer = bed.register(10, "q", 1, &["Expires: 0"]);
    assert_eq!((status(&answer), values(&answer, "Contact").len()), (200, 1));
    assert_eq!(bed.store.get(&alice()).cloned(), before);
}

#[test]
fn the_purpose_of_a_request_is_known() {
    let of = |lines: &[&str]| read(&text("a", 1, lines)).map(|register| register.purpose());
    assert_eq!(of(&[]), Ok(Purpose::Fetch));
    assert_eq!(of(&["Expires: 0"]), Ok(Purpose::Fetch));
    assert_eq!(of(&[HOME]), Ok(Purpose::Add));
    assert_eq!(of(&[HOME, "Expires: 0"]), Ok(Purpose::Remove));
    assert_eq!(of(&["Contact: *", "Expires: 0"]), Ok(Purpose::Remove));
    let gone = "Contact: <sip:a@h>;expires=0";
    assert_eq!(of(&[gone, "Expires: 60"]), Ok(Purpose::Remove));
    assert_eq!(of(&[gone, HOME]), Ok(Purpose::Add));
}

/// Whatever CSeq the client has reached: an operator's removal is newer.
#[test]
fn an_operator_removes_one_contact_or_all() {
    let mut bed = bed();
    bed.register(0, "a", (1 << 31) - 1, &[HOME]);
    bed.register(0, "b", 7, &[WORK]);
    let answer = bed.take(1, Register::removal(alice(), Some(b"sip:alice@192.0.2.1:5060")));
    assert_eq!(
        (answer.status, values(&answer, "Contact").len()),
        (200, 2),
        "another port makes another contact"
    );
    let answer = bed.take(1, Register::removal(alice(), Some(b"sip:alice@192.0.2.1")));
    assert_eq!((answer.status, values(&answer, "Contact").len()), (200, 1));
    let answer = bed.take(1, Register::removal(alice(), None));
    assert_eq!((answer.status, bed.uris(1).len()), (200, 0));
    assert_eq!(bed.take(1, Register::removal(alice(), None)).status, 200, "no binding is left to remove");
    let elsewhere = Aor::of(b"sip:alice@elsewhere.example").expect("an address");
    assert_eq!(bed.take(1, Register::removal(elsewhere, None)).status, 404);
}

/// A phone registers between the operator's read and removal. Both changes are made.
#[test]
fn a_removal_that_meets_a_registration_decides_again() {
    let mut bed = bed();
    bed.register(0, "a", 1, &[HOME]);
    let (mut removal, mut step) =
        Registration::begin(Register::removal(alice(), Some(b"sip:alice@192.0.2.1")));
    let mut asked = 0;
    let answer = loop {
        match step {
            RegistrationStep::Done(answer) => break answer,
            RegistrationStep::Request(ask) => {
                asked += 1;
                if asked == 2 {
                    bed.register(1, "b", 1, &[WORK]);
                }
                let reply = ask.send_to(&mut bed.store, at(1));
                step = removal.reply(at(1), &bed.registrar, reply);
            }
        }
    };
    assert_eq!((answer.status, asked), (200, 4), "read, a conflict, and both again");
    assert_eq!(bed.uris(1), ["sip:alice@192.0.2.2;transport=tcp"]);
}

#[test]
fn targets_are_tried_by_preference_and_then_the_latest() {
    let mut bed = bed();
    for (secs, contact) in
        [(0, "<sip:a@h>;q=0.2"), (1, "<sip:b@h>"), (2, "<sip:c@h>;q=0.2"), (3, "<sip:d@h>;q=0")]
    {
        bed.register(secs, "x", secs as u32 + 1, &[&format!("Contact: {contact}")]);
    }
    assert_eq!(bed.uris(4), ["sip:b@h", "sip:c@h", "sip:a@h", "sip:d@h"]);
    bed.register(5, "x", 9, &["Contact: <sip:a@h>;q=0.2"]);
    assert_eq!(bed.uris(6), ["sip:b@h", "sip:a@h", "sip:c@h", "sip:d@h"]);
}

#[test]
fn intervals() {
    // [10.3-11] [10.3-12] [10.3-13]
    let mut bed = Bed::new(RegistrationSettings {
        expires_min: 120,
        expires_default: 600,
        expires_max: 1800,
        ..settings()
    });
    let mut granted = |secs: u64, lines: &[&str]| {
        let answer = bed.register(secs, "a", secs as u32 + 1, lines);
        (answer.status, values(&answer, "Contact").concat(), values(&answer, "Min-Expires").concat())
    };
    let ok = |secs: u32| (200, format!("<sip:alice@192.0.2.1>;expires={secs}"), String::new());
    assert_eq!(granted(1, &[HOME]), ok(600), "the default interval");
    assert_eq!(granted(2, &[HOME, "Expires: 700"]), ok(700));
    assert_eq!(
        granted(3, &[&format!("{HOME};expires=800"), "Expires: 700"]),
        ok(800),
        "the interval of the contact comes first"
    );
    assert_eq!(granted(4, &[HOME, "Expires: 4294967295"]), ok(1800), "limited to the longest interval");
    assert_eq!(
        granted(5, &[HOME, "Expires: 4294967296"]),
        ok(1800),
        "a malformed interval counts as an hour"
    );
    let brief = (423, String::new(), "120".to_owned());
    assert_eq!(granted(6, &[HOME, "Expires: 119"]), brief);
    assert_eq!(granted(7, &[HOME, "Expires: 1"]), brief);
    assert_eq!(granted(8, &[HOME, "Expires: 120"]), ok(120));
    assert_eq!(granted(9, &[HOME, "Expires: 0"]), (200, String::new(), String::new()), "removed");
    // An hour is never too brief.
    let mut bed = Bed::new(RegistrationSettings { expires_min: 7000, ..settings() });
    assert_eq!(bed.register(0, "a", 1, &[HOME, "Expires: 3600"]).status, 200);
    let answer = bed.register(0, "a", 2, &[HOME, "Expires: 3599"]);
    assert_eq!((answer.status, values(&answer, "Min-Expires")), (423, vec!["3600".to_owned()]));
}

#[test]
fn a_request_out_of_order_fails_as_a_whole() {
    // [10.3-15] [10.3-16] [10.3-5]
    let mut bed = bed();
    bed.register(0, "a", 5, &[HOME]);
    let before = bed.store.get(&alice()).cloned();
    for cseq in [5, 4] {
        for lines in
            [&[WORK, HOME][..], &[HOME, WORK], &[&format!("{HOME};expires=0")], &["Contact: *", "Expires: 0"]]
        {
            assert_eq!(bed.register(1, "a", cseq, lines).status, 500, "{cseq} {lines:?}");
            assert_eq!(bed.store.get(&alice()).cloned(), before, "no contact of the request is added");
        }
    }
    // One wrong contact rejects the whole request.
    assert_eq!(bed.register(1, "a", 6, &[WORK, &format!("{HOME};expires=1")]).status, 423);
    assert_eq!(bed.store.get(&alice()).cloned(), before);
    // A restarted client has another Call-ID, and its CSeq starts anew.
    assert_eq!(bed.register(2, "b", 1, &[HOME]).status, 200);
    assert_eq!((bed.targets(2)[0].cseq, string(&bed.targets(2)[0].call_id)), (1, "b".to_owned()));
    assert_eq!(bed.register(3, "a", 1, &[&format!("{HOME};expires=0")]).status, 200);
    assert_eq!(bed.uris(3), [""; 0]);
    // A contact may appear twice in a request.
    assert_eq!(bed.register(4, "c", 1, &[HOME, HOME, &format!("{HOME};q=0.1")]).status, 200);
    assert_eq!(bed.targets(4).iter().map(|target| target.q).collect::<Vec<_>>(), [100]);
}

#[test]
fn a_star_removes_all() {
    // [10.3-9] [10.3-10]
    let mut bed = bed();
    bed.register(0, "a", 5, &[HOME]);
    bed.register(0, "b", 9, &[WORK]);
    for lines in [
        &["Contact: *"][..],
        &["Contact: *", "Expires: 60"],
        &["Contact: *, <sip:a@h>", "Expires: 0"],
        &["Contact: *", HOME, "Expires: 0"],
        &["Contact: *", "Contact: *", "Expires: 0"],
    ] {
        assert_eq!(bed.register(1, "c", 1, lines).status, 400, "{lines:?}");
    }
    assert_eq!(bed.uris(1).len(), 2);
    assert_eq!(bed.register(1, "a", 6, &["Contact: *", "Expires: 0"]).status, 200);
    assert!(bed.store.get(&alice()).is_none());
    // Nothing is left to remove, so nothing is written.
    let registrar = Registrar::new(settings());
    for (cseq, lines) in [(7, &["Contact: *", "Expires: 0"][..]), (8, &[HOME, "Expires: 0"])] {
        let register = read(&text("a", cseq, lines)).unwrap();
        assert!(
            matches!(registrar.decide(at(2), &register, None), RegistrarDecision::Answer(answer) if answer.status == 200)
        );
    }
}

#[test]
fn only_addresses_of_record_of_our_domains_are_bound() {
    // [10.3-3] [10.3-7] [10.3-8]
    let mut bed = bed();
    let registrar = Registrar::new(settings());
    assert!(registrar.serves(b"sip:EXAMPLE.com;x=y") && registrar.serves(b"sip:[2001:DB8::1]:5060"));
    assert!(
        !registrar.serves(b"sip:example.org")
            && !registrar.serves(b"tel:+1")
            && !registrar.serves(b"sip:example.com:5070")
    );
    let to =
        |uri: &str| text("a", 1, &[HOME]).replace("To: <sip:alice@example.com>", &format!("To: <{uri}>"));
    for foreign in ["sip:alice@example.org", "sip:alice@example.com:5070", "tel:+15551234"] {
        assert_eq!(bed.receive(0, &to(foreign)).status, 404, "{foreign}");
    }
    assert_eq!(bed.receive(0, &to("sip:%61lice:pw@EXAMPLE.com.:5060;user=phone")).status, 200);
    assert_eq!(bed.uris(0), ["sip:alice@192.0.2.1"]);
    assert_eq!(bed.store.get(&Aor::of(b"sip:alice@example.org").unwrap()), None);
}

/// A user of one domain must not take over the user of the same name in another.
#[test]
fn a_user_has_the_right_to_one_address_of_record() {
    // [10.3-6]
    let domains = || vec![(*b"example.com").into(), (*b"example.org").into()];
    let mut bed = Bed::new(RegistrationSettings { domains: domains(), ..settings() });
    let mut cseq = 0;
    let mut status = |bed: &mut Bed, user: &str, realm: &str| {
        cseq += 1;
        let mut register = read(&text("u", cseq, &[WORK])).unwrap();
        register.authorization =
            Authorization::As { user: user.as_bytes().into(), realm: realm.as_bytes().into() };
        bed.take(1, register).status
    };
    for other in ["bob", "Alice", "", "alice@example.org", "bob@example.com", "@example.com", "alice@"] {
        assert_eq!(status(&mut bed, other, "example.com"), 403, "{other}");
    }
    for user in ["alice", "alice@example.com", "alice@Example.COM"] {
        assert_eq!(status(&mut bed, user, "example.com"), 200, "{user}");
        for realm in ["example.org", "", "carrier"] {
            assert_eq!(status(&mut bed, user, realm), 403, "{user} of {realm}");
        }
    }
    let shared_realm = Some((*b"carrier").into());
    let mut bed = Bed::new(RegistrationSettings { domains: domains(), shared_realm, ..settings() });
    assert_eq!(status(&mut bed, "alice", "carrier"), 200);
    assert_eq!(status(&mut bed, "alice@example.com", "carrier"), 200);
    assert_eq!(status(&mut bed, "alice", "example.com"), 200);
    for (user, realm) in [("alice", "example.org"), ("alice@example.org", "carrier"), ("bob", "carrier")] {
        assert_eq!(status(&mut bed, user, realm), 403, "{user} of {realm}");
    }
}

#[test]
fn unknown_required_extensions_are_listed() {
    // [10.3-4] [10.3-1]
    let mut bed = bed();
    let answer = bed.register(0, "a", 1, &[HOME, "Require: path, gruu", "Require:\r\n outbound"]);
    assert_eq!((answer.status, values(&answer, "Unsupported")), (420, vec!["gruu, outbound".to_owned()]));
    assert_eq!(bed.register(0, "a", 1, &[HOME, "Require: Path"]).status, 200);
}

#[test]
fn paths_are_kept_in_order() {
    // [5.3-1] [5.3-2] [5.3-3]
    let mut bed = bed();
    let path = ["Path: <sip:p1;lr>, \"x\" <sip:p2;lr>;a=b", HOME, "Path:\r\n <sip:p3;lr>"];
    let answer = bed.register(0, "a", 1, &path);
    assert_eq!((answer.status, values(&answer, "Unsupported")), (420, vec!["path".to_owned()]));
    let answer = bed.register(0, "a", 1, &[path[0], path[1], path[2], "Supported: 100rel, path"]);
    let vector = "<sip:p1;lr>,\"x\" <sip:p2;lr>;a=b,<sip:p3;lr>";
    assert_eq!((answer.status, values(&answer, "Path")), (200, vec![vector.to_owned()]));
    assert_eq!(string(&bed.targets(0)[0].path), vector);
    assert_eq!(bed.register(0, "a", 2, &["Path: sip:p1;lr", HOME, "k: path"]).status, 400);
    let long = format!("Path: <sip:p1;lr;x={}>", "y".repeat(2_048));
    assert_eq!(
        bed.register(0, "a", 3, &[&long, HOME, "Supported: path"]).status,
        400,
        "a longer Path would not fit into requests"
    );
    let mut lenient = Bed::new(RegistrationSettings { path: PathRule::Accept, ..settings() });
    assert_eq!(lenient.register(0, "a", 1, &path).status, 200);
    assert_eq!(string(&lenient.targets(0)[0].path), vector);
}

#[test]
fn a_request_that_cannot_be_stored_changes_nothing() {
    // [10.3-17]
    let mut bed = Bed::new(RegistrationSettings { contacts_max: 3, record_max: 400, ..settings() });
    let contact = |n: usize| format!("Contact: <sip:{n}@h>");
    for n in 0..3 {
        assert_eq!(bed.register(0, "a", n as u32, &[&contact(n)]).status, 200);
    }
    assert_eq!(bed.register(1, "a", 9, &[&contact(3)]).status, 403);
    assert_eq!(bed.register(1, "a", 9, &[&contact(3), &format!("{};expires=0", contact(0))]).status, 200);
    let long = format!("Contact: <sip:1@h;x={}>", "y".repeat(300));
    assert_eq!(bed.register(2, "a", 10, &[&long]).status, 403);
    assert_eq!(bed.uris(2).len(), 3);
    // Expired bindings take no room.
    assert_eq!(bed.register(4000, "b", 1, &[&contact(7)]).status, 200);
    assert_eq!(bed.uris(4000), ["sip:7@h"]);
}

/// Contacts that need many comparisons are refused before any comparison.
#[test]
fn contacts_that_need_many_comparisons_are_refused() {
    let mut bed = bed();
    let contact = |params: usize, value: usize| {
        let param = format!(";x={}", "v".repeat(value));
        format!("Contact: <sip:a@h{}>", param.repeat(params))
    };
    for (cseq, (params, value, status)) in
        [(32, 1, 200), (33, 1, 403), (1, 1000, 200), (1, 1020, 403), (8000, 1, 403)].into_iter().enumerate()
    {
        let answer = bed.register(0, "a", cseq as u32, &[&contact(params, value)]);
        assert_eq!(answer.status, status, "{params} of {value} bytes");
    }
    let before = bed.store.get(&alice()).cloned();
    let many =
        |count: usize| (0..count).map(|n| format!("Contact: <sip:{n}@h>;expires=0")).collect::<Vec<_>>();
    for (count, status) in [(10, 200), (11, 403)] {
        let lines = many(count);
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(bed.register(1, "b", count as u32, &lines).status, status, "{count} contacts");
    }
    assert_eq!(bed.store.get(&alice()).cloned(), before);
}

#[test]
fn a_client_behind_a_nat_is_reached_at_its_source() {
    let source = |bed: &mut Bed, lines: &[&str]| {
        let mut lines = lines.to_vec();
        lines.push("Supported: path");
        assert_eq!(bed.register(0, "a", 1, &lines).status, 200);
        bed.targets(0)[0].source.map(|source| source.peer)
    };
    let peer = socket("198.51.100.7:40000");
    let nat = || Bed::new(RegistrationSettings { reach: Reach::Source, ..settings() });
    assert_eq!(source(&mut nat(), &[HOME]), Some(peer));
    assert_eq!(source(&mut nat(), &["Contact: <sip:a@198.51.100.7>"]), Some(peer), "another port");
    assert_eq!(source(&mut nat(), &["Contact: <sip:a@198.51.100.7:40000>"]), None);
    assert_eq!(
        source(&mut nat(), &["Contact: <sip:a@client.example>"]),
        Some(peer),
        "a host name may point anywhere"
    );
    let elsewhere = ["Contact: <sip:a@198.51.100.7:40000;maddr=192.0.2.9>"];
    assert_eq!(source(&mut nat(), &elsewhere), Some(peer));
    assert_eq!(
        source(&mut nat(), &[HOME, "Path: <sip:198.51.100.7;lr>"]),
        None,
        "the edge proxy knows the source"
    );
    assert_eq!(source(&mut bed(), &[HOME]), None, "the setting is off");
}

/// Otherwise any registered user could have requests for an address-of-record sent to any host.
#[test]
fn a_path_begins_at_its_sender() {
    for path in
        ["<sip:edge.example;lr>", "<sip:192.0.2.9;lr>", "<sip:198.51.100.7;maddr=192.0.2.9;lr>", "<tel:1>"]
    {
        let mut bed = Bed::new(RegistrationSettings { reach: Reach::Source, ..settings() });
        let answer = bed.register(0, "a", 1, &[HOME, "Supported: path", &format!("Path: {path}")]);
        assert_eq!((answer.status, bed.uris(0).len()), (403, 0), "{path}");
    }
    let mut bed = Bed::new(RegistrationSettings { reach: Reach::Source, ..settings() });
    let path = "Path: <sip:198.51.100.7:5080;lr>, <sip:192.0.2.9;lr>";
    assert_eq!(bed.register(0, "a", 1, &[HOME, "Supported: path", path]).status, 200);
}

#[test]
fn setting_the_clock_back_extends_no_binding() {
    let mut bed = bed();
    bed.register(10_000, "a", 1, &[HOME]);
    assert_eq!(bed.targets(6_400)[0].remaining_secs(at(6_400)), 3600);
    // By more than an hour: the age of the binding is unknown.
    assert_eq!(bed.uris(6_399), [""; 0]);
    let record = bed.store.get(&alice()).cloned().unwrap();
    assert!(record.is_live(at(6_400)) && !record.is_live(at(6_399)));
    assert_eq!(bed.store.sweep(at(6_399), 1), [alice()], "the binding is swept at once");
}

/// A REGISTER over this TCP connection, from alice's host.
fn connected(call_id: &str, cseq: u32, connection: u32, lines: &[&str]) -> Register {
    let mut register = read(&text(call_id, cseq, lines)).expect("a REGISTER");
    let connection = core::num::NonZeroU32::new(connection).map(base::Connection);
    let peer = socket("192.0.2.1:40000");
    let flow = base::Flow { transport: base::Transport::Tcp, listener: 0, peer, connection };
    register.source = Some(location::Source::of(flow, socket("203.0.113.1:5060")));
    register
}

const PHONE: &str =
    "Contact: <sip:alice@10.0.0.1:5060;transport=tcp>;+sip.instance=\"<urn:uuid:1>\";reg-id=1";

/// [6-5] [6-6] [6-7] RFC 5626 §6.
#[test]
fn a_new_flow_replaces_the_former_one() {
    let mut bed = Bed::new(RegistrationSettings { reach: Reach::Source, ..settings() });
    let supported = "Supported: path, outbound";
    let answer = bed.take(0, connected("a", 1, 7, &[PHONE, supported]));
    assert_eq!((status(&answer), values(&answer, "Require")), (200, vec!["outbound".to_owned()]));
    // After a restart: another Call-ID, port and connection.
    let moved = PHONE.replace("10.0.0.1:5060", "10.0.0.1:5072");
    bed.take(10, connected("b", 1, 9, &[&moved, supported]));
    let second = PHONE.replace("reg-id=1", "reg-id=2");
    bed.take(20, connected("c", 1, 11, &[&second, supported]));
    let connections = |bed: &mut Bed| {
        let of = |binding: location::Binding| binding.source.unwrap().connection.unwrap().0.get();
        bed.targets(30).into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(connections(&mut bed), [11, 9]);
    // A client that does not ask for outbound gets no confirmation, and only its own flow ends.
    let removed = format!("{second};expires=0");
    let answer = bed.take(40, connected("c", 2, 11, &[&removed]));
    assert_eq!(values(&answer, "Require"), [""; 0]);
    assert_eq!(connections(&mut bed), [9]);
}

/// [6-1] [6-2] [6-3] [6-4] RFC 5626 §6.
#[test]
fn a_flow_that_a_proxy_does_not_keep_is_ignored() {
    let mut bed = bed();
    let mut cseq = 0;
    let mut take = |lines: &[&str], is_direct: bool| {
        cseq += 1;
        let register = Register { is_direct, ..connected("a", cseq, 7, lines) };
        bed.take(0, register)
    };
    let supported = "Supported: path, outbound";
    assert_eq!(status(&take(&[PHONE, supported], false)), 439);
    assert_eq!(status(&take(&[PHONE, supported, "Path: <sip:192.0.2.9;lr>"], false)), 439);
    let answer = take(&[PHONE, supported, "Path: <sip:192.0.2.9;lr;ob>"], false);
    assert_eq!((status(&answer), values(&answer, "Require")), (200, vec!["outbound".to_owned()]));
    assert_eq!(status(&take(&[PHONE, PHONE, supported], true)), 400);
    let without = PHONE.replace("+sip.instance", "x");
    let answer = take(&[&without, &without, supported], true);
    assert_eq!((status(&answer), values(&answer, "Require")), (200, Vec::new()));
}

/// A contact with exactly the source port of its connection is not listening there.
#[test]
fn a_connection_is_kept_with_any_contact() {
    for (reach, contact, is_kept) in [
        (Reach::Source, "Contact: <sip:alice@192.0.2.1:40000;transport=tcp>", true),
        (Reach::Contact, "Contact: <sip:alice@192.0.2.1:40000;transport=tcp>", false),
        (Reach::Contact, PHONE, true),
    ] {
        let mut bed = Bed::new(RegistrationSettings { reach, ..settings() });
        bed.take(0, connected("a", 1, 7, &[contact, "Supported: outbound"]));
        assert_eq!(bed.targets(1)[0].source.is_some(), is_kept, "{contact}");
    }
}
