//! What somebody tries who has seen every line of every connection, but not the key. `elastic::update::fuzz` tries
//! more.

use base::Instant;
use elastic::estimate::SilenceSettings;
use elastic::update::{Announcements, Key, Receiver, Refusal, Sender, Server, Update};

const NONCE: [u8; 16] = [9; 16];

fn key(first: u8) -> Key {
    Key::new(&[first; 16])
}

/// A receiver, and the first three updates that its sender makes.
fn connection(key_of_sender: Key, nonce: [u8; 16]) -> (Receiver, [String; 3]) {
    let receiver = Receiver::new(key(1), nonce);
    let mut sender = Sender::greeted(key_of_sender, receiver.greeting().trim_end().as_bytes())
        .expect("the constants are right");
    let server: Server = "10.0.0.1".parse().expect("the constants are right");
    let made = [100.0, 200.0, 300.0].map(|capacity| sender.update(&server, capacity).trim_end().to_owned());
    (receiver, made)
}

fn give(receiver: &mut Receiver, line: &str) -> Result<Update, Refusal> {
    receiver.line(line.as_bytes())
}

#[test]
fn each_in_its_turn_is_accepted() {
    let (mut receiver, made) = connection(key(1), NONCE);
    let capacities = made.map(|line| give(&mut receiver, &line).map(|update| update.capacity));
    assert_eq!(capacities, [Ok(100.0), Ok(200.0), Ok(300.0)]);
}

#[test]
fn another_key_makes_other_codes() {
    let (mut receiver, made) = connection(key(2), NONCE);
    assert_eq!(give(&mut receiver, &made[0]), Err(Refusal::WrongCode));
}

#[test]
fn nothing_comes_twice_or_out_of_turn() {
    let (mut receiver, made) = connection(key(1), NONCE);
    give(&mut receiver, &made[0]).unwrap();
    assert_eq!(give(&mut receiver, &made[0]), Err(Refusal::WrongNumber), "a replay");
    assert_eq!(give(&mut receiver, &made[1]), Err(Refusal::WrongNumber), "nothing follows what was refused");
    let (mut receiver, made) = connection(key(1), NONCE);
    assert_eq!(give(&mut receiver, &made[1]), Err(Refusal::WrongNumber), "the first was left out");
}

#[test]
fn what_was_made_for_another_connection_is_refused() {
    let (_, made) = connection(key(1), [8; 16]);
    let (mut receiver, _) = connection(key(1), NONCE);
    assert_eq!(give(&mut receiver, &made[0]), Err(Refusal::WrongCode));
}

/// Whatever byte is another one, or is not there.
#[test]
fn nothing_may_be_altered_or_cut() {
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
        Err(Refusal::Malformed),
        "one code, one text"
    );
    assert!(give(&mut connection(key(1), NONCE).0, &format!("{} ", made[0])).is_err());
}

/// Who has no key learns from no answer what else is wrong.
#[test]
fn the_code_is_looked_at_first() {
    let code = "0".repeat(64);
    for line in
        ["UPDATE 7 10.0.0.1:5060 1.000", "UPDATE 1 nobody 1", "what is this", "UPDATE 1 10.0.0.1:5060 1e9"]
    {
        let (mut receiver, _) = connection(key(1), NONCE);
        assert_eq!(give(&mut receiver, &format!("{line} {code}")), Err(Refusal::WrongCode), "{line}");
    }
    for line in ["", " ", "UPDATE", "GET / HTTP/1.1", "UPDATE 1 10.0.0.1:5060 1.000", "UPDATE 1 a 1 00"] {
        let (mut receiver, _) = connection(key(1), NONCE);
        assert_eq!(give(&mut receiver, line), Err(Refusal::Malformed), "{line}");
    }
}

#[test]
fn what_an_older_connection_brings_is_late() {
    let mut known = Announcements::default();
    let at = Instant::from_millis;
    assert_eq!(known.take(at(1), 5, "a", 100.0), Ok(()));
    assert_eq!(known.take(at(2), 5, "a", 110.0), Ok(()));
    assert_eq!(known.take(at(3), 4, "a", 900.0), Err(Refusal::Superseded));
    assert_eq!(known.take(at(4), 4, "b", 40.0), Ok(()), "of another server it is not");
    assert_eq!(known.take(at(5), 6, "a", 120.0), Ok(()));
    let capacity = |known: &Announcements<_>| {
        let now = |(server, is): (&&'static str, &elastic::update::Announcement)| {
            (*server, is.last.capacity(at(5), &SilenceSettings::default()), is.at)
        };
        known.iter().map(now).collect::<Vec<_>>()
    };
    assert_eq!(capacity(&known), [("a", 120.0, at(5)), ("b", 40.0, at(4))]);
    known.retain(|server| *server == "b");
    assert_eq!(capacity(&known), [("b", 40.0, at(4))]);
}
