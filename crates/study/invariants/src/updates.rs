//! Capacity updates: properties under any attack on the connections.

use base::Instant;
use core::time::Duration;
use elastic::update::{
    Announcements, Key, KeyKind, Lines, NONCE_BYTES, ServerName, Update, UpdateKeys, UpdateReceiver,
    UpdateRefusal, UpdateSender,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Key that all senders share in all runs.
const KEY: [u8; 16] = *b"0123456789abcdef";
/// The key of the attacker's own server.
const OWN_KEY: [u8; 16] = *b"of one server...";
/// The servers of the senders, then the server of the attacker.
const SERVERS: [&str; 4] = ["10.0.0.1", "10.0.0.2", "sip.example.com", "own.example.com"];
/// Most updates of each sender.
const UPDATES: usize = 64;

/// Reads `data` as lines of senders and actions of an attacker. The attacker has all lines of all connections and the
/// key of one server, but not the key of the senders. Senders with another key make updates of the attacker's server
/// too.
///
/// # Panics
/// Panics if an update is accepted that was not the next one of its connection, unless the attacker made it for the
/// attacker's own server.
pub fn updates(data: &[u8]) {
    run(data);
    // These results are not used. The parsers only must not panic.
    let sender = UpdateSender::greeted(Key::new(&KEY), data);
    if let Ok(sender) = sender {
        let _ = sender.answer(data);
    }
    let _ = core::str::from_utf8(data).map(str::parse::<ServerName>);
}

/// Accepted and refused updates.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    accepted: usize,
    /// Accepted updates that the attacker made for the attacker's own server.
    own: usize,
    refused: BTreeMap<UpdateRefusal, usize>,
}

/// A connection with both ends, and its traffic so far.
struct Connection {
    sender: UpdateSender,
    receiver: UpdateReceiver,
    lines: Lines,
    /// Updates of its sender, each with its line.
    made: Vec<(ServerName, f64, String)>,
    accepted: usize,
    is_closed: bool,
}

