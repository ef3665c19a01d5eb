//! Attacks of a sender that has seen every line of every connection, but has no key, or only the key of another server.
//! `invariants::updates` tries more.

use base::Instant;
use elastic::estimate::VALIDITY;
use elastic::update::{
    Announcements, Key, KeyKind, ServerName, Update, UpdateKeys, UpdateReceiver, UpdateRefusal, UpdateSender,
};
use std::sync::Arc;

const NONCE: [u8; 16] = [9; 16];

fn key(first: u8) -> Key {
    Key::new(&[first; 16])
}

/// A receiver, and the first three updates of its sender.
fn connection(key_of_sender: Key, nonce: [u8; 16]) -> (UpdateReceiver, [String; 3]) {
    let receiver =
        UpdateReceiver::new(Arc::new(UpdateKeys { shared: Some(key(1)), ..UpdateKeys::default() }), nonce);
    let mut sender = UpdateSender::greeted(key_of_sender, receiver.greeting().trim_end().as_bytes())
        .expect("the constants are right");
    let server: ServerName = "10.0.0.1".parse().expect("the constants are right");
    let made = [100.0, 200.0, 300.0].map(|capacity| sender.update(&server, capacity).trim_end().to_owned());
    (receiver, made)
}

fn give(receiver: &mut UpdateReceiver, line: &str) -> Result<Update, UpdateRefusal> {
    receiver.line(line.as_bytes())
}

#[test]
fn updates_in_order_are_accepted() {
    let (mut receiver, made) = connection(key(1), NONCE);
    let capacities = made.map(|line| give(&mut receiver, &line).map(|update| update.capacity));
    assert_eq!(capacities, [Ok(100.0), Ok(200.0), Ok(300.0)]);
}

#[test]
fn another_key_makes_other_codes() {
    let (mut receiver, made) = connection(key(2), NONCE);
    assert_eq!(give(&mut receiver, &made[0]), Err(UpdateRefusal::WrongCode));
}

#[test]
fn repeated_and_reordered_updates_are_refused() {
    let (mut receiver, made) = connection(key(1), NONCE);
    give(&mut receiver, &made[0]).unwrap();
    assert_eq!(give(&mut receiver, &made[0]), Err(UpdateRefusal::WrongNumber), "a replay");
    assert_eq!(
        give(&mut receiver, &made[1]),
        Err(UpdateRefusal::WrongNumber),
        "after a refusal every line is refused"
    );
    let (mut receiver, made) = connection(key(1), NONCE);
    assert_eq!(
        give(&mut receiver, &made[1]),
        Err(UpdateRefusal::WrongNumber),
        "the first update was left out"
    );
}

#[test]
fn updates_of_another_connection_are_refused() {
    let (_, made) = connection(key(1), [8; 16]);
    let (mut receiver, _) = connection(key(1), NONCE);
    assert_eq!(give(&mut receiver, &made[0]), Err(UpdateRefusal::WrongCode));
}

/// For any byte that is changed or missing.
#[test]
fn altered_and_truncated_updates_are_refused() {
    let (_, made) = connection(key(1), NONCE);
    let line = made[0].as_bytes();
    for at in 0..line.len() {
        for other in
            [b' ', b'0', b'9', b'a', b'A', b'.', b'-', 0, 0xff].into_iter().filter(|other| *other != line[at])
        {
            let mut altered = line.to_vec();
            altered[at] = other;
            assert!(connection(key(1), NONCE).0.line(&altered).is_err(), "{altered:?}");
        }
        assert!(connection(key(1), NONCE).0.line(&line[..at]).is_err());
        assert!(connection(key(1), NONCE).0.line(&line[at + 1..]).is_err());
    }
    let capitals = made[0].to_uppercase();
    assert_eq!(
        give(&mut connection(key(1), NONCE).0, &capitals),
        Err(UpdateRefusal::Malformed),
        "a code has only one text"
    );
    assert!(give(&mut connection(key(1), NONCE).0, &format!("{} ", made[0])).is_err());
}

/// The answers tell a sender without the key nothing about other errors.
#[test]
fn the_code_is_checked_first() {
    let code = "0".repeat(64);
    for line in
        ["UPDATE 7 10.0.0.1:5060 1.000", "UPDATE 1 nobody 1", "what is this", "UPDATE 1 10.0.0.1:5060 1e9"]
    {
        let (mut receiver, _) = connection(key(1), NONCE);
        assert_eq!(give(&mut receiver, &format!("{line} {code}")), Err(UpdateRefusal::WrongCode), "{line}");
    }
    for line in ["", " ", "UPDATE", "GET / HTTP/1.1", "UPDATE 1 10.0.0.1:5060 1.000", "UPDATE 1 a 1 00"] {
        let (mut receiver, _) = connection(key(1), NONCE);
        assert_eq!(give(&mut receiver, line), Err(UpdateRefusal::Malformed), "{line}");
    }
}

/// Answer to the first update of this server, made with the key that starts with this byte, from a receiver with the
/// keys 1 and 2 of single servers.
fn claimed(shared: Option<u8>, server: &str, with: u8) -> Result<(String, KeyKind), UpdateRefusal> {
    let parsed = |text: &str| text.parse::<ServerName>().expect("the constants are right");
    let own = [("10.0.0.1", 1), ("sip2.example.com", 2)].map(|(server, first)| (parsed(server), key(first)));
    let keys = UpdateKeys { shared: shared.map(key), own: own.into() };
    let mut receiver = UpdateReceiver::new(Arc::new(keys), NONCE);
    let mut sender = UpdateSender::greeted(key(with), receiver.greeting().trim_end().as_bytes())
        .expect("the constants are right");
    let line = sender.update(&ServerName::Name(server.to_owned()), 100.0);
    let answer = give(&mut receiver, line.trim_end()).map(|update| (update.server.to_string(), update.key));
    assert_eq!(receiver.named(), server.parse().ok().as_ref());
    answer
}