impl Connection {
    fn new(number: usize) -> Self {
        let mut nonce = [7; NONCE_BYTES];
        nonce[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let own = BTreeMap::from([(server(3), Key::new(&OWN_KEY))]);
        let keys = UpdateKeys { shared: Some(Key::new(&KEY)), own };
        let receiver = UpdateReceiver::new(Arc::new(keys), nonce);
        let greeting = receiver.greeting();
        let sender =
            UpdateSender::greeted(Key::new(&KEY), greeting.trim_end().as_bytes()).expect("a greeting");
        Self { sender, receiver, lines: Lines::default(), made: Vec::new(), accepted: 0, is_closed: false }
    }

    fn make(&mut self, which: u8) {
        if self.made.len() < UPDATES {
            let server = server(usize::from(which % 3));
            let capacity = f64::from(which) / 8.0;
            let line = self.sender.update(&server, capacity);
            self.made.push((server, capacity, line));
        }
    }

    /// Makes a forged update with the next number. It is for any server, with the attacker's key. Or it is for the
    /// attacker's server with the key of the senders, as from a hostile sender.
    fn forged(&self, which: u8, place: u8) -> Vec<u8> {
        let at = usize::from(which) % SERVERS.len();
        let key = Key::new(if at == 3 && place % 2 == 1 { &KEY } else { &OWN_KEY });
        let mut forger =
            UpdateSender::greeted(key, self.receiver.greeting().trim_end().as_bytes()).expect("a greeting");
        for _ in 0..self.accepted {
            forger.update(&server(at), 0.0);
        }
        forger.update(&server(at), f64::from(place)).into_bytes()
    }

    /// Delivers bytes to the receiver. Accepted updates go to `take`, whose refusal closes the connection.
    fn deliver(
        &mut self,
        mut bytes: &[u8],
        outcome: &mut Outcome,
        mut take: impl FnMut(&Update) -> Result<(), UpdateRefusal>,
    ) {
        while !self.is_closed && !bytes.is_empty() {
            let room = self.lines.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.lines.filled(count);
            loop {
                let line = match self.lines.next() {
                    Ok(None) => break,
                    Ok(Some(line)) => self.receiver.line(line),
                    Err(refusal) => Err(refusal),
                };
                let refused = match line {
                    Ok(update) => {
                        let number = self.accepted as u64 + 1;
                        if update.key == KeyKind::Own {
                            assert_eq!((&update.server, update.number), (&server(3), number));
                            outcome.own += 1;
                        } else {
                            let (server, capacity, _) = self.made[self.accepted].clone();
                            let made = Update { number, server, capacity, key: KeyKind::Shared };
                            assert_eq!(update, made, "not the next update of the sender");
                        }
                        self.accepted += 1;
                        take(&update).err()
                    }
                    Err(refusal) => Some(refusal),
                };
                if let Some(refusal) = refused {
                    *outcome.refused.entry(refusal).or_default() += 1;
                    self.is_closed = true;
                    assert!(self.receiver.line(b"").is_err());
                    break;
                }
                outcome.accepted += 1;
            }
        }
    }
}

fn server(at: usize) -> ServerName {
    SERVERS[at].parse().expect("the constants are servers")
}

/// Runs the steps. Each takes four bytes: action, connections, line, and place in it.
fn run(data: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut connections: Vec<_> = (0..2).map(Connection::new).collect();
    let mut known = Announcements::default();
    // Connection of the last update of each server, to compare with `known`.
    let mut newest: BTreeMap<ServerName, usize> = BTreeMap::new();
    let mut now = Instant::ZERO;
    let (steps, _) = data.as_chunks::<4>();
    for &[action, ways, which, place] in steps {
        now += Duration::from_millis(u64::from(place));
        let (to, of) =
            (usize::from(ways & 15) % connections.len(), usize::from(ways >> 4) % connections.len());
        let made = &connections[of].made;
        let line = made.get(usize::from(which) % made.len().max(1)).map(|made| made.2.clone().into_bytes());
        let line = line.unwrap_or_default();
        let at = usize::from(place) % line.len().max(1);
        let bytes = match action % 8 {
            0 | 1 => {
                connections[to].make(which);
                continue;
            }
            2 if connections.len() < 8 => {
                connections.push(Connection::new(connections.len()));
                continue;
            }
            // The next line of its own connection, without interference.
            3 | 4 => {
                let own = &connections[to];
                own.made.get(own.accepted).map(|made| made.2.clone().into_bytes()).unwrap_or_default()
            }
            5 => line
                .iter()
                .enumerate()
                .map(|(i, byte)| if i == at { byte ^ (action >> 3) } else { *byte })
                .collect(),
            6 => [&line[..at], &data[..data.len().min(usize::from(action >> 3))], b"\n"].concat(),
            7 if action >= 128 => connections[to].forged(which, place),
            _ => line,
        };
        let connection = &mut connections[to];
        connection.deliver(&bytes, &mut outcome, |update| {
            let is_late = newest.get(&update.server).is_some_and(|newest| *newest > to);
            let taken = known.take(now, to as u64, update.server.clone(), update.capacity);
            assert_eq!(taken.is_err(), is_late, "{update:?}");
            if taken.is_ok() {
                newest.insert(update.server.clone(), to);
            }
            taken
        });
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_seeds_of_the_fuzz_target_have_their_named_effects() {
        for (name, accepted, refused) in [
            ("honest", 3, None),
            ("replayed", 1, Some(UpdateRefusal::WrongNumber)),
            ("other-connection", 0, Some(UpdateRefusal::WrongCode)),
            ("altered", 1, Some(UpdateRefusal::WrongCode)),
            ("cut", 0, Some(UpdateRefusal::Malformed)),
            ("late", 1, Some(UpdateRefusal::Superseded)),
            ("own-key", 2, Some(UpdateRefusal::WrongCode)),
        ] {
            let outcome = run(&crate::seed("updates", name));
            let refused = refused.map(|refusal| (refusal, 1)).into_iter().collect();
            let own = usize::from(name == "own-key");
            assert_eq!(outcome, Outcome { accepted, own, refused }, "{name}");
        }
    }

    proptest! {
        #[test]
        fn only_the_next_update_is_accepted(data in prop::collection::vec(any::<u8>(), 0..800)) {
            updates(&data);
        }

        /// Mostly honest steps, so that many updates are accepted before one is refused.
        #[test]
        fn only_the_next_update_is_accepted_after_many_others(steps in prop::collection::vec((0..40_u8, any::<[u8; 3]>()), 0..200)) {
            let step = |(action, [ways, which, place]): (u8, [u8; 3])| {
                [match action { 0..32 => [0, 3][usize::from(action % 2)], 39 => 135, _ => action }, ways, which, place]
            };
            updates(&steps.into_iter().flat_map(step).collect::<Vec<_>>());
        }
    }
}