#[test]
fn the_key_of_a_server_is_valid_for_that_server_only() {
    let by_own = |server: &str| Ok((server.to_owned(), KeyKind::Own));
    let by_shared = |server: &str| Ok((server.to_owned(), KeyKind::Shared));
    for shared in [None, Some(3)] {
        for own in ["10.0.0.1", "10.0.0.1:5060"] {
            assert_eq!(claimed(shared, own, 1), by_own("10.0.0.1:5060"));
        }
        for own in ["sip2.example.com", "SIP2.example.COM."] {
            assert_eq!(claimed(shared, own, 2), by_own("sip2.example.com"));
        }
        for (others, with) in
            [("sip2.example.com", 1), ("10.0.0.1", 2), ("10.0.0.3", 1), ("sip3.example.com", 2)]
        {
            assert_eq!(claimed(shared, others, with), Err(UpdateRefusal::WrongCode), "{others} {with}");
        }
        // The shared key is not valid for servers with their own, in any spelling of their names.
        for own in ["10.0.0.1", "10.0.0.1:05060", "sip2.example.com", "SIP2.EXAMPLE.COM", "sip2.example.com."]
        {
            assert_eq!(claimed(shared, own, 3), Err(UpdateRefusal::WrongCode), "{own}");
        }
    }
    assert_eq!(claimed(Some(3), "10.0.0.3", 3), by_shared("10.0.0.3:5060"));
    assert_eq!(claimed(Some(3), "10.0.0.1:5070", 3), by_shared("10.0.0.1:5070"), "another server there");
}

/// For a server without a key, the code is checked with a publicly known key. Even an update with a right code is
/// refused.
#[test]
fn a_server_without_a_key_is_refused_with_any_code() {
    for with in 0..4 {
        assert_eq!(claimed(None, "10.0.0.3", with), Err(UpdateRefusal::WrongCode), "{with}");
        assert_eq!(claimed(None, "a/b", with), Err(UpdateRefusal::WrongCode), "{with}");
    }
    assert_eq!(claimed(Some(3), "a/b", 3), Err(UpdateRefusal::Malformed));
}

/// Keys that may update the member at 10.0.0.1:5060 with these configured names; `None` is the shared key. The other
/// keys belong to an address and to two names.
#[test]
fn a_key_is_valid_for_a_member_if_all_its_names_have_it() {
    let parsed = |text: &str| text.parse::<ServerName>().expect("the constants are right");
    let of = |servers: &[&str]| UpdateKeys {
        shared: Some(key(9)),
        own: servers.iter().zip(1..).map(|(server, first)| (parsed(server), key(first))).collect(),
    };
    let (names, all) = (of(&["a.test", "b.test:5070"]), of(&["a.test", "b.test:5070", "10.0.0.1"]));
    let (a, b, address) = ("a.test", "b.test:5070", "10.0.0.1:5060");
    let everybody = [None, Some(a), Some(b), Some(address), Some("c.test")];
    let permitted = |keys: &UpdateKeys, named: &[&str]| {
        let named: Vec<_> = named.iter().map(|&name| name.to_owned()).collect();
        let may = |speaker: Option<&str>| {
            let kind = if speaker.is_some() { KeyKind::Own } else { KeyKind::Shared };
            let server = parsed(speaker.unwrap_or(address));
            let update = Update { number: 1, server, capacity: 1.0, key: kind };
            keys.permit(&update, address.parse().expect("an address"), &named)
        };
        everybody.into_iter().filter(|speaker| may(*speaker)).collect::<Vec<_>>()
    };
    assert_eq!(permitted(&names, &[address]), [None]);
    assert_eq!(permitted(&names, &["c.test"]), [None], "a name without a key");
    assert_eq!(permitted(&names, &["c.test;transport=tls"]), [None], "a name that no monitor has");
    assert_eq!(permitted(&names, &[a]), [Some(a)]);
    assert_eq!(permitted(&names, &[b, b]), [Some(b)]);
    // Names of several servers resolve to the address: one of them was redirected.
    for contested in [&[a, b][..], &[a, "c.test"], &[address, a], &[a, "c.test;transport=tls"], &[]] {
        assert_eq!(permitted(&names, contested), [], "{contested:?}");
    }
    for named in [&[address][..], &[a], &[a, b], &["c.test", address], &[]] {
        assert_eq!(permitted(&all, named), [Some(address)], "{named:?}");
    }
}

#[test]
fn updates_of_an_older_connection_are_late() {
    let mut known = Announcements::default();
    let at = Instant::from_millis;
    assert_eq!(known.take(at(1), 5, "a", 100.0), Ok(()));
    assert_eq!(known.take(at(2), 5, "a", 110.0), Ok(()));
    assert_eq!(known.take(at(3), 4, "a", 900.0), Err(UpdateRefusal::Superseded));
    assert_eq!(known.take(at(4), 4, "b", 40.0), Ok(()), "an older connection may update another server");
    assert_eq!(known.take(at(5), 6, "a", 120.0), Ok(()));
    let capacity = |known: &Announcements<_>| {
        let now = |(server, is): (&&'static str, &elastic::update::Announcement)| {
            (*server, is.last.capacity(at(5), VALIDITY), is.at)
        };
        known.iter().map(now).collect::<Vec<_>>()
    };
    assert_eq!(capacity(&known), [("a", 120.0, at(5)), ("b", 40.0, at(4))]);
    known.retain(|server| *server == "b");
    assert_eq!(capacity(&known), [("b", 40.0, at(4))]);
}
